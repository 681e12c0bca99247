#!/usr/bin/env python3
"""Runs test files on the backend `e2b`, with a cloud of the tests' own (lib/e2b_standin.mjs) that is started for them.

usage: with_e2b.py TEST_FILE… [-- part of a case's name…]

The files run unchanged: only the environment differs from a run on the oci backend. Their TAP is merged into one stream, with
names prefixed by the file. After each file nothing may be left in the cloud.
"""

import os
import sys

sys.dont_write_bytecode = True
os.environ["CLOISTER_BACKEND"] = "e2b"  # before anything looks for the backend under test

from with_engine import Stream, run_file, title_of  # pylint: disable=wrong-import-position
import e2b
from tap import poll


def main():
    rest = sys.argv[1:]
    files = rest[: rest.index("--")] if "--" in rest else rest
    names = rest[rest.index("--") + 1 :] if "--" in rest else []
    cloud = e2b.started()
    stream = Stream()
    environment = {**os.environ, **cloud.env}
    for path in files:
        run_file(stream, path, names, environment)
        try:
            poll("no sandbox is left", lambda: not cloud.boxes())
        except AssertionError:
            left = cloud.boxes()
        else:
            left = []
        stream.check(f"{title_of(path)}: nothing is left in the cloud", [str(box["metadata"]) for box in left])
        for box in left:
            cloud.remove(box)
    cloud.close()
    stream.end()


if __name__ == "__main__":
    main()
