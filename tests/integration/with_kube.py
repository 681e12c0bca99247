#!/usr/bin/env python3
"""Runs test files on the backend `kubernetes`: on a cluster that CLOISTER_KUBE names, or on one of the tests' own (lib/kube.py).

usage: with_kube.py TEST_FILE… [-- part of a case's name…]

The files run unchanged: only the environment differs from a run on the oci backend. Their TAP is merged into one stream, with
names prefixed by the file. After each file no pod of theirs may be left.
"""

import os
import sys

sys.dont_write_bytecode = True
os.environ["CLOISTER_BACKEND"] = "kubernetes"  # before anything looks for the backend under test

from with_engine import Stream, run_file, title_of  # pylint: disable=wrong-import-position
import kube
from tap import poll


def main():
    rest = sys.argv[1:]
    files = rest[: rest.index("--")] if "--" in rest else rest
    names = rest[rest.index("--") + 1 :] if "--" in rest else []
    kube.enter()
    cluster = kube.started()
    stream = Stream()
    environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "CLOISTER_IMAGE": cluster.image}
    for path in files:
        run_file(stream, path, names, environment)
        try:
            poll("no pod is left", lambda: not cluster.boxes())
        except AssertionError:
            left = cluster.boxes()
        else:
            left = []
        stream.check(f"{title_of(path)}: nothing is left in the cluster", [pod["metadata"]["name"] for pod in left])
        for pod in left:
            cluster.remove(pod)
    if not cluster.is_real:
        cluster.close()
    stream.end()


if __name__ == "__main__":
    main()
