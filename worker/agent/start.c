/*
 * Joins the parts of the agent and becomes it. A Kubernetes cluster hands the agent to a pod as
 * files of at most 1 MiB (worker/backend/kubernetes/agent.c), and the pod's user may not be able to
 * write anywhere that programs run from: so the parts go to a file in memory, which is executed.
 *
 *     start WORD...    runs `cloister-agent WORD...` from agent.0, agent.1, ... beside itself
 *
 * It is static, depends on nothing of ours, and says what failed on stderr, which the kubelet
 * shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PARTS "/.cloister/agent."
#define NAME  "cloister-agent"

enum { EXIT_SETUP = 3, PARTS_MAX = 1000 };

extern char **environ;

static int fail(const char *what)
{
    fprintf(stderr, NAME "-start: %s: %s\n", what, strerror(errno));
    return EXIT_SETUP;
}

/* False with errno set. */
static bool append_part(int from, int to)
{
    static char data[64 << 10];
    for (;;) {
        ssize_t got = read(from, data, sizeof(data));
        if (got == 0) {
            return true;
        }
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        for (ssize_t at = 0; at < got;) {
            ssize_t put = write(to, data + at, (size_t)(got - at));
            if (put < 0 && errno != EINTR) {
                return false;
            }
            at += put > 0 ? put : 0;
        }
    }
}

int main(int argc, char **argv)
{
    char path[64];
    int whole = memfd_create(NAME, MFD_CLOEXEC);
    if (argc < 1 || whole < 0) {
        return fail("memfd_create");
    }
    for (int i = 0; i < PARTS_MAX; i++) {
        snprintf(path, sizeof(path), PARTS "%d", i);
        int part = open(path, O_RDONLY | O_CLOEXEC);
        if (part < 0 && errno == ENOENT && i > 0) {
            break;
        }
        if (part < 0 || !append_part(part, whole)) {
            return fail(path);
        }
        close(part);
    }
    static char name[] = NAME;
    argv[0] = name;
    fexecve(whole, argv, environ);
    return fail("fexecve");
}
