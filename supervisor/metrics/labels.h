/*
 * The labels of metrics, and all values that each of them can have. The sets are closed: nothing
 * that a client or a program chooses becomes a label, so the number of series is fixed when this is
 * compiled.
 *
 * Thread: none of its own.
 */
#ifndef CLOISTER_SUPERVISOR_METRICS_LABELS_H
#define CLOISTER_SUPERVISOR_METRICS_LABELS_H

/* X(LABEL, ID, text); the order within a set is that of the page */

#define METRIC_NONE_VALUES(X) X(NONE, ONLY, "")

/* Our own tools; the last one stands for all tools of --compat. */
#define METRIC_TOOL_VALUES(X)                                                                      \
    X(TOOL, CANCEL_EXECUTION, "cancel_execution")                                                  \
    X(TOOL, CHECK_PACKAGE_STATUS, "check_package_status")                                          \
    X(TOOL, CLOSE_SANDBOX, "close_sandbox")                                                        \
    X(TOOL, CREATE_RUN_CLOSE, "create_run_close")                                                  \
    X(TOOL, CREATE_SANDBOX, "create_sandbox")                                                      \
    X(TOOL, EXECUTE_CODE, "execute_code")                                                          \
    X(TOOL, EXPOSE_PORT, "expose_port")                                                            \
    X(TOOL, GET_EXECUTION, "get_execution")                                                        \
    X(TOOL, GET_SANDBOX_STATUS, "get_sandbox_status")                                              \
    X(TOOL, INSTALL_PACKAGE, "install_package")                                                    \
    X(TOOL, LIST_FILES, "list_files")                                                              \
    X(TOOL, READ_FILE, "read_file")                                                                \
    X(TOOL, SAVE_FILE, "save_file")                                                                \
    X(TOOL, UPLOAD_FILE, "upload_file")                                                            \
    X(TOOL, WRITE_FILE, "write_file")                                                              \
    X(TOOL, WRITE_STDIN, "write_stdin")                                                            \
    X(TOOL, COMPAT, "compat")

/* How a call ended. From TIMEOUT on as the status of its code; FAILED: with an error of our own
 * list, which METRIC_CODE_VALUES has; INVALID: its arguments were refused; LOST: the server ended
 * before it was answered. */
#define METRIC_OUTCOME_VALUES(X)                                                                   \
    X(OUTCOME, OK, "ok")                                                                           \
    X(OUTCOME, RUNNING, "running")                                                                 \
    X(OUTCOME, ERROR, "error")                                                                     \
    X(OUTCOME, FAILED, "failed")                                                                   \
    X(OUTCOME, INVALID, "invalid")                                                                 \
    X(OUTCOME, LOST, "lost")                                                                       \
    X(OUTCOME, TIMEOUT, "timeout")                                                                 \
    X(OUTCOME, MEMORY_EXCEEDED, "memory_exceeded")                                                 \
    X(OUTCOME, CANCELLED, "cancelled")                                                             \
    X(OUTCOME, CRASHED, "crashed")

/* The codes of failed calls that clients see (err_wire_name()). */
#define METRIC_CODE_VALUES(X)                                                                      \
    X(CODE, INVALID_ARGUMENT, "invalid_argument")                                                  \
    X(CODE, SANDBOX_NOT_FOUND, "sandbox_not_found")                                                \
    X(CODE, SANDBOX_LIMIT, "sandbox_limit")                                                        \
    X(CODE, ENGINE_UNAVAILABLE, "engine_unavailable")                                              \
    X(CODE, IMAGE_NOT_FOUND, "image_not_found")                                                    \
    X(CODE, PATH_INVALID, "path_invalid")                                                          \
    X(CODE, FILE_NOT_FOUND, "file_not_found")                                                      \
    X(CODE, TOO_LARGE, "too_large")                                                                \
    X(CODE, PACKAGE_FAILED, "package_failed")                                                      \
    X(CODE, NETWORK_DISABLED, "network_disabled")                                                  \
    X(CODE, LANGUAGE_UNAVAILABLE, "language_unavailable")                                          \
    X(CODE, EXECUTION_NOT_FOUND, "execution_not_found")                                            \
    X(CODE, SHUTTING_DOWN, "shutting_down")                                                        \
    X(CODE, INTERNAL, "internal")

