"""What only a real cluster does, which CLOISTER_KUBE names (lib/kube.py): its API server killed and back, its kubelet stopped and killed, connections cut, evictions,
quotas and images that it cannot pull, each right of role.yaml taken away, and many pods at once.
"""

import contextlib
import json
import os

os.environ["CLOISTER_BACKEND"] = "kubernetes"  # before anything looks for the backend under test

from common import NONE, Suite, clear, contains, equal, needs_backend, poll, skip_all, works  # pylint: disable=wrong-import-position
from common_remote import ENDLESS, STREAM, WANTED, begun, nothing_left, opened
import kube
import mcp

needs_backend("kubernetes")
if not kube.DIRECTORY:
    skip_all("CLOISTER_KUBE names no cluster")
kube.enter()
cluster = kube.started()
suite = Suite(NONE)
OWN_PARTS = cluster.part("kubelet") is not None and cluster.part("kube-apiserver") is not None

MINOR = int(cluster.release["minor"].rstrip("+"))
UNASKED = ["create pods/exec"] if MINOR < 35 else []  # rights that only newer clusters want
MANY = 50


def refused(server, *words):
    """A creation fails with these words, leaves nothing, and the server lives on."""
    error = clear(server.call_failing("create_sandbox")["error"])
    for word in words:
        contains(json.dumps(error), word, "the error")
    nothing_left(cluster, server)
    return error


def said_after(sandbox, server, *words):
    """What the owner of a sandbox is told that the cluster has ended."""
    error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
    for word in words:
        contains(error["message"], word, "the answer")


def waits_on(server):
    """The worker of the only sandbox has waited in vain for as long as it would for another agent."""
    poll("it has waited", lambda: any("has not answered for" in line for line in server.log))


def inside(sandbox):
    return [line for line in mcp.processes_of(sandbox) if "cloister-worker" not in line]


# ---- the parts of a cluster ----


@suite.case("the API server is killed in the middle of a call and comes back: meanwhile a clear error, then the call's whole result", when=OWN_PARTS)
def server_killed():
    server, sandbox = opened(cluster, "--grace-seconds", "300")
    with server:
        server.run("before = 'state'", sandbox_id=sandbox)
        pending = begun(server, sandbox, STREAM)
        with cluster.without("kube-apiserver"):
            equal(clear(server.call_failing("create_sandbox")["error"])["code"], "engine_unavailable")
            waits_on(server)
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")
        works(server)
    nothing_left(cluster, server)


@suite.case("the kubelet does nothing for longer than a link waits: the code goes on meanwhile, and its result comes", when=OWN_PARTS)
def kubelet_stands():
    between = kube.Between(cluster)
    server, sandbox = opened(cluster, "--grace-seconds", "300", kubeconfig=between.kubeconfig)
    with server:
        pending = begun(server, sandbox, STREAM)
        with cluster.stopped("kubelet"):
            between.cut()
            waits_on(server)
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
    nothing_left(cluster, server)
    between.close()


@suite.case("a sandbox is closed while its kubelet does nothing: the API server has forgotten its pod, its code is dead", when=OWN_PARTS)
def kubelet_stopped():
    server, sandbox = opened(cluster)
    with server:
        begun(server, sandbox, ENDLESS)
        with cluster.stopped("kubelet"):
            server.call("close_sandbox", sandbox_id=sandbox)
            equal(cluster.box_of(sandbox), None, "its pod")
        poll("its processes have ended", lambda: not inside(sandbox), found=lambda: inside(sandbox))
        works(server)
    nothing_left(cluster, server)


