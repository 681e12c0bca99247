#!/usr/bin/env python3
"""Who may include what. The table is the architecture: which directory may use which others, in layers
without a circle, and which directories and files may use third-party libraries."""

import os
import re
from collections import Counter

from source import ROOT, files, read, report
from tap import Suite

# The directories of ours that a directory may use beside itself; lower layers stand further down. `fleet.h`
# is the contract of the fleet for all layers above it, so they may include it.
BELOW = "common common/net proto"
FLEET_H = "supervisor/fleet/fleet.h"
ROOMS = {
    "common": "",
    "common/kernel": "common",
    "common/net": "common",
    "common/io": "common common/kernel",
    "proto": "common",
    "worker/agent/process": BELOW,
    "worker/agent/link": BELOW + " worker/agent/process",
    "worker/agent/run": BELOW + " worker/agent/process worker/agent/link",
    "worker/agent/files": BELOW + " worker/agent/process worker/agent/link worker/agent/run",
    "worker/agent/interp": BELOW + " worker/agent/process worker/agent/link worker/agent/run",
    "worker/agent/installs": BELOW + " worker/agent/process worker/agent/link worker/agent/run worker/agent/interp",
    "worker/agent/door": BELOW + " worker/agent/link",
    "worker/agent": BELOW + " worker/agent/process worker/agent/link worker/agent/run worker/agent/files worker/agent/interp worker/agent/installs worker/agent/door",
    "worker/backend": "common common/io",
    "worker/backend/oci/host": "common common/kernel common/io worker/backend",
    "worker/backend/oci": "common common/kernel common/io worker/backend worker/backend/oci/host",
    "worker/backend/docker": "common common/io worker/backend",
    "worker/backend/kubernetes": "common common/io worker/backend",
    "worker/backend/e2b": "common common/net common/io worker/backend",
    "worker/backend/fake": "common common/io worker/backend",
    "worker/door": BELOW + " common/io",
    "worker": BELOW + " common/io worker/backend worker/door",
    # everything counts
    "supervisor/metrics": "common",
    "supervisor/base/local": BELOW + " common/io",
    "supervisor/base": BELOW + " common/io supervisor/base/local",
    "supervisor/languages": BELOW + " common/io",
    # the fleet knows nothing of calls, of tools, of MCP
    "supervisor/fleet/host": BELOW + " common/io supervisor/base",
    "supervisor/fleet/workers": BELOW + " common/kernel common/io supervisor/base supervisor/fleet/host",
    "supervisor/fleet/state": BELOW + " common/io supervisor/base supervisor/fleet/host supervisor/fleet/workers",
    "supervisor/fleet/engine": BELOW + " supervisor/base supervisor/fleet/host supervisor/fleet/workers supervisor/fleet/state",
    "supervisor/fleet/sandbox": BELOW + " supervisor/base supervisor/fleet/host supervisor/fleet/workers supervisor/fleet/state supervisor/fleet/engine supervisor/metrics",
    "supervisor/fleet": BELOW + " supervisor/base supervisor/fleet/host supervisor/fleet/state supervisor/fleet/engine supervisor/fleet/sandbox supervisor/metrics",
    "supervisor/calls": BELOW + " supervisor/base supervisor/fleet supervisor/fleet/host supervisor/fleet/sandbox supervisor/metrics",
    # HTTP knows nothing of sandboxes
    "supervisor/web/http": BELOW + " supervisor/base supervisor/metrics",
    "supervisor/web/files": "common supervisor/web/http",
    "supervisor/web/ports": "common common/io proto supervisor/metrics supervisor/web/http",
    "supervisor/web/auth": "common common/io supervisor/base supervisor/web/http supervisor/web/files supervisor/metrics",
    # the protocol knows nothing of what is done with it, nor of how it travels
    "supervisor/mcp/wire": "common common/io",
    "supervisor/mcp": BELOW + " common/io supervisor/base supervisor/mcp/wire supervisor/metrics",
    "supervisor/web/mcp": BELOW + " common/io supervisor/base supervisor/mcp supervisor/mcp/wire supervisor/web/http supervisor/web/auth supervisor/metrics",
    "supervisor/audit": "common supervisor/metrics supervisor/web/http",
    "supervisor/traces": "common common/io supervisor/metrics supervisor/web/http",
    "supervisor/links": BELOW + " supervisor/fleet supervisor/web/http",
    "supervisor/packages": BELOW + " supervisor/base supervisor/fleet supervisor/metrics",
    "supervisor/results": BELOW + " common/io supervisor/base supervisor/fleet supervisor/links",
    "supervisor/resources": BELOW + " common/io supervisor/base supervisor/fleet supervisor/links supervisor/results supervisor/mcp supervisor/mcp/wire",
    "supervisor/tools": BELOW + " common/io supervisor/base supervisor/base/local supervisor/fleet supervisor/languages supervisor/links supervisor/packages supervisor/results supervisor/web/http",
    "supervisor/compat": BELOW + " common/io supervisor/base supervisor/fleet supervisor/languages supervisor/links supervisor/packages supervisor/results supervisor/tools supervisor/web/http",
    # what operators ask of a server; views are those of the tools
    "supervisor/control": BELOW + " common/io supervisor/base supervisor/fleet supervisor/page supervisor/results supervisor/tools supervisor/web/http supervisor/audit",
    "supervisor/page": "common supervisor/web/http",
    # what hosts show people of results
    "supervisor/view": BELOW + " supervisor/mcp supervisor/results",
    "supervisor/front": BELOW + " common/io supervisor/base supervisor/base/local supervisor/fleet supervisor/languages supervisor/links supervisor/packages supervisor/results supervisor/resources supervisor/tools supervisor/metrics"
    " supervisor/audit supervisor/traces supervisor/control supervisor/page supervisor/view supervisor/compat supervisor/mcp supervisor/mcp/wire supervisor/web/http supervisor/web/auth supervisor/web/mcp supervisor/web/files supervisor/web/ports",
    "supervisor/cli": BELOW + " common/kernel common/io supervisor/base supervisor/fleet supervisor/fleet/host supervisor/fleet/engine supervisor/web/http supervisor/web/auth supervisor/audit",
    # clients of the control API, which know nothing of the server
    "supervisor/commands": BELOW + " common/io supervisor/base supervisor/cli supervisor/fleet/host",
    "supervisor": BELOW + " supervisor/commands supervisor/base supervisor/fleet/state supervisor/front supervisor/cli",
}

