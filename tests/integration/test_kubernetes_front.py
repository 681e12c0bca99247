"""`kubectl apply -k contrib/kubernetes` on a real cluster, which CLOISTER_KUBE names (lib/kube.py): a front in the cluster that runs code for clients over HTTP, with the
rights of role.yaml and no others. Its image is CLOISTER_KUBE_FRONT_IMAGE, or made of the programs under test for the node's engine at DIR/run/docker.sock.
"""

import atexit
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

os.environ["CLOISTER_BACKEND"] = "kubernetes"  # before anything looks for the backend under test

from common import NONE, Suite, contains, equal, needs_backend, poll, skip_all  # pylint: disable=wrong-import-position
from http_wire import Exchange, Place
from mcp_http import HttpClient
import kube
import mcp

needs_backend("kubernetes")
if not kube.DIRECTORY:
    skip_all("CLOISTER_KUBE names no cluster")
SOCKET = os.path.join(kube.DIRECTORY, "run", "docker.sock")
GIVEN = os.environ.get("CLOISTER_KUBE_FRONT_IMAGE")
if not GIVEN and not (os.path.exists(SOCKET) and shutil.which("docker")):
    skip_all("no image for a front, and no engine of a node to make one on")
kube.enter()
cluster = kube.started()
suite = Suite(NONE)

FRONT = "app.kubernetes.io/name"
CONTRIB = os.path.dirname(kube.ROLE)
# loaded when they are needed, so they are in no list of what a program is linked with
LOADED = ("libmicrohttpd.so.12", "libgnutls.so.30", "libcurl.so.4", "libyaml-0.so.2")
OF_LIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util))\.so")
SECONDS = 300
OLD_PDB = """
patchesJson6902:
  - target: {group: policy, version: v1, kind: PodDisruptionBudget, name: cloister}
    path: old-budget.yaml
"""
# what `apply -k` makes beside the namespace and its account
MADE = ("deployment/cloister", "service/cloister", "poddisruptionbudget/cloister", "networkpolicy/cloister-front", "configmap/cloister", "secret/cloister-tokens")


def kubectl(*words, **how):
    return cluster.kubectl("-n", kube.NAMESPACE, *words, **how)


# ---- the image ----


