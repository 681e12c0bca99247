#!/usr/bin/env python3
"""Prose rots unless something reads it: each message and each option must be documented."""

import os
import re
import shutil
import subprocess

from source import ROOT, read, report
from tap import Skip, Suite

suite = Suite()

# `cloister` itself, to ask it for its options; absent when the lint runs without a build
PROGRAM = os.environ.get("CLOISTER", "")


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
    replies = {"FAILED", "HELLO_OK", "OPENED", "PROBED", "OUTPUT", "OK", "PONG", "STATUS_OK", "PROGRESS_OK", "OPS_OK"}
    report(
        [
            f"{name} is number {number}"
            for name, number in found
            if (name in replies) != (int(number) % 2 == 1 and int(number) < 100)
        ]
    )


@suite.case("every option of --help is in README.md")
def options():
    if not (PROGRAM and shutil.which(PROGRAM)):
        raise Skip("no built program (CLOISTER is not set)")
    shown = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r"--[a-z][a-z0-9-]+", shown)) - {"--help", "--version"})
    assert len(names) > 5, "could not read --help"
    text = read("README.md")
    report([f"README.md: nothing about {n}" for n in names if n not in text])


@suite.case("files and directories that documents name exist")
def links():
    problems = []
    for path in ("README.md", "proto/README.md", "supervisor/README.md", "contrib/HACKING.md"):
        base = os.path.dirname(path)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(path)):
            if not os.path.exists(os.path.join(ROOT, base, target)):
                problems.append(f"{path}: {target} does not exist")
    report(problems)


suite.run()
