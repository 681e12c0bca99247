/*
 * The program gets the environment of this process, what the kubeconfig adds, and a description of
 * what is wanted; it has no terminal, no standard input, and RUN_MS. What it prints is bounded, and
 * only what it prints on stderr is ever told: on stdout there is a secret. One that is stopped ends
 * with all that it has started.
 *
 * Clients that do not know a program's version of the format must not guess, so the version that
 * the kubeconfig names has to be the answer's, too.
 */
#include "worker/backend/kubernetes/plugin.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/state.h"

#define RUN_MS      12000 /* a probe, which has to wait for it, has 20 s */
#define WORDS_BYTES 400   /* of stderr */
#define DEPTH       16
#define INFO_NAME   "KUBERNETES_EXEC_INFO"

extern char **environ;

struct output {
    uv_pipe_t pipe;
    struct buf text;
    bool ended, too_much;
};

struct kube_plugin_run {
    struct task task;
    const struct kube_cluster *cluster;
    uv_process_t process;
    uv_timer_t timer;
    struct output out, words;
    bool runs, late;
    int64_t status;
    int signal;
    int spawn_error; /* of libuv; 0: it was started */
    size_t handles;  /* not closed yet */
    kube_plugin_fn done;
    void *arg;
    char chunk[4096];
};

/* ---- the answer ----------------------------------------------------------------------------- */

