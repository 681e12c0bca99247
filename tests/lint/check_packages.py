#!/usr/bin/env python3
"""What package managers are told is true: one version everywhere, and only settings that the program has. Prints TAP."""

import json
import os
import re
import subprocess
import sys

from source import ROOT, files, read, report
from tap import Suite, equal

suite = Suite()
VERSION = re.search(r"^  version: '([^']+)'", read("meson.build"), re.M).group(1)


def manifest(what):
    script = os.path.join(ROOT, "contrib/package/manifests.py")
    return json.loads(subprocess.run([sys.executable, "-B", script, what], stdout=subprocess.PIPE, check=True).stdout)


@suite.case("each package has the version of the project")
def versions():
    launcher, binaries, bundle, listed = (manifest(what) for what in ("npm", "npm-binaries", "mcpb", "server-json"))
    equal(launcher["version"], VERSION, "npm")
    equal(binaries["version"], VERSION, "npm, binaries")
    equal(launcher["optionalDependencies"], {binaries["name"]: VERSION}, "npm, the launcher's dependency")
    equal(bundle["version"], VERSION, "MCPB")
    equal([listed["version"]] + [each["version"] for each in listed["packages"]], [VERSION] * 2, "server.json")
    equal(re.match(r"cloister \(([^)]+)\)", read("contrib/package/debian/changelog")).group(1), VERSION, "debian/changelog")


@suite.case("the launcher is the one that server.json lists")
def names():
    launcher, listed = manifest("npm"), manifest("server-json")
    equal(launcher["mcpName"], listed["name"], "name in the registry")
    equal(listed["packages"][0]["identifier"], launcher["name"], "name in npm")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", listed["name"]), listed["name"]
    assert len(listed["description"]) <= 100, "the registry takes descriptions of 100 characters"


@suite.case("settings in manifests are options of the program")
def settings():
    known = {"CLOISTER_" + name.upper().replace("-", "_") for name in re.findall(r'^    \{"([a-z-]+)", OPTION_', read("supervisor/base/options.c"), re.M)}
    bundle, listed = manifest("mcpb"), manifest("server-json")
    used = set(bundle["server"]["mcp_config"]["env"]) | {each["name"] for each in listed["packages"][0]["environmentVariables"]}
    report([f"there is no {name}" for name in sorted(used - known)])
    wanted = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(bundle["server"]))
    equal(sorted(wanted), sorted(bundle["user_config"]), "settings that the bundle asks for and hands on")


@suite.case("each script for packages has a line in contrib/RELEASING.md or contrib/package/README.md")
def scripts():
    text = read("contrib/RELEASING.md") + read("contrib/package/README.md")
    mine = [os.path.basename(path) for path in files("", under=("contrib/package",)) if os.path.dirname(path) == "contrib/package"]
    report([f"no table has {name}" for name in mine if name != "README.md" and f"`{name}`" not in text])


suite.run()
