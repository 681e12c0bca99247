#!/usr/bin/env python3
"""Runs test files on the backend `e2b`, with a cloud of the tests' own (lib/e2b_standin.mjs) that is started for them.

usage: with_e2b.py TEST_FILE… [-- part of a case's name…]

The files run unchanged: only the environment differs from a run on the oci backend. Their TAP is merged into one stream, with
names prefixed by the file. After each file nothing may be left in the cloud, and all requests must have been as the service's OpenAPI
files have them.
"""

import os
import sys

sys.dont_write_bytecode = True
os.environ["CLOISTER_BACKEND"] = "e2b"  # before anything looks for the backend under test

from with_engine import run_elsewhere  # pylint: disable=wrong-import-position
import e2b


def main():
    cloud = e2b.started()
    checks = [] if cloud.is_real else [("all requests are as the service's OpenAPI files have them", cloud.misfits)]
    run_elsewhere(cloud, "cloud", {**os.environ, **cloud.env}, lambda box: str(box["metadata"]), checks)


if __name__ == "__main__":
    main()
