#!/usr/bin/env python3
"""Turns the names of common/syscalls.h into numbers: syscall_numbers.py HEADER OUTPUT

Names that the kernel headers of this build do not know are left out, because such calls do not
exist there. """

import re
import sys

LISTS = {"ALLOWED": "allowed", "REFUSED": "refused", "TRACING": "tracing"}


def main():
    header, output = sys.argv[1:]
    with open(header, encoding="ascii") as source:
        text = source.read().replace("\\\n", " ")
    with open(output, "w", encoding="ascii") as out:
        out.write('#include <sys/syscall.h>\n\n#include "worker/agent/process/filter.h"\n')
        for macro, name in LISTS.items():
            line = re.search(rf"^#define SYSCALLS_{macro}\(X\)(.*)$", text, re.MULTILINE).group(1)
            out.write(f"\nconst unsigned filter_{name}[] = {{\n")
            for call in re.findall(r"X\((\w+)\)", line):
                out.write(f"#ifdef __NR_{call}\n    __NR_{call},\n#endif\n")
            out.write("};\n")
            out.write(f"const size_t filter_{name}_count = sizeof(filter_{name}) / sizeof(filter_{name}[0]);\n")


main()
