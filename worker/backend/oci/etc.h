/*
 * The generated /etc of a sandbox.
 *
 * Thread: any. Small files only.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_ETC_H
#define CLOISTER_WORKER_BACKEND_OCI_ETC_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Makes or replaces a file or directory with exactly this mode, whatever the umask. */
int oci_put_file(int dir_fd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *err) WARN_UNUSED;
int oci_put_dir(int dir_fd, const char *name, mode_t mode, struct err *err) WARN_UNUSED;
int oci_put_link(int dir_fd, const char *name, const char *target, struct err *err) WARN_UNUSED;

/* Fills the empty directory etc_fd for a root made of the host's /usr: accounts, names, and of the
 * host only the linker's cache and the links of the alternatives system, without which programs
 * in /usr do not start. */
int oci_etc_for_host(const char *fs_root, int etc_fd, struct err *err) WARN_UNUSED;

/* Hashes path, inode, size and mtime of a file, which change when it is replaced. */
uint64_t oci_etc_stamp_file(const char *path, uint64_t hash);

/* Changes when oci_etc_for_host() would copy something else. */
uint64_t oci_etc_stamp(const char *fs_root, uint64_t hash);

/* Accounts and names to be bound over those of an image: the image's own entries stay, ours come
 * first. `image_etc` may lack any of the files. */
int oci_etc_for_image(const char *image_etc, int out_fd, struct err *err) WARN_UNUSED;

/* The files that oci_etc_for_image() makes. NULL-ended. */
extern const char *const oci_etc_names[];

#endif
