"""Shared by all integration tests: the search path, the client, the test cases, and one server that most cases of a
file use. The files run on the oci backend, and by with_engine.py on a container engine as well; some run over HTTP, too:
CLOISTER_TEST_TRANSPORT is stdio (default), http or sse. With CLOISTER_ENGINE_CASES=all every case runs on every engine.

Run one by hand:  CLOISTER=<build>/supervisor/cloister python3 tests/integration/test_execute.py [part of a case's name]
"""

import os
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.join(os.path.dirname(HERE), "lib")]

# pylint: disable=wrong-import-position,unused-import
import gvisor
import mcp
import mcp_http
import tap
from engine import LANGUAGES
from mcp import LATEST_LEGACY, LEGACY, MODERN, Pending, ServerGone, alive, modern_meta
from reports import joined
from tap import Skip, contains, equal, poll, skip_all

TRANSPORT = os.environ.get("CLOISTER_TEST_TRANSPORT", "stdio")
ON_PIPE = TRANSPORT == "stdio"  # for cases about lines and pipes only
Server = {"stdio": mcp.Server, "http": mcp_http.ServerByHttp, "sse": mcp_http.ServerBySse}[TRANSPORT]
ON_OCI = mcp.BACKEND == "oci"  # for cases about that backend only
OWN_TOOLS = 14  # the tools of a server without profiles

# The engines on which a case runs beside oci, see "Engines" in tests/README.md.
EACH = ("docker", "podman")  # the engines differ in this, or it must never go wrong on any
ONE = ("docker",)  # a container makes a difference, and it is the same with both
NONE = ()  # does not depend on the backend
ELSEWHERE = "CLOISTER_TEST_ELSEWHERE" in os.environ  # a file of oci runs in a cloud or a cluster, by with_e2b.py or with_kube.py
ALL_CASES = os.environ.get("CLOISTER_ENGINE_CASES") == "all"


def skip(reason):
    raise Skip(reason)


class Suite(tap.Suite):
    """Cases with the engines on which they run; `engines` is the default of the file."""

    def __init__(self, engines=EACH):
        super().__init__()
        self.engines = engines

    def case(self, name, when=True, engines=None, beside=False):
        wanted = self.engines if engines is None else engines
        usual = ALL_CASES or (mcp.ENGINE.state["kind"] in wanted if mcp.ENGINE else wanted != NONE or not ELSEWHERE)
        register = super().case(name, when, usual, beside)
        reason = gvisor.CANNOT.get(name) if gvisor.OWN_KERNEL else None
        return register if reason is None else lambda function: register(lambda: skip(f"gVisor: {reason}"))


def needs_runtime():
    """Skips the whole file if no sandbox can be made on this machine. Engines that the tests have started are
    known to run containers, so with them it is a failure."""
    reason = mcp.unusable_backend()
    if reason and mcp.ENGINE is not None:
        sys.exit(f"{mcp.BACKEND} cannot use an engine that works: {reason}")
    if reason:
        skip_all(f"no usable OCI runtime: {reason}")


def needs_backend(name):
    """Skips the whole file if the build lacks this backend."""
    if name not in subprocess.run([os.environ["CLOISTER"], "--help"], capture_output=True, text=True, check=False).stdout:
        skip_all(f"this build has no backend {name}")


def needs_engine(kind=None):
    """Skips the whole file unless with_engine.py runs it; returns the engine."""
    if mcp.ENGINE is None or kind not in (None, mcp.ENGINE.state["kind"]):
        skip_all(f"runs on {kind or 'a container engine'} only, by with_engine.py")
    return mcp.ENGINE


def needs_modules(done, *modules):
    """Skips the case if the libraries of Python are missing; `done` is the result of code that imports them.
    In the image that is made with them, and where they are in this machine's own /usr, a failed import is a
    failure."""
    if done["status"] == "ok":
        return
    if ON_OCI:
        tried = subprocess.run(["/usr/bin/python3", "-I", "-c", "import " + ", ".join(modules)], capture_output=True, check=False)
        there = tried.returncode == 0
    else:
        there = os.environ["CLOISTER_IMAGE"] == LANGUAGES
    assert not there, f"{' or '.join(modules)} is there but not in a sandbox: {done}"
    raise Skip(f"no {' or '.join(modules)} here (Debian: python3-{', python3-'.join(m.lower() for m in modules)})")


