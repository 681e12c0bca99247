/*
 * Some texts are whole sentences of a runtime or of an engine, which a terminal would break in the
 * middle of a word.
 */
#include "supervisor/cli/row.h"

#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define WIDTH       100
#define LEAST_WIDTH 40
#define TEXT_AT     21 /* behind the name of a row */
#define FURTHER     2  /* of lines that go on, since a row without a name begins there, too */

size_t row_width(void)
{
    struct winsize size = {.ws_col = 0};
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0) {
        return WIDTH;
    }
    return size.ws_col > LEAST_WIDTH ? size.ws_col : LEAST_WIDTH;
}

/* Of a text in UTF-8. */
static size_t columns_of(struct view text)
{
    size_t columns = 0;
    for (size_t i = 0; i < text.len; i++) {
        columns += ((unsigned char)text.data[i] & 0xc0) != 0x80 ? 1 : 0;
    }
    return columns;
}

/* Ends a line of which `at` columns are written. */
static void print_words(FILE *out, size_t width, size_t at, size_t indent, struct view text)
{
    bool first = true;
    while (text.len > 0) {
        const char *space = memchr(text.data, ' ', text.len);
        struct view word =
            view_bytes(text.data, space != NULL ? (size_t)(space - text.data) : text.len);
        size_t columns = columns_of(word);
        if (!first && at + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", VIEW_ARG(word));
        at += columns;
        first = false;
        size_t taken = word.len + (space != NULL ? 1 : 0);
        text = view_bytes(text.data + taken, text.len - taken);
    }
    fputc('\n', out);
}

void row_print(FILE *out, size_t width, const char *what, struct view text)
{
    fprintf(out, "  %-18s ", what);
    print_words(out, width, TEXT_AT, TEXT_AT + FURTHER, text);
}

void row_print_line(FILE *out, size_t width, size_t indent, struct view text)
{
    print_words(out, width, 0, indent, text);
}
