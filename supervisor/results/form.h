/*
 * Puts a result into the form that its client gets (base/result_form.h). Tools write both, text and
 * fields; this completes one of them.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESULTS_FORM_H
#define CLOISTER_SUPERVISOR_RESULTS_FORM_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/base/result_form.h"

struct result;

/* RESULT_FORM_TEXT: no fields, and links become lines of text. RESULT_FORM_STRUCTURED: fields
 * without information are removed. RESULT_FORM_AUTO: nothing changes. Returns the fields that were
 * removed from the result; NULL: none. The caller frees them. */
cJSON *result_set_form(struct result *r, enum result_form form);

/* Whether its texts are longer than hosts accept by default. */
bool result_is_long(const struct result *r);

/* Tells a host, in the entry of a tool or in a result, to accept long texts. */
void result_allow_long(cJSON *object);

/* Adds fields for the view of this result, which its host shows to people and not to the model.
 * They become part of it. */
void result_add_view_fields(cJSON *result, cJSON *fields);

#endif
