"""One pod per sandbox on a Kubernetes cluster: the tests' own API server (lib/kube_standin.mjs), which really runs the pods and
misbehaves on order, or a real cluster that CLOISTER_KUBE names (lib/kube.py); cases that order faults are left out there.
"""

import json
import os
import re
import signal

os.environ["CLOISTER_BACKEND"] = "kubernetes"  # before anything looks for the backend under test

from common import NONE, Suite, clear, contains, equal, needs_backend, poll, works  # pylint: disable=wrong-import-position
from common_remote import (
    ENDLESS, STREAM, WANTED, add_cases, begun, cannot_create, ends, fails, faulty,
    keeps_apart, left, living, nothing_left, opened, removed_in_a_call, sweeps,
)
import certificates
import kube
import mcp

needs_backend("kubernetes")
cluster = kube.started()
suite = Suite(NONE)
FAKED = not cluster.is_real

PLUGIN = "client.authentication.k8s.io/v1"
PODS = r"^/api/v1/namespaces/[^/]+/pods(\?.*)?$"
POD = r"^/api/v1/namespaces/[^/]+/pods/[^/?]+$"
EXEC = r"/exec\?"
WATCH = r"/pods\?.*watch=true"
MAPS = r"^/api/v1/namespaces/[^/]+/configmaps"


def inside(sandbox):
    """Processes of this host that are in the sandbox's pod."""
    return [line for line in mcp.processes_of(sandbox) if "cloister-worker" not in line]


# ---- what works everywhere ----


@suite.case("a sandbox is made, runs code, keeps its state, and is a pod with labels until it is closed")
def whole_life():
    with living(cluster) as (status, pod):
        equal((status["backend"], status["image"]), ("kubernetes", cluster.image))
        contains(pod["metadata"]["name"], status["sandbox_id"], "name of the pod")
        equal(pod["metadata"]["labels"][kube.MANAGED], "cloister")
        assert pod["spec"]["activeDeadlineSeconds"] > status["limits"]["lifetime_seconds"], pod["spec"]


@suite.case("a server that is gone with all its processes: the next one removes its pods")
def swept():
    sweeps(cluster)


@suite.case("a server that ends takes its pods with it, and leaves no object but the agent's")
def ended():
    ends(cluster)
    maps = [m for m in cluster.objects("configmaps") if kube.MANAGED in m["metadata"].get("labels", {})]
    assert maps, "no ConfigMap with the agent"
    equal([m["metadata"]["name"] for m in maps if not (m["metadata"]["name"].startswith("cloister-agent-") and m.get("immutable"))], [])


@suite.case("pods side by side do not share state or files")
def side_by_side():
    keeps_apart(cluster)


@suite.case("a pod deleted from outside in the middle of a call: both the call and the next one say it, others live on")
def pod_deleted():
    removed_in_a_call(cluster)


add_cases(suite, cluster)


@suite.case("the pod is hardened: no privileges, no token, a root that nobody writes, limits and sizes")
def hardened():
    server, sandbox = opened(cluster, "--memory-mb", "200", "--cpus", "0.5")
    with server:
        spec = cluster.box_of(sandbox)["spec"]
        container = spec["containers"][0]
        security = {**spec["securityContext"], **container["securityContext"]}
        equal(security["allowPrivilegeEscalation"], False)
        equal(security["readOnlyRootFilesystem"], True)
        equal(security["capabilities"]["drop"], ["ALL"])
        equal(security["seccompProfile"]["type"], "RuntimeDefault")
        equal((security["runAsNonRoot"], security["runAsUser"] > 0), (True, True))
        equal((spec["automountServiceAccountToken"], spec["enableServiceLinks"], spec["restartPolicy"]), (False, False, "Never"))
        equal([spec.get(k, False) for k in ("hostNetwork", "hostPID", "hostIPC")], [False] * 3)
        limits = container["resources"]["limits"]
        equal((limits["memory"] in ("200Mi", str(200 << 20)), limits["cpu"]), (True, "500m"))
        assert all("sizeLimit" in v["emptyDir"] for v in spec["volumes"] if "emptyDir" in v), spec["volumes"]
        assert not any("hostPath" in v for v in spec["volumes"]), spec["volumes"]
        status = server.run("print(open('/proc/self/status').read())", sandbox_id=sandbox)["stdout"]
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        equal((int(fields["CapEff"], 16), int(fields["CapBnd"], 16), fields["NoNewPrivs"]), (0, 0, "1"))
        server.run("import os\ntry:\n    open('/usr/new', 'w')\nexcept OSError as e:\n    print(e.errno)", sandbox_id=sandbox)
        equal(server.run("import os\nos.path.exists('/var/run/secrets/kubernetes.io')", sandbox_id=sandbox)["result"], "False")
        names = [note.split(":")[0] for note in server.call("get_sandbox_status", sandbox_id=sandbox)["limits"]["unapplied"]]
        contains(names, "network", "what a cluster does not enforce by itself")


