/*
 * Charts of the profile code-sandbox. A program of ours draws them in the session's sandbox from
 * data on its stdin, so nothing that a client sends is run as code. Pictures are returned twice: as
 * base64_image, where that server's users look for them, and as an image.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/compat/code_sandbox.h"
#include "supervisor/compat/programs.h"
#include "supervisor/tools/args.h"

#define DONE_MAX_BYTES (2u << 20)
#define DONE_MAX_DEPTH 8
#define GIVEN_COST     8192

static const char failed[] = "Error generating chart";

struct chart {
    const char *type; /* NULL: the client chooses */
    const char *title;
    const char *message;
};

/* Returns an argument as the client gave it, which may be anything. */
static void put_given(cJSON *answer, const char *key, const char *text)
{
    result_put(answer, key, reply_bytes(REPLY_DUMPS, view_of(text), GIVEN_COST));
}

static void put_or_null(cJSON *answer, const char *key, const char *text)
{
    result_put(answer, key, text != NULL ? cJSON_CreateString(text) : cJSON_CreateNull());
}

/* `drawn` is the program's output. */
static void answer_chart(struct tool_call *call, const struct chart *chart, const cJSON *drawn)
{
    const char *title = json_get_str(call->args, "title");
    const char *image = json_get_str(drawn, "base64_image");
    cJSON *answer = cJSON_CreateObject();
    if (chart->type == NULL) {
        put_given(answer, "chart_type", json_get_str(call->args, "chart_type"));
        result_put_bool(answer, "interactive", true);
    } else {
        result_put_text(answer, "chart_type", chart->type);
    }
    put_given(answer, "title", title != NULL ? title : chart->title);
    put_or_null(answer, "file_path", json_get_str(drawn, "file_path"));
    if (chart->type == NULL) {
        put_or_null(answer, "html_content", json_get_str(drawn, "html_content"));
    } else {
        put_or_null(answer, "base64_image", image);
    }
    bool shown = image != NULL || json_get_str(drawn, "html_content") != NULL;
    CLEANUP_FREE char *message =
        alloc_printf("%s%s", chart->message,
                     shown ? "" : "; it is too large for this answer, file_path has all of it");
    result_put_text(answer, "message", message);
    struct result r;
    reply_set_json(&r, REPLY_DUMPS, answer);
    if (image != NULL) {
        result_add_image(&r, "image/png", image);
    }
    tool_finish(call, &r);
}

static void on_drawn(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                     const char *hint)
{
    struct tool_call *call = arg;
    struct err bad = ERR_INIT;
    cJSON *drawn = NULL;
    (void)hint;
    runs_done(call);
    CLEANUP_FREE char *trouble = runs_trouble(rc, o, err);
    if (trouble == NULL) {
        err_ignore(json_parse(o->out.data != NULL ? o->out.data : "", o->out.len, DONE_MAX_BYTES,
                              DONE_MAX_DEPTH, &drawn, NULL, &bad));
    }
    const char *said = json_get_str(drawn, "error");
    if (trouble != NULL || drawn == NULL || said != NULL) {
        CLEANUP_FREE char *words = o != NULL ? alloc_viewdup(o->err) : alloc_strdup("");
        runs_fail(call, failed, trouble != NULL ? trouble : said != NULL ? said : words);
    } else {
        answer_chart(call, call->own, drawn);
    }
    cJSON_Delete(drawn);
}

