/*
 * What the files of the audit log share, and nothing else uses.
 */
#ifndef CLOISTER_SUPERVISOR_AUDIT_INTERNAL_H
#define CLOISTER_SUPERVISOR_AUDIT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/audit/audit.h"

/* Opens the file as audit_open() does, or audit_open_made() unless `may_make`; returns the
 * descriptor. Any thread; blocks as long as the
 * file system does. */
int audit_file_open(const char *path, bool may_make, struct err *err) WARN_UNUSED;

/* Appends a line. False: it was not written, or only a part of it, and errno says why. *doubtful is
 * true after that and at first: the file may end in the middle of a line, which the next line looks
 * for, and ends. */
bool audit_file_write(int fd, const char *line, size_t len, bool *doubtful);

/* The line of a call with its line feed; the caller frees it. Loop thread. */
char *audit_line(const struct audit_call *call, uint64_t wall_ms, bool keep_code, size_t *ret_len);

#endif
