/*
 * The supervisor has resolved the path of a share when it started. Since then somebody may have
 * replaced a part of it, so it is looked at again for each sandbox: what the operator named is
 * shown or nothing is.
 */
#include "worker/backend/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

int share_check(const struct backend_share *share, struct stat *ret_st, struct err *err)
{
    CLEANUP_FREE char *real = realpath(share->host_path, NULL);
    if (real == NULL || lstat(real, ret_st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "share %s: %.256s", share->name, share->host_path);
    }
    if (strcmp(real, share->host_path) != 0) {
        return err_set(err, ERR_CONFIG,
                       "share %s: %.200s leads through a symbolic link now, to %.200s", share->name,
                       share->host_path, real);
    }
    if (!S_ISDIR(ret_st->st_mode)) {
        return err_set(err, ERR_CONFIG, "share %s: %.256s is not a directory", share->name,
                       share->host_path);
    }
    return 0;
}

bool share_is_open(const struct stat *st)
{
    return (st->st_mode & 0005) == 0005;
}
