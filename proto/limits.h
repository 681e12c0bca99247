/*
 * Every cap of the system in one place, with its unit and its reason.
 */
#ifndef CLOISTER_PROTO_LIMITS_H
#define CLOISTER_PROTO_LIMITS_H

/* --- what a client may send ------------------------------------------------------------------ */
#define LIMIT_LINE_BYTES (16u << 20) /* one JSON-RPC line; above it nobody means well */
#define LIMIT_JSON_DEPTH 64          /* tool arguments are flat; cJSON recurses */
#define LIMIT_CALLS      256         /* calls in flight per client, unless --max-calls says else */
#define LIMIT_KEPT_EACH                                                                            \
    (64u << 20) /* of the requests of one principal, tasks too: arguments are kept till their end  \
                 */
#define LIMIT_KEPT_ALL     (256u << 20) /* of those of all principals */
#define LIMIT_SMALL_PARAMS (256u << 10) /* a request that carries no content of a client's own */
#define LIMIT_BATCH_TEXT   (16u << 20)  /* of those answers together */
#define LIMIT_BATCH        64 /* messages in one JSON-RPC batch: their answers are gathered */
#define LIMIT_OUT_QUEUE                                                                            \
    (32u << 20) /* bytes queued to a client that does not read: then we stop reading it */

/* --- HTTP ------------------------------------------------------------------------------------ */
#define LIMIT_HTTP_HEAD   (32u << 10) /* request line and headers, and what is received at once */
#define LIMIT_HTTP_BODIES (64u << 20) /* of all requests together, till they are answered */
#define LIMIT_HTTP_OUTPUT                                                                          \
    (256u << 20) /* of all responses together, till libmicrohttpd and the kernel have them */
#define LIMIT_HTTP_RATE (64u << 10) /* bytes of a body that buy its client one more second */
#define TIME_HTTP_INPUT_MS                                                                         \
    30000 /* a request is whole this long after its first line or, the first, its connection */
#define TIME_HTTP_OUTPUT_MS 60000 /* a client that takes nothing of a response for this long */
#define TIME_HTTP_LINGER_MS 2000  /* what is still sent to a connection that we close is read */

/* --- messages -------------------------------------------------------------------------------- */
#define LIMIT_NAME 64          /* identifiers, names, versions, in bytes */
#define LIMIT_PATH 4096        /* PATH_MAX */
#define LIMIT_TEXT 4096        /* one human-readable sentence or two */
#define LIMIT_CODE (12u << 20) /* code or stdin or file content of one operation */
#define LIMIT_CHUNK                                                                                \
    (256u << 10) /* output bytes per stream in one reply: bounds latency and memory of a hop */
#define LIMIT_RESULT (256u << 10) /* text of a last expression, or a traceback */
#define LIMIT_LIST   256          /* items of a list field (env, args, languages, warnings) */
#define LIMIT_ITEM   (64u << 10)  /* bytes of one list item: an environment value may be long */
#define LIMIT_FRAME  (26u << 20)  /* one encoded message: code + stdin + lists, with room */
#define LIMIT_FIELDS 48           /* fields of one message */
#define LIMIT_AGENT_FRAME                                                                          \
    (2u << 20) /* one message from an agent: both chunks, result, traceback, with room */

/* --- agent ----------------------------------------------------------------------------------- */
#define LIMIT_OP_OUTPUT (256u << 10) /* unacknowledged bytes per stream; then the writer blocks */
#define LIMIT_OP_KEPT                                                                              \
    (256u << 10) /* first bytes per stream that an OP_EVAL keeps even when they are acknowledged,  \
                    till its outcome is: for a supervisor that takes over */
#define LIMIT_OPS 64 /* operations an agent remembers, running and finished together */
#define LIMIT_PROGRAMS                                                                             \
    8 /* runs of programs side by side in a sandbox; others wait for their turn */
#define LIMIT_RUNNERS      64    /* languages that are run by programs */
#define LIMIT_RUNNER_WORDS 32    /* words of one of their commands */
#define LIMIT_RUNNER_BYTES 4096  /* of those words together */
#define LIMIT_DISPLAYS     128   /* representations that one run may show */
#define LIMIT_DISPLAY_PATH 512   /* bytes of the path of one: its driver chooses it */
#define LIMIT_CHANGED      100   /* files that an outcome names as created or changed */
#define LIMIT_ENTRIES      10000 /* directory entries in one list_files */
#define LIMIT_AGENT_QUEUE                                                                          \
    (32u << 20) /* code and stdin of operations that wait for their turn, together */
#define LIMIT_AGENT_REPLIES                                                                        \
    (1u << 20) /* replies a worker has not read: above it the agent reads no requests */
#define LIMIT_AGENT_PENDING 4 /* connections that have not said hello; the oldest makes room */

/* --- time ------------------------------------------------------------------------------------ */
#define TIME_HELLO_MS     10000   /* a spawned worker or started agent says hello within this */
#define TIME_OPEN_MS      60000   /* creating a sandbox; news of progress starts it anew */
#define TIME_OPEN_MAX_MS  1800000 /* all in all: some GB of an image over a slow line, no more */
#define TIME_CLOSE_MS     4000    /* closing one; the process exit budget is 5 s */
#define TIME_INTERRUPT_MS 2000    /* from SIGINT at the deadline to SIGKILL of the tree */
#define TIME_BACKSTOP_MS  2000    /* how much later than the worker's kill the agent acts itself */
#define TIME_HEARTBEAT_MS 1000    /* between pings while calls are in flight */
#define TIME_SILENCE_MS   4000    /* a worker silent for this long is replaced (found within 5 s) */
#define TIME_WAIT_MS      20000   /* longest wait of one long poll; the caller asks again */
#define TIME_GRACE_MS     10000   /* a sandbox without its supervisor ends after this, by default */
#define TIME_ADOPT_MS                                                                              \
    2000 /* a worker that outlived its supervisor greets the next one within this: time for two    \
            dialers */

#endif