@suite.case("a sandbox of the pool is a pod that was there before, whose lifetime begins when it is given")
def pooled():
    with cluster.server("--pool", "1") as server:
        server.legacy()

        def pool():
            return server.call("get_sandbox_status")["pool"]

        server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])
        for _ in range(10):  # a busy machine may need longer than a claim waits, and makes another one
            poll("one is ready", lambda: pool()["ready"] == 1)
            ready, before = {p["metadata"]["labels"]["cloister.sandbox"] for p in cluster.boxes()}, pool()["hits"]
            sandbox = server.call("create_sandbox")["sandbox_id"]
            if pool()["hits"] > before:
                break
            server.call("close_sandbox", sandbox_id=sandbox)
        contains(ready, sandbox, "those that were there before")
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
        assert "activeDeadlineSeconds" not in cluster.box_of(sandbox)["spec"], "the time in the pool counts"


@suite.case("a pod that is given hours to end needs no second of them, and code cannot end it by the same signal")
def ends_when_asked():
    server, sandbox = opened(cluster)
    with server:
        equal(server.run("import os\nos.kill(1, 15)\nx = 1", sandbox_id=sandbox)["status"], "ok")
        equal(server.run("x", sandbox_id=sandbox)["result"], "1")
        cluster.remove(cluster.box_of(sandbox), seconds=10000)
        poll("its processes have ended", lambda: not inside(sandbox), found=lambda: inside(sandbox))
        clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])


# ---- doctor and configuration ----


@suite.case("the doctor names the cluster and is content with the rights of role.yaml; it tells no secret")
def doctor_content():
    done = cluster.doctor()
    equal(done.returncode, 0, f"exit status; {done.stdout}{done.stderr}")
    contains(done.stdout, "kubernetes")
    contains(done.stdout, "Kubernetes v1.", "its version")
    assert cluster.token not in done.stdout + done.stderr, "the token is in what the doctor says"
    poll("its trial is gone", lambda: not [p for p in cluster.boxes() if "deletionTimestamp" not in p["metadata"]])


@suite.case("no token gets into the log, not even with all there is to log")
def no_token_in_log():
    server, sandbox = opened(cluster, "--log-level", "debug")
    with server:
        server.run("1", sandbox_id=sandbox)
        server.call("close_sandbox", sandbox_id=sandbox)
    text = "\n".join(server.log)
    assert cluster.token not in text, "the token is in the log"


def explained(kubeconfig, *words):
    """The doctor refuses this kubeconfig and says these words."""
    done = cluster.doctor(kubeconfig)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0, f"accepted: {said}"
    for word in words:
        contains(said, word, "what the doctor says")
    assert cluster.token not in said, "the token is in it"


def good():
    return kube.config(cluster.url, {"token": cluster.token}, **{"certificate-authority": cluster.certificate})


@suite.case("a kubeconfig that is not there, is no YAML, or lacks a context, a cluster or a user: which file, and what")
def bad_structure():
    absent = os.path.join(cluster.directory, "absent")
    explained(absent, absent)
    path = cluster.write("clusters: [}")
    explained(path, path)
    path = cluster.write("")
    explained(path, path)
    for change, word in (({"current-context": "other"}, "other"), ({"clusters": []}, '"c"'), ({"users": []}, '"u"'), ({"current-context": ""}, "current-context")):
        path = cluster.write({**good(), **change})
        explained(path, path, word)
    explained(f"nowhere@{cluster.kubeconfig}", cluster.kubeconfig, "nowhere")


