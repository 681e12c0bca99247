#!/usr/bin/env python3
"""Calls that are banned everywhere, and calls that only a few files may make."""

import re

from source import TOKEN, code_only, files, read, report
from tap import Suite

OURS = ("common", "proto", "supervisor", "worker")

# pattern of a call: reason of the ban
BANNED = {
    r"strcpy|strcat|stpcpy|strncat|gets|sprintf|vsprintf": "writes without a bound: use str.h or buf.h",
    r"strtok|strtok_r": "changes what it reads",
    r"ato[ilf]|atoll": "does not report bad numbers: use str.h",
    r"strtou?ll?|strtou?max": "needs five checks each time: use str.h",
    r"system|popen|pclose": "goes through a shell",
    r"alloca|strdupa": "has no failure",
    r"signal": "means different things on different systems: use sigaction",
    r"sleep|usleep|nanosleep|clock_nanosleep|uv_sleep": "blocks: wait for an event with a deadline",
    r"tmpnam|mktemp|tempnam": "races",
    r"rand|srand|random|srandom": "can be guessed: use random_id",
}

# call: (files that may make it, reason)
CONFINED = {
    r"strtou?ll?|strtou?max": ("common/str.c", "numbers are read in common/str.c"),
    r"cJSON_Parse\w*": ("common/io/json.c", "text is parsed in common/io/json.c"),
    r"nng_\w+": (r"common/io/ipc_\w+\.c", "nng stays behind common/io/ipc_*.c"),
    r"msgpack_\w+": ("proto/codec.c", "msgpack stays behind proto/codec.c"),
    r"fork|vfork|clone|clone3|exec[lv]p?e?|fexecve|execveat": (
        r"worker/agent/.*",
        "only the agent forks: elsewhere uv_spawn or posix_spawn",
    ),
    r"waitpid|wait|wait3|wait4|waitid": (
        r"worker/agent/.*|supervisor/cli/pipe_client\.c",
        "libuv reaps its own children",
    ),
    r"kill|killpg|tgkill": (
        r"worker/agent/.*|common/cgroup\.c|supervisor/(cli/(demo|pipe_client)|fleet/workers/spawn)\.c|worker/main\.c",
        "signals go through uv_process_kill",
    ),
    r"printf|puts|putchar|fwrite": (
        r"supervisor/(main|base/(options\w*|help_text)|metrics/metrics_json|cli/(config_check|doctor|demo|token)\w*|commands/\w+)\.c|worker/main\.c|worker/agent/main\.c",
        "stdout belongs to the protocol",
    ),
}

suite = Suite()


def calls(pattern, code):
    # neither a member nor a part of a longer name; a declaration of our own would be found too
    for match in re.finditer(rf"(?<![\w.>])({pattern})\s*\(", code):
        yield code.count("\n", 0, match.start()) + 1, match.group(1)


def sources():
    for path in files(".c", ".h", under=OURS):
        yield path, code_only(read(path))


@suite.case("no banned function is called")
def banned():
    problems = []
    for path, code in sources():
        for pattern, why in BANNED.items():
            if pattern in CONFINED and re.fullmatch(CONFINED[pattern][0], path):
                continue
            for line, name in calls(pattern, code):
                problems.append(f"{path}:{line}: {name}() {why}")
    report(problems)


@suite.case("libraries and process calls stay in the files meant for them")
def confined():
    problems = []
    for path, code in sources():
        for pattern, (allowed, why) in CONFINED.items():
            if re.fullmatch(allowed, path):
                continue
            for line, name in calls(pattern, code):
                problems.append(f"{path}:{line}: {name}(): {why}")
    report(problems)


@suite.case("no mutable file-scope state outside the log, no waitpid of whatever child")
def state():
    problems = []
    plain = re.compile(r"^static (?!const\b|inline\b|_Thread_local\b|volatile sig_atomic_t\b)[\w *]+ \**\w+(\[[^\]]*\])?( = [^;(]*)?;", re.M)
    for path, code in sources():
        if path == "common/log.c":
            continue
        for match in plain.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{line}: {match.group(0).strip()}")
        for match in re.finditer(r"\bwaitpid\s*\(\s*-1", code):
            if not path.startswith("worker/agent/"):
                problems.append(f"{path}:{code.count(chr(10), 0, match.start()) + 1}: waitpid(-1)")
    report(problems)


@suite.case("a backend is named by its table and its own directory alone")
def backends():
    names = re.findall(r"^BACKEND\((\w+),", read("common/backends.def"), re.M)
    assert "oci" in names and "docker" in names, names
    literal = re.compile("|".join(f'"{name}"' for name in names))
    problems = []
    for path in files(".c", ".h", under=OURS):
        for match in TOKEN.finditer(read(path)):
            if literal.fullmatch(match.group(0)) and not path.startswith(f"worker/backend/{match.group(0)[1:-1]}/"):
                problems.append(f"{path}: {match.group(0)}: what differs between backends is a field of their rows")
    report(problems)


@suite.case("no unfinished words")
def unfinished():
    words = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|not imp" r"lemented|unimp" r"lemented)\b")
    problems = []
    for path in files(".c", ".h", ".def", ".py", ".js", ".mjs", ".md", under=("",)):
        for number, line in enumerate(read(path).split("\n"), 1):
            if words.search(line) and not path.startswith("tests/lint/"):
                problems.append(f"{path}:{number}: {line.strip()}")
    report(problems)


HTML_FROM_TEXT = r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write|DOMParser|srcdoc|\beval\b|new Function"


@suite.case("the page makes no HTML and no code of texts, and loads nothing from elsewhere")
def page():
    problems = []
    for path in files(".js", ".html", ".css", under=("supervisor/page",)):
        for number, line in enumerate(read(path).splitlines(), 1):
            if re.search(HTML_FROM_TEXT, line):
                problems.append(f"{path}:{number}: what user code wrote is set as text")
            if re.search(r"https?:|<script(?! type=\"module\" src=\"[\w.]+\">)|<style|\son\w+=|\sstyle=|@import|url\(", line) and "w3.org/2000/svg" not in line:
                problems.append(f"{path}:{number}: scripts and styles are in files of this server")
    report(problems)


# The two places of the view where HTML of user code is HTML.
HTML_PLACES = {"supervisor/view/assets/frame.js": "srcdoc", "supervisor/view/assets/table.js": "DOMParser"}


@suite.case("the view makes HTML of texts in a frame without origin and in a parser only, and loads nothing")
def view():
    problems = []
    for path in files(".js", ".html", ".css", under=("supervisor/view",)):
        for number, line in enumerate(read(path).splitlines(), 1):
            found = set(re.findall(HTML_FROM_TEXT, line)) - {HTML_PLACES.get(path)}
            if found:
                problems.append(f"{path}:{number}: {', '.join(found)}: what user code wrote is set as text")
            if re.search(r"https?:|allow-same-origin|\bon\w+=|@import|url\(|\bfetch\(|\bsrc=\"", line):
                problems.append(f"{path}:{number}: the view loads nothing")
    report(problems)


suite.run()
