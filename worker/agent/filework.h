/*
 * The work of a file operation, in a process of its own that already is the sandbox user, in the
 * workspace. Blocks as files do.
 */
#ifndef CLOISTER_WORKER_AGENT_FILEWORK_H
#define CLOISTER_WORKER_AGENT_FILEWORK_H

#include "common/err.h"
#include "proto/msg.h"

/* What goes into the report. */
struct filework {
    int out_fd;
    uint64_t type;
    uint64_t size;
    bool truncated;
};

/* Does what `m` asks for, writes output to out_fd and a complete report to report_fd. With rc < 0
 * setting up has failed already and only that is reported. */
void filework_run(const struct msg_start *m, int out_fd, int report_fd, int rc,
                  const struct err *err);

/* The three kinds; err's text names the path and says what is wrong with it. */
int filework_read(struct filework *w, const struct msg_start *m, const char *path,
                  struct err *err) WARN_UNUSED;
int filework_write(struct filework *w, const struct msg_start *m, const char *path,
                   struct err *err) WARN_UNUSED;
int filework_list(struct filework *w, const struct msg_start *m, const char *path,
                  struct err *err) WARN_UNUSED;

/* errno to our codes, with the path in front. */
int filework_error(struct err *err, int sys, const char *path);

enum file_type filework_type(unsigned mode);

#endif
