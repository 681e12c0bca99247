/*
 * The work of a file operation. Runs in a forked process that already is the sandbox user, in the
 * workspace. Blocks as files do.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_FILEWORK_H
#define CLOISTER_WORKER_AGENT_RUN_FILEWORK_H

#include "common/err.h"
#include "proto/msg.h"

/* What goes into the report. */
struct filework {
    int out_fd;
    uint64_t type;
    uint64_t size;
    uint64_t stamp; /* changes when the file does, and differs between files; 0: unknown */
    bool truncated;
};

/* Does what `m` asks for, writes output to out_fd and a complete report to report_fd. If rc < 0 the
 * setup of the process has failed, and only that is reported. */
void filework_run(const struct msg_start *m, int out_fd, int report_fd, int rc,
                  const struct err *err);

/* One function for each kind of work. On failure err names the path and says what is wrong with
 * it. */
int filework_read(struct filework *w, const struct msg_start *m, const char *path,
                  struct err *err) WARN_UNUSED;
int filework_write(struct filework *w, const struct msg_start *m, const char *path,
                   struct err *err) WARN_UNUSED;
int filework_write_part(struct filework *w, const struct msg_start *m, const char *path,
                        struct err *err) WARN_UNUSED;
int filework_list(struct filework *w, const struct msg_start *m, const char *path,
                  struct err *err) WARN_UNUSED;

/* errno to our codes, with the path in front. */
int filework_error(struct err *err, int sys, const char *path);

enum file_type filework_type(unsigned mode);

/* Fills an ENTRY; `path` is borrowed. */
struct stat;
void filework_entry(struct msg_entry *e, const char *path, const struct stat *st);

/* A number that changes when the file does, and differs between files. */
uint64_t filework_stamp(const struct stat *st);

/* Refuses what is no regular file. */
int filework_refuse_kind(struct err *err, unsigned mode, const char *path);

/* The file that a write to `path` changes, after symlinks; filework_resolve() creates its
 * directories. `exists` tells whether a regular file is there. */
struct filework_target {
    char path[LIMIT_PATH];
    bool exists;
    unsigned mode; /* permission bits that the file gets */
};
int filework_resolve(const struct msg_start *m, const char *path, struct filework_target *ret,
                     struct err *err) WARN_UNUSED;

/* "<directory of path>/.cloister-<word>.tmp" */
int filework_beside(const char *path, const char *word, char *ret, size_t size,
                    struct err *err) WARN_UNUSED;

#endif
