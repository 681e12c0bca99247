/*
 * Lines of --help. A word that is longer than a line stays whole, as one wants to copy it.
 */
#include "supervisor/base/help_text.h"

#include <stdio.h>
#include <string.h>

#define WIDTH (size_t)80

/* How much of the text is on its first line of `room` columns. */
static size_t line_length(const char *text, size_t room)
{
    size_t len = strlen(text);
    if (len <= room) {
        return len;
    }
    for (len = room; len > 0 && text[len] != ' '; len--) {
    }
    return len > 0 ? len : strcspn(text, " ");
}

/* Prints the text from `column` on, where the cursor is. */
static void print_broken(const char *text, size_t column)
{
    while (*text != '\0') {
        size_t len = line_length(text, WIDTH - column);
        printf("%.*s\n", (int)len, text);
        text += len;
        text += strspn(text, " ");
        printf("%*s", *text != '\0' ? (int)column : 0, "");
    }
}

void help_paragraph(const char *text)
{
    print_broken(text, 0);
}

void help_row(const char *left, size_t column, const char *text)
{
    int room = (int)column - 2;
    if (strlen(left) + 4 > column) {
        printf("  %s\n%*s", left, (int)column, "");
    } else {
        printf("  %-*s", room, left);
    }
    print_broken(text, column);
}
