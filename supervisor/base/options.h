/*
 * The table of options. A row defines an option completely: config.c reads its flag "--memory-mb",
 * its environment variable CLOISTER_MEMORY_MB and its default, and checks its bounds;
 * options_help.c prints its line of --help; the manual page and the tables of contrib/docs are
 * generated from it (contrib/docs/generate).
 */
#ifndef CLOISTER_SUPERVISOR_BASE_OPTIONS_H
#define CLOISTER_SUPERVISOR_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/view.h"

enum option_type {
    OPTION_TEXT,
    OPTION_CHOICE,   /* one of `choices` */
    OPTION_PATTERNS, /* of image references */
    OPTION_LIST,     /* of `choices`, separated by commas; repeating the option adds to the list */
    OPTION_TEXTS,    /* any, likewise */
    OPTION_NUMBER,
    OPTION_MILLI, /* "1.5" as 1500 */
    OPTION_FLAG,  /* no value needed on the command line */
    OPTION_LEVEL,
};

/* Chapters of --help and of the manual page, in this order. */
enum option_topic {
    OPTION_TOPIC_PLACE,
    OPTION_TOPIC_LIMITS,
    OPTION_TOPIC_TIME,
    OPTION_TOPIC_OFFER,
    OPTION_TOPIC_HTTP,
    OPTION_TOPIC_ACCESS,
    OPTION_TOPIC_PACKAGES,
    OPTION_TOPIC_SERVER,
    OPTION_TOPIC_COUNT,
};

struct option {
    const char *name; /* without the dashes */
    enum option_topic topic;
    enum option_type type;
    size_t offset;     /* of the field in struct config */
    const char *value; /* default, as one would type it */
    uint64_t min, max; /* of numbers, in the unit of the field */
    const char *value_name;
    const char *help;
    const char *choices; /* "a b c"; of a level for completions only */
};

/* Rows of one topic are adjacent. */
extern const struct option options[];
extern const size_t option_count;

/* The option of this name, which has no dashes; NULL: there is none. */
const struct option *option_find(struct view name);

/* Whether its field is a text, which the configuration owns. */
bool option_is_text(const struct option *o);

/* The topic's name for scripts and pages ("http"), and its heading ("serving over HTTP"). */
const char *option_topic_name(enum option_topic topic);
const char *option_topic_title(enum option_topic topic);

/* "--memory-mb MIB"; the caller frees it. */
char *option_flag(const struct option *o);

/* "CLOISTER_MEMORY_MB"; the caller frees it. */
char *option_env_name(const struct option *o);

/* The help text, behind the names of the backends that take the option unless all do; the caller
 * frees it. */
char *option_help(const struct option *o);

/* Prints the help text of all options to stdout. */
void options_print_help(void);

#endif
