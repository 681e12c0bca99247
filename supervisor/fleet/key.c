/*
 * The key of the instance: 32 random bytes in a file that only we can read, beside the lock. It is
 * as old as the instance and removed with it, so signatures are valid for as long as the sandboxes
 * may exist. A new key is made only if there is none: a file that cannot be read, or is no key, may
 * become readable or be somebody's mistake, and clients hold what the old key signed. If the disk
 * is full, no part of a key appears under its name (file_replace()).
 */
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/internal.h"

static int make_key(const char *path, unsigned char key[FLEET_KEY_BYTES], struct err *err)
{
    int rc = random_bytes(key, FLEET_KEY_BYTES, err);
    return rc < 0 ? rc : file_replace(path, key, FLEET_KEY_BYTES, 0600, err);
}

int fleet_key(struct fleet *f, unsigned char ret[FLEET_KEY_BYTES], struct err *err)
{
    if (!f->has_key) {
        if (f->host.instance == NULL) {
            return err_set(err, ERR_SANDBOX_NOT_FOUND, "there has been no sandbox yet");
        }
        CLEANUP_FREE char *path = alloc_printf("%s/key", f->host.instance->dir);
        CLEANUP_BUF struct buf file;
        buf_init(&file, FLEET_KEY_BYTES);
        int rc = file_read(path, &file, err);
        if (rc == -ERR_FILE_NOT_FOUND) {
            rc = make_key(path, f->key, err);
        } else if (rc == -ERR_TOO_BIG || (rc == 0 && file.len != FLEET_KEY_BYTES)) {
            rc = err_set(err, ERR_CONFIG, "%s is not %u bytes long", path, FLEET_KEY_BYTES);
        } else if (rc == 0) {
            memcpy(f->key, file.data, FLEET_KEY_BYTES);
        }
        if (rc < 0) {
            return err_wrap(err, "the key that signs links to files (remove it if it is damaged: "
                                 "links that were given out then end)");
        }
        f->has_key = true;
    }
    memcpy(ret, f->key, FLEET_KEY_BYTES);
    return 0;
}