@suite.case("all connections are cut, again and again, while a pod is waited for: it is watched again, and comes", when=OWN_PARTS)
def watch_cut():
    between = kube.Between(cluster)
    with cluster.server(kubeconfig=between.kubeconfig) as server:
        server.legacy()
        works(server)
        with cluster.stopped("kubelet"):
            pending = server.start_call("create_sandbox")
            poll("the pod is there", lambda: cluster.boxes_of(server.runtime_dir))
            for _ in range(3):
                seen = between.count
                between.cut()
                poll("it is connected again", lambda before=seen: between.count > before)
        sandbox = pending.structured()["sandbox_id"]
        equal(len(cluster.boxes_of(server.runtime_dir)), 1, "pods")
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    nothing_left(cluster, server)
    between.close()


@suite.case("all connections are cut in the middle of a call: nothing of its output is lost, and the state is kept")
def stream_cut():
    between = kube.Between(cluster)
    server, sandbox = opened(cluster, kubeconfig=between.kubeconfig)
    with server:
        server.run("before = 'state'", sandbox_id=sandbox)
        pending = begun(server, sandbox, STREAM)
        between.cut()
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")
    nothing_left(cluster, server)
    between.close()


# ---- pods that somebody or the cluster ends ----


def deleted(pod):
    cluster.remove(pod, seconds=30)


def drained(pod):
    review = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"], "namespace": kube.NAMESPACE}}
    path = f"/api/v1/namespaces/{kube.NAMESPACE}/pods/{pod['metadata']['name']}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(review))


def overdue(pod):
    cluster.kubectl("-n", kube.NAMESPACE, "patch", "pod", pod["metadata"]["name"], "--type=merge", "-p", '{"spec": {"activeDeadlineSeconds": 1}}')


ENDS = {"deleted by somebody": (deleted, "delet"), "drained from its node": (drained, "delet"), "as old as it may become": (overdue, "DeadlineExceeded")}


def ended_outside(how, word):
    server, sandbox = opened(cluster)
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS)
        how(cluster.box_of(sandbox))
        assert pending.result()["isError"]
        said_after(sandbox, server, "ended", word)
        equal(server.run("1 + 1", sandbox_id=other)["result"], "2")
    nothing_left(cluster, server)


for name, (end, what) in ENDS.items():
    suite.case(f"a pod that is {name} in the middle of a call: the owner is told, and others live on")(lambda e=end, w=what: ended_outside(e, w))


# ---- creations that cannot be ----


@suite.case("a quota of the namespace that is used up: the server's own words; with room again, sandboxes are made")
def quota():
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": kube.NAMESPACE}, "spec": {"hard": {"pods": "1"}}}
    cluster.kubectl("apply", "-f", "-", text=json.dumps(limit))
    try:
        poll("it is counted", lambda: "hard" in cluster.objects("resourcequota")[0].get("status", {}))
        server, sandbox = opened(cluster)
        with server:
            error = clear(server.call_failing("create_sandbox")["error"])
            contains(error["message"], "exceeded quota: few")
            contains(error["hint"], "ResourceQuota")
            equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
            server.call("close_sandbox", sandbox_id=sandbox)
            poll("there is room", lambda: cluster.objects("resourcequota")[0]["status"]["used"]["pods"] == "0")
            works(server)
        nothing_left(cluster, server)
    finally:
        cluster.kubectl("-n", kube.NAMESPACE, "delete", "resourcequota", "few")


@suite.case("an image that no node can pull: the kubelet's own words, at once")
def image_missing():
    with cluster.server("--image", "registry.invalid/nobody/none:1") as server:
        server.legacy()
        error = refused(server, "registry.invalid")
        equal(error["code"], "image_not_found")


@suite.case("a pod that is too large for every node: the scheduler's words")
def no_room():
    with cluster.server("--memory-mb", "60000", "--memory-budget-mb", "100000") as server:
        server.legacy()
        refused(server, "Insufficient memory")


