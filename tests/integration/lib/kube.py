"""Clusters for tests of the backend `kubernetes`: the stand-in of the tests' own (kube_standin.mjs), or a real one.

Both have the face that common_remote.py tells, where a box is a pod, and `objects()` of any kind. Orders to misbehave are for the
stand-in only. A real cluster is named by CLOISTER_KUBE, a directory with run/kubeconfig and run/pid, a process in whose network
namespace the API server is reached, and bin/kubectl; its image is CLOISTER_KUBE_IMAGE.
"""

import base64
import contextlib
import ctypes
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import threading

import certificates
import mcp
from node_standin import NodeStandin, missing
from reports import joined
from tap import poll, skip_all

HERE = os.path.dirname(os.path.abspath(__file__))
ROLE = os.path.join(HERE, "..", "..", "..", "contrib", "kubernetes", "role.yaml")
NAMESPACE = "cloister"  # that of role.yaml
ACCOUNT = "cloister"
MANAGED = "app.kubernetes.io/managed-by"
IMAGE = "cloister-test/root:1"
DIRECTORY = os.environ.get("CLOISTER_KUBE")
PARTS = ("kube-apiserver", "kubelet", "kube-scheduler", "kube-controller-manager")
CLONE_NEWNET = 0x40000000
# starts a part of a cluster again, and ends it with the cluster
GUARD = 'n=$1; shift; "$@" & p=$!; while kill -0 "$n" && kill -0 "$p"; do sleep 0.2; done; kill "$p"; wait "$p"'


def rights():
    """What role.yaml allows, as "create pods/exec"."""
    with open(ROLE, encoding="utf-8") as file:
        rules = re.findall(r"resources: \[([^]]*)\]\n +verbs: \[([^]]*)\]", file.read())
    return [f"{verb} {resource}" for resources, verbs in rules for resource in resources.split(", ") for verb in verbs.split(", ")]


