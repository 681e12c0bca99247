/*
 * Unlike the fakes of unit tests, this one decides by itself: sandboxes are rows of a small table;
 * operations wait in a list until a step of the fuzzer ends them. The code or path decides how an
 * operation ends, so that an input can reach every kind of outcome: "e" error, "t" timeout, "m"
 * memory, "c" crash, "f" failure, "r" runs until it is cancelled, anything else succeeds.
 * Executions are called "x1", "x2" and so on; the last few are kept.
 */
#include "tests/fuzz/fake_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"

enum { SANDBOXES = 4, EXECUTIONS = 4 };

enum due_kind { DUE_INFO, DUE_DONE, DUE_RUN };

struct execution {
    char id[FLEET_ID_SIZE];
    char owner[64];
    size_t slot; /* SANDBOXES: the slot was refused */
    char hint;
    bool cancelled;
};

struct slot {
    bool used;
    char id[FLEET_ID_SIZE];
    char owner[64];
    char name[80];
};

struct fleet_call {
    struct fleet_call *next;
    enum due_kind kind;
    int rc;
    size_t slot;
    fleet_info_fn info;
    fleet_done_fn done;
    fleet_outcome_fn outcome;
    fleet_output_fn output;
    fleet_progress_fn progress;
    void *arg;
    enum op_kind op;
    char hint;
    bool cancelled;
    bool running; /* its outcome so far is "running": the caller no longer waits */
    char execution[FLEET_ID_SIZE];
};

struct fleet {
    struct slot slots[SANDBOXES];
    uint64_t made;
    struct execution executions[EXECUTIONS]; /* a ring */
    uint64_t begun;
    struct fleet_call *first, **last;
    const struct fleet_events *events;
    void *events_arg;
    bool shared;
};

struct fleet *fleet_create(uv_loop_t *loop, const struct config *config)
{
    (void)loop;
    (void)config;
    struct fleet *f = alloc_one(struct fleet);
    f->last = &f->first;
    return f;
}

void fleet_destroy(struct fleet *f)
{
    free(f);
}

static struct fleet_call *put_off(struct fleet *f, enum due_kind kind, int rc, size_t slot,
                                  void *arg)
{
    struct fleet_call *due = alloc_one(struct fleet_call);
    due->kind = kind;
    due->rc = rc;
    due->slot = slot;
    due->arg = arg;
    *f->last = due;
    f->last = &due->next;
    return due;
}

static size_t slot_of(const struct fleet *f, const char *id)
{
    for (size_t i = 0; i < SANDBOXES; i++) {
        if (f->slots[i].used && strcmp(f->slots[i].id, id) == 0) {
            return i;
        }
    }
    return SANDBOXES;
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
}

void fleet_open(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                fleet_info_fn done, void *arg)
{
    size_t i = 0;
    while (i < SANDBOXES && f->slots[i].used) {
        i++;
    }
    if (i < SANDBOXES) {
        struct slot *slot = &f->slots[i];
        slot->used = true;
        snprintf(slot->id, sizeof(slot->id), "sandbox%llu", (unsigned long long)++f->made);
        snprintf(slot->owner, sizeof(slot->owner), "%s", owner);
        err_ignore(str_copy(slot->name, sizeof(slot->name), spec->name ? spec->name : "", NULL));
    }
    struct fleet_call *call = put_off(f, DUE_INFO, i < SANDBOXES ? 0 : -ERR_SANDBOX_LIMIT, i, arg);
    call->info = done;
    call->progress = spec->progress;
}

int fleet_find(struct fleet *f, const char *owner, const char *id_or_name, const char **ret_id,
               struct err *err)
{
    for (size_t i = 0; i < SANDBOXES; i++) {
        const struct slot *slot = &f->slots[i];
        if (slot->used && strcmp(slot->owner, owner) == 0 &&
            (strcmp(slot->id, id_or_name) == 0 || strcmp(slot->name, id_or_name) == 0)) {
            *ret_id = slot->id;
            return 0;
        }
    }
    return err_set(err, ERR_SANDBOX_NOT_FOUND, "no such sandbox: %s", id_or_name);
}

const char *fleet_workspace(struct fleet *f, const char *id)
{
    return slot_of(f, id) < SANDBOXES ? "/workspace" : "";
}

uint64_t fleet_life_left_ms(struct fleet *f, const char *id)
{
    return slot_of(f, id) < SANDBOXES ? 3600000 : 0;
}

const char *fleet_owner(struct fleet *f, const char *id)
{
    return slot_of(f, id) < SANDBOXES ? f->slots[slot_of(f, id)].owner : NULL;
}

int fleet_key(struct fleet *f, unsigned char ret[FLEET_KEY_BYTES], struct err *err)
{
    memset(ret, 'k', FLEET_KEY_BYTES);
    return 0;
}

static void fill_info(const struct slot *slot, struct fleet_info *info)
{
    static const char *const languages[] = {"python", "bash"};
    *info = (struct fleet_info){
        .id = slot->id,
        .name = slot->name,
        .backend = "fake",
        .runtime = "",
        .image = "",
        .state = "ready",
        .reason = "",
        .workspace = "/workspace",
        .network = "none",
        .languages = languages,
        .language_count = 2,
        .worker_pid = 7,
    };
}

