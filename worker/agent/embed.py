#!/usr/bin/env python3
"""Turns program sources into C strings: embed.py OUTPUT [HEADER:PREFIX] NAME=FILE ...

HEADER declares them, as PREFIX_NAME; by default those of the agent's drivers. NAME=compiled:FILE embeds what this
Python makes of FILE, as a .pyc has it: the magic number and the code; with its size, as PREFIX_NAME_size."""

import importlib.util
import marshal
import sys

COMPILED = "compiled:"


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


def compiled(data):
    """The magic number and the marshalled code. The format without references comes first, since
    which objects have one depends on what else this Python has loaded, and a build must be
    repeatable; Pythons from 3.14 on cannot write slices in it."""
    code = compile(data, "<cloister>", "exec", dont_inherit=True, optimize=0)
    try:
        written = marshal.dumps(code, 2)
    except ValueError:
        written = marshal.dumps(code)
    return importlib.util.MAGIC_NUMBER + written


def main():
    output, *drivers = sys.argv[1:]
    header, prefix = "worker/agent/interp/drivers.h", "driver"
    if "=" not in drivers[0]:
        header, _, prefix = drivers.pop(0).partition(":")
    with open(output, "w", encoding="ascii") as out:
        out.write(f'#include "{header}"\n')
        for driver in drivers:
            name, _, path = driver.partition("=")
            is_compiled = path.startswith(COMPILED)
            with open(path[len(COMPILED) :] if is_compiled else path, "rb") as source:
                data = source.read()
            if is_compiled:
                out.write(f"\nconst char {prefix}_{name}[] =\n")
                out.write("\n".join(literal(compiled(data))) + ";\n")
                out.write(f"const size_t {prefix}_{name}_size = sizeof({prefix}_{name}) - 1;\n")
                continue
            if path.endswith(".js"):
                data = without_comments(data)
            if b"\0" in data:
                sys.exit(f"{path}: has a NUL byte")
            out.write(f"\nconst char {prefix}_{name}[] =\n")
            out.write("\n".join(literal(data)) + ";\n")


main()