@suite.case("certificates that are not there, are none, or are another server's: which one")
def bad_certificates():
    absent = os.path.join(cluster.directory, "absent.crt")
    user = {"token": cluster.token}
    explained(cluster.write(kube.config(cluster.url, user, **{"certificate-authority": absent})), absent)
    junk = cluster.write("no certificate", "junk.crt")
    explained(cluster.write(kube.config(cluster.url, user, **{"certificate-authority": junk})), junk)
    explained(cluster.write(kube.config(cluster.url, user, **{"certificate-authority-data": "%%%"})), "certificate-authority-data")
    other, key = certificates.certificate(cluster.directory, "other")
    explained(cluster.write(kube.config(cluster.url, user, **{"certificate-authority": other})), "certificate")
    mine = {"certificate-authority": cluster.certificate}
    explained(cluster.write(kube.config(cluster.url, {"client-certificate": other}, **mine)), "client-key")
    explained(cluster.write(kube.config(cluster.url, {"client-certificate": other, "client-key": absent}, **mine)), absent)
    assert key


@suite.case("a user who is described in a way that is not taken, is nobody, or whose token is wrong: an error that names it")
def bad_users():
    mine = {"certificate-authority": cluster.certificate}
    for key in ("auth-provider", "username", "as"):
        path = cluster.write(kube.config(cluster.url, {key: "somebody"}, **mine))
        explained(path, path, key)
    explained(cluster.write(kube.config(cluster.url, {"token": "wrong"}, **mine)), "401")
    absent = os.path.join(cluster.directory, "absent.token")
    explained(cluster.write(kube.config(cluster.url, {"tokenFile": absent}, **mine)), absent)


def fetcher(script, **more):
    """A kubeconfig whose user has a program that fetches the token."""
    program = cluster.write(f"#!/bin/sh\n{script}\n")
    os.chmod(program, 0o700)
    user = {"exec": {"apiVersion": PLUGIN, "command": program, "interactiveMode": "IfAvailable", **more}}
    return cluster.write(kube.config(cluster.url, user, **{"certificate-authority": cluster.certificate}))


def credential(token, **more):
    return json.dumps({"kind": "ExecCredential", "apiVersion": PLUGIN, "status": {"token": token, **more}})


@suite.case("a program that fetches the token: it gets its arguments and variables, and is run again for one that has expired")
def plugin():
    for more in ({}, {"expirationTimestamp": "2020-01-31T12:00:00Z"}, {"expirationTimestamp": "2099-01-31T12:00:00.5+01:00"}):
        answer = cluster.write(credential(cluster.token, **more))
        script = f'[ "$GREETING" = hello ] && [ "$1" = --now ] || exit 7\ncase $KUBERNETES_EXEC_INFO in *{cluster.url}*) cat {answer} ;; esac'
        path = fetcher(script, args=["--now"], env=[{"name": "GREETING", "value": "hello"}], provideClusterInfo=True)
        with cluster.server(kubeconfig=path) as server:
            server.legacy()
            works(server)


@suite.case("a program that fetches no token: what it said or did, and nothing that it printed")
def plugin_fails():
    explained(fetcher("exit 0", command="/nonexistent/fetch-token"), "/nonexistent/fetch-token")
    explained(fetcher("echo please log in >&2; exit 3"), "please log in", "status 3")
    explained(fetcher("kill -9 $$"), "signal 9")
    explained(fetcher(f"echo '{cluster.token}'"), "ExecCredential")
    explained(fetcher(f"while :; do echo '{cluster.token}'; done"), "65536 bytes")
    explained(fetcher(f"echo '{credential(cluster.token)}'", apiVersion=PLUGIN + "beta1"), "v1beta1")
    explained(fetcher(f"echo '{credential(cluster.token)}'", apiVersion=PLUGIN + "alpha1"), "apiVersion")
    explained(fetcher("true", interactiveMode="Always"), "interactiveMode")
    for script in (f"sleep 31415.9 & echo '{credential(cluster.token)}'", "sleep 31415.9; true"):
        explained(fetcher(script), "did not end")
        poll("what it has started has ended, too", lambda: not mcp.processes_of("sleep 31415.9"))


@suite.case("an API server that is not there: where it was looked for")
def no_server():
    explained(cluster.write(kube.config("https://127.0.0.1:1", {"token": cluster.token}, **{"certificate-authority": cluster.certificate})), "127.0.0.1:1")


@suite.case("create_sandbox with a bad kubeconfig is a clear error, and the server lives on")
def bad_create():
    path = cluster.write({**good(), "current-context": "other"})
    cannot_create(cluster.server(kubeconfig=path), path)


