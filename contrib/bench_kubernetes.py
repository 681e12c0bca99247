"""The part of bench for clusters: what a sandbox costs beside the bare exec of the same cluster.

CLOISTER_KUBE names the cluster, see tests/README.md. The floor of a call is an echo: a line to `cat` and back over the stream of an exec that stays open, in the
sandbox's own pod, which `kubectl exec` keeps.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "tests", "integration", "lib"), os.path.join(os.path.dirname(HERE), "tests", "lib")]

# pylint: disable=wrong-import-position
import kube
from tap import poll

CODE = "1+1"  # as that of bench
WARM_UP = 30
EXECS = 20


def bench_kubernetes(start, options, tools):
    """`start(*words)` starts a server of this program with a session, `tools` are functions of bench."""
    if not kube.DIRECTORY:
        sys.exit("CLOISTER_KUBE names no cluster (tests/README.md)")
    kube.enter()
    cluster = kube.Real()
    kubectl = [os.path.join(kube.DIRECTORY, "bin", "kubectl"), "--kubeconfig", os.path.join(kube.DIRECTORY, "run", "kubeconfig"), "-n", kube.NAMESPACE]
    environment = {"CLOISTER_BACKEND": "kubernetes", "KUBECONFIG": cluster.kubeconfig, "CLOISTER_IMAGE": cluster.image}
    server = start(environment)
    report = {"version": f"Kubernetes {cluster.release['gitVersion']}", **warm(server, cluster, kubectl, options.calls, tools), **cold(server, options.creates, tools)}
    server.close()
    report["pooled"] = pooled(start(environment, "--pool", "2"), options.creates, tools)
    return report


def warm(server, cluster, kubectl, calls, tools):
    """Calls and echoes alternate, so a machine that becomes slower meanwhile affects both."""
    sandbox = server.call("create_sandbox")["sandbox_id"]
    pod = cluster.box_of(sandbox)["metadata"]["name"]
    echo = tools["Lines"]([*kubectl, "exec", "-i", pod, "--", "cat"])

    def through_server():
        server.write(server.call_line("execute_code", sandbox_id=sandbox, code=CODE))
        return server.read()

    def through_stream():
        echo.write(CODE.encode() + b"\n")
        return echo.read()

    def through_exec():
        said = cluster.kubectl("-n", kube.NAMESPACE, "exec", pod, "--", "python3", "-c", f"print({CODE})")
        assert said == "2\n", said

    for _ in range(WARM_UP):
        assert b'"result":"2"' in through_server().replace(b" ", b"")
        assert through_stream() == CODE.encode()
    ours, bare = [], []
    for _ in range(calls):
        ours.append(tools["timed"](through_server))
        bare.append(tools["timed"](through_stream))
    execs = [tools["timed"](through_exec) for _ in range(EXECS)]
    echo.close()
    server.call("close_sandbox", sandbox_id=sandbox)
    return {"warm": tools["summary"](ours), "echo": tools["summary"](bare), "exec": tools["summary"](execs)}


def cold(server, times, tools):
    spent, ended = [], []
    for _ in range(times):
        made = []
        spent.append(tools["timed"](lambda into=made: into.append(server.call("create_sandbox")["sandbox_id"])))
        ended.append(tools["timed"](lambda of=made: server.call("close_sandbox", sandbox_id=of[0])))
    return {"cold": tools["summary"](spent), "close": tools["summary"](ended)}


def pooled(server, times, tools):
    """Creations that found a pod ready."""
    spent = []
    server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])  # a pool begins with the first sandbox
    while len(spent) < times:
        poll("the pool is full", lambda: server.call("get_sandbox_status")["pool"]["ready"] == 2, interval=0.2)
        hits, made = server.call("get_sandbox_status")["pool"]["hits"], []
        took = tools["timed"](lambda into=made: into.append(server.call("create_sandbox")["sandbox_id"]))
        spent += [took] if server.call("get_sandbox_status")["pool"]["hits"] > hits else []
        server.call("close_sandbox", sandbox_id=made[0])
    server.close()
    return tools["summary"](spent)


def print_kubernetes(report, row):
    print(f"| {report['version']}, ms | n | p50 | p95 | p99 |\n|---|---|---|---|---|")
    for name, words in (
        ("warm", "a call"),
        ("echo", "an echo over an open exec stream"),
        ("exec", f"`kubectl exec … python3 -c 'print({CODE})'`"),
        ("cold", "create_sandbox, a new pod"),
        ("pooled", "create_sandbox, from the pool"),
        ("close", "close_sandbox"),
    ):
        print(row(words, report[name]))
    print(f"\na call is {report['warm']['p50'] / report['echo']['p50']:.2f} x an echo")
