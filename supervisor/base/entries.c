/*
 * Decodes frame by frame. A list that was cut for its size ends inside a frame, which is no error.
 */
#include "supervisor/base/entries.h"

#include "proto/codec.h"
#include "proto/limits.h"

int entries_read(struct view frames, entries_fn each, void *arg, struct err *err)
{
    bool more = true;
    while (frames.len > 0 && more) {
        struct view payload;
        size_t used;
        struct msg m;
        int rc = frame_next(frames.data, frames.len, LIMIT_FRAME, &payload, &used, err);
        if (rc <= 0) {
            return rc;
        }
        rc = msg_decode(MSG_LINK_A, payload.data, payload.len, &m, err);
        if (rc < 0) {
            return rc;
        }
        bool good = m.type == MSG_ENTRY;
        more = good && each(arg, &m.entry);
        msg_finish(&m);
        if (!good) {
            return err_set(err, ERR_PROTOCOL, "the list holds something else than entries");
        }
        frames = view_bytes(frames.data + used, frames.len - used);
    }
    return 0;
}