/* RFC 3339. */
static bool read_moment(const char *text, uint64_t *ret_ms)
{
    struct tm tm = {.tm_year = 0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t offset_s = 0;
    if (rest != NULL && *rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    if (rest == NULL || (*rest != 'Z' && *rest != '+' && *rest != '-')) {
        return false;
    }
    if (*rest != 'Z') {
        struct tm zone = {.tm_year = 0};
        const char *end = strptime(rest + 1, "%H:%M", &zone);
        if (end == NULL || *end != '\0') {
            return false;
        }
        offset_s = (zone.tm_hour * 3600 + zone.tm_min * 60) * (*rest == '-' ? -1 : 1);
    } else if (rest[1] != '\0') {
        return false;
    }
    int64_t moment = (int64_t)timegm(&tm) - offset_s;
    *ret_ms = moment > 0 ? (uint64_t)moment * 1000 : 0;
    return true;
}

static bool is_plugin_token(const char *text)
{
    const char *p = text;
    while ((unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f) {
        p++;
    }
    return *p == '\0' && p > text;
}

int kube_plugin_read(struct view text, const char *version, char **ret_token,
                     uint64_t *ret_expires_ms, struct err *err)
{
    cJSON *json = NULL;
    bool has_nul = false;
    uint64_t expires_ms = UINT64_MAX;
    int rc = json_parse(text.data != NULL ? text.data : "", text.len, KUBE_PLUGIN_TEXT_MAX, DEPTH,
                        &json, &has_nul, NULL);
    const char *kind = json_get_str(json, "kind");
    const char *own = json_get_str(json, "apiVersion");
    const cJSON *status = json_get(json, "status");
    const char *token = json_get_str(status, "token");
    const char *until = json_get_str(status, "expirationTimestamp");
    if (rc < 0 || has_nul || kind == NULL || strcmp(kind, "ExecCredential") != 0) {
        rc = err_set(err, ERR_CONFIG, "what it printed is no ExecCredential");
    } else if (own == NULL || strcmp(own, version) != 0) {
        rc = err_set(err, ERR_CONFIG, "what it printed is not of the version %s", version);
    } else if (token == NULL && json_get_str(status, "clientCertificateData") != NULL) {
        rc = err_set(err, ERR_CONFIG, "it gave a certificate, and only tokens are taken");
    } else if (token == NULL || !is_plugin_token(token)) {
        rc = err_set(err, ERR_CONFIG, "it gave no token that can be one");
    } else if (until != NULL && !read_moment(until, &expires_ms)) {
        rc = err_set(err, ERR_CONFIG, "the expirationTimestamp that it gave is none");
    } else {
        *ret_token = alloc_strdup(token);
        *ret_expires_ms = expires_ms;
        rc = 0;
    }
    if (token != NULL) {
        explicit_bzero((char *)(uintptr_t)token, strlen(token));
    }
    cJSON_Delete(json);
    return rc;
}

/* ---- its end -------------------------------------------------------------------------------- */

static void on_plugin_handle_closed(uv_handle_t *handle)
{
    struct kube_plugin_run *run = handle->data;
    if (--run->handles > 0) {
        return;
    }
    task_leave(&run->task);
    if (run->out.text.len > 0) {
        explicit_bzero(run->out.text.data, run->out.text.len);
    }
    buf_finish(&run->out.text);
    buf_finish(&run->words.text);
    free(run);
}

static void close_plugin_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) {
        uv_close(handle, on_plugin_handle_closed);
    }
}

/* The program leads a session of its own, so what it has started is in its group, unless that has
 * left it on purpose. While one of them keeps a pipe, no other group can have that number. */
static void kill_group(const struct kube_plugin_run *run)
{
    if (run->spawn_error == 0 && (run->runs || !run->out.ended || !run->words.ended)) {
        uv_kill(-run->process.pid, SIGKILL);
    }
}

static void close_run(struct kube_plugin_run *run)
{
    run->done = NULL;
    kill_group(run);
    if (!run->runs) { /* else libuv reaps it first */
        close_plugin_handle((uv_handle_t *)&run->process);
    }
    close_plugin_handle((uv_handle_t *)&run->timer);
    close_plugin_handle((uv_handle_t *)&run->out.pipe);
    close_plugin_handle((uv_handle_t *)&run->words.pipe);
}

static void on_plugin_drop(struct task *task)
{
    close_run((struct kube_plugin_run *)task);
}

static int judge_run(const struct kube_plugin_run *run, struct err *err)
{
    if (run->spawn_error != 0) {
        return err_set(err, ERR_CONFIG, "it cannot be started (%s)", uv_strerror(run->spawn_error));
    }
    if (run->late) {
        return err_set(err, ERR_CONFIG, "it did not end within %d s", RUN_MS / 1000);
    }
    if (run->out.too_much) {
        return err_set(err, ERR_CONFIG, "it printed more than %u bytes", KUBE_PLUGIN_TEXT_MAX);
    }
    if (run->signal != 0 || run->status != 0) {
        return err_set(err, ERR_CONFIG, "it ended with %s %d",
                       run->signal != 0 ? "signal" : "status",
                       run->signal != 0 ? run->signal : (int)run->status);
    }
    return 0;
}

static void finish_run(struct kube_plugin_run *run)
{
    kube_plugin_fn done = run->done;
    struct err why = ERR_INIT, err = ERR_INIT;
    CLEANUP_FREE char *token = NULL;
    uint64_t expires_ms = 0;
    if (done == NULL) {
        return;
    }
    const struct kube_plugin *plugin = run->cluster->plugin;
    int rc = judge_run(run, &why);
    rc = rc < 0 ? rc
                : kube_plugin_read(view_bytes(run->out.text.data, run->out.text.len),
                                   plugin->version, &token, &expires_ms, &why);
    if (rc < 0) {
        char words[WORDS_BYTES];
        CLEANUP_FREE char *said =
            alloc_viewdup(view_bytes(run->words.text.data, run->words.text.len));
        kube_words(said, words, sizeof(words));
        rc = err_set(&err, ERR_CONFIG, "%s: the program %.100s: %.200s%s%s", run->cluster->origin,
                     plugin->command, why.text, words[0] != '\0' ? ": " : "", words);
    }
    void *arg = run->arg;
    close_run(run);
    done(arg, rc, token, expires_ms, rc < 0 ? &err : NULL);
    if (token != NULL) {
        explicit_bzero(token, strlen(token));
    }
}

/* A program that has ended has said all when both pipes are at their end, unless another process
 * that it started keeps them: that one is not waited for after RUN_MS. */
static void finish_when_over(struct kube_plugin_run *run)
{
    if (!run->runs && run->out.ended && run->words.ended) {
        finish_run(run);
    }
}

static void on_plugin_exit(uv_process_t *process, int64_t status, int signal)
{
    struct kube_plugin_run *run = process->data;
    run->runs = false;
    run->status = status;
    run->signal = signal;
    if (run->done == NULL) {
        close_plugin_handle((uv_handle_t *)process);
    } else {
        finish_when_over(run);
    }
}

static void on_plugin_timer(uv_timer_t *timer)
{
    struct kube_plugin_run *run = timer->data;
    run->late = run->spawn_error == 0;
    finish_run(run);
}

/* ---- its output ----------------------------------------------------------------------------- */

static void on_plugin_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct kube_plugin_run *run = handle->data;
    (void)suggested;
    *ret_buf = uv_buf_init(run->chunk, sizeof(run->chunk));
}

static void on_plugin_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct kube_plugin_run *run = stream->data;
    struct output *o = stream == (uv_stream_t *)&run->out.pipe ? &run->out : &run->words;
    if (n > 0 && buf_add(&o->text, buf->base, (size_t)n, NULL) < 0) {
        o->too_much = true; /* of stderr the beginning is enough */
        if (o == &run->out) {
            finish_run(run);
        }
    } else if (n < 0) {
        o->ended = true;
        uv_read_stop(stream);
        finish_when_over(run);
    }
}

/* ---- its start ------------------------------------------------------------------------------ */