@suite.case("a client's certificate does as well as a token", when=FAKED)
def client_certificate():
    user = {"client-certificate-data": kube.pem(cluster.client_certificate), "client-key-data": kube.pem(cluster.client_key)}
    path = cluster.write(cluster.config(user, **{"certificate-authority-data": kube.pem(cluster.certificate)}))
    with cluster.server(kubeconfig=path) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")


@suite.case("the doctor names each right that is missing", when=FAKED)
def rights_missing():
    for right in kube.rights():
        verb, resource = right.split()
        cluster.order(deny=[right])
        said = cluster.doctor().stdout
        contains(said, resource, f"without {right}")
        contains(said, verb, f"without {right}")
    cluster.calm()


# ---- faults ----


@suite.case("a token that was replaced in its file is read again after a 401", when=FAKED)
def token_rotated():
    file = cluster.write(cluster.token, "token")
    path = cluster.write(cluster.config({"tokenFile": file}))
    with faulty(cluster, kubeconfig=path) as server:
        works(server)
        cluster.write("another-token", "token")
        cluster.order(tokens={"another-token": cluster.user})
        works(server)
    cluster.order(tokens={cluster.token: cluster.user})


@suite.case("a program that fetches the token is run again after a 401", when=FAKED)
def plugin_again():
    answer = cluster.write(credential(cluster.token), "credential")
    with faulty(cluster, kubeconfig=fetcher(f"cat {answer}")) as server:
        works(server)
        cluster.write(credential("a-later-token"), "credential")
        cluster.order(tokens={"a-later-token": cluster.user})
        works(server)
    cluster.order(tokens={cluster.token: cluster.user})


@suite.case("a program whose tokens are all refused is run again once, not by each request", when=FAKED)
def plugin_in_vain():
    answer = cluster.write(credential(cluster.token), "credential")
    runs = cluster.write("", "runs")

    def count(path):
        with open(path, encoding="utf-8") as file:
            return len(file.readlines())

    with faulty(cluster, kubeconfig=fetcher(f"echo >>{runs}; cat {answer}")) as server:
        server.call("create_sandbox")
        before, said = count(runs), len(cluster.requests())
        cluster.order(tokens={})
        cluster.order(watches="forget")
        poll("it is asked again and again", lambda: len([r for r in cluster.requests()[said:] if r["code"] == 401]) >= 5)
        assert count(runs) - before <= 2, f"{count(runs) - before} runs of the program"  # on a slow machine the second is due
        cluster.order(tokens={cluster.token: cluster.user})


@suite.case("a token that has expired: the error says so, and what to do", when=FAKED)
def token_expired():
    with faulty(cluster) as server:
        works(server)
        cluster.order(tokens={})
        error = clear(server.call_failing("create_sandbox")["error"])
        cluster.order(tokens={cluster.token: cluster.user})
        contains(json.dumps(error), "401")
        works(server)


@suite.case("a quota that is used up: the server's own words", when=FAKED)
def quota():
    words = 'pods "x" is forbidden: exceeded quota: sandboxes, requested: limits.memory=512Mi, used: limits.memory=2Gi, limited: limits.memory=2Gi'
    with faulty(cluster) as server:
        cluster.fault("POST", PODS, "status", code=403, reason="Forbidden", message=words)
        error = fails(cluster, server, "exceeded quota: sandboxes")
        contains(error["hint"], "uota")


@suite.case("a right that is missing: which one", when=FAKED)
def forbidden():
    with faulty(cluster) as server:
        works(server)
        cluster.order(deny=["create pods"])
        error = clear(server.call_failing("create_sandbox")["error"])
        contains(json.dumps(error), 'cannot create resource')
        cluster.calm()
        works(server)


@suite.case("a server that asks for patience gets it, at every step", when=FAKED)
def patience():
    with faulty(cluster) as server:
        works(server)
        for method, path in (("POST", PODS), ("GET", WATCH), ("GET", POD), ("GET", EXEC), ("GET", MAPS), ("DELETE", POD)):
            cluster.fault(method, path, "status", code=429, reason="TooManyRequests", headers={"Retry-After": "1"})
            works(server)
            equal(cluster.hits(), [1], f"429 for {method} {path}")
            cluster.calm()


