#!/usr/bin/env python3
"""Runs one of the scripts beside this file with the official clients that contrib/test has installed.

usage: launch.py <script> [its arguments]; $CLOISTER_CLIENTS is the directory with node_modules. The scripts
are copied there first, because Node searches for packages from a script's own directory, and nothing is
installed in the tree.
"""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def skip(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def main():
    script = sys.argv[1]
    clients = os.environ.get("CLOISTER_CLIENTS")
    if not clients:
        skip("the official clients are not installed (contrib/test does that)")
    node = os.path.join(clients, "node_modules", ".bin", "node")
    if not os.path.exists(node):
        node = shutil.which("node")
    if not node or not os.path.isdir(os.path.join(clients, "node_modules", "@modelcontextprotocol")):
        skip("the official clients could not be installed")
    os.environ["CLOISTER_RESULTS"] = "structured"  # most cases check these
    os.environ["CLOISTER_POOL"] = "0"
    with tempfile.TemporaryDirectory(prefix="run-", dir=clients) as directory:
        for entry in os.listdir(HERE):
            if entry.endswith(".mjs"):
                shutil.copy(os.path.join(HERE, entry), directory)
        status = os.spawnv(os.P_WAIT, node, [node, os.path.join(directory, script), *sys.argv[2:]])
    sys.exit(status)


main()
