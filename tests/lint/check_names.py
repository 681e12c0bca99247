#!/usr/bin/env python3
"""Names in a debugger: static functions have different names within each program, so that `break
on_worker_dead` means one place and the names of a stack trace are unambiguous. Prints TAP."""

import re
from collections import defaultdict

from source import code_only, files, read, report
from tap import Suite, equal

suite = Suite()

SHARED = ("common/", "proto/")
PROGRAMS = {"cloister": "supervisor/", "cloister-worker": "worker/", "cloister-agent": "worker/agent/"}

STATIC_FUNCTION = re.compile(r"^static [^;={}()]*?\b(\w+)\([^;{}]*?\)\s*\{", re.MULTILINE)


def sources_of(directory):
    """Files that may be linked into the program: its own directory without those of other programs, and the
    shared ones."""
    others = [d for d in PROGRAMS.values() if d != directory and d.startswith(directory)]
    own = [p for p in ALL if p.startswith(directory) and not p.startswith(tuple(others))]
    return own + [p for p in ALL if p.startswith(SHARED)]


def doubled(texts):
    """Names that are defined in more than one of the files, {path: text}, each with its files."""
    places = defaultdict(set)
    for path, text in texts.items():
        for match in STATIC_FUNCTION.finditer(code_only(text)):
            places[match.group(1)].add(path)
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


ALL = files(".c", ".h", under=("common", "proto", "supervisor", "worker"))


@suite.case("the check sees what it is for")
def sees():
    one = "static int on_end(void)\n{\n    return 0;\n}\n"
    equal(doubled({"a.c": one, "b.c": one}), {"on_end": ["a.c", "b.c"]})
    equal(doubled({"a.c": one, "b.c": "static int on_end(void);\n/* " + one + " */\n"}), {}, "declarations and comments do not count")
    wide = "static const struct view *on_end(const struct call *call,\n                          size_t count)\n{\n}\n"
    equal(doubled({"a.c": one, "b.c": wide}), {"on_end": ["a.c", "b.c"]})


@suite.case("no two static functions of a program have the same name")
def static_functions():
    problems = []
    for program, directory in PROGRAMS.items():
        texts = {path: read(path) for path in sources_of(directory)}
        for name, places in sorted(doubled(texts).items()):
            problems.append(f"{name}() of {program} is in {', '.join(places)}: let each say what it acts on")
    report(problems)


suite.run()
