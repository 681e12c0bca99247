"""The part of bench that counts: what the API server of a cluster is asked for, and the memory of a server, by sandbox.

The API server is the stand-in of the tests (tests/integration/lib/kube_standin.mjs), which notes each request. CLOISTER_CLIENTS has the package that it needs.
"""

import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "tests", "integration", "lib"), os.path.join(os.path.dirname(HERE), "tests", "lib")]

# pylint: disable=wrong-import-position
import kube
import mcp
from node_standin import missing
from tap import poll

LEASE_S = 15
ROUND = re.compile(r"/leases|/pods\?labelSelector=")
CALLS = 100
QUIET_S = 1.0  # what an answer has begun is asked for by then


def count_requests(program, sandboxes, seconds):
    """Counts with so many sandboxes, which are left idle for so many seconds."""
    lacks = missing("ws")
    if lacks:
        sys.exit(lacks)
    os.environ["CLOISTER"] = program
    cluster = kube.Standin()
    try:
        alone = one_server(cluster, sandboxes, seconds)
        several = one_server(cluster, sandboxes, seconds, "--instance", "main", "--front-lease-seconds", str(LEASE_S))
    finally:
        cluster.close()
    return {"sandboxes": sandboxes, "seconds": seconds, "alone": alone, "several": several}


def one_server(cluster, sandboxes, seconds, *words):
    server = cluster.server("--pool", "1", "--max-sandboxes", str(sandboxes + 2), *words)
    server.legacy()

    def own():
        """Requests but those of the rounds of a server among others, which are counted while nothing else is done."""
        return len([r for r in cluster.requests() if not ROUND.search(r["path"])])

    def counted(action):
        time.sleep(QUIET_S)
        before = own()
        action()
        time.sleep(QUIET_S)
        return own() - before

    def full():
        return server.call("get_sandbox_status")["pool"]["ready"] == 1

    # with an environment of its own it is made, not given from the pool
    def create():
        return server.call("create_sandbox", env={"A": "1"})["sandbox_id"]

    server.call("close_sandbox", sandbox_id=create())
    poll("the pool is full", full)
    time.sleep(QUIET_S)
    found, made = {}, []
    found["creation"] = counted(lambda: made.append(create()))
    found["call"] = counted(lambda: [server.run("1+1", sandbox_id=made[0]) for _ in range(CALLS)]) / CALLS
    found["close"] = counted(lambda: server.call("close_sandbox", sandbox_id=made.pop()))
    before = own()
    made.append(server.call("create_sandbox")["sandbox_id"])
    poll("the pool is full", full)
    time.sleep(QUIET_S)
    found["claim"] = own() - before - found["creation"]  # with what fills the pool again
    while len(made) < sandboxes:
        made.append(create())
    for sandbox in made:
        server.run("1+1", sandbox_id=sandbox)
    time.sleep(QUIET_S)
    before = len(cluster.requests())
    time.sleep(seconds)
    found["idle"] = (len(cluster.requests()) - before) / seconds
    workers = [pid for pid, line in mcp.processes() if "cloister-worker" in line and server.runtime_dir in line]
    found["server_kb"] = pss_kb(server.process.pid)
    found["worker_kb"] = sum(pss_kb(pid) for pid in workers) / len(workers)
    for sandbox in made:
        server.call("close_sandbox", sandbox_id=sandbox)
    server.close()
    return found


def pss_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))


def print_requests(report):
    print(f"| requests, with {report['sandboxes']} sandboxes and a pool of 1 | alone | among others, a lease of {LEASE_S} s |\n|---|---|---|")
    for name, words in (
        ("creation", "a creation"),
        ("claim", "a creation from the pool, without what fills it again"),
        ("call", "a call"),
        ("close", "closing"),
        ("idle", f"idle, a second ({report['seconds']:.0f} s)"),
        ("server_kb", "memory of the server, KiB (Pss)"),
        ("worker_kb", "memory of a worker, of which each sandbox has one, KiB (Pss)"),
    ):
        print(f"| {words} | {report['alone'][name]:.4g} | {report['several'][name]:.4g} |")
