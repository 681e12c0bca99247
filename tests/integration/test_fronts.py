"""Several servers on one cluster (--front-lease-seconds): what one of them has is taken over by another when it is gone, once, with its
state and its calls; one that was only cut off lets go. On the stand-in of test_kubernetes.py, or the cluster that CLOISTER_KUBE names.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal

os.environ["CLOISTER_BACKEND"] = "kubernetes"  # before anything looks for the backend under test

from common import NONE, Suite, contains, equal, needs_backend, poll  # pylint: disable=wrong-import-position
from common_remote import STREAM, WANTED, begun, nothing_left
import kube
import mcp
from mcp_http import HttpServer

needs_backend("kubernetes")
cluster = kube.started()
suite = Suite(NONE)
FAKED = not cluster.is_real

LEASE_S = 4
TAKEN = "another server of the cluster has taken it over"
LEASES = r"^/apis/coordination.k8s.io/v1/namespaces/[^/]+/leases"
POD = r"^/api/v1/namespaces/[^/]+/pods/[^/?]+$"
PROGRAMS = ("supervisor/cloister", "worker/cloister-worker", "worker/agent/cloister-agent", "worker/agent/cloister-agent-start")


def front(*options, lease=LEASE_S, **how):
    """A server among others, whose lease is there."""
    server = cluster.server("--instance", "main", "--front-lease-seconds", str(lease), *options, **how)
    server.legacy()
    poll("it has a lease", lambda: lease_of(server) is not None)
    return server


def name_of(server):
    """Its name among the others, once it has chosen one."""
    path = os.path.join(server.runtime_dir, "main", "shared", "front")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def lease_of(server):
    found = [lease for lease in cluster.objects("leases") if lease["metadata"].get("labels", {}).get("cloister.front") == name_of(server)]
    return found[0] if found else None


def owner_of(sandbox):
    return cluster.box_of(sandbox)["metadata"]["labels"].get("cloister.front")


def boxes(server):
    return {box["sandbox_id"]: box for box in server.call("get_sandbox_status")["sandboxes"]}


def facts(box):
    return {key: box[key] for key in ("sandbox_id", "name", "limits", "backend", "image", "executions", "created_at")}


def all_of(server):
    """Pids of a server and of all its workers."""
    return [server.process.pid] + [pid for pid, line in mcp.processes() if "cloister-worker" in line and server.runtime_dir in line]


def killed(server):
    """Nothing of it is left, as when its machine is gone."""
    pids = all_of(server)
    for pid in pids:
        mcp.send_signal(pid, signal.SIGSTOP)
    for pid in server.sweepers() + pids[1:]:
        mcp.send_signal(pid, signal.SIGKILL)
    server.kill()


def has(server, sandbox):
    box = boxes(server).get(sandbox)
    return box is not None and box["state"] == "ready"


def finish(*servers):
    """SIGINT ends a server with its sandboxes; then nothing of it is in the cluster but a lease that runs out."""
    for server in servers:
        server.process.send_signal(signal.SIGINT)
    for server in servers:
        equal(server.wait_exit(), 0, f"exit status; {server.log_tail()}")
        server.join()
        equal([line for line in server.log if "Sanitizer" in line], [], "sanitizers")
        nothing_left(cluster, server)


def goes_on(end):
    """Code runs at the first server when that is gone; the second has all of it, and what was there before."""
    first, second = front(), front()
    box = first.call("create_sandbox", name="box", memory_mb=200, timeout_seconds=50)["sandbox_id"]
    other = first.call("create_sandbox")["sandbox_id"]
    first.run("before = 'state'", sandbox_id=box)
    first.run("x = 41", sandbox_id=other)
    equal((owner_of(box), owner_of(other)), (name_of(first), name_of(first)))
    begun(first, box, STREAM)
    poll("it is listed", lambda: first.call("get_sandbox_status", sandbox_id=box)["executions_recent"][0]["status"] == "running")
    execution = first.call("get_sandbox_status", sandbox_id=box)["executions_recent"][0]["execution_id"]
    listed = {ident: facts(found) for ident, found in boxes(first).items()}
    equal(boxes(second), {})
    end(first)

    poll("the second has both", lambda: has(second, box) and has(second, other))
    done = second.call("get_execution", execution_id=execution, wait_seconds=30)
    equal((done["status"], done["stdout"]), ("ok", WANTED))
    equal({ident: facts(found) for ident, found in boxes(second).items()}, listed)
    equal(second.run("before", sandbox_id="box")["result"], "'state'")
    equal(second.run("x + 1", sandbox_id=other)["result"], "42")
    equal((owner_of(box), owner_of(other)), (name_of(second), name_of(second)))
    poll("nothing says that the first lives", lambda: lease_of(first) is None)
    finish(second)


@suite.case("a server is gone with all its processes while code runs: another one goes on, and no call is lost")
def server_gone():
    goes_on(killed)


@suite.case("a server is killed and its workers live: another one goes on all the same")
def server_killed():
    goes_on(lambda server: server.kill())


@suite.case("a server that is told to end leaves its sandboxes to another one")
def server_ended():
    def end(server):
        server.process.send_signal(signal.SIGTERM)
        equal(server.wait_exit(), 0, "exit status")

    goes_on(end)


LONG_S = 600  # nothing that waits for such a lease ends in time


def ended(server):
    server.process.send_signal(signal.SIGTERM)
    equal(server.wait_exit(), 0, f"exit status; {server.log_tail()}")


@suite.case("a server that is told to end gives its lease up: the others need not wait for the end of its time")
def gives_up():
    first, *others = [front("--max-sandboxes", "8", lease=LONG_S) for _ in range(3)]
    made = {first.call("create_sandbox")["sandbox_id"] for _ in range(3)}
    for box in made:
        first.run("x = 41", sandbox_id=box)
    ended(first)
    poll("each is at one of the others", lambda: sorted(box for server in others for box in boxes(server)) == sorted(made))
    for server in others:
        for box in boxes(server):
            poll("it is ready", lambda: has(server, box))  # pylint: disable=cell-var-from-loop
            equal(server.run("x + 1", sandbox_id=box)["result"], "42")
            equal(owner_of(box), name_of(server))
    poll("nothing of its lease is left", lambda: lease_of(first) is None)
    finish(*others)


@suite.case("a server that has ended in order comes back, and what others have taken over stays theirs")
def back_among_others():
    first, second = front(lease=LONG_S), front(lease=LONG_S)
    box = first.call("create_sandbox", name="box")["sandbox_id"]
    first.run("x = 42", sandbox_id=box)
    ended(first)
    poll("the second has it", lambda: has(second, box))
    again = front(lease=LONG_S, runtime_dir=first.runtime_dir)
    poll("the first knows", lambda: boxes(again).get(box, {"state": "failed"})["state"] == "failed")
    mine = again.call("create_sandbox")["sandbox_id"]
    equal((owner_of(box), owner_of(mine)), (name_of(second), name_of(again)))
    ended(second)
    poll("both are at the first", lambda: has(again, box) and has(again, mine), found=again.log_tail)
    equal(again.run("x", sandbox_id=box)["result"], "42")
    finish(again)


@suite.case("a server that ends in order and comes back among nobody still has its sandboxes")
def back_alone():
    first = front(lease=LONG_S)
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 42", sandbox_id=box)
    ended(first)
    lease = lease_of(first)
    equal(lease["spec"].get("holderIdentity"), None)
    again = front(lease=LONG_S, runtime_dir=first.runtime_dir)
    equal(again.run("x", sandbox_id=box)["result"], "42")
    poll("it holds its lease again", lambda: lease_of(again)["spec"].get("holderIdentity"))
    finish(again)


@suite.case("without the right to watch leases the end of a server is seen in the next round", when=FAKED)
def no_watch():
    cluster.order(deny=["watch leases"])
    first, second = front(), front()
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 42", sandbox_id=box)
    ended(first)
    poll("the second has it", lambda: has(second, box), found=second.log_tail)
    equal(second.run("x", sandbox_id=box)["result"], "42")
    cluster.calm()
    finish(second)


@suite.case("a server that was only cut off finds that its sandboxes are another's, and does not touch them")
def cut_off():
    first, second = front(), front()
    box = first.call("create_sandbox", name="box")["sandbox_id"]
    first.run("before = 'state'", sandbox_id=box)
    pids = all_of(first)
    for pid in pids:
        mcp.send_signal(pid, signal.SIGSTOP)
    poll("the second has it", lambda: has(second, box))
    equal(second.run("before", sandbox_id=box)["result"], "'state'")
    for pid in pids:
        mcp.send_signal(pid, signal.SIGCONT)
    poll("the first knows", lambda: boxes(first)[box]["state"] == "failed")
    contains(first.call_failing("execute_code", sandbox_id=box, code="1")["error"]["message"], TAKEN)
    first.call("close_sandbox", sandbox_id=box)
    finish(first)
    equal(second.run("before", sandbox_id=box)["result"], "'state'")
    equal(owner_of(box), name_of(second))
    finish(second)


@suite.case("a sandbox comes back to the server that it was taken from, once the other one is gone")
def comes_back():
    first, second = front(), front()
    box = first.call("create_sandbox", name="box")["sandbox_id"]
    first.run("x = 41", sandbox_id=box)
    pids = all_of(first)
    for pid in pids:
        mcp.send_signal(pid, signal.SIGSTOP)
    poll("the second has it", lambda: has(second, box))
    second.run("x += 1", sandbox_id=box)
    for pid in pids:
        mcp.send_signal(pid, signal.SIGCONT)
    poll("the first knows", lambda: boxes(first)[box]["state"] == "failed")
    killed(second)
    poll("the first has it again", lambda: has(first, box), found=first.log_tail)
    equal(first.run("x", sandbox_id="box")["result"], "42")
    equal((owner_of(box), len(boxes(first))), (name_of(first), 1))
    finish(first)


@suite.case("of several servers each takes some, and no sandbox is at two")
def taken_once():
    first, *others = [front("--max-sandboxes", "8") for _ in range(3)]
    made = {first.call("create_sandbox")["sandbox_id"] for _ in range(5)}
    killed(first)

    def shared_out():
        found = [set(boxes(server)) for server in others]
        equal(found[0] & found[1], set(), "sandboxes at two servers")
        return found[0] | found[1] == made

    poll("all are taken", shared_out)
    for server in others:
        for sandbox in boxes(server):
            equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
            equal(owner_of(sandbox), name_of(server))
    finish(*others)


@suite.case("over HTTP a principal finds what he had at the server that is left, and nobody else does", when=FAKED)
def principals():
    path = os.path.join(mcp.temporary_directory(), "tokens")
    alice, bob = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(f"alice {alice}\nbob {bob}\n")
    first, second = [HttpServer(*cluster.options(), "--front-lease-seconds", str(LEASE_S), "--tokens", path) for _ in range(2)]
    for server in (first, second):
        poll("it has a lease", lambda: lease_of(server) is not None)  # pylint: disable=cell-var-from-loop
    client = first.client("2025-11-25", token=alice)
    box = client.call("create_sandbox", name="box")["sandbox_id"]
    client.run("x = 42", sandbox_id=box)
    killed(first)
    client, other = [second.client("2025-11-25", token=token) for token in (alice, bob)]
    poll("the second has it", lambda: has(client, box))
    equal(client.run("x", sandbox_id="box")["result"], "42")
    equal(boxes(other), {})
    equal(other.call_failing("execute_code", sandbox_id=box, code="x")["error"]["code"], "sandbox_not_found")
    finish(second)


@suite.case("a server that is started again in time still has its sandboxes")
def started_again():
    first, second = front(lease=60), front(lease=60)
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 42", sandbox_id=box)
    killed(first)
    again = front(lease=60, runtime_dir=first.runtime_dir)
    equal(again.run("x", sandbox_id=box)["result"], "42")
    equal((owner_of(box), boxes(second)), (name_of(again), {}))
    finish(again, second)


@suite.case("a server that is started again without the option does not mark its sandboxes", when=FAKED)
def alone_again():
    first = front()
    first.process.send_signal(signal.SIGINT)
    equal(first.wait_exit(), 0, "exit status")
    alone = cluster.server("--instance", "main", runtime_dir=first.runtime_dir)
    alone.legacy()
    box = alone.call("create_sandbox")["sandbox_id"]
    equal((owner_of(box), alone.run("6 * 7", sandbox_id=box)["result"]), (None, "42"))
    finish(alone)


@suite.case("a kubeconfig that is not there at the beginning is read when it is", when=FAKED)
def config_comes_later():
    path = os.path.join(cluster.directory, "later")
    server = cluster.server("--instance", "main", "--front-lease-seconds", str(LEASE_S), kubeconfig=path)
    server.legacy()
    poll("a round has failed", lambda: any("among other servers" in line for line in server.log))
    cluster.write(cluster.config(), "later")
    poll("it has a lease", lambda: lease_of(server) is not None, found=server.log_tail)
    finish(server)


def spares():
    """Pods that say that nobody knows of them."""
    return [pod for pod in cluster.boxes() if pod["metadata"].get("annotations", {}).get("cloister.record") == ""]


AWAY_S = 3600  # for so long the agent of a pod waits for a server


@suite.case("a pod of the pool of a server that is gone is removed by another one, however long its agent would wait")
def spare_pod():
    first, second = front("--pool", "1", "--grace-seconds", str(AWAY_S)), front("--grace-seconds", str(AWAY_S))
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 42", sandbox_id=box)
    poll("one is made in advance", spares)
    killed(first)
    poll("the second has the one that was given", lambda: has(second, box))
    poll("the other is gone", lambda: len(cluster.boxes()) == 1)
    equal(second.run("x", sandbox_id=box)["result"], "42")
    finish(second)


@suite.case("a server that was only cut off gives nobody a pod that another one has removed")
def spare_not_given():
    first, second = front("--pool", "1", "--grace-seconds", str(AWAY_S)), front("--grace-seconds", str(AWAY_S))
    first.call("close_sandbox", sandbox_id=first.call("create_sandbox")["sandbox_id"])
    poll("one is made in advance", spares)
    pids = all_of(first)
    for pid in pids:
        mcp.send_signal(pid, signal.SIGSTOP)
    poll("it is removed", lambda: not cluster.boxes())
    for pid in pids:
        mcp.send_signal(pid, signal.SIGCONT)
    equal(first.run("6 * 7", sandbox_id=first.call("create_sandbox")["sandbox_id"])["result"], "42")
    finish(first, second)


@suite.case("a pod that was removed while it was being given to somebody: he gets another one", when=FAKED)
def spare_given_late():
    first = front("--pool", "1", "--grace-seconds", str(AWAY_S))
    first.call("close_sandbox", sandbox_id=first.call("create_sandbox")["sandbox_id"])
    poll("one is made in advance", spares)
    spare = spares()[0]["metadata"]["name"]
    cluster.fault("PATCH", POD, "status", code=404, reason="NotFound", message=f'pods "{spare}" not found')
    box = first.call("create_sandbox")["sandbox_id"]
    assert box not in spare, "what was removed was given"
    equal((cluster.hits(), first.run("6 * 7", sandbox_id=box)["result"]), ([1], "42"))
    cluster.calm()
    finish(first)


# ---- pods of the pool of another server ----


def uid_of(sandbox):
    return cluster.id_of(cluster.box_of(sandbox))


def offered_by(server):
    """Ids of what it has made in advance and others may claim."""
    found = [pod["metadata"]["labels"] for pod in spares()]
    return [labels["cloister.sandbox"] for labels in found if labels.get("cloister.front") == name_of(server) and "cloister.spare" in labels]


def told(server, what):
    return any(what in line for line in server.log)


POOL = ("--pool", "1", "--grace-seconds", str(AWAY_S))
OFFERED = "pool: other servers offer"


@contextlib.contextmanager
def one_empty(giver=POOL, **how):
    """Two servers: the pool of the first has a pod, that of the second is empty, and cannot be filled before the end."""
    first, second = front(*giver, **how), front(*POOL, "--log-level", "debug")
    for server in (first, second):
        server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])
        poll("one is made in advance", lambda: len(offered_by(server)) == 1, found=server.log_tail)  # pylint: disable=cell-var-from-loop
    poll("the second has asked what there is", lambda: told(second, OFFERED), found=second.log_tail)
    cluster.order(pods={"do": "late"})
    second.call("create_sandbox")
    poll("its next one is being made", lambda: len([pod for pod in cluster.boxes() if pod["metadata"]["labels"].get("cloister.front") == name_of(second)]) == 2)
    try:
        yield first, second, offered_by(first)[0]
    finally:
        cluster.calm()
        cluster.order(go=True)


@suite.case("a server whose pool is empty takes a pod of another one's pool, which makes another", when=FAKED)
def shared():
    with one_empty() as (first, second, spare):
        poll("the second knows of it", lambda: told(second, f"{OFFERED} 1"), found=second.log_tail)
        uid = uid_of(spare)
        box = second.call("create_sandbox", name="box")["sandbox_id"]
        equal((box, uid_of(box), owner_of(box)), (spare, uid, name_of(second)))
        equal("cloister.spare" in cluster.box_of(box)["metadata"]["labels"], False, "it is still on offer")
        second.run("x = 42", sandbox_id=box)
        poll("the first makes another one", lambda: [each for each in offered_by(first) if each != box], found=first.log_tail)
        other = first.call("create_sandbox")["sandbox_id"]
        assert other != box, "a pod at two servers"
        equal(boxes(first).keys() & boxes(second).keys(), set())
    killed(first)
    poll("the second has what the first had", lambda: has(second, other), found=second.log_tail)
    equal((second.run("x", sandbox_id=box)["result"], uid_of(box)), ("42", uid))
    finish(second)


@suite.case("a node has changed the pod, or somebody was quicker: it is looked at again, or another one is made", when=FAKED)
def shared_conflict():
    for times, is_had in ((1, True), (20, False)):
        with one_empty() as (first, second, spare):
            poll("the second knows of it", lambda: told(second, f"{OFFERED} 1"), found=second.log_tail)  # pylint: disable=cell-var-from-loop
            cluster.fault("PATCH", rf"/pods/cloister-{spare}$", "status", code=409, reason="Conflict", times=times)
            box = second.call("create_sandbox")["sandbox_id"]
            equal((box == spare, second.run("6 * 7", sandbox_id=box)["result"]), (is_had, "42"))
            equal(owner_of(spare), name_of(second if is_had else first))
            assert cluster.hits()[0] > 0
        finish(first, second)


@suite.case("a pod that another server has claimed in this moment is given to nobody else", when=FAKED)
def shared_race():
    with one_empty() as (first, second, spare):
        poll("the second knows of it", lambda: told(second, f"{OFFERED} 1"), found=second.log_tail)
        cluster.fault("GET", rf"/pods/cloister-{spare}/exec", "hang")
        workers = all_of(first)[1:]
        for pid in workers:
            mcp.send_signal(pid, signal.SIGSTOP)
        late = second.start_call("create_sandbox")
        poll("the second has claimed it", lambda: owner_of(spare) == name_of(second) and cluster.hits() == [1])
        early = first.start_call("create_sandbox")
        for pid in workers:
            mcp.send_signal(pid, signal.SIGCONT)
        mine = early.structured()["sandbox_id"]
        assert mine != spare, "a pod at two servers"
        equal(first.run("6 * 7", sandbox_id=mine)["result"], "42")
        box = late.structured()["sandbox_id"]
        assert box != spare, "it was claimed, but nobody had reached its agent"
        poll("what could not be reached is removed", lambda: cluster.box_of(spare) is None, found=second.log_tail)
        equal(second.run("6 * 7", sandbox_id=box)["result"], "42")
        equal(boxes(first).keys() & boxes(second).keys(), set())
    finish(first, second)


@suite.case("a server that dies while it claims a pod: another one removes it", when=FAKED)
def shared_and_gone():
    with one_empty() as (first, second, spare):
        poll("the second knows of it", lambda: told(second, f"{OFFERED} 1"), found=second.log_tail)
        cluster.fault("GET", rf"/pods/cloister-{spare}/exec", "hang")
        second.start_call("create_sandbox")
        poll("the second has claimed it", lambda: owner_of(spare) == name_of(second) and cluster.hits() == [1])
        killed(second)
        poll("it is gone", lambda: cluster.box_of(spare) is None, found=first.log_tail)
    finish(first)


@suite.case("the node changes a pod of the pool while it is being given: it is given all the same", when=FAKED)
def own_conflict():
    first = front(*POOL)
    first.call("close_sandbox", sandbox_id=first.call("create_sandbox")["sandbox_id"])
    poll("one is made in advance", lambda: len(offered_by(first)) == 1, found=first.log_tail)
    spare = offered_by(first)[0]
    cluster.fault("PATCH", rf"/pods/cloister-{spare}$", "status", code=409, reason="Conflict")
    box = first.call("create_sandbox")["sandbox_id"]
    equal((box, cluster.hits(), first.run("6 * 7", sandbox_id=box)["result"]), (spare, [1], "42"))
    equal("cloister.spare" in cluster.box_of(box)["metadata"]["labels"], False, "it is still on offer")
    cluster.calm()
    finish(first)


def another_build():
    """The programs in a directory of their own, with an agent that differs in a byte."""
    tree = os.path.join(mcp.temporary_directory(), "build")
    for each in PROGRAMS:
        path = os.path.join(tree, each)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.join(os.path.dirname(os.environ["CLOISTER"]), "..", each), path)
    with open(os.path.join(tree, "worker", "agent", "cloister-agent"), "ab") as agent:
        agent.write(b"\0")
    return os.path.join(tree, "supervisor", "cloister")


@suite.case("a pod with another agent or other limits is not taken", when=FAKED)
def shared_unlike():
    for giver, how in (((*POOL, "--pids", "100"), {}), (POOL, {"program": another_build()})):
        with one_empty(giver, **how) as (first, second, spare):
            box = second.call("create_sandbox")["sandbox_id"]
            assert box != spare, "it was taken"
            equal(owner_of(spare), name_of(first))
            assert not told(second, f"{OFFERED} 1"), second.log_tail()
        finish(first, second)


@suite.case("somebody was quicker, or the answer is lost: the next round takes it", when=FAKED)
def round_fails():
    for fault in ({"do": "status", "code": 409, "reason": "Conflict"}, {"do": "unanswered"}, {"do": "status", "code": 500, "reason": "InternalError"}):
        first, second = front(), front()
        box = first.call("create_sandbox")["sandbox_id"]
        first.run("x = 42", sandbox_id=box)
        cluster.fault("PATCH", POD, **fault)
        killed(first)
        poll("the second has it", lambda: has(second, box), found=second.log_tail)  # pylint: disable=cell-var-from-loop
        equal(second.run("x", sandbox_id=box)["result"], "42")
        equal(cluster.hits(), [1])
        cluster.calm()
        finish(second)


@suite.case("while the API server answers nobody, nobody is taken for gone", when=FAKED)
def api_away():
    first, second = front(), front()
    box = first.call("create_sandbox")["sandbox_id"]
    cluster.fault("PATCH", LEASES, "status", code=500, reason="InternalError", times=1000)
    poll("both have failed for longer than a lease", lambda: cluster.hits()[0] >= 12)
    cluster.calm()
    equal(first.run("6 * 7", sandbox_id=box)["result"], "42")
    poll("both go on", lambda: all(any("renewed again" in line for line in s.log) for s in (first, second)))
    equal(first.run("6 * 7", sandbox_id=box)["result"], "42")
    equal((owner_of(box), boxes(second)), (name_of(first), {}))
    finish(first, second)


@suite.case("a right that is missing: which one, and the server works alone", when=FAKED)
def forbidden():
    cluster.order(deny=["create leases"])
    server = cluster.server("--instance", "main", "--front-lease-seconds", "4")
    server.legacy()
    poll("it says so", lambda: any(re.search(r"lease.*cannot create resource \"leases\"", line) for line in server.log))
    box = server.call("create_sandbox")["sandbox_id"]
    equal(server.run("6 * 7", sandbox_id=box)["result"], "42")
    cluster.calm()
    poll("it has one as soon as it may", lambda: lease_of(server) is not None)
    finish(server)


@suite.finish
def nothing_at_all():
    """no pod is left"""
    equal([pod["metadata"]["name"] for pod in cluster.boxes()], [], "pods left")
    if FAKED:
        cluster.close()


suite.run()
