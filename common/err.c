/*
 * Error objects have a fixed size and live on the caller's stack, so that reporting "out of memory"
 * needs no memory. Texts may quote bytes of a peer; control characters are replaced here, so that
 * no later reader has to do so.
 */
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_printable(char *text)
{
    for (char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f) {
            *p = ' ';
        }
    }
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (e != NULL) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(e->text, sizeof(e->text), fmt, args);
        va_end(args);
        make_printable(e->text);
        e->code = (int)code;
        e->sys = 0;
    }
    return -(int)code;
}

int err_sys(struct err *e, enum err_code code, int sys, const char *fmt, ...)
{
    if (e != NULL) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(e->text, sizeof(e->text), fmt, args);
        va_end(args);
        size_t used = strlen(e->text);
        snprintf(e->text + used, sizeof(e->text) - used, ": %s", strerror(sys));
        make_printable(e->text);
        e->code = (int)code;
        e->sys = sys;
    }
    return -(int)code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (e == NULL) {
        return -(int)ERR_INTERNAL;
    }
    char inner[sizeof(e->text)];
    memcpy(inner, e->text, sizeof(inner));

    va_list args;
    va_start(args, fmt);
    vsnprintf(e->text, sizeof(e->text), fmt, args);
    va_end(args);
    make_printable(e->text);
    size_t used = strlen(e->text);
    snprintf(e->text + used, sizeof(e->text) - used, ": %.*s", (int)(sizeof(inner) - 1), inner);
    return -e->code;
}

struct err_row {
    int code;
    const char *wire;
    const char *text;
};

static const struct err_row err_rows[] = {
#define X(name, number, wire, text) {number, wire, text},
    ERR_LIST(X)
#undef X
};

static const struct err_row *find_row(long long code)
{
    for (size_t i = 0; i < sizeof(err_rows) / sizeof(err_rows[0]); i++) {
        if (err_rows[i].code == code) {
            return &err_rows[i];
        }
    }
    return NULL;
}

const char *err_wire_name(int code)
{
    const struct err_row *row = find_row(code < 0 ? -code : code);
    return row != NULL ? row->wire : "internal";
}

const char *err_text(int code)
{
    const struct err_row *row = find_row(code < 0 ? -code : code);
    return row != NULL ? row->text : "unknown error";
}

bool err_known(unsigned long long number)
{
    return number <= 65535 && find_row((long long)number) != NULL;
}
