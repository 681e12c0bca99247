#include "tests/unit/supervisor/fake_fleet.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static const char *const languages[] = {"python", "bash"};
static const char *const unapplied[] = {"disk: no quota on this file system"};

struct fleet *fake_fleet(void)
{
    struct fleet *f = alloc_one(struct fleet);
    fake_set_output(f, "", 0);
    return f;
}

static void call_free(struct fleet_call *c)
{
    free(c->data);
    free(c->input);
    free(c->path);
    free(c->language);
    free(c->env);
    free(c->args);
}

void fake_fleet_free(struct fleet *f)
{
    for (size_t i = 0; i < f->pending_count; i++) {
        call_free(f->pending[i]);
        free(f->pending[i]);
    }
    call_free(&f->last);
    free(f);
}

void fake_set_output(struct fleet *f, const void *out, size_t len)
{
    f->fail_code = 0;
    f->end = (struct msg_output){
        .state = OP_DONE,
        .status = OP_STATUS_OK,
        .interpreter = OP_INTERPRETER_KEPT,
        .duration_us = 1500,
        .cpu_us = 1250,
        .max_rss_kb = 9000,
    };
    f->outcome = (struct fleet_outcome){
        .op = "op-1",
        .language = "",
        .state = OP_DONE,
        .out = view_bytes(out, len),
        .out_bytes = len,
        .end = &f->end,
        .duration_us = 1500,
    };
}

static struct fake_sandbox *find(struct fleet *f, const char *id_or_name)
{
    for (size_t i = 0; i < f->sandbox_count; i++) {
        struct fake_sandbox *s = &f->sandboxes[i];
        if (s->open && (strcmp(s->id, id_or_name) == 0 ||
                        (s->name[0] != '\0' && strcmp(s->name, id_or_name) == 0))) {
            return s;
        }
    }
    return NULL;
}

void fake_lose(struct fleet *f, const char *id)
{
    struct fake_sandbox *s = find(f, id);
    assert(s != NULL);
    s->open = false;
}

static struct fleet_info info_of(const struct fake_sandbox *s)
{
    return (struct fleet_info){
        .id = s->id,
        .owner = s->owner,
        .name = s->name,
        .backend = "fake",
        .runtime = "",
        .network = "none",
        .image = "/usr",
        .state = "ready",
        .reason = "",
        .workspace = "/workspace",
        .languages = languages,
        .language_count = 2,
        .unapplied = unapplied,
        .unapplied_count = 1,
        .memory_mb = 512,
        .pids = 256,
        .disk_mb = 1024,
        .files = 1024,
        .timeout_ms = 60000,
        .ttl_ms = 1800000,
        .cpus = 1.5,
        .created_wall_ms = 1700000000000,
        .expires_wall_ms = 1700001800000,
        .lifetime_ms = 86400000,
        .ends_wall_ms = 1700086400000,
        .worker_pid = 4711,
        .executions = 3,
        .has_usage = true,
        .memory_bytes = 5 << 20,
        .cpu_us = 1000,
        .processes = 2,
        .disk_bytes = 4096,
    };
}

static struct fleet_call *add_pending(struct fleet *f, enum fake_kind kind, const char *id,
                                      void *done, void *arg)
{
    assert(f->pending_count < FAKE_PENDING);
    struct fleet_call *c = alloc_one(struct fleet_call);
    c->kind = kind;
    c->done = done;
    c->arg = arg;
    snprintf(c->id, sizeof(c->id), "%s", id);
    f->pending[f->pending_count++] = c;
    return c;
}

static void answer_run(struct fleet *f, struct fleet_call *c)
{
    fleet_outcome_fn done = (fleet_outcome_fn)c->done;
    struct err err = {f->fail_code, 0, ""};
    struct fake_execution *e = c->execution;
    if (c->is_await && e == NULL) {
        err_set(&err, ERR_EXECUTION_NOT_FOUND, "no such execution");
        done(c->arg, -ERR_EXECUTION_NOT_FOUND, NULL, &err, "");
        return;
    }
    if (f->fail_code != 0) {
        snprintf(err.text, sizeof(err.text), "%s", f->fail_text);
        done(c->arg, -f->fail_code, NULL, &err, f->fail_hint);
        return;
    }
    struct msg_output end = f->end;
    struct fleet_outcome outcome = f->outcome;
    end.status = c->cancelled || (e != NULL && e->stopped) ? OP_STATUS_CANCELLED : end.status;
    outcome.end = &end;
    outcome.sandbox = c->id;
    if (e != NULL) {
        e->over = e->over || !c->ended;
        outcome.op = e->id;
        outcome.sandbox = e->sandbox;
        outcome.language = e->language;
        outcome.state = e->over ? OP_DONE : OP_RUNNING;
        end = e->over ? end : (struct msg_output){.state = OP_RUNNING};
    }
    done(c->arg, 0, &outcome, NULL, NULL);
}

