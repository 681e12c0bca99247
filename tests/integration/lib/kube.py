"""Clusters for tests of the backend `kubernetes`: the stand-in of the tests' own (kube_standin.mjs), or a real one.

Both have the face that common_remote.py tells, where a box is a pod, and `objects()` of any kind. Orders to misbehave are for the
stand-in only. A real cluster is named by CLOISTER_KUBE, a directory with run/kubeconfig and run/pid, a process in whose network
namespace the API server is reached, and bin/kubectl; its image is CLOISTER_KUBE_IMAGE.
"""

import base64
import json
import os
import re
import secrets
import subprocess

import certificates
import mcp
from node_standin import NodeStandin, missing
from tap import skip_all

HERE = os.path.dirname(os.path.abspath(__file__))
ROLE = os.path.join(HERE, "..", "..", "..", "contrib", "kubernetes", "role.yaml")
NAMESPACE = "cloister"  # that of role.yaml
ACCOUNT = "cloister"
MANAGED = "app.kubernetes.io/managed-by"
IMAGE = "cloister-test/root:1"
DIRECTORY = os.environ.get("CLOISTER_KUBE")


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
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

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
        self.certificate = os.path.join(DIRECTORY, "run", "certs", "apiserver.crt")
        admin = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        self.url = admin["clusters"][0]["cluster"]["server"]
        request = json.dumps({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 7200}})
        made = self.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token", "-f", "-", text=request)
        self.token = json.loads(made)["status"]["token"]
        self.kubeconfig = self.write(config(self.url, {"token": self.token}, **{"certificate-authority": self.certificate}))

    def kubectl(self, *words, text=None):
        command = [*self.prefix, os.path.join(DIRECTORY, "bin", "kubectl"), "--kubeconfig", os.path.join(DIRECTORY, "run", "kubeconfig"), *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=True).stdout

    def objects(self, kind):
        return json.loads(self.kubectl("-n", NAMESPACE, "get", kind, "-o", "json"))["items"]

    def remove(self, pod, seconds=0):
        how = [f"--grace-period={seconds}"] if seconds else ["--grace-period=0", "--force"]
        self.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], "--wait=false", *how)


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
