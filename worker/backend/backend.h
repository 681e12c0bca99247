/*
 * The interface between a worker and the backend of its sandbox.
 *
 * A backend creates the sandbox with the agent running in it, opens byte streams to that agent,
 * reports usage, and destroys the sandbox. It never interprets the bytes of a stream.
 *
 * Threads: everything here runs on the worker's loop thread. No call blocks. Each calls its
 * callback exactly once and never from inside the call itself; if the backend object is closed
 * first, pending callbacks are dropped. One call of each kind may be pending at a time. Strings are
 * borrowed during the call only. Errors: `struct err` of common/err.h; `hint` says what a person
 * can do (may be empty).
 */
#ifndef CLOISTER_WORKER_BACKEND_BACKEND_H
#define CLOISTER_WORKER_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/backends.h"
#include "common/err.h"
#include "common/place.h"
#include "common/view.h"

#define BACKEND_HINT_MAX      512
#define BACKEND_UNAPPLIED_MAX 16
#define BACKEND_TRIED_MAX     16
#define BACKEND_WORKSPACE     "/workspace"
#define BACKEND_APP           "/app"
#define BACKEND_APP_WORKSPACE "/app/results" /* in a sandbox with app_dir */
/* The package directory in a sandbox: it outlives installers and is removed with the sandbox that
 * they install for. It has world-writable subdirectories `python` and `node` from the beginning; a
 * sandbox sees them read-only. Each may be a separate mount, so files cannot be renamed from one to
 * the other, and no other file can be beside them. */
#define BACKEND_PACKAGES   "/packages"
#define BACKEND_MOUNTS_MAX 16
#define BACKEND_SHARES     "/shared" /* where directories of this host are shown, by their names */
#define BACKEND_SHARES_MAX 16

struct backend_limits {
    uint64_t memory_bytes; /* no swap on top */
    uint64_t cpu_milli;    /* 1000 = one CPU */
    uint64_t pids;         /* processes of user code, without the agent's own */
    uint64_t disk_bytes;   /* size of the workspace */
    uint64_t files;        /* open descriptors per process */
    /* of the disks of this host or of the engine's, in a second; 0: not limited */
    uint64_t io_read_bytes, io_write_bytes;
    uint64_t io_ops; /* reads, and as many writes */
};

static inline bool backend_limits_io(const struct backend_limits *l)
{
    return l->io_read_bytes > 0 || l->io_write_bytes > 0 || l->io_ops > 0;
}

/* Writes among them, which some kernels limit only where they go past the cache. */
static inline bool backend_limits_writes(const struct backend_limits *l)
{
    return l->io_write_bytes > 0 || l->io_ops > 0;
}

/* A file or directory of this host that an installer sees read-only: mounted, or copied at
 * creation. Sandboxes have none. A file must be in a directory below the root, whose other content
 * may be hidden. */
struct backend_mount {
    const char *host_path;
    const char *inside_path; /* absolute */
};

/* A directory of this host that a sandbox sees at BACKEND_SHARES/name (share.h has the rules). */
struct backend_share {
    const char *host_path; /* absolute, without symbolic links */
    const char *name;
    bool writable;
};

/* The sandbox to create, attach to or probe. Borrowed during the call. */
struct backend_spec {
    const char *id;         /* sandbox id: [a-z0-9]+ */
    const char *dir;        /* private directory of this sandbox, exists, 0700 */
    const char *shared_dir; /* instance directory that the mapped root of sandboxes may traverse */
    const char *agent_path; /* agent binary on this host */
    struct place place;     /* of the engine, as a probe returned it or somebody named it */
    const char *runtime;    /* name or path; "" = the backend's choice */
    uint64_t mode;          /* from a probe of the same runtime; 0 = unknown */
    const char *image;      /* "" = the backend's default */
    struct backend_limits limits;
    const char *io_device; /* whose I/O is limited; NULL or "": the backend finds out */
    struct view_list env;  /* "K=V" for the agent's children */
    uint64_t grace_ms;     /* the agent ends the sandbox after this long without a link */
    uint64_t lifetime_s;   /* after which it may be ended, as a second net; 0 = never */
    uint64_t told;         /* a hash of what the agent is told and no backend sees */
    bool claim;   /* attach: another server has made it for nobody, and it is to become ours */
    bool strict;  /* fail instead of leaving a limit unapplied */
    bool pull;    /* fetch an image that the engine does not have */
    bool network; /* network access to what this host reaches, except its loopback */
    bool door; /* no interface, but the agent passes what is said to BACKEND_DOOR_PORT to its worker
                */
    /* The sandbox whose package directory is mounted at BACKEND_PACKAGES; "" = none. If it is `id`,
     * create makes it and destroy removes it; else it exists, and is -ERR_GONE if it does not. */
    const char *packages;
    bool packages_write; /* an installer: user code may write there */
    /* What each of the subdirectories may take, if code of packages may write there; 0: only
     * programs of ours do, which count. */
    uint64_t packages_bytes;
    /* user code has a small writable directory BACKEND_APP, and its workspace is
     * BACKEND_APP_WORKSPACE */
    bool app_dir;
    struct backend_mount mounts[BACKEND_MOUNTS_MAX];
    size_t mount_count;
    struct backend_share shares[BACKEND_SHARES_MAX];
    size_t share_count;