# The third-party libraries that a directory may use; none if it is not listed.
LOOP, JSON, BOTH = r"uv\.h", r"cjson/cJSON\.h", r"uv\.h|cjson/cJSON\.h"
LIBRARIES = {
    "common/io": LOOP,
    "worker": LOOP,
    "worker/door": LOOP,
    "worker/backend": BOTH,
    "worker/backend/oci": BOTH,
    "worker/backend/docker": BOTH,
    "worker/backend/kubernetes": BOTH,
    "worker/backend/e2b": BOTH,
    "worker/backend/fake": BOTH,
    "supervisor": LOOP,
    "supervisor/base": JSON,
    "supervisor/fleet": LOOP,
    "supervisor/fleet/engine": LOOP,
    "supervisor/fleet/host": LOOP,
    "supervisor/fleet/sandbox": LOOP,
    "supervisor/fleet/state": LOOP,
    "supervisor/fleet/workers": LOOP,
    "supervisor/calls": LOOP,
    "supervisor/audit": BOTH,
    "supervisor/traces": BOTH,
    "supervisor/web/http": LOOP,
    "supervisor/web/ports": LOOP,
    "supervisor/web/auth": BOTH,
    "supervisor/web/mcp": BOTH,
    "supervisor/mcp": BOTH,
    "supervisor/mcp/wire": BOTH,
    "supervisor/packages": BOTH,
    "supervisor/results": JSON,
    "supervisor/resources": JSON,
    "supervisor/tools": JSON,
    "supervisor/compat": JSON,
    "supervisor/view": JSON,
    "supervisor/control": BOTH,
    "supervisor/front": BOTH,
    "supervisor/cli": BOTH,
    "supervisor/commands": BOTH,
}

