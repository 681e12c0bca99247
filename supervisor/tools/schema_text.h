/*
 * Turns the schema texts of the tool tables into JSON: fills in @names@ and joins adjacent strings.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SCHEMA_TEXT_H
#define CLOISTER_SUPERVISOR_TOOLS_SCHEMA_TEXT_H

#include "common/buf.h"
#include "common/err.h"

struct config;
struct languages;

/* Appends the expanded text. A name is a figure of the configuration ("@max_timeout_seconds@"), the
 * languages ("@languages@"; "@language_words@" as a list of JSON strings, with aliases), or a piece
 * that several schemas share ("@sandbox_id@"). -ERR_INTERNAL for an unknown name. */
int schema_text_expand(struct buf *out, const char *text, const struct config *config,
                       const struct languages *languages, struct err *err) WARN_UNUSED;

#endif
