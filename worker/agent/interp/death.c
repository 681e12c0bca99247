/*
 * Whoever runs code wants to know why its interpreter has ended, in a sentence. In the middle of a
 * run the outcome says it. An interpreter that was ended between two runs has no outcome that
 * could, so the reason is kept, and the next run has it on its stderr.
 */
#include "worker/agent/interp/death.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void death_tell(const struct interp *i, struct op *op)
{
    const struct keeper *k = &i->keeper;
    struct buf *message = &op->report.message;
    if (i->offence[0] != '\0') {
        err_ignore(buf_printf(message, NULL, "the interpreter was ended: %s", i->offence));
    } else if (WIFSIGNALED(k->wait_status)) {
        int sig = WTERMSIG(k->wait_status);
        err_ignore(buf_printf(message, NULL, "the interpreter was killed by signal %d (%s)", sig,
                              strsignal(sig)));
    } else {
        int code = WEXITSTATUS(k->wait_status);
        bool gave_up = code == INTERP_GAVE_UP && !i->lang->exit_is_result;
        err_ignore(
            buf_printf(message, NULL, "the interpreter exited with code %d%s%s", code,
                       gave_up ? ", as it does when code has closed or broken what it needs" : "",
                       i->unbegun ? " before it began with this code" : ""));
    }
}

void death_note_loss(struct interp *i)
{
    const struct keeper *k = &i->keeper;
    memcpy(i->loss, i->offence, sizeof(i->loss));
    if (i->had_state && i->offence[0] == '\0' && WIFEXITED(k->wait_status)) {
        snprintf(i->loss, sizeof(i->loss), "it exited with code %d", WEXITSTATUS(k->wait_status));
    }
}

void death_tell_loss(struct interp *i, struct op *op)
{
    char text[sizeof(i->loss) + 64];
    if (i->loss[0] != '\0') {
        int n = snprintf(text, sizeof(text), "[the interpreter has ended before this run: %s]\n",
                         i->loss);
        err_ignore(op_stream_add(&op->err, text, (size_t)n, NULL));
        i->loss[0] = '\0';
    }
}