@suite.case("an account that is removed: the error says 401 and what to look at, and its living sandbox goes on")
def account_removed():
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "brief", "namespace": kube.NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": kube.ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": "brief", "namespace": kube.NAMESPACE}],
    }
    cluster.kubectl("-n", kube.NAMESPACE, "create", "serviceaccount", "brief")
    try:
        cluster.kubectl("apply", "-f", "-", text=json.dumps(binding))
        token = cluster.token_of("brief")
        path = cluster.write(kube.config(cluster.url, {"token": token}, **{"certificate-authority": cluster.certificate}))
        server, sandbox = opened(cluster, kubeconfig=path)
    finally:
        cluster.kubectl("-n", kube.NAMESPACE, "delete", "serviceaccount", "brief")
    # an API server remembers for seconds whom a token has named
    poll("the token is refused", lambda: server.start_call("create_sandbox").result().get("isError"), interval=1)
    error = clear(server.call_failing("create_sandbox")["error"])
    contains(json.dumps(error), "401")
    assert token not in json.dumps(error), "the token is in it"
    equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.kill_with_sweeper()  # neither may remove its pods
    cluster.kubectl("-n", kube.NAMESPACE, "delete", "rolebinding", "brief")
    for pod in cluster.boxes():
        cluster.remove(pod)


# ---- rights ----


@contextlib.contextmanager
def role_without(right):
    verb, resource = right.split()
    role = json.loads(cluster.kubectl("-n", kube.NAMESPACE, "get", "role", kube.ACCOUNT, "-o", "json"))
    for rule in role["rules"]:
        if resource in rule["resources"]:
            rule["verbs"] = [v for v in rule["verbs"] if v != verb]
    role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    del role["metadata"]["resourceVersion"]
    cluster.kubectl("replace", "-f", "-", text=json.dumps(role))
    try:
        yield
    finally:
        cluster.kubectl("apply", "-f", kube.ROLE)


@suite.case("the doctor names each right of role.yaml that is taken away, and is content when all are there")
def rights_missing():
    for right in kube.rights():
        verb, resource = right.split()
        with role_without(right):
            account = f"--as=system:serviceaccount:{kube.NAMESPACE}:{kube.ACCOUNT}"

            def may(words=("auth", "can-i", verb, resource.split("/")[0], *(f"--subresource={s}" for s in resource.split("/")[1:]))):
                try:
                    return cluster.kubectl("-n", kube.NAMESPACE, *words, account).strip() == "yes"
                except AssertionError:
                    return False

            poll("it is taken away", lambda: not may())
            done = cluster.doctor()
            if right in UNASKED:
                equal(done.returncode, 0, f"without {right}: {done.stdout}")
            else:
                contains(" ".join(done.stdout.split()), f"{verb} {resource}", f"without {right}")
        poll("it is back", may)
    done = cluster.doctor()
    equal(done.returncode, 0, f"exit status; {done.stdout}{done.stderr}")


# ---- many ----


@suite.case(f"{MANY} sandboxes at once: each runs its own code, and none is left")
def many():
    with cluster.server("--max-sandboxes", str(MANY), "--memory-mb", "64", "--disk-mb", "16", "--cpus", "0.1", "--grace-seconds", "120") as server:
        server.legacy()
        pending = [server.start_call("create_sandbox") for _ in range(MANY)]
        boxes = [p.structured(seconds=500)["sandbox_id"] for p in pending]
        equal(len(set(boxes)), MANY, "sandboxes")
        calls = [server.start_call("execute_code", sandbox_id=box, code=f"x = {box!r}\nx") for box in boxes]
        equal([call.structured(seconds=300)["result"] for call in calls], [repr(box) for box in boxes])
        calls = [server.start_call("execute_code", sandbox_id=box, code="x") for box in boxes]
        equal([call.structured(seconds=300)["result"] for call in calls], [repr(box) for box in boxes])
        calls = [server.start_call("close_sandbox", sandbox_id=box) for box in boxes]
        for call in calls:
            call.structured(seconds=300)
    nothing_left(cluster, server)


@suite.finish
def nothing_at_all():
    """no pod is left in the cluster"""
    poll("no pod is left", lambda: not cluster.boxes(), found=lambda: [p["metadata"]["name"] for p in cluster.boxes()])


suite.run()
