/*
 * A result in the form that its client gets (base/result_form.h). Tools write both, text and
 * fields; here one of them is made complete.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESULTS_FORM_H
#define CLOISTER_SUPERVISOR_RESULTS_FORM_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/base/result_form.h"

struct result;

/* RESULT_FORM_TEXT: no fields, and links are lines of text. RESULT_FORM_STRUCTURED: fields that
 * say nothing are left out. RESULT_FORM_AUTO: all stays as it is. */
void result_set_form(struct result *r, enum result_form form);

/* Whether its texts are longer than hosts take without being told to. */
bool result_is_long(const struct result *r);

/* Tells a host, in the entry of a tool or in a result as JSON, to take long texts as they are. */
void result_allow_long(cJSON *object);

#endif