@suite.case("an error of the server while a pod is made: its words; while it is waited for: it is asked again", when=FAKED)
def internal_error():
    with faulty(cluster) as server:
        cluster.fault("POST", PODS, "status", code=500, reason="InternalError", message="etcdserver: request timed out")
        fails(cluster, server, "etcdserver: request timed out")
        cluster.fault("GET", WATCH, "status", code=500, reason="InternalError", message="etcdserver: leader changed")
        works(server)
        equal(cluster.hits(), [1])


@suite.case("a name that is taken: an error, and the other's pod stays", when=FAKED)
def conflict():
    with faulty(cluster) as server:
        cluster.fault("POST", PODS, "status", code=409, reason="AlreadyExists", message='pods "x" already exists')
        fails(cluster, server)


@suite.case("the answer to a creation is lost: the pod is found by its name, and no second one is made", when=FAKED)
def lost_answer():
    with faulty(cluster) as server:
        works(server)
        cluster.fault("POST", PODS, "unanswered")
        cluster.fault("GET", POD, "reset", times=2)
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(cluster.hits(), [1, 2])
        equal(len(left(cluster, server)), 1, "pods")
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")


@suite.case("answers that are no JSON, too large or without an end: a clear error, and nothing left", when=FAKED)
def garbage():
    for do in ("garbage", "huge", "endless"):
        with faulty(cluster) as server:
            works(server)
            cluster.fault("POST", PODS, do)
            fails(cluster, server)


@suite.case("a connection that is closed before a pod is made: the request is made again", when=FAKED)
def reset():
    with faulty(cluster) as server:
        works(server)
        cluster.fault("POST", PODS, "reset", times=2)
        works(server)
        equal(cluster.hits(), [2])


@suite.case("the same while a pod is waited for: it is watched again", when=FAKED)
def garbage_later():
    with faulty(cluster) as server:
        for do in ("garbage", "huge", "reset"):
            cluster.fault("GET", WATCH, do)
            works(server)
            equal(cluster.hits(), [1], do)
            cluster.calm()


def disturb(pending, how):
    """Does that to the watch of a creation, as soon as there is one."""
    poll(f"it is watched, before: {how}", lambda: pending.answered() or cluster.order(watches=how)["count"] > 0)
    assert not pending.answered(), f"the creation has ended: {pending.result()}"


@suite.case("a pod is watched, and not asked for again and again", when=FAKED)
def watched():
    with faulty(cluster) as server:
        works(server)
        before = len(cluster.requests())
        cluster.order(pods={"do": "late"})
        pending = server.start_call("create_sandbox")
        disturb(pending, "bookmark")
        cluster.order(go=True)
        pending.structured()
        asked = [f"{r['method']} {r['path']}" for r in cluster.requests()[before:]]
        equal([line for line in asked if line.startswith("GET") and "/pods" in line and "watch=true" not in line and "/exec" not in line], [], "looks at the pod")


@suite.case("a watch that ends, is cut in a line, says nonsense, or whose history is forgotten: another one goes on", when=FAKED)
def watch_disturbed():
    with faulty(cluster) as server:
        cluster.order(pods={"do": "late"})
        pending = server.start_call("create_sandbox")
        for how in ("bookmark", "end", "half", "garbage", "forget"):
            disturb(pending, how)
        disturb(pending, "bookmark")
        cluster.order(go=True)
        sandbox = pending.structured()["sandbox_id"]
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")


@suite.case("a creation asks for the agent's ConfigMaps once, and makes again what somebody has deleted of them", when=FAKED)
def agent_maps():
    def create(server):
        before = len(cluster.requests())
        box = server.call("create_sandbox")["sandbox_id"]
        equal(server.run("6 * 7", sandbox_id=box)["result"], "42")
        server.call("close_sandbox", sandbox_id=box)
        return [r["method"] for r in cluster.requests()[before:] if re.search(MAPS, r["path"])]

    def names():
        return sorted(m["metadata"]["name"] for m in cluster.objects("configmaps"))

    server = cluster.server()
    server.legacy()
    create(server)
    made = names()
    equal(create(server), ["GET"])
    for gone in (made, made[:1], made[-1:]):
        for name in gone:
            cluster.order(forget=f"configmaps/{kube.NAMESPACE}/{name}")
        create(server)
        equal(names(), made)
    server.close()


@suite.case("a right to watch that was taken away: the pod is asked for instead", when=FAKED)
def watch_forbidden():
    with faulty(cluster) as server:
        works(server)
        cluster.order(deny=["watch pods"])
        works(server)