# single files with narrower or wider rights than their directory: (our own headers, libraries)
DEMO = (r"supervisor/cli/(demo|pipe_client)\.h|supervisor/base/result_form\.h|(common|common/io)/[^/]+\.h", JSON)
IPC = (r"common/(io/|kernel/)?[^/]+\.h", r"uv\.h|nng/.*")
HTTP = (r"common/(io/)?[^/]+\.h|config\.h", LOOP)
EXCEPTIONS = {
    "common/confine.c": (r"common/[^/]+\.h|checked\.h", r"(?!)"),
    "common/sm.c": (r"common/[^/]+\.h|checked\.h", r"(?!)"),
    "common/io/ipc_client.c": IPC,
    "common/io/ipc_close.c": IPC,
    "common/io/ipc_endpoint.c": IPC,
    "common/io/ipc_endpoint.h": IPC,
    "common/io/ipc_server.c": IPC,
    "common/io/json.c": (r"common/(io/)?[^/]+\.h", JSON),
    "common/io/json.h": (r"common/(io/)?[^/]+\.h", JSON),
    "common/io/http_easy.c": HTTP,
    "common/io/http_lib.h": (r"common/[^/]+\.h", r"curl/curl\.h"),
    "common/io/http_tunnel.c": HTTP,
    "supervisor/cli/demo.c": DEMO,
    "supervisor/cli/pipe_client.c": DEMO,
    "supervisor/cli/pipe_client.h": DEMO,
    "supervisor/web/http/mhd.h": (r"common/[^/]+\.h", r"microhttpd\.h|gnutls/.*"),
    "worker/backend/docker/tar.c": (r"(worker/backend/docker|worker/backend|common)/[^/]+\.h", r"archive(_entry)?\.h"),
    "common/io/yaml_tree.c": (r"common/(io/)?[^/]+\.h", r"yaml\.h"),
    "proto/codec.c": (r"(proto|common)/[^/]+\.(h|def)", r"msgpack.*"),
    # it opens the requested backend, so it names them
}

THIRD_PARTY = re.compile(r"(uv|nng/.*|nng|cjson/.*|cJSON|msgpack.*|curl/.*|microhttpd|gnutls/.*|archive.*|yaml)(\.h)?$")
THREADS = re.compile(r"pthread\.h|threads\.h")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)

suite = Suite()


def rule_for(path):
    """Returns the rule as patterns: (our headers, libraries)."""
    if path.startswith("tests/"):
        return r".*", r".*"
    if path in EXCEPTIONS:
        return EXCEPTIONS[path]
    room = os.path.dirname(path)
    if room not in ROOMS:
        return r"(?!)", r"(?!)"
    rooms = "|".join([room, *ROOMS[room].split()])
    own = rf"({rooms})/[^/]+\.(h|def|inc)|config\.h"
    if room.startswith("supervisor/fleet/"):
        own += "|" + re.escape(FLEET_H)
    return own, LIBRARIES.get(room, r"(?!)")


def includes(path):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), read(path), flags=re.DOTALL)
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def judge(path, quote, name):
    """The reason why this include is refused, or None."""
    own, third = rule_for(path)
    if ".." in name.split("/"):
        return "goes up by ../"
    if quote == '"':
        if name not in ("config.h", "checked.h") and not os.path.exists(os.path.join(ROOT, name)):
            return "is not a path from the root"
        return None if re.fullmatch(own, name) else "is not for this directory"
    if path.startswith("worker/agent/") and THREADS.fullmatch(name):
        return "brings threads into the agent"
    if THIRD_PARTY.match(name) and not re.fullmatch(third, name):
        return "is not for this file"
    return None


@suite.case("every include is one that its directory may have")
def layering():
    problems = []
    for path in files(".c", ".h", ".def"):
        for line, quote, name in includes(path):
            why = judge(path, quote, name)
            if why:
                problems.append(f"{path}:{line}: {name} {why}")
    report(problems)


@suite.case("rooms use each other in one direction only")
def layers():
    below = {room: set(uses.split()) for room, uses in ROOMS.items()}
    problems = [f"{room} may use {other}, which is no room" for room, uses in below.items() for other in uses if other not in below]
    free = {room for room in below if not below[room]}
    while len(free) < len(below):
        more = {room for room in below if below[room] <= free} - free
        if not more:
            problems.append("a circle among " + ", ".join(sorted(set(below) - free)))
            break
        free |= more
    report(problems)


