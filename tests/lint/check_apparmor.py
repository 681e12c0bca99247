#!/usr/bin/env python3
"""The AppArmor profile of sandboxes: it is the one that programs ask the kernel for, allows the agent what the backend gives it and no more, and where
apparmor_parser is installed (package apparmor, or APPARMOR_PARSER) it is compiled, which takes no kernel that has AppArmor."""

import os
import re
import shutil
import subprocess

from source import ROOT, read
from tap import Skip, Suite, equal

suite = Suite()
PROFILE = "contrib/apparmor/cloister-sandbox"
NAME = re.search(r'#define APPARMOR_PROFILE "([^"]+)"', read("common/kernel/apparmor.h")).group(1)


@suite.case("the file has the name of the profile that programs look for")
def name():
    equal(os.path.basename(PROFILE), NAME)
    equal(re.findall(r"^profile (\S+) ", read(PROFILE), re.M), [NAME])


@suite.case("the profile has the capabilities that the backend oci gives the agent, and no others")
def capabilities():
    given = re.search(r"caps\[\] = \{([^}]+)\}", read("worker/backend/oci/spec.c")).group(1)
    wanted = sorted(word.lower() for word in re.findall(r'"CAP_(\w+)"', given))
    equal(sorted(re.findall(r"^  capability (\w+),$", read(PROFILE), re.M)), wanted)


@suite.case("no rule gives mounts, other profiles, raw sockets, or programs that run outside of it")
def nothing_else():
    rules = [line.strip() for line in read(PROFILE).splitlines() if line.startswith("  ") and not line.strip().startswith(("#", "deny "))]
    words = {rule.split()[0].rstrip(",") for rule in rules}
    equal(sorted(words), ["capability", "file", "include", "network", "ptrace", "signal", "unix"])
    equal([rule for rule in rules if "->" in rule or " raw" in rule.replace("netlink raw", "")], [])


@suite.case("apparmor_parser takes it")
def parses():
    parser = os.environ.get("APPARMOR_PARSER") or shutil.which("apparmor_parser", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if parser is None:
        raise Skip("apparmor_parser is not installed (package apparmor)")
    base = os.path.join(os.path.dirname(parser), "../etc/apparmor.d")  # beside it, if it is unpacked somewhere
    base = base if os.path.isdir(base) else "/etc/apparmor.d"
    command = [parser, "-Q", "-K", "-S", "--base", base, "-I", base, os.path.join(ROOT, PROFILE)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0 and done.stdout, done.stderr.decode()
    broken = subprocess.run(command[:-1], input=read(PROFILE).replace("  file,", "  files,").encode(), capture_output=True, check=False)
    assert broken.returncode != 0, "it takes everything"


suite.run()