static void answer_open(struct fleet *f, struct fleet_call *c)
{
    fleet_info_fn done = (fleet_info_fn)c->done;
    struct err err = {f->fail_code, 0, ""};
    if (f->fail_code != 0) {
        snprintf(err.text, sizeof(err.text), "%s", f->fail_text);
        done(c->arg, -f->fail_code, NULL, &err, f->fail_hint);
        return;
    }
    struct fake_sandbox *s = find(f, c->id);
    struct fleet_info info = info_of(s);
    done(c->arg, 0, &info, NULL, NULL);
}

void fake_answer(struct fleet *f, size_t n)
{
    assert(n < f->pending_count);
    struct fleet_call *c = f->pending[n];
    memmove(&f->pending[n], &f->pending[n + 1], (f->pending_count - n - 1) * sizeof(c));
    f->pending_count--;
    switch (c->kind) {
    case FAKE_OPEN:
    case FAKE_STATUS:
        answer_open(f, c);
        break;
    case FAKE_RUN:
        answer_run(f, c);
        break;
    case FAKE_CLOSE: {
        struct fake_sandbox *s = find(f, c->id);
        if (s != NULL) {
            s->open = false;
        }
        ((fleet_done_fn)c->done)(c->arg, 0, NULL, NULL);
        break;
    }
    }
    call_free(c);
    free(c);
}

void fake_stand(struct fleet *f, size_t n)
{
    assert(n < f->pending_count && f->pending[n]->is_await);
    f->pending[n]->ended = true;
    fake_answer(f, n);
}

void fake_progress(struct fleet *f, size_t n, const char *text, uint64_t done, uint64_t total)
{
    assert(n < f->pending_count && f->pending[n]->kind == FAKE_OPEN);
    struct fleet_call *c = f->pending[n];
    struct fleet_progress progress = {text, done, total};
    if (c->progress != NULL) {
        c->progress(c->arg, &progress);
    }
}

bool fake_write(struct fleet *f, size_t n, const char *out, const char *err)
{
    assert(n < f->pending_count && f->pending[n]->is_await);
    struct fleet_call *c = f->pending[n];
    struct fleet_output output = {
        .op = c->execution->id,
        .out = view_of(out),
        .err = view_of(err),
        .out_new = strlen(out),
        .err_new = strlen(err),
    };
    c->execution->out_bytes += output.out_new;
    c->execution->err_bytes += output.err_new;
    output.out_bytes = c->execution->out_bytes;
    output.err_bytes = c->execution->err_bytes;
    return c->output != NULL && c->output(c->arg, &output);
}

void fake_settle(struct fleet *f)
{
    while (f->pending_count > 0) {
        fake_answer(f, 0);
    }
}

static char *join(struct view_list list)
{
    char *text = alloc_strdup("");
    for (size_t i = 0; i < list.count; i++) {
        char *longer = alloc_printf("%s%s%.*s", text, i > 0 ? "|" : "", VIEW_ARG(list.items[i]));
        free(text);
        text = longer;
    }
    return text;
}

/* ---- fleet.h -------------------------------------------------------------------------------- */

struct fleet *fleet_create(uv_loop_t *loop, const struct config *config)
{
    (void)loop;
    (void)config;
    return fake_fleet();
}

void fleet_set_runners(struct fleet *f, struct view_list runners)
{
}

void fleet_set_shared(struct fleet *f, bool shared)
{
    f->shared = shared;
}

void fleet_measure(const struct fleet *f)
{
}

bool fleet_is_shared(const struct fleet *f)
{
    return f->shared;
}

struct fleet_pool fleet_pool(const struct fleet *f)
{
    (void)f;
    return (struct fleet_pool){.size = 2, .ready = 1, .hits = 3, .misses = 4};
}

void fleet_observe(struct fleet *f, const struct fleet_events *events, void *arg)
{
    f->events = events;
    f->events_arg = arg;
}

void fleet_on_install(struct fleet *f, fleet_install_fn install, void *arg)
{
    f->install = install;
    f->install_arg = arg;
}

