#!/usr/bin/env python3
""".clang-format decides the format. Sizes are checked here as well."""

import ast
import re
import shutil
import subprocess

from source import ROOT, code_only, files, read, report
from tap import Skip, Suite

MAX_LINES = 800
MAJOR = "14"  # versions format differently: the tree follows this one

suite = Suite()


@suite.case("clang-format has nothing to change")
def formatted():
    tool = shutil.which(f"clang-format-{MAJOR}") or shutil.which("clang-format")
    if not tool:
        raise Skip("clang-format is not installed")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    if f"version {MAJOR}." not in version:
        raise Skip(f"the tree is formatted with clang-format {MAJOR}, this is {version.strip()}")
    done = subprocess.run(
        [tool, "--dry-run", "-Werror", "--ferror-limit=1", *files(".c", ".h")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report([line for line in done.stderr.splitlines() if "error:" in line])


def after_parenthesis(code, at):
    """The first character after the parenthesis that opens at `at`, blanks skipped."""
    depth = 0
    while at < len(code):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        at += 1
        if depth == 0:
            return code[at:].lstrip("\\ \n\t")[:1]
    return ""


@suite.case("braces around every body")
def braces():
    problems = []
    for path in files(".c", ".h"):
        code = code_only(read(path))
        code = re.sub(r"\}\s*while\b", "}", code)  # the end of a do loop
        for match in re.finditer(r"\b(if|for|while)\s*\(|\b(else)\b(?!\s*(if\b|\{))", code):
            if match.group(2) or after_parenthesis(code, match.end() - 1) not in "{;":
                if not code[: match.start()].rstrip(" ").endswith("#"):
                    line = code.count("\n", 0, match.start()) + 1
                    problems.append(f"{path}:{line}: {match.group(0)}")
    report(problems)


@suite.case(f"no source file is longer than {MAX_LINES} lines")
def sizes():
    everything = files(".c", ".h", ".py", ".js", ".mjs", ".def", under=("",))
    lengths = [(path, read(path).count("\n")) for path in everything]
    report([f"{path}: {count} lines" for path, count in lengths if count > MAX_LINES])


@suite.case("Python can read every script")
def scripts():
    problems = []
    for path in files(".py", under=("",)):
        try:
            ast.parse(read(path), path)
        except SyntaxError as problem:
            problems.append(f"{path}:{problem.lineno}: {problem.msg}")
    report(problems)


@suite.case("no tabs, no trailing blanks, a newline at the end")
def whitespace():
    problems = []
    for path in files(".c", ".h", ".py", ".js", ".mjs", ".def", "meson.build", ".md", under=("",)):
        text = read(path)
        if text and not text.endswith("\n"):
            problems.append(f"{path}: no newline at the end")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip() or "\t" in line:
                problems.append(f"{path}:{number}: tab or trailing blank")
    report(problems)


@suite.case("headings in comments stand on one line")
def comment_headings():
    # clang-format breaks one that is too long, and then keeps the break
    broken = re.compile(r"^/\* ---- [^\n*]*\n \*(/| -+$)", re.MULTILINE)
    problems = []
    for path in files(".c", ".h"):
        text = read(path)
        problems += [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: broken heading" for m in broken.finditer(text)]
    report(problems)


suite.run()
