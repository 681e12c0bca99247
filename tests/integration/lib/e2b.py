"""The tests' own cloud for the backend `e2b` (e2b_standin.mjs), or E2B's hosted service if CLOISTER_E2B_REAL is set and E2B_API_KEY is a key.

Both have the face that common_remote.py tells, and `env` for a server. Orders to misbehave are for the stand-in only.
"""

import http.client
import json
import os
import secrets
import subprocess
import time
import urllib.request

import mcp
from node_standin import HERE, NodeStandin, missing, node
from reports import joined
from tap import skip_all

MODULES = ("@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-node", "ajv", "ajv-formats", "e2b")
VARIABLES = ("E2B_API_KEY", "E2B_API_URL", "E2B_DOMAIN", "E2B_SANDBOX_URL", "INTERPRETER_TYPE")
SANDBOX = "io.cloister.sandbox"
DIR = "io.cloister.dir"


def seconds(do):
    begin = time.monotonic()
    do()
    return time.monotonic() - begin


def healthy(connection, headers):
    """The least that can be asked of a sandbox's daemon."""
    connection.request("GET", "/health", headers=headers)
    connection.getresponse().read()


class Cloud:
    """What both have."""

    is_real = False

    def server(self, *options, env=None, **how):
        return mcp.Server("--backend", "e2b", *options, env={**self.env, **(env or {})}, **how)

    def doctor(self, *options, **env):
        environment = {**{k: v for k, v in os.environ.items() if k not in VARIABLES}, **self.env, **env}
        command = [os.environ["CLOISTER"], "--backend", "e2b", *options, "doctor"]
        return joined(subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False))

    def boxes_of(self, runtime_dir):
        """Ids of the sandboxes of a server, by its runtime directory."""
        return [box["sandboxID"] for box in self.boxes() if box["metadata"].get(DIR, "").startswith(f"{runtime_dir}/")]

    def box_of(self, sandbox):
        found = [box for box in self.boxes() if box["metadata"].get(SANDBOX) == sandbox]
        return found[0] if found else None

    def id_of(self, box):
        return box["sandboxID"]

    def request(self, method, path, body=None):
        """Of the control plane, as anybody with the key may make it."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{path}", data, {"X-API-Key": self.key, "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def processes(self, box):
        """The words of each process that the sandbox's daemon has started and that runs."""
        ident = box["sandboxID"]
        headers = {"E2b-Sandbox-Id": ident, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.request("GET", f"/sandboxes/{ident}")["envdAccessToken"],
                   "Content-Type": "application/json", "Connect-Protocol-Version": "1"}
        url = self.env.get("E2B_SANDBOX_URL", f"https://sandbox.{self.env.get('E2B_DOMAIN', 'e2b.app')}")
        with urllib.request.urlopen(urllib.request.Request(f"{url}/process.Process/List", b"{}", headers), timeout=60) as answer:
            listed = json.loads(answer.read())
        return [[each["config"]["cmd"], *each["config"].get("args", [])] for each in listed.get("processes", [])]

    def remove(self, box):
        self.request("DELETE", f"/sandboxes/{box['sandboxID']}")

    def script(self, name, *words):
        """Runs a script of this directory with the official SDK; its output."""
        environment = {**os.environ, **self.env, "E2B_API_KEY": self.key}
        done = subprocess.run([node(), os.path.join(HERE, name), *words], env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{name} failed:\n{done.stdout}{done.stderr}"
        return done.stdout


class Standin(Cloud, NodeStandin):
    """e2b_standin.mjs in a process."""

    def __init__(self):
        self.key = "e2b_" + secrets.token_hex(20)
        NodeStandin.__init__(self, "e2b_standin.mjs", mcp.temporary_directory())
        self.order(keys=[self.key])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def env(self):
        return {"E2B_API_KEY": self.key, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    def boxes(self):
        return self.order(ask="boxes")

    def misfits(self):
        """What in requests since the last time, and in the answers, was not as the service's OpenAPI files have it."""
        return self.order(ask="misfits")

    def warm_ratio(self, server, sandbox, delay_ms=100, times=15):
        """How long a call in a warm sandbox takes, in round trips of a service that is that far away."""
        bare, warm = [], []
        headers = {"E2b-Sandbox-Id": self.box_of(sandbox)["sandboxID"], "E2b-Sandbox-Port": "49983"}
        server.run("1", sandbox_id=sandbox)
        self.order(delay=delay_ms)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            for _ in range(times):
                bare.append(seconds(lambda: healthy(connection, headers)))
                warm.append(seconds(lambda: server.run("1", sandbox_id=sandbox)))
            connection.close()
        finally:
            self.order(delay=0)
        return min(warm) / min(bare)


class Real(Cloud):
    """The hosted service, or what E2B_API_URL names."""

    is_real = True

    def __init__(self):
        self.key = os.environ["E2B_API_KEY"]
        self.env = {name: os.environ[name] for name in VARIABLES if name.startswith("E2B_") and name in os.environ}
        self.url = os.environ.get("E2B_API_URL", f"https://api.{os.environ.get('E2B_DOMAIN', 'e2b.app')}")

    def boxes(self):
        return [box for box in self.request("GET", "/v2/sandboxes?limit=100") if SANDBOX in (box.get("metadata") or {})]


def started():
    """The cloud of this run; skips the file where there can be none."""
    if os.environ.get("CLOISTER_E2B_REAL") and os.environ.get("E2B_API_KEY"):
        return Real()
    for variable in VARIABLES:
        os.environ.pop(variable, None)
    reason = missing(*MODULES)
    if reason:
        skip_all(f"no stand-in for the service: {reason}")
    return Standin()
