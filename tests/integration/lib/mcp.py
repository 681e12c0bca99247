"""A small MCP client for tests, with access to the messages, and the server process at its other end.

It speaks both eras: legacy() opens a session by `initialize`; modern requests carry everything they need in
`_meta`. Any number of requests can be pending; a reader thread assigns the answers. It checks what every
client may rely on: one answer per request, messages that match the published schemas (wire.py), and over
stdio only whole lines of JSON. Over HTTP the same client is in mcp_http.py.
"""

import atexit
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback

# pylint: disable=unused-import
from engine import alive, send_signal
from host import (
    BACKEND,
    ENGINE,
    OWN_KERNEL,
    agents_of,
    cgroups_of,
    containers_of,
    inside_kernel,
    is_of_trial,
    mounts_of,
    pid_namespace,
    processes,
    processes_left,
    processes_of,
    sandbox_dirs,
    status_of,
    traces_of,
    unusable_backend,
)
from tap import poll
from wire import LEGACY, MODERN, PREFIX, Wire

LATEST_LEGACY = LEGACY[-1]

BUDGET_SECONDS = 100  # for a call, which is answered before the wait for it is over
ANSWER_SECONDS = 120.0  # for sanitised builds on a busy machine; the deadline of every wait


def modern_meta(version=MODERN, capabilities=None):
    return {
        PREFIX + "protocolVersion": version,
        PREFIX + "clientCapabilities": capabilities or {},
        PREFIX + "clientInfo": {"name": "test", "version": "1"},
    }


def filled(structured):
    """Adds the fields of an execution that are left out when they are empty."""
    if "execution_id" in structured and "duration_ms" in structured:
        usual = {"stdout": "", "stderr": "", "stdout_bytes": 0, "stderr_bytes": 0, "truncated": False}
        if structured["status"] != "running":
            usual.update(displays=[], files=[], files_truncated=False)
        return {**usual, **structured}
    return structured


class ServerGone(Exception):
    pass


class Pending:
    """A pending request."""

    def __init__(self, client, ident):
        self.client = client
        self.ident = ident
        self.box = queue.Queue()
        self.begun = time.monotonic()
        self.ended = None
        self.exchange = None  # over HTTP: its exchange

    def answered(self):
        return not self.box.empty()

    def wait(self, seconds=ANSWER_SECONDS):
        """Waits for the whole answer, as a dict."""
        try:
            answer = self.box.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(
                f"no answer to request {self.ident!r} within {seconds} s; stderr:\n"
                + self.client.log_tail()
            ) from None
        if callable(answer):
            raise answer()
        self.ended = time.monotonic()
        result = answer.get("result")
        if isinstance(result, dict) and "structuredContent" in result:
            result["structuredContent"] = filled(result["structuredContent"])
        return answer

    def result(self, seconds=ANSWER_SECONDS):
        answer = self.wait(seconds)
        if "error" in answer:
            raise AssertionError(f"request {self.ident!r} failed: {answer['error']}")
        return answer["result"]

    def error(self, seconds=ANSWER_SECONDS):
        answer = self.wait(seconds)
        if "error" not in answer:
            raise AssertionError(f"request {self.ident!r} did not fail: {answer['result']}")
        return answer["error"]

    def structured(self, seconds=ANSWER_SECONDS):
        """structuredContent of a tool call that must succeed; in revisions without it the text, as `text`."""
        result = self.result(seconds)
        if result.get("isError"):
            raise AssertionError(f"tool call failed: {json.dumps(result)[:3000]}")
        if self.client.version in LEGACY[:2]:
            return {"text": "".join(block.get("text", "") for block in result["content"])}
        return result["structuredContent"]

    def failed(self, seconds=ANSWER_SECONDS):
        """structuredContent of a tool call that must fail."""
        result = self.result(seconds)
        if not result.get("isError"):
            raise AssertionError(f"tool call did not fail: {json.dumps(result)[:3000]}")
        return result.get("structuredContent", {})

    def seconds(self):
        return self.ended - self.begun


