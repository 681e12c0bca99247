/*
 * Every cap of the system in one place, with its unit and its reason.
 */
#ifndef CLOISTER_PROTO_LIMITS_H
#define CLOISTER_PROTO_LIMITS_H

/* --- what a client may send ------------------------------------------------------------------ */
#define LIMIT_LINE_BYTES (16u << 20) /* one JSON-RPC line; more is never legitimate */
#define LIMIT_JSON_DEPTH 64          /* tool arguments are flat; cJSON recurses */
#define LIMIT_CALLS      256         /* pending calls per client; the default of --max-calls */
#define LIMIT_KEPT_EACH                                                                            \
    (64u << 20) /* of the requests of one principal, tasks too: arguments are kept till their end  \
                 */
#define LIMIT_KEPT_ALL     (256u << 20) /* of those of all principals */
#define LIMIT_SMALL_PARAMS (256u << 10) /* params of a request without content of the client */
#define LIMIT_BATCH_TEXT   (16u << 20)  /* of those answers together */
#define LIMIT_BATCH        64 /* messages in one JSON-RPC batch, whose answers are collected */
#define LIMIT_OUT_QUEUE                                                                            \
    (32u << 20) /* bytes queued to a client that does not read: then we stop reading it */

/* --- HTTP ------------------------------------------------------------------------------------ */
#define LIMIT_HTTP_HEAD   (32u << 10) /* request line and headers, and what is received at once */
#define LIMIT_HTTP_BODIES (64u << 20) /* of all requests together, till they are answered */
#define LIMIT_HTTP_OUTPUT                                                                          \
    (256u << 20) /* of all responses together, till libmicrohttpd and the kernel have them */
#define LIMIT_PORT_BODIES                                                                          \
    (32u << 20) /* of requests to ports of sandboxes: the rest of LIMIT_HTTP_BODIES is for others  \
                 */
#define LIMIT_PORT_BODIES_EACH                                                                     \
    (16u << 20)                     /* of them to sandboxes of one principal: the largest body */
#define LIMIT_PORT_OPEN      64     /* requests to ports that are not answered yet */
#define LIMIT_PORT_OPEN_EACH 32     /* of them to sandboxes of one principal */
#define TIME_PORT_IDLE_MS    600000 /* a WebSocket on which nothing was said so long is cut */
#define LIMIT_HTTP_RATE      (64u << 10) /* bytes of a body that extend its timeout by one second */
#define TIME_HTTP_HEAD_MS    5000 /* a head is whole this long after its first line, likewise */
#define TIME_HTTP_INPUT_MS                                                                         \
    30000 /* a request is whole this long after its first line or, the first, its connection */
#define TIME_HTTP_OUTPUT_MS 60000 /* timeout of a client that reads nothing of a response */
#define TIME_HTTP_LINGER_MS 2000  /* how long we read from a connection that we close */

/* --- messages -------------------------------------------------------------------------------- */
#define LIMIT_NAME 64          /* identifiers, names, versions, in bytes */
#define LIMIT_PATH 4096        /* PATH_MAX */
#define LIMIT_TEXT 4096        /* one or two sentences for people */
#define LIMIT_CODE (12u << 20) /* code or stdin or file content of one operation */
#define LIMIT_INPUT                                                                                \
    (256u << 10) /* stdin that one INPUT brings, and that waits for a program to read it */
#define LIMIT_CHUNK                                                                                \
    (256u << 10) /* output bytes per stream in one reply: bounds latency and memory of a hop */
#define LIMIT_RESULT (256u << 10) /* text of a last expression, or a traceback */
#define LIMIT_LIST   256          /* items of a list field (env, args, languages, warnings) */
#define LIMIT_ITEM   (64u << 10)  /* bytes of one list item: an environment value may be long */
#define LIMIT_FRAME  (26u << 20)  /* one encoded message: code + stdin + lists, with room */
#define LIMIT_FIELDS 48           /* fields of one message */
#define LIMIT_PLACES 32           /* places where one probe has looked for an engine */
#define LIMIT_RECORD                                                                               \
    (48u << 10) /* of a sandbox, as an engine keeps it: an item of a list, and in base64 well      \
                   below the 256 KiB that a cluster has for it */
#define LIMIT_TAKEN  16 /* sandboxes of a dead server that another takes over at a time */
#define LIMIT_SHARES 16 /* directories of this host that one sandbox sees */
#define LIMIT_AGENT_FRAME                                                                          \
    (2u << 20) /* one message from an agent: both chunks, result, traceback, with room */

