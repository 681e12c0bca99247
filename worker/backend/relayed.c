/*
 * An engine reports on the same stream why there is no relay. So the greeting is compared byte by
 * byte, and the first byte that differs makes all of it a message for people.
 */
#include "worker/backend/relayed.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/relay.h"

#define GREETING_LEN (sizeof(RELAY_GREETING) - 1)

void relayed_keep(struct relayed *r, struct view said)
{
    for (size_t i = 0; i < said.len && r->words_len < sizeof(r->words) - 1; i++) {
        r->words[r->words_len++] = (unsigned char)said.data[i] < ' ' ? ' ' : said.data[i];
    }
}

const char *relayed_words(struct relayed *r)
{
    while (r->words_len > 0 && r->words[r->words_len - 1] == ' ') {
        r->words_len--;
    }
    r->words[r->words_len] = '\0';
    return r->words;
}

bool relayed_greet(struct relayed *r, struct view *data)
{
    while (data->len > 0 && r->greeted < GREETING_LEN) {
        if (data->data[0] != RELAY_GREETING[r->greeted]) {
            relayed_keep(r, view_bytes(RELAY_GREETING, r->greeted));
            relayed_keep(r, *data);
            data->len = 0;
            r->greeted = 0;
            return false;
        }
        data->data++;
        data->len--;
        r->greeted++;
    }
    return r->greeted == GREETING_LEN;
}

int relayed_pair(int *ret_own, int *ret_link, struct err *err)
{
    int fds[2];
    int kind = SOCK_STREAM;
#ifdef SOCK_CLOEXEC
    kind |= SOCK_CLOEXEC;
#endif
    if (socketpair(AF_UNIX, kind, 0, fds) < 0) {
        return err_sys(err, ERR_IO, errno, "no socket pair for the stream");
    }
    for (size_t i = 0; i < 2; i++) {
        int rc = fd_set_nonblock(fds[i], err);
        rc = rc < 0 ? rc : fd_set_cloexec(fds[i], true, err);
        if (rc < 0) {
            close(fds[0]);
            close(fds[1]);
            return rc;
        }
    }
    *ret_own = fds[0];
    *ret_link = fds[1];
    return 0;
}