@suite.case("exec refused once, or cut in the middle of a frame: another stream, and nothing is lost", when=FAKED)
def exec_cut():
    with faulty(cluster) as server:
        cluster.fault("GET", EXEC, "status", code=500, reason="InternalError", message="error dialing backend: EOF")
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(cluster.hits(), [1])
        pending = begun(server, sandbox, STREAM)
        cluster.cut_streams()
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        cluster.calm()
        cluster.fault("GET", EXEC, "cut", bytes=20000)
        cluster.cut_streams()  # so that the next stream is the one with the fault
        equal(server.stdout("print('y' * 100000)", sandbox_id=sandbox), "y" * 100000 + "\n")
        equal(cluster.hits(), [1])


@suite.case("an old API server, which knows v4 of the exec protocol only", when=FAKED)
def old_protocol():
    cluster.order(release=20)
    with faulty(cluster) as server:
        works(server)
    cluster.order(release=36)


@suite.case("a pod that is evicted, drained from its node, or ended for its memory: the owner is told why", when=FAKED)
def evicted():
    for how, word in (("evicted", "Evicted"), ("memory", "memory"), ("drained", "EvictionByEvictionAPI")):
        with faulty(cluster) as server:
            sandbox = server.call("create_sandbox")["sandbox_id"]
            pending = begun(server, sandbox, ENDLESS)
            cluster.end_pod(cluster.box_of(sandbox), how)
            answer = pending.result()
            assert answer["isError"], answer
            error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
            contains(error["message"], word, "the answer")


@suite.case("an image that cannot be pulled: the kubelet's own words, at once", when=FAKED)
def image_missing():
    with faulty(cluster) as server:
        cluster.order(pods={"do": "ErrImagePull"})
        error = fails(cluster, server, "manifest unknown")
        equal(error["code"], "image_not_found")


@suite.case("a pod that cannot be made or has no room: why, and nothing stays in the cluster", when=FAKED)
def pod_impossible():
    with faulty(cluster) as server:
        cluster.order(pods={"do": "CreateContainerConfigError"})
        fails(cluster, server, "CreateContainerConfigError")
        cluster.order(pods={"do": "unschedulable"})
        fails(cluster, server, "Insufficient memory")


@suite.case("a pod in which no agent answers: an error after a few attempts, and it is removed", when=FAKED)
def no_agent():
    with faulty(cluster) as server:
        cluster.order(pods={"do": "no agent"})
        fails(cluster, server)


# ---- the end ----


@suite.case("a sandbox is closed while the API server says nothing: its code is dead, and its pod is removed later", when=FAKED)
def closed_in_silence():
    with faulty(cluster) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        begun(server, sandbox, ENDLESS)
        cluster.fault("DELETE", POD, "hang")
        server.start_call("close_sandbox", sandbox_id=sandbox).result()
        equal(inside(sandbox), [], "its processes")
        poll("its pod is removed, too", lambda: not left(cluster, server))


@suite.case("a pod whose node says nothing about its end is forgotten by the API server", when=FAKED)
def node_lost():
    with faulty(cluster) as server:
        cluster.order(pods={"do": "lost"})
        works(server)
        nothing_left(cluster, server)


@suite.case("a sweeper whose API server is gone ends soon when it is told to, and the next server removes the pod", when=FAKED)
def sweeper_told():
    directory = mcp.temporary_directory()
    server, sandbox = opened(cluster, runtime_dir=directory)
    sweepers = server.sweepers()
    equal(len(sweepers), 1, "sweepers")
    cluster.order(fault={"do": "reset"})
    server.kill()
    os.kill(sweepers[0], signal.SIGTERM)
    poll("it has ended", lambda: not mcp.alive(sweepers[0]))
    server.logger.join(30)
    contains("\n".join(server.log), "told to end", "the log")
    cluster.calm()
    assert cluster.box_of(sandbox), "the pod has gone by itself"
    successor, _ = opened(cluster, runtime_dir=directory)
    with successor:
        poll("the pod of the dead server is gone", lambda: cluster.box_of(sandbox) is None)
    nothing_left(cluster, successor)


@suite.finish
def nothing_at_all():
    """nothing but the agent is left in the API server"""
    poll("no pod is left", lambda: not cluster.boxes(), found=cluster.boxes)
    if FAKED:
        cluster.close()


suite.run()