@suite.case("each directory with sources is a room of the table, of 40 files at most")
def rooms():
    found = files(".c", ".h", ".def", under=("common", "proto", "supervisor", "worker"))
    sizes = Counter(os.path.dirname(path) for path in found)
    report(
        [f"{room}: is not in the table of rooms" for room in sizes if room not in ROOMS]
        + [f"{room}: {n} files, more than 40" for room, n in sizes.items() if n > 40]
    )


@suite.case("the table itself refuses what it should refuse")
def table():
    forbidden = [
        ("common/buf.c", '"', "proto/msg.h"),
        ("common/buf.c", "<", "uv.h"),
        ("common/io/loop.c", "<", "nng/nng.h"),
        ("common/io/http_client.c", "<", "curl/curl.h"),
        ("common/io/ipc.h", "<", "nng/nng.h"),
        ("common/io/loop.c", '"', "supervisor/fleet/fleet.h"),
        ("proto/msg.c", "<", "msgpack.h"),
        ("worker/agent/run/op.c", '"', "common/io/json.h"),
        ("worker/agent/run/op.c", "<", "pthread.h"),
        ("worker/agent/process/spawn.c", '"', "worker/agent/run/op.h"),
        ("worker/backend/oci/oci.c", '"', "proto/msg.h"),
        ("worker/backend/docker/docker.c", '"', "worker/backend/oci/oci.h"),
        ("worker/backend/docker/docker.c", "<", "curl/curl.h"),
        ("worker/worker.c", '"', "supervisor/fleet/fleet.h"),
        ("supervisor/main.c", '"', "worker/backend/backend.h"),
        ("supervisor/main.c", '"', "../common/buf.h"),
        ("supervisor/cli/demo.c", '"', "proto/msg.h"),
        ("supervisor/fleet/sandbox/sandbox.c", '"', "supervisor/calls/call.h"),
        ("supervisor/fleet/host/host.c", '"', "supervisor/fleet/sandbox/sandbox.h"),
        ("supervisor/calls/call.c", '"', "supervisor/tools/tool.h"),
        ("supervisor/tools/tool.c", '"', "supervisor/mcp/server.h"),
        ("supervisor/web/http/listener.c", '"', "supervisor/fleet/fleet.h"),
    ]
    report([f"{path} may include {name}" for path, q, name in forbidden if not judge(path, q, name)])


@suite.case("each file includes its own header first, then the system's, then ours")
def order():
    problems = []
    for path in files(".c", under=("common", "proto", "supervisor", "worker")):
        found = list(includes(path))
        own = path[:-2] + ".h"
        has_own = os.path.exists(os.path.join(ROOT, own))
        if has_own and (not found or found[0][2] != own):
            problems.append(f"{path}: does not begin with {own}")
        rest = found[1:] if has_own else found
        ours_seen = False
        for line, quote, name in rest:
            # tables and templates are included wherever they are expanded
            if name.endswith((".def", ".inc", "_define.h", "_template.h")):
                continue
            if quote == "<" and ours_seen:
                problems.append(f"{path}:{line}: <{name}> comes after our own headers")
            ours_seen = ours_seen or quote == '"'
    report(problems)


@suite.case("our own headers stand in the order of their names")
def sorted_headers():
    problems = []
    for path in files(".c", ".h"):
        before, last = "", 0
        for line, quote, name in includes(path):
            beside = quote == '"' and line == last + 1
            if beside and name.endswith(".h") and before.endswith(".h") and name < before and not name.endswith(("_define.h", "_template.h")):
                problems.append(f"{path}:{line}: {name} comes before {before}")
            before, last = (name, line) if quote == '"' else ("", 0)
    report(problems)


@suite.case("header guards are named after the path")
def guards():
    problems = []
    for path in files(".h", under=("common", "proto", "supervisor", "worker")):
        guard = "CLOISTER_" + re.sub(r"[/.]", "_", path).upper()
        if f"#ifndef {guard}\n#define {guard}\n" not in read(path):
            problems.append(f"{path}: no guard {guard}")
    report(problems)


suite.run()