def config(server, user, namespace=NAMESPACE, **cluster):
    """A kubeconfig, which is JSON, as YAML may be."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


class Cluster:
    """What both have."""

    is_real = False
    prefix = ()

    def __init__(self):
        self.directory = mcp.temporary_directory()
        self.count = 0

    def write(self, content, name=None):
        """Writes a kubeconfig (text, or what becomes JSON) and returns its path."""
        self.count += 1
        path = os.path.join(self.directory, name or f"kubeconfig-{self.count}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        os.chmod(path, 0o600)
        return path

    def options(self, kubeconfig=None):
        return ["--backend", "kubernetes", "--engine", kubeconfig or self.kubeconfig, "--image", self.image]

    def server(self, *options, kubeconfig=None, **how):
        return mcp.Server(*self.options(kubeconfig), *options, prefix=self.prefix, **how)

    def doctor(self, kubeconfig=None):
        command = [*self.prefix, os.environ["CLOISTER"], *self.options(kubeconfig), "doctor"]
        return joined(subprocess.run(command, capture_output=True, text=True, timeout=300, check=False))

    def boxes(self):
        """The pods that a server of ours has made."""
        return [pod for pod in self.objects("pods") if MANAGED in pod["metadata"].get("labels", {})]

    def boxes_of(self, runtime_dir):
        """Names of the pods of a server, by its runtime directory."""
        return [pod["metadata"]["name"] for pod in self.boxes() if f"{runtime_dir}/" in json.dumps(pod["metadata"])]

    def box_of(self, sandbox):
        """The pod of a sandbox, None if there is none."""
        found = [pod for pod in self.boxes() if sandbox in json.dumps(pod["metadata"])]
        return found[0] if found else None

    def id_of(self, pod):
        return pod["metadata"]["uid"]


class Standin(Cluster, NodeStandin):
    """kube_standin.mjs in a process."""

    image = IMAGE
    user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

    def __init__(self):
        Cluster.__init__(self)
        self.token = secrets.token_hex(16)
        self.certificate, self.key = certificates.certificate(self.directory, "apiserver")
        self.client_certificate, self.client_key = certificates.certificate(self.directory, "somebody")
        pods = os.path.join(self.directory, "pods")
        os.mkdir(pods)
        NodeStandin.__init__(self, "kube_standin.mjs", pods, self.certificate, self.key, self.client_certificate)
        self.order(tokens={self.token: self.user})
        self.order(allow=rights())
        self.kubeconfig = self.write(self.config())

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def config(self, user=None, **cluster):
        return config(self.url, user or {"token": self.token}, **(cluster or {"certificate-authority": self.certificate}))

    def objects(self, kind):
        return self.order(ask="objects")[kind]

    def end_pod(self, pod, how, **more):
        """Ends it from outside: evicted, drained, memory, or deleted."""
        self.order(end={"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"], "how": how, **more})

    def remove(self, pod, seconds=0):
        self.end_pod(pod, "deleted", seconds=seconds)


class Real(Cluster):
    """A cluster that somebody has started, with the rights of role.yaml only."""

    is_real = True
    image = os.environ.get("CLOISTER_KUBE_IMAGE", IMAGE)

    def __init__(self):
        super().__init__()
        with open(os.path.join(DIRECTORY, "run", "pid"), encoding="utf-8") as file:
            self.prefix = ("nsenter", "-t", file.read().strip(), "-n")
        self.kubectl("apply", "-f", ROLE)
        self.release = json.loads(self.kubectl("get", "--raw", "/version"))
        self.certificate = os.path.join(DIRECTORY, "run", "certs", "apiserver.crt")
        admin = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        self.url = admin["clusters"][0]["cluster"]["server"]
        self.token = self.token_of(ACCOUNT)
        self.kubeconfig = self.write(config(self.url, {"token": self.token}, **{"certificate-authority": self.certificate}))

    def kubectl(self, *words, text=None):
        command = [*self.prefix, os.path.join(DIRECTORY, "bin", "kubectl"), "--kubeconfig", os.path.join(DIRECTORY, "run", "kubeconfig"), *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def token_of(self, account, seconds=7200):
        """A token of a service account."""
        request = json.dumps({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": seconds}})
        made = self.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token", "-f", "-", text=request)
        return json.loads(made)["status"]["token"]

    def objects(self, kind):
        return json.loads(self.kubectl("-n", NAMESPACE, "get", kind, "-o", "json"))["items"]

    def remove(self, pod, seconds=0):
        how = [f"--grace-period={seconds}"] if seconds else ["--grace-period=0", "--force"]
        self.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], "--wait=false", *how)

    # ---- its parts, if they run on this host ----

    def part(self, name):
        """The pid of one of its programs; None if it does not run here."""
        program, net = os.path.realpath(os.path.join(DIRECTORY, "bin", name)), f"/proc/{self.prefix[2]}/ns/net"
        found = [pid for pid, line in mcp.processes() if os.path.basename(line.split(" ")[0]) == name and os.path.realpath(f"/proc/{pid}/exe") == program]
        inside = [pid for pid in found if mcp.alive(pid) and os.path.samefile(f"/proc/{pid}/ns/net", net)]
        return inside[0] if inside else None

    def answers(self):
        try:
            self.kubectl("get", "--raw", "/readyz")
        except AssertionError:
            return False
        return True

    @contextlib.contextmanager
    def without(self, name):
        """One of its programs is killed, and started again at the end; so are those that give up meanwhile, which a cluster's nodes look after."""
        before = {each: self.recipe(pid) for each in PARTS if (pid := self.part(each)) is not None}
        os.kill(self.part(name), signal.SIGKILL)
        poll(f"{name} is gone", lambda: self.part(name) is None)
        try:
            yield
        finally:
            self.revive(name, *before[name])
            poll("the API server answers", self.answers)
            for each, recipe in before.items():
                if self.part(each) is None:
                    self.revive(each, *recipe)

    @staticmethod
    def recipe(pid):
        words, environment = ([p.decode() for p in read_bytes(f"/proc/{pid}/{f}").split(b"\0") if p] for f in ("cmdline", "environ"))
        return words, dict(e.split("=", 1) for e in environment), os.readlink(f"/proc/{pid}/cwd")

    def revive(self, name, words, environment, directory):
        with open(os.path.join(DIRECTORY, "run", f"{name}-again.log"), "ab") as log:
            subprocess.Popen(  # pylint: disable=consider-using-with
                [*self.prefix, "setsid", "sh", "-c", GUARD, "sh", self.prefix[2], *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, env=environment,
            )
        poll(f"{name} is back", lambda: self.part(name) is not None)

    @contextlib.contextmanager
    def stopped(self, name):
        """One of its programs does nothing meanwhile."""
        pid = self.part(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def enter():
    """This process, and all that it starts from now on, reach the cluster as its node does. Nothing is done for a stand-in."""
    if DIRECTORY:
        with open(os.path.join(DIRECTORY, "run", "pid"), encoding="utf-8") as file:
            namespace = f"/proc/{file.read().strip()}/ns/net"
        with open(namespace, "rb") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns: {namespace}")


class Between:
    """Passes connections on to a cluster's API server, and cuts them."""

    def __init__(self, cluster, place=("127.0.0.1", 0)):
        self.address = tuple(cluster.url.removeprefix("https://").split(":"))
        self.listener = socket.create_server(place)
        self.pairs = set()
        self.count = 0
        threading.Thread(target=self.take, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.kubeconfig = cluster.write(config(self.url, {"token": cluster.token}, **{"certificate-authority": cluster.certificate}))

    def take(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                pair = (near, socket.create_connection(self.address))
                self.count += 1
                self.pairs.add(pair)
                for one, other in (pair, pair[::-1]):
                    threading.Thread(target=self.copy, args=(pair, one, other), daemon=True).start()

    def copy(self, pair, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        self.end(pair)

    def end(self, pair):
        self.pairs.discard(pair)
        for each in pair:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Ends all connections, when there are some."""
        poll("there is a connection", lambda: self.pairs)
        for pair in list(self.pairs):
            self.end(pair)

    def close(self):
        self.listener.close()


def started():
    """The cluster of this run; skips the file where there can be none."""
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        os.environ.pop(variable, None)
    if DIRECTORY:
        return Real()
    reason = missing("ws")
    if reason:
        skip_all(f"no stand-in for a cluster: {reason}")
    return Standin()


def pem(path):
    """A file as the *-data members of a kubeconfig have it."""
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()