static void add_base64(cJSON *object, const char *name, const char *text)
{
    struct buf out;
    buf_init(&out, 4u << 20);
    if (base64_encode(&out, view_of(text), NULL) == 0) {
        CLEANUP_FREE char *encoded = alloc_viewdup(view_bytes(out.data, out.len));
        json_build_string(object, name, encoded);
    }
    buf_finish(&out);
}

char *kube_plugin_info(const struct kube_cluster *cluster)
{
    cJSON *info = json_build_new();
    json_build_string(info, "kind", "ExecCredential");
    json_build_string(info, "apiVersion", cluster->plugin->version);
    cJSON *spec = json_build_object(info, "spec");
    json_build_bool(spec, "interactive", false);
    if (cluster->plugin->wants_cluster) {
        cJSON *about = json_build_object(spec, "cluster");
        json_build_string(about, "server", cluster->server);
        if (cluster->tls_name != NULL) {
            json_build_string(about, "tls-server-name", cluster->tls_name);
        }
        if (cluster->ca_pem != NULL) {
            add_base64(about, "certificate-authority-data", cluster->ca_pem);
        }
    }
    char *text = json_build_print(info);
    cJSON_Delete(info);
    return text;
}

static size_t count_texts(char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    return count;
}

static bool is_same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return strncmp(a, b, len) == 0 && b[len] == '=';
}

/* The list is to be freed, its last text, too. */
static char **make_plugin_env(const struct kube_cluster *cluster)
{
    char *const *own = cluster->plugin->env;
    size_t added = count_texts(own);
    char **env = alloc_array(count_texts(environ) + added + 2, sizeof(*env));
    CLEANUP_FREE char *info = kube_plugin_info(cluster);
    size_t n = 0;
    for (size_t i = 0; environ[i] != NULL; i++) {
        bool replaced = is_same_name(INFO_NAME "=", environ[i]);
        for (size_t j = 0; j < added && !replaced; j++) {
            replaced = is_same_name(own[j], environ[i]);
        }
        if (!replaced) {
            env[n++] = environ[i];
        }
    }
    for (size_t j = 0; j < added; j++) {
        env[n++] = own[j];
    }
    env[n] = alloc_printf(INFO_NAME "=%s", info);
    return env;
}

static int spawn_plugin(struct kube_plugin_run *run)
{
    const struct kube_plugin *plugin = run->cluster->plugin;
    size_t count = count_texts(plugin->args);
    char **argv = alloc_array(count + 2, sizeof(*argv));
    char **env = make_plugin_env(run->cluster);
    argv[0] = plugin->command;
    for (size_t i = 0; i < count; i++) {
        argv[1 + i] = plugin->args[i];
    }
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE}};
    stdio[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[1].data.stream = (uv_stream_t *)&run->out.pipe;
    stdio[2].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[2].data.stream = (uv_stream_t *)&run->words.pipe;
    uv_process_options_t options = {
        .exit_cb = on_plugin_exit,
        .file = plugin->command,
        .args = argv,
        .env = env,
        .flags = UV_PROCESS_DETACHED, /* ^C at a terminal is not for it; see kill_group() */
        .stdio_count = 3,
        .stdio = stdio,
    };
    int rc = uv_spawn(run->task.tasks->loop, &run->process, &options);
    free(env[count_texts(env) - 1]);
    free(env);
    free(argv);
    return rc;
}

static void init_output(struct kube_plugin_run *run, struct output *o, size_t max_bytes)
{
    uv_pipe_init(run->task.tasks->loop, &o->pipe, 0);
    o->pipe.data = run;
    buf_init(&o->text, max_bytes);
}

struct kube_plugin_run *kube_plugin_start(struct tasks *tasks, const struct kube_cluster *cluster,
                                          kube_plugin_fn done, void *arg)
{
    struct kube_plugin_run *run = alloc_one(struct kube_plugin_run);
    run->cluster = cluster;
    run->done = done;
    run->arg = arg;
    task_enter(tasks, &run->task, on_plugin_drop);
    uv_timer_init(tasks->loop, &run->timer);
    run->timer.data = run;
    init_output(run, &run->out, KUBE_PLUGIN_TEXT_MAX);
    init_output(run, &run->words, sizeof(run->chunk));
    run->process.data = run;
    run->handles = 4;
    run->spawn_error = spawn_plugin(run);
    run->process.data = run;
    if (run->spawn_error != 0) { /* told from the loop; the handle must be closed even so */
        uv_timer_start(&run->timer, on_plugin_timer, 0, 0);
        return run;
    }
    run->runs = true;
    uv_timer_start(&run->timer, on_plugin_timer, RUN_MS, 0);
    uv_read_start((uv_stream_t *)&run->out.pipe, on_plugin_alloc, on_plugin_read);
    uv_read_start((uv_stream_t *)&run->words.pipe, on_plugin_alloc, on_plugin_read);
    return run;
}
