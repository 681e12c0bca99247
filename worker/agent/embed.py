#!/usr/bin/env python3
"""Turns driver sources into C strings: embed.py OUTPUT NAME=FILE ..."""

import sys


def literal(data):
    """C string tokens for bytes, one a line of the source."""
    for line in data.splitlines(keepends=True) or [b""]:
        text = "".join(
            f"\\{byte:03o}" if byte < 0x20 or byte > 0x7E or byte in b'"\\?' else chr(byte)
            for byte in line
        )
        yield f'    "{text}"'


def main():
    output, *drivers = sys.argv[1:]
    with open(output, "w", encoding="ascii") as out:
        out.write('#include "worker/agent/drivers.h"\n')
        for driver in drivers:
            name, _, path = driver.partition("=")
            with open(path, "rb") as source:
                data = source.read()
            if b"\0" in data:
                sys.exit(f"{path}: has a NUL byte")
            out.write(f"\nconst char driver_{name}[] =\n")
            out.write("\n".join(literal(data)) + ";\n")


main()
