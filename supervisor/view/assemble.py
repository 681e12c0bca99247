#!/usr/bin/env python3
"""Puts a document together: assemble.py OUTPUT HTML CSS JS...

A view is one document that loads nothing, so its style and its scripts stand in it."""

import re
import sys


def read(path):
    with open(path, encoding="utf-8") as source:
        return source.read()


def without_comments(script):
    lines = (line.lstrip() for line in script.splitlines(keepends=True))
    return "".join(line for line in lines if line.strip() and not line.startswith("//"))


def main():
    output, html, css, *scripts = sys.argv[1:]
    script = "".join(without_comments(read(path)) for path in scripts)
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        sys.exit("a script would end before its end")
    document = read(html).replace("@style@", "\n" + read(css)).replace("@scripts@", "\n" + script)
    with open(output, "w", encoding="utf-8") as out:
        out.write(document)


main()