def libraries(program):
    """Paths of the libraries that a program needs beside those of libc."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"=> (/\S+)", said)
    return [path for path in found if not OF_LIBC.match(os.path.basename(path))]


def find_library(name):
    said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={"PATH": "/usr/sbin:/sbin"}, check=True).stdout
    found = re.findall(rf"^\s*{re.escape(name)} .*=> (/\S+)$", said, re.M)
    return found[0] if found else None


def make_image():
    """An image of the programs under test, which is the sandboxes' image with them in it."""
    name = "cloister-test/front:1"
    programs = {each: os.environ[each] for each in ("CLOISTER", "CLOISTER_WORKER", "CLOISTER_AGENT")}
    places = {"CLOISTER": "/usr/bin/cloister", "CLOISTER_WORKER": "/usr/libexec/cloister/cloister-worker", "CLOISTER_AGENT": "/usr/libexec/cloister/cloister-agent"}
    contents = {f"tree{places[each]}": path for each, path in programs.items()}
    contents["tree/usr/libexec/cloister/cloister-agent-start"] = f"{programs['CLOISTER_AGENT']}-start"
    contents["tree/usr/libexec/cloister/image-start"] = os.path.join(CONTRIB, "..", "package", "image-start")
    loaded = [path for path in map(find_library, LOADED) if path]
    for path in [*programs.values(), *loaded]:
        contents.update({f"tree/opt/lib/{os.path.basename(library)}": library for library in [*libraries(path), *loaded]})
    recipe = f"FROM {cluster.image}\nCOPY tree /\nENV LD_LIBRARY_PATH=/opt/lib\n"
    recipe += 'ENTRYPOINT ["/usr/libexec/cloister/image-start"]\n'
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(recipe)
        tar.addfile(info, io.BytesIO(recipe.encode()))
        for inside, path in contents.items():
            tar.add(path, inside)
    command = ["docker", "--host", f"unix://{SOCKET}", "build", "--quiet", "--tag", name, "-"]
    done = subprocess.run(command, input=out.getvalue(), capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"}, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return name


# ---- the front ----


def reach_the_server():
    """Where no kube-proxy does it, the address of the service `kubernetes` leads to the API server."""
    address = json.loads(cluster.kubectl("-n", "default", "get", "service", "kubernetes", "-o", "json"))["spec"]["clusterIP"]
    try:
        Place(f"http://{address}:443").connect().close()
        return None
    except OSError:
        subprocess.run([*cluster.prefix, "ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        atexit.register(subprocess.run, [*cluster.prefix, "ip", "address", "del", f"{address}/32", "dev", "lo"], check=False)
        return kube.Between(cluster, (address, 443))


def make_overlay(image):
    """The directory for `kubectl apply -k`, as contrib/docs/kubernetes.md has it."""
    place = os.path.join(cluster.directory, "overlay")
    shutil.copytree(CONTRIB, os.path.join(place, "contrib"))
    old = int(cluster.release["minor"].rstrip("+")) < 21
    name, tag = image.rsplit(":", 1)
    text = f"bases: [contrib]\nimages: [{{name: cloister, newName: {name}, newTag: '{tag}'}}]\n{OLD_PDB if old else ''}"
    for file, content in (("kustomization.yaml", text), ("old-budget.yaml", "- {op: replace, path: /apiVersion, value: policy/v1beta1}\n")):
        with open(os.path.join(place, file), "w", encoding="utf-8") as out:
            out.write(content)
    return place


def fronts():
    """Pods of fronts that are ready and not on their way out."""
    found = [p for p in cluster.objects("pods") if p["metadata"].get("labels", {}).get(FRONT) == "cloister" and "deletionTimestamp" not in p["metadata"]]
    return [p for p in found if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))]


def words_of_front():
    return subprocess.run(
        [*cluster.prefix, os.path.join(kube.DIRECTORY, "bin", "kubectl"), "--kubeconfig", os.path.join(kube.DIRECTORY, "run", "kubeconfig"),
         "-n", kube.NAMESPACE, "logs", "-l", f"{FRONT}=cloister", "--tail=60"], capture_output=True, text=True, check=False,
    ).stdout


def state_of_front():
    return [p["status"].get("containerStatuses", p["status"]) for p in cluster.objects("pods") if FRONT in p["metadata"].get("labels", {})]


def front():
    """The one that is ready, when it is."""

    def ready():
        assert "CrashLoopBackOff" not in json.dumps(state_of_front()), words_of_front()
        return fronts()

    return poll("a front is ready", ready, seconds=SECONDS, interval=0.5, found=lambda: json.dumps(state_of_front()) + words_of_front())[0]


def client_of(pod):
    client = HttpClient(Place(f"http://{pod['status']['podIP']}:8080"), token=token, log_tail=words_of_front, headers=[("Host", "cloister.cloister.svc")])
    client.legacy()
    return client


between = reach_the_server()
made = subprocess.run([os.environ["CLOISTER"], "token", "alice"], capture_output=True, text=True, check=True)
tokens = cluster.write(made.stdout, "tokens")
token = re.search(r"\b[A-Za-z0-9_-]{30,}\b", made.stderr)[0]
kubectl("delete", "--ignore-not-found", "secret/cloister-tokens", "configmap/cloister")  # of a run that was ended
kubectl("create", "secret", "generic", "cloister-tokens", f"--from-file=tokens={tokens}")
kubectl("create", "configmap", "cloister", f"--from-literal=CLOISTER_IMAGE={cluster.image}", "--from-literal=CLOISTER_RESULTS=structured")
overlay = make_overlay(GIVEN or make_image())


@suite.case("`kubectl apply -k` brings up a front that runs code for who has a token, in a pod that is its own")
def comes_up():
    cluster.kubectl("apply", "-k", overlay)
    pod = front()
    client = client_of(pod)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    equal(client.run("x = 6 * 7\nx", sandbox_id=sandbox)["result"], "42")
    equal(client.run("x", sandbox_id=sandbox)["result"], "42")
    box = cluster.box_of(sandbox)
    owners = box["metadata"]["ownerReferences"]
    equal([(o["kind"], o["name"], o["uid"]) for o in owners], [("Pod", pod["metadata"]["name"], pod["metadata"]["uid"])])
    client.call("close_sandbox", sandbox_id=sandbox)
    poll("it is gone", lambda: cluster.box_of(sandbox) is None)
    stranger = Exchange(client.place, "POST", "/mcp", [("Host", "cloister"), ("Content-Type", "application/json")], b"{}").wait()
    equal(stranger.head.status, 401, "without a token")


@suite.case("the account of the front may do what role.yaml says, and nothing else")
def least_rights():
    account = f"--as=system:serviceaccount:{kube.NAMESPACE}:{kube.ACCOUNT}"
    equal(front()["spec"]["serviceAccountName"], kube.ACCOUNT)

    def may(verb, resource, namespace):
        try:
            return cluster.kubectl("-n", namespace, "auth", "can-i", verb, *resource.split("/--"), account).strip() == "yes"
        except AssertionError:
            return False

    for verb, resource in (("get", "secrets"), ("list", "secrets"), ("list", "nodes"), ("create", "serviceaccounts"), ("update", "pods"), ("create", "pods/--subresource=attach")):
        assert not may(verb, resource, kube.NAMESPACE), f"{verb} {resource}"
    for verb, resource in (("create", "pods"), ("get", "configmaps"), ("list", "pods")):
        assert may(verb, resource, kube.NAMESPACE), f"{verb} {resource}"
        assert not may(verb, resource, "default"), f"{verb} {resource} elsewhere"


@suite.case("the container of a front is killed and started again in its pod: its sandboxes are there, with their state")
def container_killed():
    pod = front()
    client = client_of(pod)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    client.run("x = 'kept'", sandbox_id=sandbox)
    uid = cluster.id_of(cluster.box_of(sandbox))
    ident = pod["status"]["containerStatuses"][0]["containerID"].split("//")[1]
    subprocess.run(["docker", "--host", f"unix://{SOCKET}", "kill", ident], capture_output=True, check=True)

    def again():
        status = [p["status"]["containerStatuses"][0] for p in fronts() if p["metadata"]["uid"] == pod["metadata"]["uid"]]
        return status and status[0]["restartCount"] > 0

    poll("it is ready again", again, seconds=SECONDS, interval=0.5, found=words_of_front)
    client = client_of(front())
    equal(client.run("x", sandbox_id=sandbox)["result"], "'kept'")
    equal(cluster.id_of(cluster.box_of(sandbox)), uid, "its pod")
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("the pod of a front is deleted: the cluster removes its sandboxes, and another front comes and works")
def pod_deleted():
    pod = front()
    client = client_of(pod)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    poll("its sandbox is gone", lambda: cluster.box_of(sandbox) is None, seconds=SECONDS)
    client = client_of(front())
    assert front()["metadata"]["uid"] != pod["metadata"]["uid"]
    other = client.call("create_sandbox")["sandbox_id"]
    equal(client.run("1 + 1", sandbox_id=other)["result"], "2")
    contains(json.dumps(client.call_failing("execute_code", sandbox_id=sandbox, code="1")), "sandbox")
    client.call("close_sandbox", sandbox_id=other)


@suite.finish
def nothing_at_all():
    """the front ends, and nothing but the agent is left"""
    kubectl("delete", "--ignore-not-found", "--wait=true", *MADE)
    poll("no pod is left", lambda: not cluster.objects("pods"), seconds=SECONDS, interval=0.5, found=lambda: [p["metadata"]["name"] for p in cluster.objects("pods")])
    if between is not None:
        between.close()


suite.run()