static void draw(struct tool_call *call, const struct chart *chart)
{
    if (!code_sandbox_find(call)) {
        return;
    }
    cJSON *ask = cJSON_Duplicate(call->args, true);
    if (chart->type != NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(ask, "chart_type");
        result_put_text(ask, "chart_type", chart->type);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(ask, "interactive");
    result_put_bool(ask, "interactive", chart->type == NULL);
    if (json_get_str(ask, "title") == NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(ask, "title");
        result_put_text(ask, "title", chart->title);
    }
    const char *path = json_get_str(ask, "save_path");
    if (path != NULL) {
        CLEANUP_FREE char *inside = alloc_strdup(code_sandbox_inside(path));
        cJSON_DeleteItemFromObjectCaseSensitive(ask, "save_path");
        result_put_text(ask, "save_path", inside);
    }
    char *json = cJSON_PrintUnformatted(ask);
    cJSON_Delete(ask);
    static const char *const words[] = {"python3", "-c", program_charts};
    struct err err = ERR_INIT;
    if (args_check_size("data", json, LIMIT_CODE, &err) < 0) {
        runs_fail(call, failed, err.text);
        cJSON_free(json);
        return;
    }
    call->own = (void *)(uintptr_t)chart; /* a constant table: nothing to free */
    runs_program(call, words, sizeof(words) / sizeof(words[0]), view_of(json), on_drawn);
    cJSON_free(json);
}

static void line(struct tool_call *call)
{
    static const struct chart chart = {"line", "Line Chart", "Line chart generated successfully"};
    draw(call, &chart);
}

static void bar(struct tool_call *call)
{
    static const struct chart chart = {"bar", "Bar Chart", "Bar chart generated successfully"};
    draw(call, &chart);
}

static void scatter(struct tool_call *call)
{
    static const struct chart chart = {"scatter", "Scatter Plot",
                                       "Scatter plot generated successfully"};
    draw(call, &chart);
}

static void heatmap(struct tool_call *call)
{
    static const struct chart chart = {"heatmap", "Heatmap", "Heatmap generated successfully"};
    draw(call, &chart);
}

static void interactive(struct tool_call *call)
{
    static const struct chart chart = {NULL, "Interactive Chart",
                                       "Interactive chart generated successfully"};
    draw(call, &chart);
}

/* clang-format off */
const struct tool code_sandbox_line_chart = {
    .name = "generate_line_chart",
    .title = "Draw a line chart",
    .description = "Draws a line chart of rows with matplotlib in a sandbox; returns the picture and its path there.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "data": {"type": "array", "items": {"type": "object"}, "description": "Rows."},
            "x_key": {"type": "string"},
            "y_keys": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 50},
            "title": {"type": "string", "maxLength": 1024, "default": "Line Chart"},
            "x_label": {"description": "A string or null."},
            "y_label": {"description": "A string or null."},
            "save_path": {"description": "Where the picture goes in the sandbox, or null."}
        },
        "required": ["session_id", "data", "x_key", "y_keys"]
    }),
    .run = line,
};

const struct tool code_sandbox_bar_chart = {
    .name = "generate_bar_chart",
    .title = "Draw a bar chart",
    .description = "Draws a bar chart of rows with matplotlib in a sandbox; returns the picture and its path there.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "data": {"type": "array", "items": {"type": "object"}, "description": "Rows."},
            "category_key": {"type": "string"},
            "value_keys": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 50},
            "title": {"type": "string", "maxLength": 1024, "default": "Bar Chart"},
            "x_label": {"description": "A string or null."},
            "y_label": {"description": "A string or null."},
            "save_path": {"description": "Where the picture goes in the sandbox, or null."},
            "orientation": {"type": "string", "enum": ["vertical", "horizontal"], "default": "vertical"}
        },
        "required": ["session_id", "data", "category_key", "value_keys"]
    }),
    .run = bar,
};

const struct tool code_sandbox_scatter_plot = {
    .name = "generate_scatter_plot",
    .title = "Draw a scatter plot",
    .description = "Draws a scatter plot of rows with matplotlib in a sandbox; returns the picture and its path there.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "data": {"type": "array", "items": {"type": "object"}, "description": "Rows."},
            "x_key": {"type": "string"},
            "y_key": {"type": "string"},
            "color_key": {"description": "A string or null."},
            "size_key": {"description": "A string or null."},
            "title": {"type": "string", "maxLength": 1024, "default": "Scatter Plot"},
            "x_label": {"description": "A string or null."},
            "y_label": {"description": "A string or null."},
            "save_path": {"description": "Where the picture goes in the sandbox, or null."}
        },
        "required": ["session_id", "data", "x_key", "y_key"]
    }),
    .run = scatter,
};

const struct tool code_sandbox_interactive_chart = {
    .name = "generate_interactive_chart",
    .title = "Make an interactive chart",
    .description = "Makes an HTML page with a chart (line, bar, scatter or area; a line for any other kind) that shows values under the pointer and loads nothing from elsewhere.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "chart_type": {"type": "string"},
            "data": {"type": "array", "items": {"type": "object"}, "description": "Rows."},
            "x_key": {"type": "string"},
            "y_keys": {"description": "A string, or an array of strings."},
            "title": {"type": "string", "maxLength": 1024, "default": "Interactive Chart"},
            "save_path": {"description": "Where the page goes in the sandbox, or null."}
        },
        "required": ["session_id", "chart_type", "data", "x_key", "y_keys"]
    }),
    .run = interactive,
};

const struct tool code_sandbox_heatmap = {
    .name = "generate_heatmap",
    .title = "Draw a heatmap",
    .description = "Draws a heatmap of a matrix with matplotlib in a sandbox; returns the picture and its path there.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "data": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            "row_labels": {"description": "An array of strings, or null."},
            "col_labels": {"description": "An array of strings, or null."},
            "title": {"type": "string", "maxLength": 1024, "default": "Heatmap"},
            "save_path": {"description": "Where the picture goes in the sandbox, or null."},
            "cmap": {"type": "string", "minLength": 1, "default": "viridis"}
        },
        "required": ["session_id", "data"]
    }),
    .run = heatmap,
};
/* clang-format on */
