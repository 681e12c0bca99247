/*
 * From the schema texts of the tool tables to JSON: fills in @names@ and joins adjacent strings.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SCHEMA_TEXT_H
#define CLOISTER_SUPERVISOR_TOOLS_SCHEMA_TEXT_H

#include "common/buf.h"
#include "common/err.h"

struct config;

/* Appends the expanded text. Names are figures of the configuration ("@max_timeout_seconds@") or
 * pieces that several schemas share ("@sandbox_id@"). -ERR_INTERNAL for an unknown name. */
int schema_text_expand(struct buf *out, const char *text, const struct config *config,
                       struct err *err) WARN_UNUSED;

#endif