/* What has no room or no right. */
#define METRIC_REASON_VALUES(X)                                                                    \
    X(REASON, CLIENT_CALLS, "client_calls")                                                        \
    X(REASON, PRINCIPAL_CALLS, "principal_calls")                                                  \
    X(REASON, KEPT_BYTES, "kept_bytes")                                                            \
    X(REASON, SANDBOX_LIMIT, "sandbox_limit")                                                      \
    X(REASON, SANDBOX_OPERATIONS, "sandbox_operations")                                            \
    X(REASON, INSTALLATIONS, "installations")                                                      \
    X(REASON, SESSIONS, "sessions")                                                                \
    X(REASON, CONNECTIONS, "connections")                                                          \
    X(REASON, PORTS, "ports")                                                                      \
    X(REASON, UNAUTHORIZED, "unauthorized")                                                        \
    X(REASON, FORBIDDEN, "forbidden")                                                              \
    X(REASON, HOST_ORIGIN, "host_origin")                                                          \
    X(REASON, GUESSING, "guessing")

/* How an execution ended; LOST: its outcome is not known, or it could not begin. */
#define METRIC_STATUS_VALUES(X)                                                                    \
    X(STATUS, OK, "ok")                                                                            \
    X(STATUS, ERROR, "error")                                                                      \
    X(STATUS, TIMEOUT, "timeout")                                                                  \
    X(STATUS, MEMORY_EXCEEDED, "memory_exceeded")                                                  \
    X(STATUS, CANCELLED, "cancelled")                                                              \
    X(STATUS, CRASHED, "crashed")                                                                  \
    X(STATUS, LOST, "lost")

#define METRIC_STREAM_VALUES(X)                                                                    \
    X(STREAM, STDOUT, "stdout")                                                                    \
    X(STREAM, STDERR, "stderr")

/* States of sandboxes that are still there, as get_sandbox_status names them. */
#define METRIC_STATE_VALUES(X)                                                                     \
    X(STATE, CREATING, "creating")                                                                 \
    X(STATE, READY, "ready")                                                                       \
    X(STATE, RECOVERING, "recovering")                                                             \
    X(STATE, FAILED, "failed")                                                                     \
    X(STATE, CLOSING, "closing")

#define METRIC_SUCCESS_VALUES(X)                                                                   \
    X(SUCCESS, OK, "ok")                                                                           \
    X(SUCCESS, FAILED, "failed")

#define METRIC_CLAIM_VALUES(X)                                                                     \
    X(CLAIM, HIT, "hit")                                                                           \
    X(CLAIM, MISS, "miss")

/* Why a worker had to be started again. */
#define METRIC_RESTART_VALUES(X)                                                                   \
    X(RESTART, DIED, "died")                                                                       \
    X(RESTART, REFUSED, "refused")

#define METRIC_TURN_VALUES(X)                                                                      \
    X(TURN, WAITING, "waiting")                                                                    \
    X(TURN, RUNNING, "running")

#define METRIC_HTTP_VALUES(X)                                                                      \
    X(HTTP, SUCCESS, "2xx")                                                                        \
    X(HTTP, REDIRECT, "3xx")                                                                       \
    X(HTTP, CLIENT_ERROR, "4xx")                                                                   \
    X(HTTP, SERVER_ERROR, "5xx")

#define METRIC_DROP_VALUES(X)                                                                      \
    X(DROP, QUEUE_FULL, "queue_full")                                                              \
    X(DROP, WRITE_FAILED, "write_failed")

#define METRIC_SPAN_DROP_VALUES(X)                                                                 \
    X(SPAN_DROP, QUEUE_FULL, "queue_full")                                                         \
    X(SPAN_DROP, SEND_FAILED, "send_failed")

#define METRIC_VERSION_VALUES(X) X(VERSION, THIS, CLOISTER_VERSION)

/* X(ID, name) */
#define METRIC_LABELS(X)                                                                           \
    X(NONE, "")                                                                                    \
    X(TOOL, "tool")                                                                                \
    X(OUTCOME, "outcome")                                                                          \
    X(CODE, "code")                                                                                \
    X(REASON, "reason")                                                                            \
    X(STATUS, "status")                                                                            \
    X(STREAM, "stream")                                                                            \
    X(STATE, "state")                                                                              \
    X(SUCCESS, "outcome")                                                                          \
    X(CLAIM, "result")                                                                             \
    X(RESTART, "reason")                                                                           \
    X(TURN, "state")                                                                               \
    X(HTTP, "code")                                                                                \
    X(DROP, "reason")                                                                              \
    X(SPAN_DROP, "reason")                                                                         \
    X(VERSION, "version")

/* METRIC_TOOL_CANCEL_EXECUTION, …, METRIC_TOOL_COUNT, and so on */
#define METRIC_VALUE_ID(label, id, text) METRIC_##label##_##id,
#define METRIC_ENUM(label, name)                                                                   \
    enum { METRIC_##label##_VALUES(METRIC_VALUE_ID) METRIC_##label##_COUNT };
METRIC_LABELS(METRIC_ENUM)
#undef METRIC_ENUM
#undef METRIC_VALUE_ID

#endif