    /* Called with the progress of long steps, such as pulling an image; may be NULL. `text` is one
     * line for people; done and total are bytes, total 0 if unknown. */
    void (*progress)(void *arg, const char *text, uint64_t done, uint64_t total);
    void *progress_arg; /* both must stay valid until create is done */

    /* Called if the sandbox is seen to be another server's by now; may be NULL. Both must stay
     * valid until the object is closed. */
    void (*taken)(void *arg);
    void *taken_arg;
};

/* The workspace of a sandbox as seen from inside. */
static inline const char *backend_workspace(const struct backend_spec *spec)
{
    return spec->app_dir ? BACKEND_APP_WORKSPACE : BACKEND_WORKSPACE;
}

/* The limits that are not applied, for an error. One or two are told in full, more by their names:
 * "memory, cpus and private devices", since each has to be there. */
#define BACKEND_NAMES_MAX 440
void backend_unapplied_names(const char *const *unapplied, size_t count,
                             char ret[BACKEND_NAMES_MAX]);
#define BACKEND_HINT_STRICT                                                                        \
    "`cloister doctor` says why of each, and what to do; without --strict sandboxes go without "   \
    "them"

/* Owned by the receiver of a callback only during that callback. */
struct backend_info {
    const char *runtime;   /* path or name actually used */
    const char *image;     /* what the root is made of, for people: "host:/usr", a directory, … */
    const char *workspace; /* as seen from inside; NULL = backend_workspace() */
    const char *unapplied[BACKEND_UNAPPLIED_MAX]; /* "memory: no memory cgroup …" */
    size_t unapplied_count;
};

/* One place that was looked at. */
struct backend_tried {
    const char *origin; /* who says so: "DOCKER_HOST", "the usual socket of Podman" */
    struct place place; /* PLACE_NONE if what is said there is no place */
    const char *answer; /* what came of it, for people */
};

struct backend_probe {
    bool usable;
    struct place place;  /* pass to spec.place; PLACE_NONE if there is none */
    const char *runtime; /* path, or what the engine calls it */
    const char *version; /* first line of `--version`, or "" */
    const char *flaws;   /* what is known against that version; NULL or "" if nothing is */
    const char *reason;  /* why not usable, quoting the runtime; "" if usable */
    const char *hint;    /* what to do about that; NULL or "" if that is not known */
    const char *doubt;   /* usable, but why no sandbox of spec.image may come about; NULL or "" */
    bool left_behind;    /* the trial could not be removed; not usable then */
    uint64_t mode;       /* pass to spec.mode */
    const char *network; /* why spec.network is impossible here, and what to do; NULL: it works */
    const char *unapplied[BACKEND_UNAPPLIED_MAX];
    const char *remedies[BACKEND_UNAPPLIED_MAX]; /* what would make it apply; NULL: nothing does */
    size_t unapplied_count;
    struct backend_tried tried[BACKEND_TRIED_MAX];
    size_t tried_count;
    /* The strongest way that this host allows has passed at once, so another probe would find the
     * same until something of this host changes. */
    bool lasts;
};

struct backend_usage {
    uint64_t memory_bytes;
    uint64_t cpu_us;
    uint64_t pids;
    uint64_t oom_kills;    /* processes killed for memory since creation, or 1 for "some": */
    bool oom_kills_coarse; /* true if it means "some"; the agent may know the number */
};

/* A sandbox that another server had, and is ours now. */
struct backend_taken {
    const char *sandbox;
    struct view record;  /* as `keep` has left it */
    uint64_t generation; /* above those of all workers that it had */
};
#define BACKEND_TAKEN_MAX  16
#define BACKEND_RECORD_MAX (48u << 10) /* of each */

struct backend;

/* A text of -ERR_GONE that begins with this says why in words for the sandbox's owner, who is told
 * it as it is. */
#define BACKEND_ENDED "the sandbox has ended: "

/* rc is 0 or -ERR_*; err is valid when rc < 0. */
typedef void (*backend_done_fn)(void *arg, int rc, const struct err *err, const char *hint);
typedef void (*backend_create_fn)(void *arg, int rc, const struct backend_info *info,
                                  const struct err *err, const char *hint);