/* --- agent ----------------------------------------------------------------------------------- */
#define LIMIT_OP_OUTPUT (256u << 10) /* unacknowledged bytes per stream; then the writer blocks */
#define LIMIT_OP_KEPT                                                                              \
    (256u << 10) /* first bytes per stream that an OP_EVAL keeps even when they are acknowledged,  \
                    till its outcome is: for a supervisor that takes over */
#define LIMIT_OPS 64 /* operations that an agent keeps, running and finished together */
#define LIMIT_PROGRAMS                                                                             \
    8 /* runs of programs side by side in a sandbox; others wait for their turn */
#define LIMIT_RUNNERS       64    /* languages that are run by programs */
#define LIMIT_RUNNER_WORDS  32    /* words of one command of these */
#define LIMIT_RUNNER_BYTES  4096  /* of those words together */
#define LIMIT_DISPLAYS      128   /* representations that one run may display */
#define LIMIT_DISPLAY_PATH  512   /* bytes of the path of one, which the driver chooses */
#define LIMIT_CHANGED       100   /* files that an outcome names as created or changed */
#define LIMIT_ENTRIES       10000 /* directory entries in one list_files */
#define LIMIT_INSTALLS      4     /* times that code in a sandbox may wait for packages at once */
#define LIMIT_INSTALL_WORDS 32    /* packages that it names each time */
#define LIMIT_INSTALL_WORD  256   /* bytes of one of these */
#define LIMIT_INSTALL_TEXT                                                                         \
    (64u << 10) /* of an answer, while code in the sandbox does not read it */
#define LIMIT_AGENT_QUEUE                                                                          \
    (32u << 20) /* code and stdin of operations that wait for their turn, together */
#define LIMIT_AGENT_REPLIES                                                                        \
    (1u << 20) /* replies a worker has not read: above it the agent reads no requests */
#define LIMIT_AGENT_PENDING 4 /* connections without HELLO; a new one replaces the oldest */

#define LIMIT_PRELOADS    16  /* modules that a new interpreter imports before it is given away */
#define LIMIT_MODULE_NAME 128 /* bytes of the name of one, with its dots */

#define LIMIT_CONNECTS 16 /* connections to ports of one sandbox; a browser makes 6 for a page */

/* --- door ------------------------------------------------------------------------------------ */
#define LIMIT_DOOR_CHANNELS 32 /* connections out of one sandbox at a time; pip has 1, npm 15 */
#define LIMIT_DOOR_WINDOW                                                                          \
    (256u << 10) /* bytes of one connection and direction that are not taken yet */
#define LIMIT_DOOR_CHUNK (32u << 10) /* of these, in one message: what else is said waits less */
#define LIMIT_DOOR_RULES 64          /* hosts that one sandbox is let out to */
#define LIMIT_DOOR_QUEUE                                                                           \
    (16u << 20) /* unread by an agent: all windows together, twice; an honest one stays below */

/* --- time ------------------------------------------------------------------------------------ */
#define TIME_HELLO_MS     10000   /* for a new worker or agent to say HELLO */
#define TIME_OPEN_MS      60000   /* creating a sandbox; progress restarts it */
#define TIME_OPEN_MAX_MS  1800000 /* creating in all: enough for some GB over a slow line */
#define TIME_PRELOAD_MS   60000   /* importing one module; nobody waits for it */
#define TIME_CLOSE_MS     4000    /* closing one; the process exit budget is 5 s */
#define TIME_INTERRUPT_MS 2000    /* from SIGINT at the deadline to SIGKILL of the tree */
#define TIME_BACKSTOP_MS  2000    /* how long after the worker's kill the agent kills by itself */
#define TIME_RUNNING_MS   10    /* what ran for so long is reported; shorter runs cost no message */
#define TIME_HEARTBEAT_MS 1000  /* between pings while calls are in flight */
#define TIME_SILENCE_MS   4000  /* a worker that is silent for this long is replaced */
#define TIME_WAIT_MS      20000 /* longest wait of one long poll; the caller repeats it */
#define TIME_DOOR_HEAD_MS 30000 /* for the head of a request to come */
#define TIME_DOOR_REACH_MS                                                                         \
    12000 /* to look a name up and to connect: less than the 15 s that pip waits, so it hears why  \
           */
#define TIME_DOOR_TRY_MS  4000   /* to connect to one address while there are others */
#define TIME_DOOR_IDLE_MS 300000 /* a connection on which nothing travels; a server may think */
#define TIME_DOOR_HALF_MS 60000  /* the same when the program in the sandbox says nothing more */
#define TIME_GRACE_MS     10000  /* default time after which a sandbox without a supervisor ends */
#define TIME_ADOPT_MS                                                                              \
    2500 /* a worker that outlived its supervisor greets the next one within this: time for two    \
            dialers */

#endif
