#!/usr/bin/env python3
"""Documents become false unless they are checked: each message must be documented, the tables of options must
be those of the program, and files and symbols that documents and comments name must exist."""

import os
import re
import subprocess
import sys

from source import C_DIRECTORIES, ROOT, code_only, files, read, report
from tap import Skip, Suite

suite = Suite()

# `cloister` itself, which prints its options; unset if the lint runs without a build
PROGRAM = os.environ.get("CLOISTER", "")
DOCUMENTS = ("README.md", *files(".md", under=(*C_DIRECTORIES, "contrib")))


@suite.case("every message of messages.def is in proto/README.md")
def messages():
    names = re.findall(r"^\s*MSG\((\w+),\s*\d+", read("proto/messages.def"), re.MULTILINE)
    assert len(names) > 10, "could not read messages.def"
    text = read("proto/README.md")
    report([f"proto/README.md: nothing about {n}" for n in names if not re.search(rf"\b{n}\b", text)])


@suite.case("message numbers are used once, requests even, replies odd, events from 100")
def numbers():
    found = re.findall(r"^\s*MSG\((\w+),\s*(\d+)", read("proto/messages.def"), re.MULTILINE)
    values = [int(number) for _, number in found]
    report([f"number {v} is used twice" for v in set(values) if values.count(v) > 1])
    replies = {"FAILED", "HELLO_OK", "OPENED", "PROBED", "OUTPUT", "OK", "PONG", "STATUS_OK", "PROGRESS_OK", "OPS_OK", "INPUT_OK", "FRONT_OK", "OFFERS_OK"}
    report(
        [
            f"{name} is number {number}"
            for name, number in found
            if (name in replies) != (int(number) % 2 == 1 and int(number) < 100)
        ]
    )


@suite.case("the tables of options in contrib/docs are those of the program")
def options():
    table = os.path.join(os.path.dirname(PROGRAM), "options-json")
    if not (PROGRAM and os.path.exists(table)):
        raise Skip("no built program (CLOISTER is not set)")
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "contrib/docs/generate"), "check", table],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    report([done.stdout.strip()] if done.returncode else [])


@suite.case("the requests of the control API are those of its page")
def control_api():
    rows = re.findall(r'^\s*\{"(GET|POST|DELETE)", "(/v1[^"]*)"', read("supervisor/control/routes.c"), re.MULTILINE)
    assert len(rows) > 10, "could not read routes.c"
    page = re.findall(r"^\| `(GET|POST|DELETE) (/v1[^`? ]*)[^`]*` \|", read("contrib/docs/control.md"), re.MULTILINE)
    documented = {(method, re.sub(r"\b(NAME|ID)\b", "*", path)) for method, path in page}
    report(
        [f"contrib/docs/control.md: nothing about {m} {p}" for m, p in rows if (m, p) not in documented]
        + [f"contrib/docs/control.md: there is no {m} {p}" for m, p in sorted(documented - set(rows))]
    )


@suite.case("the commands for running servers are on their page")
def commands():
    rows = read("supervisor/commands/rows.c").partition("for running servers ----")[2]
    names = re.findall(r'^    \{"([a-z]+)", "', rows, re.MULTILINE)
    assert len(names) > 10, "could not read rows.c"
    page = read("contrib/docs/control.md")
    report([f"contrib/docs/control.md: nothing about cloister {n}" for n in names if f"`cloister {n}" not in page])


@suite.case("the front page is one page")
def front_page():
    lines = len(read("README.md").splitlines())
    report([f"README.md: {lines} lines, 200 at most; the rest belongs into contrib/docs"] if lines > 200 else [])


@suite.case("each room of more than five sources has a README, and each .c is in the table of its room's README")
def rooms():
    problems = []
    sources = files(".c", ".h", ".def", under=("common", "proto", "supervisor", "worker"))
    for room in sorted({os.path.dirname(path) for path in sources}):
        page = f"{room}/README.md"
        mine = [os.path.basename(path) for path in sources if os.path.dirname(path) == room]
        if not os.path.exists(os.path.join(ROOT, page)):
            if len(mine) > 5:
                problems.append(f"{page} is missing")
            continue
        rows = "\n".join(re.findall(r"^\|.*$", read(page), re.MULTILINE))
        problems += [f"{page}: no table has {name}" for name in mine if name.endswith(".c") and f"`{name}`" not in rows]
    report(problems)


def slug(heading):
    """The anchor of a heading, as renderers of Markdown make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def headings(path):
    """All headings of a page outside of code."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


@suite.case("links of documents lead somewhere")
def links():
    problems = []
    for path in DOCUMENTS:
        base = os.path.dirname(path)
        for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", read(path)):
            target = os.path.normpath(os.path.join(base, name)) if name else path
            if not os.path.exists(os.path.join(ROOT, target)):
                problems.append(f"{path}: {name} does not exist")
            elif anchor and [slug(h) for h in headings(target)].count(anchor) != 1:
                problems.append(f"{path}: {target} has not one heading #{anchor}")
    report(problems)


@suite.case("no page has two chapters of one name")
def chapters():
    problems = []
    for path in DOCUMENTS:
        text = re.sub(r"^```.*?^```", "", read(path), flags=re.MULTILINE | re.DOTALL)
        names = re.findall(r"^## (.*)$", text, re.MULTILINE)
        problems += [f"{path}: {n!r} comes {names.count(n)} times" for n in set(names) if names.count(n) > 1]
    report(problems)


def words_of_code():
    return set(re.findall(r"\w+", "\n".join(code_only(read(path)) for path in files(".c", ".h", ".def"))))


@suite.case("functions, constants and files that documents name exist")
def names_in_documents():
    scripts = files(".py", ".js", ".c") + files(".py", ".sh", under=("contrib",))
    words = words_of_code() | set(re.findall(r"\w+", "\n".join(read(p) for p in scripts)))
    ours = {"meson.build", "setup.py"}
    for path in files("", under=(*C_DIRECTORIES, "contrib")):
        parts = path.split("/")
        ours.update("/".join(parts[i:]) for i in range(len(parts)))  # with as many directories as a document names
    problems = []
    for path in DOCUMENTS:
        for piece in set(re.findall(r"`([^`\n]+)`", read(path))):
            named = re.findall(r"\b([a-z]\w*_\w+)\(\)", piece) + re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", piece)
            problems += [f"{path}: there is no {n}" for n in named if n not in words]
            named = re.findall(r"(?<![\w./-])[./]*([\w./-]*\w+\.(?:c|h|py|js|def|md|build))\b", piece) if "*" not in piece else []
            problems += [f"{path}: there is no file {n}" for n in named if n not in ours and "<" not in piece]
    report(problems)


@suite.case("functions that comments name exist")
def names_in_comments():
    words = words_of_code()
    problems = []
    for path in files(".c", ".h", ".def"):
        text = read(path)
        for match in re.finditer(r"/\*.*?\*/", text, re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            named = set(re.findall(r"\b([a-z][a-z0-9]*_[a-z0-9_]+)\(\)", match.group(0)))
            problems += [f"{path}:{line}: there is no {n}()" for n in named if n not in words]
    report(problems)


suite.run()
