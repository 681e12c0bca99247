/*
 * The rows of the table, by topic. The order within a topic is the order of --help.
 */
#include "supervisor/base/options.h"

#include <ctype.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/base/result_form.h"

#define FIELD(name) offsetof(struct config, name)

/* All backend names after "auto", and a description of each that releases have. */
#define BACKEND(name, about, ...) " " #name
static const char backend_names[] = BACKEND_AUTO
#include "common/backends.def"
    ;
#undef BACKEND
#define BACKEND(name, about, ...) ", " #name " (" about ")"
static const char backends_about[] =
    "what isolates sandboxes: " BACKEND_AUTO " (the first of these that works)"
#define BACKENDS_OF_RELEASES
#include "common/backends.def"
    ;
#undef BACKENDS_OF_RELEASES
#undef BACKEND

/* clang-format off */
const struct option options[] = {
    /* ---- what isolates sandboxes ---- */
    {"backend", OPTION_TOPIC_PLACE, OPTION_CHOICE, FIELD(backend), BACKEND_AUTO, 0, 0, "NAME",
     backends_about, backend_names},
    {"engine", OPTION_TOPIC_PLACE, OPTION_TEXT, FIELD(engine), "", 0, 0, "ADDRESS",
     "where the engine is, unix:///path or tcp://host:port; default: looked for as the docker "
     "command does (DOCKER_HOST, context, usual sockets); kubernetes: the path of a kubeconfig, "
     "CONTEXT@/PATH, a context or in-cluster, default as kubectl does (KUBECONFIG, the pod's "
     "service account, ~/.kube/config); e2b: a domain or the URL of a control plane, default "
     "E2B_API_URL, E2B_DOMAIN or e2b.app", NULL},
    {"runtime", OPTION_TOPIC_PLACE, OPTION_TEXT, FIELD(runtime), "", 0, 0, "NAME",
     "OCI runtime by name or path; docker: the engine's name for it (runsc, kata, ...); "
     "kubernetes: a RuntimeClass; default: the one "
     "of runc and crun that enforces most, or the engine's own; with auto it means oci", NULL},
    {"image", OPTION_TOPIC_PLACE, OPTION_TEXT, FIELD(image), "", 0, 0, "IMAGE",
     "root file system of sandboxes; docker and kubernetes: an image reference, default " IMAGE_DOCKER_DEFAULT "; oci: a "
     "directory, default this host's /usr; e2b: a template, default code-interpreter-v1; with auto a path (/dir or ./dir) means oci, anything else docker",
     NULL},
    {"pull", OPTION_TOPIC_PLACE, OPTION_CHOICE, FIELD(pull), "missing", 0, 0, "WHEN",
     "whether the engine fetches an image that it does not have: missing or never",
     "missing never"},
    {"allow-images", OPTION_TOPIC_PLACE, OPTION_PATTERNS, FIELD(allow_images), "", 0, 0, "PATTERNS",
     "image references that clients may choose, separated by commas, * for any characters but /, "
     "NAME/* for all below NAME; default: any", NULL},
    {"image-dir", OPTION_TOPIC_PLACE, OPTION_TEXT, FIELD(image_dir), "", 0, 0, "DIR",
     "directory of root directories, which clients may choose from by name; default: no choice; with "
     "auto it means oci", NULL},
    {"strict", OPTION_TOPIC_PLACE, OPTION_FLAG, FIELD(strict), "no", 0, 0, NULL,
     "fail rather than go without a limit that this host cannot enforce", NULL},

    /* ---- limits of a new sandbox ---- */
    {"memory-mb", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(memory_mb), "512", 16, 1048576, "MIB",
     "memory of a sandbox; there is no swap on top, and files in /workspace and /tmp count as memory", NULL},
    {"cpus", OPTION_TOPIC_LIMITS, OPTION_MILLI, FIELD(cpu_milli), "1", 10, 1024000, "N",
     "CPU cores of a sandbox; may be a fraction", NULL},
    {"pids", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(pids), "256", 8, 1000000, "N",
     "processes and threads of a sandbox", NULL},
    {"disk-mb", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(disk_mb), "0", 0, 1048576, "MIB",
     "size of a sandbox's workspace, which is part of its memory and has to leave room for programs; 0: half "
     "of the memory, less if that is below 512 MiB; /tmp and home have up to 64 MiB each", NULL},
    {"files", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(files), "1024", 128, 1048576, "N",
     "open files of a process in a sandbox", NULL},
    {"io-read-mbps", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(io_read_mbps), "0", 0, 1048576, "MIB",
     "most that a sandbox reads from the host's disk in a second; 0: no limit", NULL},
    {"io-write-mbps", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(io_write_mbps), "0", 0, 1048576, "MIB",
     "most that a sandbox writes to the host's disk in a second, which are packages and shares; 0: no limit", NULL},
    {"io-iops", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(io_iops), "0", 0, 1000000000, "N",
     "most reads, and most writes, of the host's disk by a sandbox in a second; 0: no limit", NULL},
    {"io-device", OPTION_TOPIC_LIMITS, OPTION_TEXT, FIELD(io_device), "", 0, 0, "DEVICE",
     "the disk that the --io options are about, such as /dev/sda; docker: of the engine's host, and without it they do "
     "not hold; oci, by default: those that have the files of sandboxes", NULL},
    {"max-memory-mb", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(max_memory_mb), "0", 0, 1048576, "MIB",
     "most memory that a client may ask for a sandbox; 0: all of --memory-budget-mb", NULL},
    {"max-cpus", OPTION_TOPIC_LIMITS, OPTION_MILLI, FIELD(max_cpu_milli), "0", 0, 1024000, "N",
     "most CPU cores that a client may ask for a sandbox; 0: as many as this machine has", NULL},
    {"max-pids", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(max_pids), "0", 0, 1000000, "N",
     "most processes and threads that a client may ask for a sandbox; 0: 1024, or --pids if that is more", NULL},
    {"max-disk-mb", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(max_disk_mb), "0", 0, 1048576, "MIB",
     "largest workspace that a client may ask for, and that a sandbox gets; 0: what fits --max-memory-mb", NULL},
    {"memory-budget-mb", OPTION_TOPIC_LIMITS, OPTION_NUMBER, FIELD(memory_budget_mb), "0", 0, 16777216, "MIB",
     "memory of all sandboxes together, the sum of their limits; 0: this machine's, less an eighth", NULL},
    {"allow-network", OPTION_TOPIC_LIMITS, OPTION_FLAG, FIELD(allow_network), "no", 0, 0, NULL,
     "clients may create sandboxes that reach the network, though not this host's loopback", NULL},

    /* ---- time ---- */
    {"timeout-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(timeout_s), "60", 1, 86400, "S",
     "deadline of an execution that names none and has no open stdin", NULL},
    {"max-timeout-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(max_timeout_s), "3600", 1, 86400, "S",
     "longest deadline that a call may ask for", NULL},
    {"sync-budget-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(sync_budget_s), "45", 1, 3600, "S",
     "a call waits so long for its code to end; then it answers that the code is running", NULL},
    {"task-after-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(task_after_s), "5", 0, 3600, "S",
     "code that takes longer becomes a task, for clients that can handle one", NULL},
    {"ttl-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(ttl_s), "1800", 1, 2592000, "S",
     "a sandbox closes after this long without a call; with --compat python-env 3600 unless given", NULL},
    {"max-lifetime-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(max_lifetime_s), "86400", 1, 31536000, "S",
     "a sandbox closes this long after its creation, whatever it is doing", NULL},
    {"grace-seconds", OPTION_TOPIC_TIME, OPTION_NUMBER, FIELD(grace_s), "10", 1, 3600, "S",
     "a sandbox lives on for this long without a server", NULL},

    /* ---- what is offered ---- */
    {"max-sandboxes", OPTION_TOPIC_OFFER, OPTION_NUMBER, FIELD(max_sandboxes), "32", 1, CONFIG_SANDBOXES_MOST, "N",
     "most sandboxes at a time", NULL},
    {"pool", OPTION_TOPIC_OFFER, OPTION_TEXT, FIELD(pool), "auto", 0, 0, "N[:IMAGE]",
     "sandboxes that are made in advance, so that a new one is there at once; at most --max-sandboxes, to which they give "
     "way; of IMAGE, as --image has it, else of --image; the first is made when a call has needed a sandbox; 0: none; "
     "auto: 1, with --http 4", NULL},
    {"preload", OPTION_TOPIC_OFFER, OPTION_TEXTS, FIELD(preload), "", 0, 0, "MODULES",
     "Python modules that sandboxes of the pool import in advance, such as numpy,pandas: code imports them in no time, and "
     "sees nothing of them before; at most 16; one that cannot be imported is told in the log and left out", NULL},
    {"max-calls", OPTION_TOPIC_OFFER, OPTION_NUMBER, FIELD(max_calls), "256", 1, 65536, "N",
     "most calls of one client in flight; more are refused with error -32010 until some have ended", NULL},
    {"compat", OPTION_TOPIC_OFFER, OPTION_LIST, FIELD(compat), "", 0, 0, "PROFILE",
     "offer another server's tools, by their names and with their results, beside our own; may be repeated: "
     "code-sandbox, docker-interpreter, python-env or its later version python-env@later, python-sandbox",
     "code-sandbox docker-interpreter python-env python-env@later python-sandbox"},
    {"default-sandbox", OPTION_TOPIC_OFFER, OPTION_CHOICE, FIELD(default_sandbox), "auto", 0, 0, "WHOSE",
     "the sandbox of calls that name none: the principal's one; the session's own, where there are sessions, else a new "
     "one for each call; or a new one for each call; auto: the session's for clients over HTTP that have sessions, else "
     "the principal's. A sandbox that such a call made is evicted when places run out, once it has been idle for a minute",
     "auto principal session call"},
    {"results", OPTION_TOPIC_OFFER, OPTION_CHOICE, FIELD(results), "auto", 0, 0, "FORM",
     "what clients get of a tool's result: text, as their models are to read it; structured, fields beside it for "
     "programs; auto: text, but for clients that are better off with both. ?results=FORM in the URL or "
     "\"" RESULT_FORM_META "\" in a request's _meta says it for one client or one request", RESULT_FORM_WORDS},
    {"languages", OPTION_TOPIC_OFFER, OPTION_TEXT, FIELD(languages), "", 0, 0, "FILE",
     "JSON file of further languages, or of other commands for known ones", NULL},
    {"share", OPTION_TOPIC_OFFER, OPTION_TEXTS, FIELD(share), "", 0, 0, "DIR[=NAME][:ro|:rw][:ask]",
     "show a directory of this host in sandboxes, at /shared/NAME (default: its own name); :ro (default) or :rw, "
     "where what code writes belongs to whoever runs the server; :ask: only in sandboxes that ask for it; may be "
     "repeated, or several with commas", NULL},
    {"local-files", OPTION_TOPIC_OFFER, OPTION_TEXT, FIELD(local_files), "", 0, 0, "DIRS",
     "directories of this host, separated by commas, from which upload_file may take files by local_path, and "
     "into which save_file may put them if :rw is behind the directory; default: none", NULL},

    /* ---- HTTP ---- */
    {"http", OPTION_TOPIC_HTTP, OPTION_TEXT, FIELD(http), "", 0, 0, "[HOST:]PORT",
     "serve MCP over HTTP there, at /mcp and for old clients at /sse, instead of stdio; without HOST on "
     "127.0.0.1 only", NULL},
    {"stdio", OPTION_TOPIC_HTTP, OPTION_FLAG, FIELD(stdio), "no", 0, 0, NULL,
     "with --http: serve stdio, too; the client that started it owns it: when its pipe ends, all ends", NULL},
    {"public-url", OPTION_TOPIC_HTTP, OPTION_TEXT, FIELD(public_url), "", 0, 0, "URL",
     "HTTP: where clients find us, if a proxy is in front: https://host[/path], without /mcp", NULL},
    {"tls-cert", OPTION_TOPIC_HTTP, OPTION_TEXT, FIELD(tls_cert), "", 0, 0, "FILE",
     "HTTP: certificate chain, PEM; needs --tls-key", NULL},
    {"tls-key", OPTION_TOPIC_HTTP, OPTION_TEXT, FIELD(tls_key), "", 0, 0, "FILE",
     "HTTP: private key of the certificate, PEM", NULL},
    {"max-connections", OPTION_TOPIC_HTTP, OPTION_NUMBER, FIELD(max_connections), "1024", 4, 65536, "N",
     "HTTP: most connections at a time", NULL},
    {"max-sessions", OPTION_TOPIC_HTTP, OPTION_NUMBER, FIELD(max_sessions), "1024", 1, 65536, "N",
     "HTTP: most sessions of clients at a time", NULL},
    {"session-idle-seconds", OPTION_TOPIC_HTTP, OPTION_NUMBER, FIELD(session_idle_s), "3600", 1, 2592000, "S",
     "HTTP: a session that nobody uses ends after this", NULL},
    {"link-seconds", OPTION_TOPIC_HTTP, OPTION_NUMBER, FIELD(link_s), "3600", 1, 604800, "S",
     "a link to a file of a sandbox (HTTP), or to a port, is good for so long", NULL},
    {"ports", OPTION_TOPIC_HTTP, OPTION_FLAG, FIELD(ports), "no", 0, 0, NULL,
     "web servers in sandboxes can be reached by a browser, at addresses that the tool expose_port gives; without HTTP a listener on 127.0.0.1 is opened for the first one", NULL},
    {"port-wait-seconds", OPTION_TOPIC_HTTP, OPTION_NUMBER, FIELD(port_wait_s), "60", 1, 3600, "S",
     "with --ports: a web server in a sandbox has so long to begin its answer, and to read on while there is more of a request", NULL},

    /* ---- who may use it over HTTP ---- */
    {"tokens", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(tokens), "", 0, 0, "FILE",
     "HTTP: bearer tokens and whom they stand for; SIGHUP reads it again", NULL},
    {"oauth-issuer", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(oauth_issuer), "", 0, 0, "URL",
     "HTTP: authorization server whose tokens are taken", NULL},
    {"oauth-introspection", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(oauth_introspection), "", 0, 0, "URL",
     "HTTP: where that server tells what a token is worth (RFC 7662)", NULL},
    {"oauth-client", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(oauth_client), "", 0, 0, "FILE",
     "HTTP: file with ID:SECRET that we show there", NULL},
    {"oauth-scopes", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(oauth_scopes), "", 0, 0, "LIST",
     "HTTP: scopes that a token must have, separated by blanks", NULL},
    {"allow-hosts", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(allow_hosts), "", 0, 0, "LIST",
     "HTTP: names in the Host header besides our address, those in the certificate and that of --public-url, separated by commas", NULL},
    {"allow-origins", OPTION_TOPIC_ACCESS, OPTION_TEXT, FIELD(allow_origins), "", 0, 0, "LIST",
     "HTTP: origins of web pages that may call us, separated by commas; default: those of this machine", NULL},
    {"insecure-http", OPTION_TOPIC_ACCESS, OPTION_FLAG, FIELD(insecure_http), "no", 0, 0, NULL,
     "HTTP: listen on other than this machine's own addresses though nobody needs a token, or though tokens "
     "travel without TLS", NULL},
    {"principal-sandboxes", OPTION_TOPIC_ACCESS, OPTION_NUMBER, FIELD(principal_sandboxes), "0", 0, CONFIG_SANDBOXES_MOST, "N",
     "HTTP: most sandboxes of one principal, 0: a fair share, all if there is only one principal; the file of tokens may say otherwise", NULL},
    {"principal-memory-mb", OPTION_TOPIC_ACCESS, OPTION_NUMBER, FIELD(principal_memory_mb), "0", 0, 16777216, "MIB",
     "HTTP: memory of all sandboxes of one principal, 0: a fair share of --memory-budget-mb, all of it if there is only one principal", NULL},
    {"principal-calls", OPTION_TOPIC_ACCESS, OPTION_NUMBER, FIELD(principal_calls), "0", 0, 65536, "N",
     "HTTP: requests of one principal in flight, 0: no limit", NULL},

    /* ---- packages ---- */
    {"packages", OPTION_TOPIC_PACKAGES, OPTION_FLAG, FIELD(packages), "yes", 0, 0, NULL,
     "packages can be installed, by an installer of its own that reaches their sources and nothing else", NULL},
    {"build-packages", OPTION_TOPIC_PACKAGES, OPTION_FLAG, FIELD(build_packages), "no", 0, 0, NULL,
     "also packages that run code of their own while they are installed, in the installer: sources "
     "that are built (setup.py) and the install scripts of npm; without it only what comes ready-made", NULL},
    {"package-index", OPTION_TOPIC_PACKAGES, OPTION_TEXT, FIELD(package_index), "", 0, 0, "URL",
     "where pip finds packages; default: its own index", NULL},
    {"package-dir", OPTION_TOPIC_PACKAGES, OPTION_TEXT, FIELD(package_dir), "", 0, 0, "DIR",
     "directory of wheels on this host, for pip; without --package-index nothing else is asked then; every user "
     "must be able to read it", NULL},
    {"npm-registry", OPTION_TOPIC_PACKAGES, OPTION_TEXT, FIELD(npm_registry), "", 0, 0, "URL",
     "where npm finds packages; default: its own registry", NULL},
    {"package-hosts", OPTION_TOPIC_PACKAGES, OPTION_TEXT, FIELD(package_hosts), "", 0, 0, "HOST,...",
     "what installers reach besides the index, the registry and the hosts of their files: HOST or HOST:PORT (443), "
     "separated by commas, such as the host to which an index of your own sends for files", NULL},
    {"package-proxy", OPTION_TOPIC_PACKAGES, OPTION_TEXT, FIELD(package_proxy), "", 0, 0, "URL",
     "proxy through which packages are fetched: http://HOST:PORT, with USER:PASSWORD@ if it wants that", NULL},
    {"package-ca", OPTION_TOPIC_PACKAGES, OPTION_TEXT, FIELD(package_ca), "", 0, 0, "FILE",
     "PEM file of certificates that the installer trusts instead of the usual ones; every user must be able to "
     "read it", NULL},
    {"packages-mb", OPTION_TOPIC_PACKAGES, OPTION_NUMBER, FIELD(packages_mb), "1024", 1, 1048576, "MIB",
     "most that the packages of one sandbox take, for each manager; a file takes 4 KiB at least; on container engines "
     "code that --build-packages lets run is not held to it", NULL},
    {"install-timeout-seconds", OPTION_TOPIC_PACKAGES, OPTION_NUMBER, FIELD(install_timeout_s), "600", 1, 86400, "S",
     "an installation that takes longer is stopped", NULL},

    /* ---- this server ---- */
    {"config", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(config_file), "", 0, 0, "FILE",
     "read options from this file (YAML: name: value) instead of /etc/cloister/cloister.conf and "
     "~/.config/cloister/cloister.conf; none: from no file", NULL},
    {"runtime-dir", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(runtime_dir), "", 0, 0, "DIR",
     "for sockets and records; default: /run/cloister for root, else $XDG_RUNTIME_DIR/cloister "
     "or /tmp/cloister-UID", NULL},
    {"instance", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(instance), "", 0, 0, "NAME",
     "name of this server's sandboxes: the next server with it takes them over; default: they end with this "
     "one, with --http main", NULL},
    {"front-lease-seconds", OPTION_TOPIC_SERVER, OPTION_NUMBER, FIELD(front_lease_s), "0", 0, 900, "S",
     "several servers with this option in one namespace take over each other's sandboxes: those of one that is "
     "gone, when it has not renewed its Lease for so long; 15 is usual, 0 is no", NULL},
    {"worker-path", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(worker_path), "", 0, 0, "FILE",
     "the cloister-worker program; default: found beside this one", NULL},
    {"agent-path", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(agent_path), "", 0, 0, "FILE",
     "the cloister-agent program; default: found beside this one", NULL},
    {"audit-log", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(audit_log), "", 0, 0, "FILE",
     "append a line of JSON for each tool call and what operators do: who, what, how it ended, how long it took, and "
     "the SHA-256 of the code; with HTTP SIGHUP opens it again", NULL},
    {"audit-code", OPTION_TOPIC_SERVER, OPTION_FLAG, FIELD(audit_code), "no", 0, 0, NULL,
     "with --audit-log: the code itself as well, at most 64 KiB of each call", NULL},
    {"otlp-endpoint", OPTION_TOPIC_SERVER, OPTION_TEXT, FIELD(otlp_endpoint), "", 0, 0, "URL",
     "send a trace of each tool call to this collector, by OTLP over HTTP as JSON, at URL/v1/traces", NULL},
    {"log-level", OPTION_TOPIC_SERVER, OPTION_LEVEL, FIELD(log_level), "info", 0, 0, "LEVEL",
     "what goes to stderr: error, warn, info or debug", "error warn info debug"},
};
/* clang-format on */

