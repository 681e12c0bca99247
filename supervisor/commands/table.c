/*
 * Tables as docker prints them: columns as wide as their widest cell, two blanks between them,
 * heads in capitals. Cells come from servers and in the end from principals, so that control
 * characters, which a terminal would obey, become question marks. Messages with names that code in
 * a sandbox has made go the same way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define GAP        2
#define CELL_WIDTH 48 /* what is longer is cut */

struct table {
    size_t columns, rows;
    char **cells; /* of all rows, the heads first; owned */
};

/* The columns of a terminal that a text takes: its characters. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

/* The controls U+0080 to U+009F are two bytes in UTF-8, of which one is left. */
char *text_for_terminal(const char *text)
{
    char *copy = alloc_strdup(text), *to = copy;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        bool is_c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f;
        *to++ = is_c1 || *p < 0x20 || *p == 0x7f ? '?' : (char)*p;
        p += is_c1;
    }
    *to = '\0';
    return copy;
}

static char *clean_cell(const char *text)
{
    char *copy = text_for_terminal(text);
    size_t width = 0;
    for (char *p = copy; *p != '\0'; p++) {
        width += ((unsigned char)*p & 0xc0) != 0x80;
        if (width > CELL_WIDTH) {
            *p = '\0';
            break;
        }
    }
    return copy;
}

void table_add(struct table *t, const char *const *cells)
{
    char **more = alloc_array((t->rows + 1) * t->columns, sizeof(char *));
    memcpy(more, t->cells != NULL ? t->cells : more, t->rows * t->columns * sizeof(char *));
    free(t->cells);
    t->cells = more;
    for (size_t i = 0; i < t->columns; i++) {
        t->cells[t->rows * t->columns + i] = clean_cell(cells[i]);
    }
    t->rows++;
}

struct table *table_create(const char *const *heads)
{
    struct table *t = alloc_one(struct table);
    while (heads[t->columns] != NULL) {
        t->columns++;
    }
    table_add(t, heads);
    return t;
}

static size_t column_width(const struct table *t, size_t column)
{
    size_t widest = 0;
    for (size_t row = 0; row < t->rows; row++) {
        size_t width = width_of(t->cells[row * t->columns + column]);
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void print_cells(const struct table *t)
{
    CLEANUP_FREE size_t *widths = alloc_array(t->columns, sizeof(size_t));
    for (size_t i = 0; i < t->columns; i++) {
        widths[i] = column_width(t, i);
    }
    for (size_t at = 0; at < t->rows * t->columns; at++) {
        size_t column = at % t->columns;
        bool is_last = column + 1 == t->columns;
        int fill = is_last ? 0 : (int)(widths[column] - width_of(t->cells[at])) + GAP;
        printf("%s%*s%s", t->cells[at], fill, "", is_last ? "\n" : "");
    }
}

void table_end(struct table *t, bool shown)
{
    if (shown) {
        print_cells(t);
    }
    for (size_t at = 0; at < t->rows * t->columns; at++) {
        free(t->cells[at]);
    }
    free(t->cells);
    free(t);
}

/* ---- objects -------------------------------------------------------------------------------- */

const char *member_text(const cJSON *object, const char *name)
{
    const char *text = json_get_str(object, name);
    return text != NULL ? text : "";
}

double member_number(const cJSON *object, const char *name)
{
    const cJSON *member = json_get(object, name);
    return cJSON_IsNumber(member) ? member->valuedouble : 0;
}

void print_object(const struct server *server, const cJSON *object)
{
    cJSON *whole = cJSON_CreateObject();
    cJSON_AddStringToObject(whole, "server", server->name);
    const cJSON *member;
    cJSON_ArrayForEach(member, object)
    {
        cJSON_AddItemToObject(whole, member->string, cJSON_Duplicate(member, true));
    }
    CLEANUP_FREE char *text = alloc_check(cJSON_PrintUnformatted(whole));
    cJSON_Delete(whole);
    printf("%s\n", text);
}

void print_done(const struct steer *s, const struct server *server, const char *name,
                const cJSON *answer)
{
    if (s->json) {
        print_object(server, answer);
    } else {
        printf("%s\n", name);
    }
}
