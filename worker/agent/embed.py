#!/usr/bin/env python3
"""Turns program sources into C strings: embed.py OUTPUT [HEADER:PREFIX] NAME=FILE ...

HEADER declares them, as PREFIX_NAME; by default those of the agent's drivers."""

import sys


def literal(data):
    """C string tokens for bytes, one a line of the source."""
    for line in data.splitlines(keepends=True) or [b""]:
        text = "".join(
            f"\\{byte:03o}" if byte < 0x20 or byte > 0x7E or byte in b'"\\?' else chr(byte)
            for byte in line
        )
        yield f'    "{text}"'


def without_comments(data):
    """Removes comments and indentation from JavaScript, so that an idle agent uses fewer pages of
    memory."""
    lines = [line.lstrip() for line in data.splitlines(keepends=True)]
    return b"".join(line for line in lines if line and not line.startswith(b"//"))


def main():
    output, *drivers = sys.argv[1:]
    header, prefix = "worker/agent/interp/drivers.h", "driver"
    if "=" not in drivers[0]:
        header, _, prefix = drivers.pop(0).partition(":")
    with open(output, "w", encoding="ascii") as out:
        out.write(f'#include "{header}"\n')
        for driver in drivers:
            name, _, path = driver.partition("=")
            with open(path, "rb") as source:
                data = source.read()
            if path.endswith(".js"):
                data = without_comments(data)
            if b"\0" in data:
                sys.exit(f"{path}: has a NUL byte")
            out.write(f"\nconst char {prefix}_{name}[] =\n")
            out.write("\n".join(literal(data)) + ";\n")


main()
