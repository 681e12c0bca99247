"""Shared by the lint checks: the list of our C files and a reader that blanks out comments."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
sys.dont_write_bytecode = True

C_DIRECTORIES = ("common", "proto", "supervisor", "worker", "tests")


def files(*endings, under=C_DIRECTORIES):
    """Paths relative to the root, sorted."""
    found = []
    for top in under:
        for directory, names, entries in os.walk(os.path.join(ROOT, top)):
            # build directories contain generated files; git ignores them under these names
            names[:] = [n for n in names if n not in ("node_modules", "__pycache__") and not n.startswith("build")]
            for entry in entries:
                if entry.endswith(endings):
                    found.append(os.path.relpath(os.path.join(directory, entry), ROOT))
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def code_only(text):
    """The text with comments and literals blanked, line numbers kept."""

    def blank(match):
        piece = match.group(0)
        lines = "\n" * piece.count("\n")
        return lines or (piece[0] + piece[-1] if piece[0] in "\"'" else " ")

    return TOKEN.sub(blank, text)


def report(problems):
    """Fails a case with every problem found, not only the first."""
    if problems:
        raise AssertionError("\n".join(["", *problems]))