typedef void (*backend_probe_fn)(void *arg, const struct backend_probe *probe);
/* fd is a connected, non-blocking, close-on-exec stream owned by the receiver; -1 when rc < 0. */
typedef void (*backend_stream_fn)(void *arg, int rc, int fd, const struct err *err);
/* `more`: others wait, for which the next round need not. */
typedef void (*backend_front_fn)(void *arg, int rc, const struct backend_taken *taken, size_t count,
                                 bool more, const struct err *err);
/* `generation` as in backend_taken, of each of them. */
typedef void (*backend_offers_fn)(void *arg, int rc, const char *const *sandboxes, size_t count,
                                  uint64_t generation, const struct err *err);
#define BACKEND_OFFERS_MAX 32
typedef void (*backend_usage_fn)(void *arg, int rc, const struct backend_usage *usage,
                                 const struct err *err);

struct backend_ops {
    const char *name;

    /* Processes may go on for seconds when destroy has begun, so the agent is told to end before.
     */
    bool ends_late;

    /* Binds a backend object to the loop. Cheap, no side effects. Never NULL. */
    struct backend *(*open)(uv_loop_t *loop);

    /* Runs a trial container with the runtime and removes it. `spec` supplies the directories,
     * agent and runtime; its id names the trial container. */
    void (*probe)(struct backend *b, const struct backend_spec *spec, backend_probe_fn done,
                  void *arg);

    /* Creates and starts the sandbox. On failure nothing of it is left behind. */
    void (*create)(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                   void *arg);

    /* Finds the sandbox that an earlier backend object with the same spec created, e.g. after a
     * crash of the worker. -ERR_GONE if it is not running any more. Changes nothing, but with
     * spec->claim whose it is: -ERR_BUSY if it is not on offer, or somebody was quicker. */
    void (*attach)(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                   void *arg);

    /* Opens one more stream to the agent. -ERR_GONE if the sandbox is not running. */
    void (*stream)(struct backend *b, backend_stream_fn done, void *arg);

    /* Measures usage from outside the sandbox. */
    void (*usage)(struct backend *b, backend_usage_fn done, void *arg);

    /* Returns only the number of memory kills, synchronously, since each start of code needs it;
     * false if there is no sandbox. NULL if the backend would have to ask an engine. */
    bool (*oom_kills)(struct backend *b, uint64_t *ret);

    /* Changes memory and CPU of a running sandbox to those of spec->limits, whose others are as
     * they were. -ERR_CONFIG: here they cannot be changed, and nothing has been; after any other
     * error it is not known which they are. NULL if the backend never can. */
    void (*limit)(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                  void *arg);

    /* Keeps these bytes (copied) beside the sandbox, for other servers of its engine; none: nobody
     * knows of it, so they may claim it, and remove it when this server is gone. -ERR_GONE if it
     * has ended or is theirs. After any other error it is not known whether they may still claim
     * it. NULL if it cannot. */
    void (*keep)(struct backend *b, struct view record, backend_done_fn done, void *arg);

    /* One round of a server among others of its engine, called again and again on an object for
     * nothing else: says that it lives for another lease_ms, and takes over sandboxes of those that
     * have not said so in time. It begins after wait_ms, or as soon as another server ends in
     * order. Of two servers only one ever gets a sandbox. NULL with `keep`. */
    void (*front)(struct backend *b, const struct backend_spec *spec, uint64_t lease_ms,
                  uint64_t wait_ms, backend_front_fn done, void *arg);

    /* The sandboxes like `spec` that other servers have made for nobody, from an object that has
     * done a round. Answers at once if they are others than it said last, else after wait_ms; so
     * that `spec` must be the same each time. May be NULL. */
    void (*offers)(struct backend *b, const struct backend_spec *spec, uint64_t wait_ms,
                   backend_offers_fn done, void *arg);

    /* Says that this server has ended: others take over at once what it has left. The last request
     * to such an object; a round that waits is answered before. NULL with `front`. */
    void (*front_leave)(struct backend *b, backend_done_fn done, void *arg);

    /* Ends the sandbox and removes everything that create made, also after attach, and also the
     * remains of an unfinished creation (then the caller sets spec). Files whose removal takes long
     * may be left in spec->dir, which the caller removes next. Idempotent; an absent sandbox is a
     * success. */
    void (*destroy)(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                    void *arg);

    /* Frees the object; the sandbox, if any, goes on. Pending callbacks are dropped, except that of
     * a probe, whose trial must be ended first. `closed` is called when the last handle is off the
     * loop. */
    void (*close)(struct backend *b, void (*closed)(void *arg), void *arg);
};

/* Every backend starts with this. */
struct backend {
    const struct backend_ops *ops;
};

#define BACKEND(name, about, ...) extern const struct backend_ops backend_##name;
#include "common/backends.def"
#undef BACKEND

/* Built-in backend by name; NULL if there is none. */
const struct backend_ops *backend_find(const char *name);

#endif
