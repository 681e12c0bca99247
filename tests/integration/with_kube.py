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

from with_engine import run_elsewhere  # pylint: disable=wrong-import-position
import kube


def main():
    kube.enter()
    cluster = kube.started()
    environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "CLOISTER_IMAGE": cluster.image}
    run_elsewhere(cluster, "cluster", environment, lambda pod: pod["metadata"]["name"])


if __name__ == "__main__":
    main()