class Client:
    """A transport adds send_bytes(), which sends whole messages, and calls sort() for each received message."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pending = {}
        self.ended = False  # the server's output has ended
        self.next_id = 1
        self.version = None
        self.capabilities = {}  # declared by this client
        self.wants_all = True  # ask for whole output, which only our own tools take
        self.notifications = []
        self.requests = []  # requests of the server to us
        self.unmatched = []  # answers without a request: errors without id, or a bug
        self.violations = []  # messages that should not have been sent
        self.wire = Wire()

    # ---- messages ----

    def sort(self, message):
        """Checks a message and passes it to its receiver."""
        with self.lock:
            found = self.wire.received(message)
        if found:
            self.violations.append((json.dumps(message)[:300], "; ".join(found[:4])))
        for part in message if isinstance(message, list) else [message]:
            if "method" in part:
                (self.requests if "id" in part else self.notifications).append(part)
                continue
            with self.lock:
                pending = self.pending.pop(self._key(part.get("id")), None)
            if pending is None:
                self.unmatched.append(part)
            else:
                pending.box.put(part)

    def sort_text(self, data):
        try:
            self.sort(json.loads(data.decode("utf-8", "strict")))
        except Exception:  # a message that this client cannot parse is a violation, too, and must not end its reader
            self.violations.append((data[:300], traceback.format_exc()))

    def give_up(self, problem):
        """Ends all waits: no more answers will come, because of problem()."""
        with self.lock:
            waiting, self.pending, self.ended = self.pending, {}, True
        for pending in waiting.values():
            pending.box.put(problem)

    @staticmethod
    def _key(ident):
        return json.dumps(ident)

    def send_bytes(self, data):
        raise NotImplementedError

    def sniff(self, data):
        with self.lock:
            self.wire.sent_bytes(data)

    def send(self, message):
        self.send_bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def log_tail(self, lines=40):
        raise NotImplementedError

    def expect(self, ident):
        """Registers a wait for the answer to a request that the test sends itself."""
        pending = Pending(self, ident)
        with self.lock:
            # A dying process may close its output before its input, so a request may be written after that.
            if self.ended:
                raise ServerGone(f"server is gone:\n{self.log_tail()}")
            self.pending[self._key(ident)] = pending
        return pending

    def raw(self, line, ident):
        """Sends one line unchanged and returns the answer with this id (None: an error without id)."""
        if ident is None:
            before = len(self.unmatched)
            self.send_bytes(line + b"\n")
            deadline = time.monotonic() + ANSWER_SECONDS
            while len(self.unmatched) == before:
                if time.monotonic() > deadline or self.is_gone():
                    raise AssertionError(f"no answer to a bad line:\n{self.log_tail()}")
                time.sleep(0.005)
            return self.unmatched.pop()
        pending = self.expect(ident)
        self.send_bytes(line + b"\n")
        return pending.wait()

    def is_gone(self):
        return False

    def start(self, method, params=None, ident=None):
        """Sends a request without waiting for the answer."""
        if ident is None:
            ident = self.next_id
            self.next_id += 1
        if self.version == MODERN:
            params = dict(params or {})
            params["_meta"] = {**modern_meta(capabilities=self.capabilities), **params.get("_meta", {})}
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        pending = self.expect(ident)
        self.send(message)
        return pending

    def request(self, method, params=None, seconds=ANSWER_SECONDS):
        return self.start(method, params).result(seconds)

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    # ---- MCP ----

    def legacy(self, version=LATEST_LEGACY):
        """Opens a legacy session and returns the result of initialize."""
        result = self.request(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": self.capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self.version = version
        self.notify("notifications/initialized")
        return result

    def modern(self):
        self.version = MODERN
        return self

    def open(self, version):
        """A session of the given revision, of either era."""
        return self.modern() if version == MODERN else self.legacy(version)

    def whole(self, tool, arguments):
        """The arguments with the maximum of output: the default has tests of its own."""
        if self.wants_all and tool in ("execute_code", "create_run_close", "get_execution"):
            return {"max_output_bytes": 204800, **arguments}
        return arguments

    def start_call(self, tool, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": self.whole(tool, arguments)})

    def start_noted(self, token, tool, **arguments):
        """Starts a call with this progress token."""
        return self.start("tools/call", {"name": tool, "arguments": self.whole(tool, arguments), "_meta": {"progressToken": token}})

    def progress(self, token):
        """Progress notifications received for a token."""
        found = [n["params"] for n in self.notifications if n["method"] == "notifications/progress"]
        return [p for p in found if p["progressToken"] == token]

    def call(self, tool, seconds=ANSWER_SECONDS, **arguments):
        """structuredContent of a call that must succeed."""
        return self.start_call(tool, **arguments).structured(seconds)

    def call_failing(self, tool, seconds=ANSWER_SECONDS, **arguments):
        """structuredContent of a call that must fail."""
        return self.start_call(tool, **arguments).failed(seconds)

    def run(self, code, seconds=ANSWER_SECONDS, **arguments):
        """structuredContent of execute_code, however the code ended."""
        result = self.start_call("execute_code", code=code, **arguments).result(seconds)
        if "structuredContent" not in result or "status" not in result["structuredContent"]:
            raise AssertionError(f"no execution result: {json.dumps(result)[:2000]}")
        return result["structuredContent"]

    def run_to_end(self, code, **arguments):
        """The same, also where it takes longer than the budget of a call."""
        done = self.run(code, **arguments)
        if done["status"] != "running":
            return done

        def ended():
            again = self.start_call("get_execution", execution_id=done["execution_id"]).result()["structuredContent"]
            return again if again["status"] != "running" else None

        return poll("the end of an execution", ended)

    def stdout(self, code, **arguments):
        """Output of the code, which must succeed."""
        done = self.run(code, **arguments)
        if done["status"] != "ok":
            raise AssertionError(f"{code!r} ended with {json.dumps(done)[:2500]}")
        return done["stdout"]

    def worker_pid(self, sandbox):
        return self.call("get_sandbox_status", sandbox_id=sandbox)["worker"]["pid"]

    def kill_worker(self, sandbox, killed=()):
        """Sends SIGKILL to the sandbox's worker; returns its pid. Waits for another one than those that were killed, of
        whose end the server may not have heard yet."""

        def another():
            pid = self.worker_pid(sandbox)
            assert killed or pid > 1, f"sandbox {sandbox} has no worker"  # 0 would mean our own process group
            return pid if pid > 1 and pid not in killed else None

        pid = poll("another worker", another)
        os.kill(pid, signal.SIGKILL)
        return pid

    def read_text(self, path, sandbox):
        """A file's text, or None while it does not exist."""
        result = self.start_call("read_file", path=path, sandbox_id=sandbox).result()
        return None if result.get("isError") else result["structuredContent"]["content"]

    def check_wire(self):
        if self.violations:
            raise AssertionError(f"{len(self.violations)} violations of the protocol: {self.violations[:5]}")