const size_t option_count = sizeof(options) / sizeof(options[0]);

static const struct {
    const char *name, *title;
} topics[] = {
    [OPTION_TOPIC_PLACE] = {"place", "what isolates sandboxes"},
    [OPTION_TOPIC_LIMITS] = {"limits", "limits of a new sandbox"},
    [OPTION_TOPIC_TIME] = {"time", "time"},
    [OPTION_TOPIC_OFFER] = {"offer", "what is offered"},
    [OPTION_TOPIC_HTTP] = {"http", "serving over HTTP"},
    [OPTION_TOPIC_ACCESS] = {"access", "who may use it over HTTP"},
    [OPTION_TOPIC_PACKAGES] = {"packages", "packages"},
    [OPTION_TOPIC_SERVER] = {"server", "this server"},
};

const struct option *option_find(struct view name)
{
    for (size_t i = 0; i < option_count; i++) {
        if (view_is(name, options[i].name)) {
            return &options[i];
        }
    }
    return NULL;
}

bool option_is_text(const struct option *o)
{
    return o->type == OPTION_TEXT || o->type == OPTION_CHOICE || o->type == OPTION_PATTERNS ||
           o->type == OPTION_LIST || o->type == OPTION_TEXTS;
}

const char *option_topic_name(enum option_topic topic)
{
    return topics[topic].name;
}

const char *option_topic_title(enum option_topic topic)
{
    return topics[topic].title;
}

char *option_flag(const struct option *o)
{
    return alloc_printf("--%s%s%s", o->name, o->value_name != NULL ? " " : "",
                        o->value_name != NULL ? o->value_name : "");
}

char *option_help(const struct option *o)
{
    CLEANUP_FREE char *takers = backend_rows_that_take(o->name, false);
    return alloc_printf("%s%s%s", takers, takers[0] != '\0' ? ": " : "", o->help);
}

char *option_env_name(const struct option *o)
{
    char *name = alloc_printf("CLOISTER_%s", o->name);
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    }
    return name;
}
