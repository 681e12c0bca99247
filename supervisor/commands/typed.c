/*
 * Which options of servers were typed. The configuration does not tell, as it has values of files
 * and of the environment, too: those are wishes for every server, and what is typed is one for this
 * command.
 */
#include <string.h>

#include "supervisor/base/options.h"
#include "supervisor/commands/internal.h"

const struct option *typed_option(const struct steer *s, typed_fn is)
{
    for (int i = 0; i < s->server_word_count; i++) {
        const char *word = s->server_words[i] + strspn(s->server_words[i], "-");
        size_t len = strcspn(word, "=");
        const struct option *o = option_find(view_bytes(word, len));
        if (o != NULL && is(o)) {
            return o;
        }
        i += o != NULL && o->type != OPTION_FLAG && word[len] == '\0'; /* its value */
    }
    return NULL;
}

bool typed_shapes_server(const struct option *o)
{
    static const char *const others[] = {"instance", "runtime-dir", "config", "log-level"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(o->name, others[i]) == 0) {
            return false;
        }
    }
    return true;
}
