/*
 * URI templates of readable resources that are not listed: any file or directory of a sandbox by
 * its path, and output of an execution.
 */
#include "supervisor/resources/templates.h"

#include "supervisor/mcp/request.h"
#include "supervisor/resources/resources.h"
#include "supervisor/results/result.h"

static const struct {
    const char *uri, *name, *title, *description, *type;
} table[] = {
    {TEMPLATE_FILE, "sandbox_file", "File in a sandbox",
     "A file of a sandbox by its absolute path, for example workspace/data.csv: as text, or base64 "
     "if it is not text. A directory is returned as JSON with its entries. At most 1 MiB; larger "
     "files are read in parts with the tool read_file.",
     NULL},
    {TEMPLATE_STREAM, "execution_output", "Output of an execution",
     "What running code has written to stdout or stderr, all that is kept of it (the first and the "
     "last 256 KiB of each), "
     "also when the result of the call shows only a part, and after its sandbox is closed.",
     "text/plain"},
};

void resources_templates(struct mcp_request *r)
{
    cJSON *items = cJSON_CreateArray();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        cJSON *item = cJSON_CreateObject();
        result_put_text(item, "uriTemplate", table[i].uri);
        result_put_text(item, "name", table[i].name);
        result_put_text(item, "title", table[i].title);
        result_put_text(item, "description", table[i].description);
        if (table[i].type != NULL) {
            result_put_text(item, "mimeType", table[i].type);
        }
        cJSON_AddItemToArray(items, item);
    }
    mcp_answer_items(r, items);
}
