#!/usr/bin/env python3
"""The programs are built so that a bug in memory is hard to use: loaded anywhere, with tables that nobody can write once they are
filled, no stack that runs as code, checked copies, and landing pads for jumps where the processor has them. Prints TAP.

  check_binaries.py SUPERVISOR WORKER AGENT --fortified|--plain [part of a case's name…]

--plain is for builds with sanitizers or without optimisation, in which the functions of libc are not checked. The agent is
optimised and without sanitizers in every build."""

import re
import shutil
import subprocess
import sys

from source import report
from tap import Suite, equal, skip_all

PROGRAMS = sys.argv[1:4]
AGENT = PROGRAMS[2]
FORTIFIED = PROGRAMS if sys.argv[4] == "--fortified" else [AGENT]
sys.argv[1:5] = []
if shutil.which("readelf") is None:
    skip_all("readelf is not installed (Debian: binutils)")

suite = Suite()

PAGE_ALIGNED = 0x1000
# How a function begins that may be called through a pointer.
LANDING_PADS = {
    "Advanced Micro Devices X86-64": [b"\xf3\x0f\x1e\xfa"],  # endbr64
    "AArch64": [b"\x3f\x23\x03\xd5", b"\x5f\x24\x03\xd5"],  # paciasp, bti c
}


def readelf(what, program):
    done = subprocess.run(["readelf", "--wide", what, program], capture_output=True, text=True, errors="replace", check=True, env={"LC_ALL": "C"})
    return done.stdout


def header(program, field):
    return re.search(rf"^\s*{field}:\s*(.*)$", readelf("--file-header", program), re.M).group(1)


def segments(program):
    """(type, offset, address, flags) of each program header."""
    row = re.compile(r"^\s+([A-Z_]+)\s+0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x\w+\s+0x\w+\s+([RWE ]{3})\s", re.M)
    return [(kind, int(offset, 16), int(address, 16), flags) for kind, offset, address, flags in row.findall(readelf("--program-headers", program))]


def functions(program):
    """Address by name."""
    row = re.compile(r"^\s*\d+: (\w+)\s+\d+ FUNC\s+\w+\s+\w+\s+\d+ ([\w.]+)", re.M)
    return {name: int(address, 16) for address, name in row.findall(readelf("--symbols", program))}


def names(program):
    """Of everything that is defined or wanted, without versions."""
    return set(re.findall(r" (__\w+_chk|__stack_chk_fail)\b", readelf("--symbols", program)))


def first_bytes(program, function, count=4):
    address = functions(program)[function]
    for kind, offset, start, flags in segments(program):
        if kind == "LOAD" and "E" in flags and start <= address:
            place = offset + address - start
    with open(program, "rb") as file:
        file.seek(place)
        return file.read(count)


@suite.case("every program can be loaded anywhere, so that no address in it is known beforehand")
def position():
    for program in PROGRAMS:
        equal(header(program, "Type").split()[0], "DYN", f"{program}: type")
        assert re.search(r"\(FLAGS_1\).*\bPIE\b", readelf("--dynamic", program)), f"{program} is a library, not a program"


@suite.case("the agent needs no loader and no library, because an image may have none")
def alone():
    equal([s for s in segments(AGENT) if s[0] == "INTERP"], [], "loader")
    equal(re.findall(r"\(NEEDED\).*", readelf("--dynamic", AGENT)), [], "libraries")


@suite.case("tables of addresses are filled at the start and cannot be written later")
def relocations():
    problems = []
    for program in PROGRAMS:
        kinds = [s[0] for s in segments(program)]
        if "GNU_RELRO" not in kinds:
            problems.append(f"{program}: no GNU_RELRO")
        if not re.search(r"\(FLAGS_1\).*\bNOW\b|BIND_NOW", readelf("--dynamic", program)):
            problems.append(f"{program}: symbols are bound late (-z now)")
    report(problems)


@suite.case("nothing can be written and run, the stack included")
def written_or_run():
    problems = []
    for program in PROGRAMS:
        found = segments(program)
        if not any(kind == "GNU_STACK" for kind, *_ in found):
            problems.append(f"{program}: does not say that its stack is no code")
        problems += [f"{program}: {kind} at {address:#x} can be written and run" for kind, _, address, flags in found if "W" in flags and "E" in flags]
        # code has pages of its own, so that data beside it is no code
        problems += [f"{program}: code at {offset:#x} shares a page of the file with data" for kind, offset, _, flags in found
                     if kind == "LOAD" and "E" in flags and offset % PAGE_ALIGNED != 0]
    report(problems)


@suite.case("copies are checked against the size of their target, and returns against a canary")
def fortified():
    problems = []
    for program in PROGRAMS:
        found = names(program)
        if "__stack_chk_fail" not in found:
            problems.append(f"{program}: built without -fstack-protector-strong")
        if program in FORTIFIED and not {"__memcpy_chk", "__snprintf_chk", "__vsnprintf_chk", "__read_chk"} & found:
            problems.append(f"{program}: built without -D_FORTIFY_SOURCE")
    report(problems)


@suite.case("functions begin with a landing pad where the processor checks jumps")
def landing_pads():
    machine = header(AGENT, "Machine")
    for program in PROGRAMS:
        if machine in LANDING_PADS:
            assert first_bytes(program, "main") in LANDING_PADS[machine], f"{program}: built without -fcf-protection or -mbranch-protection"


suite.run()