void fleet_open(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                fleet_info_fn done, void *arg)
{
    assert(f->sandbox_count < FAKE_SANDBOXES);
    struct fake_sandbox *s = &f->sandboxes[f->sandbox_count++];
    snprintf(s->id, sizeof(s->id), "sb%zu", f->sandbox_count);
    snprintf(s->owner, sizeof(s->owner), "%s", owner);
    snprintf(s->name, sizeof(s->name), "%s", spec->name != NULL ? spec->name : "");
    s->open = true;
    s->is_default = spec->is_default;
    snprintf(s->session, sizeof(s->session), "%s", spec->session != NULL ? spec->session : "");
    f->opens++;
    f->spec = *spec;
    char *env = join(spec->env);
    snprintf(f->spec_env, sizeof(f->spec_env), "%s", env);
    free(env);
    snprintf(f->spec_name, sizeof(f->spec_name), "%s", s->name);
    snprintf(f->spec_image, sizeof(f->spec_image), "%s", spec->image != NULL ? spec->image : "");
    add_pending(f, FAKE_OPEN, s->id, (void *)done, arg)->progress = spec->progress;
}

int fleet_find(struct fleet *f, const char *owner, const char *id_or_name, const char **ret_id,
               struct err *err)
{
    struct fake_sandbox *s = find(f, id_or_name);
    if (s == NULL || strcmp(s->owner, owner) != 0) {
        return err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", id_or_name);
    }
    *ret_id = s->id;
    return 0;
}

const char *fleet_workspace(struct fleet *f, const char *id)
{
    return find(f, id) != NULL ? "/workspace" : "";
}

uint64_t fleet_life_left_ms(struct fleet *f, const char *id)
{
    return find(f, id) != NULL ? 3600000 : 0;
}

const char *fleet_owner(struct fleet *f, const char *id)
{
    return find(f, id) != NULL ? find(f, id)->owner : NULL;
}

int fleet_key(struct fleet *f, unsigned char ret[FLEET_KEY_BYTES], struct err *err)
{
    memset(ret, 'k', FLEET_KEY_BYTES);
    return 0;
}

void fleet_status(struct fleet *f, const char *id, fleet_info_fn done, void *arg)
{
    add_pending(f, FAKE_STATUS, id, (void *)done, arg);
}

void fleet_list(struct fleet *f, const char *owner,
                void (*each)(void *arg, const struct fleet_info *info), void *arg)
{
    for (size_t i = 0; i < f->sandbox_count; i++) {
        if (f->sandboxes[i].open && (owner == NULL || strcmp(f->sandboxes[i].owner, owner) == 0)) {
            struct fleet_info info = info_of(&f->sandboxes[i]);
            each(arg, &info);
        }
    }
}

void fleet_close(struct fleet *f, const char *id, fleet_done_fn done, void *arg)
{
    f->closes++;
    add_pending(f, FAKE_CLOSE, id, (void *)done, arg);
}

bool fleet_retire(struct fleet *f, const char *id)
{
    return false; /* no sandbox is left running */
}

static void note_run(struct fleet *f, const char *id, const struct fleet_op *op)
{
    f->runs++;
    call_free(&f->last);
    f->last = (struct fleet_call){
        .kind = FAKE_RUN,
        .op = *op,
        .data = alloc_viewdup(op->data),
        .input = alloc_viewdup(op->stdin_data),
        .path = alloc_strdup(op->path != NULL ? op->path : ""),
        .language = alloc_strdup(op->language != NULL ? op->language : ""),
        .env = join(op->env),
        .args = join(op->args),
    };
    snprintf(f->last.id, sizeof(f->last.id), "%s", id);
}

struct fleet_call *fleet_run(struct fleet *f, const char *id, const struct fleet_op *op,
                             fleet_outcome_fn done, void *arg)
{
    note_run(f, id, op);
    return add_pending(f, FAKE_RUN, id, (void *)done, arg);
}

/* ---- executions ---- */

static struct fake_execution *find_execution(struct fleet *f, const char *owner, const char *id)
{
    for (size_t i = 0; i < f->execution_count; i++) {
        struct fake_execution *e = &f->executions[i];
        if (strcmp(e->id, id) == 0 && strcmp(e->owner, owner) == 0) {
            return e;
        }
    }
    return NULL;
}

bool fleet_has_execution(struct fleet *f, const char *owner, const char *execution)
{
    return find_execution(f, owner, execution) != NULL;
}

