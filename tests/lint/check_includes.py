#!/usr/bin/env python3
"""Who may include what. The table is the architecture: common <- proto <- supervisor | worker |
agent, third-party libraries behind the files meant for them."""

import os
import re

from source import ROOT, files, read, report
from tap import Suite

# directory prefix: (our own headers allowed, third-party headers allowed); the longest prefix wins
RULES = {
    "common/": (r"common/[^/]+\.h", r""),
    "common/io/": (r"common/(io/)?[^/]+\.h", r"uv\.h"),
    "proto/": (r"(proto|common)/[^/]+\.(h|def)", r""),
    "worker/agent/": (r"(worker/agent|proto|common)/[^/]+\.(h|def|inc)|config\.h", r""),
    "worker/backend/": (
        r"(worker/backend|common|common/io)/[^/]+\.(h|inc)|config\.h",
        r"uv\.h|cjson/cJSON\.h",
    ),
    "worker/": (
        r"(worker|proto|common|common/io)/[^/]+\.(h|def)|worker/backend/backend\.h|config\.h",
        r"uv\.h",
    ),
    "supervisor/": (
        r"(supervisor|supervisor/(compat|tools|resources|mcp|web)|proto|common|common/io)/[^/]+\.(h|def|inc)|config\.h",
        r"uv\.h|cjson/cJSON\.h",
    ),
    # the protocol knows nothing of what is done with it, nor of how it travels
    "supervisor/mcp/": (
        r"supervisor/mcp/[^/]+\.(h|def)|supervisor/principal\.h|proto/limits\.h|(common|common/io)/[^/]+\.h|config\.h",
        r"uv\.h|cjson/cJSON\.h",
    ),
    # HTTP knows the protocol layer, and nothing of sandboxes
    "supervisor/web/": (
        r"supervisor/(web|mcp)/[^/]+\.h|supervisor/(principal|config)\.h|proto/limits\.h|(common|common/io)/[^/]+\.h|config\.h",
        r"uv\.h|cjson/cJSON\.h",
    ),
    "tests/": (r".*", r".*"),
}

# one file narrower or wider than its directory
DEMO = (r"supervisor/demo\w*\.h|(common|common/io)/[^/]+\.h", r"cjson/cJSON\.h")
IPC = (r"common/(io/)?[^/]+\.h", r"uv\.h|nng/.*")
HTTP = (r"common/(io/)?[^/]+\.h|config\.h", r"uv\.h")
EXCEPTIONS = {
    "common/io/ipc_client.c": IPC,
    "common/io/ipc_close.c": IPC,
    "common/io/ipc_endpoint.c": IPC,
    "common/io/ipc_endpoint.h": IPC,
    "common/io/ipc_server.c": IPC,
    "common/io/json.c": (r"common/(io/)?[^/]+\.h", r"cjson/cJSON\.h"),
    "common/io/json.h": (r"common/(io/)?[^/]+\.h", r"cjson/cJSON\.h"),
    "common/io/http_easy.c": HTTP,
    "common/io/http_lib.h": (r"common/[^/]+\.h", r"curl/curl\.h"),
    "common/io/http_tunnel.c": HTTP,
    "supervisor/cli/demo.c": DEMO,
    "supervisor/cli/demo_client.c": DEMO,
    "supervisor/cli/demo_client.h": DEMO,
    "supervisor/web/http/mhd.h": (r"common/[^/]+\.h", r"microhttpd\.h|gnutls/.*"),
    "worker/backend/docker/tar.c": (r"(worker/backend|common)/[^/]+\.h", r"archive(_entry)?\.h"),
    "common/io/http_lib.h": (r"common/[^/]+\.h", r"curl/curl\.h"),
    "proto/codec.c": (r"(proto|common)/[^/]+\.(h|def)", r"msgpack.*"),
}

THIRD_PARTY = re.compile(r"(uv|nng/.*|nng|cjson/.*|cJSON|msgpack.*|curl/.*|microhttpd|gnutls/.*|archive.*)(\.h)?$")
THREADS = re.compile(r"pthread\.h|threads\.h")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)

suite = Suite()


def rule_for(path):
    if path in EXCEPTIONS:
        return EXCEPTIONS[path]
    return RULES[max((p for p in RULES if path.startswith(p)), key=len)]


def includes(path):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), read(path), flags=re.DOTALL)
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def judge(path, quote, name):
    """Why this include is wrong, or None."""
    own, third = rule_for(path)
    if ".." in name.split("/"):
        return "goes up by ../"
    if quote == '"':
        if name != "config.h" and not os.path.exists(os.path.join(ROOT, name)):
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
        ("worker/agent/ops.c", '"', "common/io/json.h"),
        ("worker/agent/ops.c", "<", "pthread.h"),
        ("worker/backend/oci/oci.c", '"', "proto/msg.h"),
        ("worker/backend/docker/docker.c", "<", "curl/curl.h"),
        ("worker/worker.c", '"', "supervisor/fleet/fleet.h"),
        ("supervisor/main.c", '"', "worker/backend/backend.h"),
        ("supervisor/main.c", '"', "../common/buf.h"),
        ("supervisor/cli/demo.c", '"', "proto/msg.h"),
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
            # tables and templates are expanded in place, wherever they are needed
            if name.endswith((".def", ".inc", "_define.h", "_template.h")):
                continue
            if quote == "<" and ours_seen:
                problems.append(f"{path}:{line}: <{name}> comes after our own headers")
            ours_seen = ours_seen or quote == '"'
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
