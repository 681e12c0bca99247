/*
 * Links to files and ports of sandboxes for people and programs that use HTTP: signed URLs, each
 * valid for one file or port and a limited time. They contain no other credential.
 *
 * The key belongs to the instance, so links survive the server like sandboxes do. A link ends with
 * its sandbox, because ids are never reused.
 *
 * Thread: the loop thread. The first link reads the key from a small file, which blocks.
 */
#ifndef CLOISTER_SUPERVISOR_LINKS_LINKS_H
#define CLOISTER_SUPERVISOR_LINKS_LINKS_H

#include <stdbool.h>
#include <stdint.h>

struct fleet;
struct links;

/* `base` is our public URL without a trailing slash; copied. Links are valid for `good_s` seconds,
 * or for the rest of the sandbox's lifetime, whichever is less. */
struct links *links_create(struct fleet *fleet, const char *base, uint64_t good_s);
void links_destroy(struct links *l); /* NULL is fine */

/* Links begin with this from now on; copied. */
void links_set_base(struct links *l, const char *base);

/* Makes the URL of a file of a sandbox (id); `path` is absolute or relative to the workspace. The
 * caller frees it. NULL if no URL can name the file, or l is NULL. */
char *links_make(struct links *l, const char *sandbox, const char *path);

/* The same in the form of another server: /sandbox/file?<key>=SANDBOX&file_path=PATH, with any text
 * as path. */
char *links_make_foreign(struct links *l, const char *key, const char *sandbox, const char *path);

/* The same as /static/NAME?<key>=SANDBOX, for a file right in the workspace. */
char *links_make_static(struct links *l, const char *key, const char *sandbox, const char *name);

/* Makes the URL below which a port of a sandbox's loopback is reached, with a slash at its end, and
 * the time (seconds since 1970) when it expires. NULL if there is no key, or l is NULL. */
char *links_make_port(struct links *l, const char *sandbox, uint16_t port, uint64_t *ret_expires_s);

enum link_state { LINK_GOOD, LINK_WRONG, LINK_EXPIRED };

/* Checks the parts of a URL, decoded; NULL: absent. */
enum link_state links_check(struct links *l, const char *sandbox, const char *path,
                            const char *expires, const char *signature);
enum link_state links_check_port(struct links *l, const char *sandbox, uint16_t port,
                                 const char *expires, const char *signature);

#endif