void fleet_execute(struct fleet *f, const char *owner, const char *id, const struct fleet_op *op,
                   char ret_id[FLEET_ID_SIZE])
{
    assert(f->execution_count < FAKE_EXECUTIONS);
    struct fake_execution *e = &f->executions[f->execution_count++];
    note_run(f, id, op);
    snprintf(e->id, sizeof(e->id), "ex-%zu", f->execution_count);
    snprintf(e->sandbox, sizeof(e->sandbox), "%s", id);
    snprintf(e->owner, sizeof(e->owner), "%s", owner);
    snprintf(e->language, sizeof(e->language), "%s", op->language);
    snprintf(ret_id, FLEET_ID_SIZE, "%s", e->id);
}

struct fleet_await *fleet_await(struct fleet *f, const char *owner, const char *execution,
                                uint64_t wait_ms, fleet_outcome_fn done, void *arg)
{
    struct fake_execution *e = find_execution(f, owner, execution);
    const char *sandbox = e != NULL ? e->sandbox : "";
    struct fleet_call *c = add_pending(f, FAKE_RUN, sandbox, (void *)done, arg);
    c->execution = e;
    c->is_await = true;
    c->wait_ms = wait_ms;
    return (struct fleet_await *)c;
}

void fleet_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output)
{
    struct fleet_call *c = (struct fleet_call *)await;
    c->output = output;
    c->every_ms = every_ms;
}

void fleet_await_end(struct fleet_await *await)
{
    ((struct fleet_call *)await)->ended = true;
}

void fleet_await_quiet(struct fleet_await *await, uint64_t quiet_ms)
{
    ((struct fleet_call *)await)->quiet_ms = quiet_ms;
}

void fleet_input(struct fleet *f, const char *owner, const char *execution,
                 const struct fleet_input *in, fleet_input_fn done, void *arg)
{
    const struct fleet_input_state state = {.next = in->data.len};
    struct err err = ERR_INIT;
    if (find_execution(f, owner, execution) == NULL) {
        err_set(&err, ERR_EXECUTION_NOT_FOUND, "no such execution");
        done(arg, -ERR_EXECUTION_NOT_FOUND, NULL, &err, "");
        return;
    }
    f->input = *in;
    snprintf(f->input_text, sizeof(f->input_text), "%.*s", VIEW_ARG(in->data));
    done(arg, 0, &state, NULL, "");
}

void fleet_told(struct fleet *f, const char *owner, const char *execution, uint64_t out_bytes,
                uint64_t err_bytes)
{
    f->told_out = out_bytes;
}

int fleet_stop(struct fleet *f, const char *owner, const char *execution, struct err *err)
{
    struct fake_execution *e = find_execution(f, owner, execution);
    if (e == NULL) {
        return err_set(err, ERR_EXECUTION_NOT_FOUND, "no such execution");
    }
    e->stopped = e->stopped || !e->over;
    for (size_t i = 0; i < f->pending_count; i++) {
        f->pending[i]->cancelled =
            f->pending[i]->cancelled || (f->pending[i]->execution == e && e->stopped);
    }
    return 0;
}

void fleet_executions(struct fleet *f, const char *owner, const char *id,
                      void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg)
{
    for (size_t i = f->execution_count; i > 0; i--) {
        const struct fake_execution *e = &f->executions[i - 1];
        if (strcmp(e->sandbox, id) == 0 && strcmp(e->owner, owner) == 0) {
            struct fleet_outcome outcome = f->outcome;
            outcome.op = e->id;
            outcome.sandbox = e->sandbox;
            outcome.language = e->language;
            outcome.state = e->over ? OP_DONE : i == f->execution_count ? OP_QUEUED : OP_RUNNING;
            outcome.started_wall_ms = 1700000000000;
            each(arg, &outcome);
        }
    }
}

int fleet_find_default(struct fleet *f, const char *owner, const char *session, const char **ret_id)
{
    for (size_t i = 0; i < f->sandbox_count; i++) {
        struct fake_sandbox *s = &f->sandboxes[i];
        if (s->open && s->is_default && strcmp(s->owner, owner) == 0 &&
            strcmp(s->session, session) == 0) {
            *ret_id = s->id;
            return 0;
        }
    }
    return -ERR_SANDBOX_NOT_FOUND;
}

void fleet_cancel(struct fleet_call *call)
{
    call->cancelled = true;
}

void fleet_shutdown(struct fleet *f, enum fleet_end end, void (*done)(void *arg), void *arg)
{
    (void)end;
    fake_settle(f);
    done(arg);
}

void fleet_destroy(struct fleet *f)
{
    fake_fleet_free(f);
}
