/*
 * Links to files of sandboxes, for people and programs that speak HTTP: URLs with a signature, each
 * good for one file and for a while. There is nothing else in them that opens anything.
 *
 * The key is the instance's, so links outlive the server as sandboxes do. They end with their
 * sandbox: ids do not come back.
 *
 * Thread: the loop thread. The first link reads the key, from a small file.
 */
#ifndef CLOISTER_SUPERVISOR_LINKS_LINKS_H
#define CLOISTER_SUPERVISOR_LINKS_LINKS_H

#include <stdbool.h>
#include <stdint.h>

struct fleet;
struct links;

/* `base` is our URL as clients see it, without a slash at its end; copied. Links are good for so
 * long. */
struct links *links_create(struct fleet *fleet, const char *base, uint64_t good_s);
void links_destroy(struct links *l); /* NULL is fine */

/* URL of a file of the sandbox (id), by its path, absolute or relative to the workspace: for the
 * caller to free. NULL if no URL can name it, or l is NULL. */
char *links_make(struct links *l, const char *sandbox, const char *path);

/* The same in the form of another server: /sandbox/file?<key>=SANDBOX&file_path=PATH, with any
 * text as path. */
char *links_make_foreign(struct links *l, const char *key, const char *sandbox, const char *path);

enum link_state { LINK_GOOD, LINK_WRONG, LINK_EXPIRED };

/* What the parts of a URL are worth, decoded; those that are missing are NULL. */
enum link_state links_check(struct links *l, const char *sandbox, const char *path,
                            const char *expires, const char *signature);

#endif
