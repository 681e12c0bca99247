/*
 * Types of files that code in a sandbox usually writes; clients choose by them how to show a file.
 * The type of other files is decided by their content when they are read.
 */
#include "supervisor/links/mime.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *ending;
    const char *type;
} table[] = {
    {"avif", "image/avif"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/x-c"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ipynb", "application/x-ipynb+json"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"mjs", "text/javascript"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"npy", "application/octet-stream"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"py", "text/x-python"},
    {"r", "text/x-r"},
    {"rst", "text/x-rst"},
    {"sh", "application/x-sh"},
    {"sql", "application/sql"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tex", "application/x-tex"},
    {"toml", "application/toml"},
    {"ts", "text/x-typescript"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

const char *mime_of_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && dot != name && i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcasecmp(dot + 1, table[i].ending) == 0) {
            return table[i].type;
        }
    }
    return NULL;
}

const char *mime_of_image(struct view v)
{
    static const struct {
        const char *magic;
        size_t len;
        size_t at;
        const char *type;
    } known[] = {
        {"\x89PNG\r\n\x1a\n", 8, 0, "image/png"},
        {"\xff\xd8\xff", 3, 0, "image/jpeg"},
        {"GIF87a", 6, 0, "image/gif"},
        {"GIF89a", 6, 0, "image/gif"},
        {"WEBP", 4, 8, "image/webp"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (v.len >= known[i].at + known[i].len &&
            memcmp(v.data + known[i].at, known[i].magic, known[i].len) == 0) {
            return known[i].type;
        }
    }
    return NULL;
}
