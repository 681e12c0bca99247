/*
 * The files are the same for everybody and hold nothing of this server, so they are answered
 * without a token. What they may do in a browser is said with each of them: scripts and styles of
 * this server only, pictures that the page has as data, questions to this server only, and no frame
 * around it.
 *
 * Links in them are relative, since a proxy may have put a path before ours.
 */
#include "supervisor/page/page.h"

#include <string.h>

#include "common/view.h"
#include "supervisor/page/assets.h"
#include "supervisor/web/http/exchange.h"

#define ROOT       "/ui"
#define JAVASCRIPT "text/javascript; charset=utf-8"

#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const struct {
    const char *name; /* behind /ui/ */
    const char *type;
    const char *text;
} assets[] = {
    {"", "text/html; charset=utf-8", page_html},
    {"page.css", "text/css; charset=utf-8", page_css},
    {"page.js", JAVASCRIPT, page_js},
    {"api.js", JAVASCRIPT, page_api},
    {"curves.js", JAVASCRIPT, page_curves},
    {"details.js", JAVASCRIPT, page_details},
    {"dom.js", JAVASCRIPT, page_dom},
    {"sandboxes.js", JAVASCRIPT, page_sandboxes},
    {"watch.js", JAVASCRIPT, page_watch},
    {"workers.js", JAVASCRIPT, page_workers},
};

bool page_has(const char *path)
{
    return strcmp(path, ROOT) == 0 || strncmp(path, ROOT "/", strlen(ROOT "/")) == 0;
}

static void answer_asset(struct web_exchange *x, const char *type, const char *text)
{
    web_set_header(x, "Content-Security-Policy", POLICY);
    web_set_header(x, "X-Content-Type-Options", "nosniff");
    web_set_header(x, "Referrer-Policy", "no-referrer");
    web_set_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    web_set_header(x, "Cache-Control", "no-cache"); /* another version may be here tomorrow */
    web_respond(x, 200, type, view_of(text));
}

void page_handle(struct web_exchange *x)
{
    const char *name = web_path(x) + strlen(ROOT);
    if (strcmp(web_method(x), "GET") != 0 && strcmp(web_method(x), "HEAD") != 0) {
        web_set_header(x, "Allow", "GET, HEAD");
        web_respond(x, 405, "text/plain", view_of("the page is there to be read\n"));
        return;
    }
    if (name[0] == '\0') {
        web_set_header(x, "Location", "ui/");
        web_respond(x, 308, NULL, view_of(""));
        return;
    }
    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++) {
        if (strcmp(name + 1, assets[i].name) == 0) {
            answer_asset(x, assets[i].type, assets[i].text);
            return;
        }
    }
    web_respond(x, 404, "text/plain", view_of("the page has no such file\n"));
}