def opened(*options, **arguments):
    """Starts a server with a sandbox: (server, id)."""
    server = Server(*options)
    server.legacy()
    return server, server.call("create_sandbox", **arguments)["sandbox_id"]


class Common:
    """A server and a sandbox that cases of a file have in common: calling it returns them, and starts them the first time."""

    def __init__(self, *options):
        self.options = options
        self.both = None

    def __call__(self):
        self.both = self.both or opened(*self.options)
        return self.both

    def close(self):
        """The server ends and leaves nothing behind."""
        if self.both is not None:
            self.both[0].close()
            self.both = None


def doctor(*options, **env):
    """Runs `cloister doctor` and returns the CompletedProcess; a variable that is None is removed from its
    environment."""
    environment = {k: v for k, v in dict(os.environ, **env).items() if v is not None}
    command = [os.environ["CLOISTER"], *options, "doctor"]
    return joined(subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False))


def refused(*options):
    """What a server says that does not start with these options."""
    command = [os.environ["CLOISTER"], "--runtime-dir", mcp.temporary_directory(), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=mcp.ANSWER_SECONDS, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode not in (0, 124) and done.returncode > 0, f"{options}: {done.returncode} {done.stderr}"
    return done


def ended_in_time(server):
    """Requires that a server, which has ended, reached no limit of its shutdown: it would have said so."""
    server.logger.join(30)
    equal([line for line in server.log if "shutdown:" in line], [], "steps of a shutdown that takes long")


def clear(error):
    """Requires that an error says what a person can do."""
    assert len(error["message"]) > 10, error
    assert error.get("hint"), error
    return error


def works(server):
    """Requires that the server runs and makes sandboxes."""
    equal(server.request("ping"), {})
    sandbox = server.call("create_sandbox")["sandbox_id"]
    equal(server.run_to_end("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.call("close_sandbox", sandbox_id=sandbox)


class Shared:
    """A server with one sandbox for all cases of a file, started when it is first needed."""

    def __init__(self, *options):
        self.options = options
        self.server = None
        self.sandbox = None

    def get(self):
        if self.server is None:
            self.server = Server(*self.options)
            self.server.legacy()
        if self.sandbox is None:
            self.sandbox = self.server.call("create_sandbox")["sandbox_id"]
        return self.server, self.sandbox

    def run(self, code, **arguments):
        server, sandbox = self.get()
        return server.run(code, sandbox_id=sandbox, **arguments)

    def stdout(self, code, **arguments):
        server, sandbox = self.get()
        return server.stdout(code, sandbox_id=sandbox, **arguments)

    def fresh(self, **arguments):
        """One more sandbox on the same server."""
        server, _ = self.get()
        return server, server.call("create_sandbox", **arguments)["sandbox_id"]

    def enforced(self, *limits):
        """Skips the case if this host cannot enforce one of these limits, as the sandbox reports."""
        server, sandbox = self.get()
        status = server.call("get_sandbox_status", sandbox_id=sandbox)
        for missing in status["limits"]["unapplied"]:
            if missing.split(":")[0] in limits:
                raise Skip(f"not enforced on this host: {missing}")

    def close(self):
        if self.server is not None:
            self.server.close()


class SharedByThread:
    """One such for each thread, for cases that run in parallel."""

    def __init__(self):
        self.local = threading.local()
        self.all = []

    def get(self):
        if not hasattr(self.local, "shared"):
            self.local.shared = Shared()
            self.all.append(self.local.shared)
        return self.local.shared.get()

    def fresh(self, **arguments):
        self.get()
        return self.local.shared.fresh(**arguments)

    def close(self):
        for shared in self.all:
            shared.close()