def temporary_directory():
    """A directory with a short path, for names of sockets, that the mapped users of sandboxes can enter;
    removed at the end of the test."""
    path = tempfile.mkdtemp(prefix="clotest", dir="/tmp")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Process:
    """One cloister process, with a runtime directory of its own."""

    def __init__(self, *options, env=None, program=None, runtime_dir=None, preexec=None, prefix=(), stdio=True):
        self.own_dir = None
        if runtime_dir is None:
            self.own_dir = runtime_dir = temporary_directory()
        self.runtime_dir = runtime_dir
        environment = {"CLOISTER_RESULTS": "structured", "CLOISTER_SYNC_BUDGET_SECONDS": str(BUDGET_SECONDS), **os.environ, **(env or {})}
        command = [*prefix, program or os.environ["CLOISTER"], "--runtime-dir", runtime_dir, *options]
        self.log = []
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdio else subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdio else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=preexec,
            start_new_session=True,
        )
        atexit.register(self.abandon)
        self.logger = threading.Thread(target=self._read_log, daemon=True)
        self.logger.start()

    def abandon(self):
        """The end of the test, which a server over HTTP does not notice by itself."""
        if self.process.poll() is None:
            self.process.terminate()

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.decode("utf-8", "replace").rstrip("\n"))

    def log_tail(self, lines=40):
        return "\n".join(self.log[-lines:])

    def is_gone(self):
        return self.process.poll() is not None

    # ---- the end ----

    def wait_exit(self, seconds=30.0):
        """Waits for the exit status; kills the server if it does not end."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"server still runs after {seconds} s:\n{self.log_tail()}") from None

    def end(self):
        """Asks the server to end."""
        self.process.send_signal(signal.SIGTERM)

    def readers(self):
        """Threads that read its output until it ends."""
        return [self.logger]

    def check_wire(self):
        """Fails if the server has sent anything wrong."""

    def close(self, seconds=30.0):
        """Ends the server, and checks everything it has sent."""
        self.end()
        code = self.wait_exit(seconds)
        self.join()
        left = self.left_behind() if self.own_dir else []
        if self.own_dir:
            shutil.rmtree(self.own_dir, ignore_errors=True)
        self.check_wire()
        if code != 0:
            raise AssertionError(f"server exited with {code}:\n{self.log_tail(80)}")
        if left:
            raise AssertionError(f"left behind: {left}\n{self.log_tail()}")

    def join(self):
        for thread in self.readers():
            thread.join(30)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def kill(self):
        """Sends SIGKILL, so nothing is cleaned up."""
        self.process.kill()
        self.process.wait()
        for thread in self.readers():
            thread.join(30)

    def sweepers(self):
        """Pids of the processes that would remove this server's remains."""
        return [pid for pid, line in processes() if "--sweep-after-server" in line and self.runtime_dir in line]

    def kill_with_sweeper(self):
        """Sends SIGKILL to the server and its sweepers, as when a machine runs out of memory: only the next
        server can clean up."""
        for pid in self.sweepers():
            os.kill(pid, signal.SIGKILL)
        self.kill()

    def left_behind(self):
        """Processes, sandbox directories and containers of this runtime directory."""
        return processes_of(self.runtime_dir) + sandbox_dirs(self.runtime_dir) + containers_of(self.runtime_dir)

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        if kind is None:
            self.close()
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Server(Process, Client):
    """A server on pipes, with its client."""

    def __init__(self, *options, **how):
        Client.__init__(self)
        self.wants_all = "--compat" not in options  # tools of the profiles may have the same names
        Process.__init__(self, *options, **how)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.sort_text(line)
        self.give_up(lambda: ServerGone(f"server ended with {self.process.poll()}:\n{self.log_tail()}"))

    def send_bytes(self, data):
        self.sniff(data)
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ServerGone(f"server is gone:\n{self.log_tail()}") from None

    # ---- the end ----

    def end(self):
        """Closes its stdin, as clients do."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def readers(self):
        return [self.reader, self.logger]

    def check_wire(self):
        Client.check_wire(self)