void fleet_status(struct fleet *f, const char *id, fleet_info_fn done, void *arg)
{
    size_t slot = slot_of(f, id);
    put_off(f, DUE_INFO, slot < SANDBOXES ? 0 : -ERR_GONE, slot, arg)->info = done;
}

void fleet_list(struct fleet *f, const char *owner,
                void (*each)(void *arg, const struct fleet_info *info), void *arg)
{
    for (size_t i = 0; i < SANDBOXES; i++) {
        if (f->slots[i].used && strcmp(f->slots[i].owner, owner) == 0) {
            struct fleet_info info;
            fill_info(&f->slots[i], &info);
            each(arg, &info);
        }
    }
}

void fleet_close(struct fleet *f, const char *id, fleet_done_fn done, void *arg)
{
    size_t slot = slot_of(f, id);
    if (slot < SANDBOXES) {
        f->slots[slot].used = false;
    }
    put_off(f, DUE_DONE, 0, slot, arg)->done = done;
}

bool fleet_retire(struct fleet *f, const char *id)
{
    return slot_of(f, id) < SANDBOXES && f->slots[slot_of(f, id)].used;
}

struct fleet_call *fleet_run(struct fleet *f, const char *id, const struct fleet_op *op,
                             fleet_outcome_fn done, void *arg)
{
    size_t slot = slot_of(f, id);
    struct fleet_call *call =
        put_off(f, DUE_RUN, slot < SANDBOXES ? 0 : -ERR_SANDBOX_NOT_FOUND, slot, arg);
    call->outcome = done;
    call->op = op->kind;
    if (op->kind == OP_EVAL) {
        call->hint = op->data.len > 0 ? op->data.data[0] : ' ';
    } else {
        call->hint = op->path != NULL ? op->path[0] : ' ';
    }
    return call;
}

void fleet_cancel(struct fleet_call *call)
{
    call->cancelled = true;
}

/* ---- executions ---- */

