/*
 * Nearness is the number of letters to insert, to drop, to replace or to swap with their neighbour.
 * A third of the word at most may be wrong, as a suggestion that shares nothing with what was typed
 * is worse than none.
 */
#include "supervisor/base/near.h"

#include <ctype.h>
#include <string.h>

#define LENGTH_MAX 48 /* longer words are no mistyped ones */

static size_t least_edits(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int letter(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static size_t distance(struct view a, const char *b, size_t b_len)
{
    size_t rows[3][LENGTH_MAX + 1]; /* before the last one, the last one, this one */
    for (size_t j = 0; j <= b_len; j++) {
        rows[1][j] = j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        size_t *now = rows[2];
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            int typed = letter(a.data[i - 1]), known = letter(b[j - 1]);
            now[j] = least_edits(rows[1][j - 1] + (typed == known ? 0 : 1),
                                 least_edits(rows[1][j] + 1, now[j - 1] + 1));
            if (i > 1 && j > 1 && typed == letter(b[j - 2]) && letter(a.data[i - 2]) == known) {
                now[j] = least_edits(now[j], rows[0][j - 2] + 1);
            }
        }
        memcpy(rows[0], rows[1], sizeof(rows[0]));
        memcpy(rows[1], rows[2], sizeof(rows[1]));
    }
    return rows[1][b_len];
}

void near_begin(struct near_word *n, struct view typed)
{
    n->typed = typed;
    n->best = NULL;
    n->distance = typed.len / 3 + 1;
}

void near_try(struct near_word *n, const char *known)
{
    size_t len = strlen(known);
    if (n->typed.len == 0 || n->typed.len > LENGTH_MAX || len > LENGTH_MAX) {
        return;
    }
    size_t d = distance(n->typed, known, len);
    if (d < n->distance) {
        n->distance = d;
        n->best = known;
    }
}