static struct execution *find_execution(struct fleet *f, const char *owner, const char *id)
{
    for (size_t i = 0; i < EXECUTIONS; i++) {
        struct execution *e = &f->executions[i];
        if (e->id[0] != '\0' && strcmp(e->id, id) == 0 && strcmp(e->owner, owner) == 0) {
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
    struct execution *e = &f->executions[f->begun++ % EXECUTIONS];
    *e = (struct execution){.slot = slot_of(f, id)};
    snprintf(e->id, sizeof(e->id), "x%llu", (unsigned long long)f->begun);
    snprintf(e->owner, sizeof(e->owner), "%s", owner);
    e->hint = op->data.len > 0 ? op->data.data[0] : ' ';
    snprintf(ret_id, FLEET_ID_SIZE, "%s", e->id);
}

struct fleet_await *fleet_await(struct fleet *f, const char *owner, const char *execution,
                                uint64_t wait_ms, fleet_outcome_fn done, void *arg)
{
    struct execution *e = find_execution(f, owner, execution);
    int rc = e == NULL ? -ERR_EXECUTION_NOT_FOUND : e->slot < SANDBOXES ? 0 : -ERR_GONE;
    struct fleet_call *call = put_off(f, DUE_RUN, rc, e != NULL ? e->slot : SANDBOXES, arg);
    call->outcome = done;
    call->op = OP_EVAL;
    if (e != NULL) {
        call->hint = e->hint;
        call->cancelled = e->cancelled;
        call->running = e->hint == 'r' && !e->cancelled && wait_ms != FLEET_WAIT_FOR_EVER;
        memcpy(call->execution, e->id, sizeof(e->id));
    }
    return (struct fleet_await *)call;
}

void fleet_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output)
{
    (void)every_ms;
    ((struct fleet_call *)await)->output = output;
}

void fleet_await_quiet(struct fleet_await *await, uint64_t quiet_ms)
{
}

void fleet_input(struct fleet *f, const char *owner, const char *execution,
                 const struct fleet_input *in, fleet_input_fn done, void *arg)
{
    const struct fleet_input_state state = {.next = in->data.len};
    done(arg, 0, &state, NULL, "");
}

void fleet_told(struct fleet *f, const char *owner, const char *execution, uint64_t out_bytes,
                uint64_t err_bytes)
{
}

void fleet_await_end(struct fleet_await *await)
{
    ((struct fleet_call *)await)->running = true;
}

int fleet_stop(struct fleet *f, const char *owner, const char *execution, struct err *err)
{
    struct execution *e = find_execution(f, owner, execution);
    if (e == NULL) {
        return err_set(err, ERR_EXECUTION_NOT_FOUND, "no such execution");
    }
    e->cancelled = true;
    for (struct fleet_call *call = f->first; call != NULL; call = call->next) {
        call->cancelled = call->cancelled || strcmp(call->execution, e->id) == 0;
    }
    return 0;
}

void fleet_executions(struct fleet *f, const char *owner, const char *id,
                      void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg)
{
    for (size_t i = 0; i < EXECUTIONS; i++) {
        const struct execution *e = &f->executions[i];
        if (e->id[0] != '\0' && e->slot == slot_of(f, id) && strcmp(e->owner, owner) == 0) {
            const struct msg_output end = {.state = OP_DONE, .status = OP_STATUS_OK};
            const struct fleet_outcome outcome = {
                .op = e->id, .sandbox = id, .language = "python", .state = OP_DONE, .end = &end};
            each(arg, &outcome);
        }
    }
}

int fleet_find_default(struct fleet *f, const char *owner, const char *session, const char **ret_id)
{
    (void)f, (void)owner, (void)session, (void)ret_id;
    return -ERR_SANDBOX_NOT_FOUND; /* no earlier server */
}

void fleet_shutdown(struct fleet *f, enum fleet_end end, void (*done)(void *arg), void *arg)
{
    (void)end;
    while (fake_fleet_step(f)) {
    }
    memset(f->slots, 0, sizeof(f->slots)); /* empty for the next input */
    memset(f->executions, 0, sizeof(f->executions));
    f->made = 0;
    f->begun = 0;
    done(arg);
}

void fleet_doctor(struct fleet *f,
                  void (*each)(void *arg, const char *backend, const struct msg_probed *result),
                  void (*done)(void *arg), void *arg)
{
    (void)f;
    (void)each;
    done(arg);
}

static enum op_status status_of(const struct fleet_call *call)
{
    if (call->cancelled) {
        return OP_STATUS_CANCELLED;
    }
    switch (call->hint) {
    case 'e':
        return OP_STATUS_ERROR;
    case 't':
        return OP_STATUS_TIMEOUT;
    case 'm':
        return OP_STATUS_MEMORY;
    case 'c':
        return OP_STATUS_CRASHED;
    case 'f':
        return OP_STATUS_FAILED;
    default:
        return OP_STATUS_OK;
    }
}

static void end_run(struct fleet *f, const struct fleet_call *call, const struct slot *slot)
{
    static const char text[] = "out\xff\0\x1b \xf0\x9f\x98\x80\n";
    struct msg_output end = {
        .state = OP_DONE,
        .status = status_of(call),
        .interpreter = OP_INTERPRETER_KEPT,
        .has_result = call->op == OP_EVAL,
        .result = view_bytes(text, sizeof(text)),
        .error_name = view_of("Error"),
        .error_message = view_bytes(text, sizeof(text)),
        .traceback = view_bytes(text, sizeof(text)),
        .fail_code = ERR_PATH,
        .file_type = FILE_TYPE_FILE,
        .file_size = 10,
    };
    const struct msg_output none = {.state = OP_RUNNING};
    struct fleet_outcome outcome = {
        .op = call->execution[0] != '\0' ? call->execution : "operation",
        .language = "python",
        .state = call->running ? OP_RUNNING : OP_DONE,
        .sandbox = slot->id,
        .out = view_bytes(text, call->op == OP_FILE_LIST ? 0 : sizeof(text)),
        .err = view_bytes(text, sizeof(text)),
        .out_bytes = sizeof(text),
        .err_bytes = sizeof(text),
        .end = call->running ? &none : &end,
        .duration_us = 1234,
    };
    if (call->output != NULL) {
        const struct fleet_output output = {.op = outcome.op,
                                            .out = outcome.out,
                                            .err = outcome.err,
                                            .out_new = 5000,
                                            .err_new = sizeof(text),
                                            .out_bytes = 5000,
                                            .err_bytes = sizeof(text)};
        call->output(call->arg, &output);
    }
    if (f->events != NULL && call->op == OP_EVAL) {
        f->events->files(f->events_arg, slot->owner, slot->id, slot->name);
        f->events->execution(f->events_arg, slot->owner, outcome.op);
    }
    call->outcome(call->arg, 0, &outcome, NULL, NULL);
}

bool fake_fleet_step(struct fleet *f)
{
    struct fleet_call *call = f->first;
    if (call == NULL) {
        return false;
    }
    f->first = call->next;
    if (f->first == NULL) {
        f->last = &f->first;
    }
    struct err err = ERR_INIT;
    const struct slot gone = {.id = "gone"};
    const struct slot *slot = call->slot < SANDBOXES ? &f->slots[call->slot] : &gone;
    if (call->rc < 0) {
        err_set(&err, (enum err_code) - call->rc, "refused");
    }
    switch (call->kind) {
    case DUE_INFO: {
        struct fleet_info info;
        struct fleet_progress progress = {"a step that takes long: \xff", 1, 2};
        if (call->progress != NULL) {
            call->progress(call->arg, &progress);
        }
        fill_info(slot, &info);
        call->info(call->arg, call->rc, call->rc < 0 ? NULL : &info, &err, "a hint");
        break;
    }
    case DUE_DONE:
        call->done(call->arg, call->rc, &err, "");
        break;
    case DUE_RUN:
        if (call->rc < 0) {
            call->outcome(call->arg, call->rc, NULL, &err, "a hint");
        } else {
            end_run(f, call, slot);
        }
        break;
    }
    free(call);
    return true;
}
