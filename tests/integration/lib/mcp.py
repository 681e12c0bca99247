"""A small MCP client, for tests that need to see the wire, and the server process at its other end.

It speaks both eras: legacy() opens a session by `initialize`, modern requests carry everything they
need in `_meta`. Any number of requests can be in flight; a reader thread sorts the answers. It
insists on what every client may insist on: one answer per request, everything as the published schemas have it (wire.py), over stdio
whole lines of JSON and nothing else. Over HTTP the same client is in mcp_http.py.
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
from engine import alive
from host import (
    BACKEND,
    ENGINE,
    agents_of,
    cgroups_of,
    containers_of,
    mounts_of,
    pid_namespace,
    processes,
    processes_left,
    processes_of,
    sandbox_dirs,
    traces_of,
    unusable_backend,
)
from wire import LEGACY, MODERN, PREFIX, Wire

LATEST_LEGACY = LEGACY[-1]

ANSWER_SECONDS = 60.0  # sanitised builds on a busy machine; every wait ends by then


def modern_meta(version=MODERN, capabilities=None):
    return {
        PREFIX + "protocolVersion": version,
        PREFIX + "clientCapabilities": capabilities or {},
        PREFIX + "clientInfo": {"name": "test", "version": "1"},
    }


def filled(structured):
    """With the fields of an execution that are absent because they say nothing."""
    if "execution_id" in structured and "duration_ms" in structured:
        usual = {"stdout": "", "stderr": "", "stdout_bytes": 0, "stderr_bytes": 0, "truncated": False}
        if structured["status"] != "running":
            usual.update(displays=[], files=[], files_truncated=False)
        return {**usual, **structured}
    return structured


class ServerGone(Exception):
    pass


class Pending:
    """A request in flight."""

    def __init__(self, client, ident):
        self.client = client
        self.ident = ident
        self.box = queue.Queue()
        self.begun = time.monotonic()
        self.ended = None
        self.exchange = None  # over HTTP: what it went by

    def answered(self):
        return not self.box.empty()

    def wait(self, seconds=ANSWER_SECONDS):
        """The whole answer, as a dict."""
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
        """structuredContent of a tool call that must not have failed; in revisions that have none its text, as `text`."""
        result = self.result(seconds)
        if result.get("isError"):
            raise AssertionError(f"tool call failed: {json.dumps(result)[:3000]}")
        if self.client.version in LEGACY[:2]:
            return {"text": "".join(block.get("text", "") for block in result["content"])}
        return result["structuredContent"]

    def failed(self, seconds=ANSWER_SECONDS):
        """structuredContent of a tool call that must have failed."""
        result = self.result(seconds)
        if not result.get("isError"):
            raise AssertionError(f"tool call did not fail: {json.dumps(result)[:3000]}")
        return result.get("structuredContent", {})

    def seconds(self):
        return self.ended - self.begun


class Client:
    """What a transport has to add: send_bytes(), which puts whole messages on the wire, and a call of
    sort() for each message that comes."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pending = {}
        self.ended = False  # its output has
        self.next_id = 1
        self.version = None
        self.capabilities = {}  # that we declare
        self.wants_all = True  # output, of our own tools
        self.notifications = []
        self.requests = []  # of the server to us
        self.unmatched = []  # answers without a request of ours: errors without id, or a bug
        self.violations = []  # what should not have been sent
        self.wire = Wire()

    # ---- the wire ----

    def sort(self, message):
        """Checks a message and gives it to whom it is for."""
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
        except Exception:  # what this client cannot take is a violation, too, and must not end its reader
            self.violations.append((data[:300], traceback.format_exc()))

    def give_up(self, problem):
        """No more answers will come; problem() is why."""
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
        """Registers a wait for the answer to an id that the test puts on the wire by itself."""
        pending = Pending(self, ident)
        with self.lock:
            # A dying process may close its output before its input: a request can still be written then.
            if self.ended:
                raise ServerGone(f"server is gone:\n{self.log_tail()}")
            self.pending[self._key(ident)] = pending
        return pending

    def raw(self, line, ident):
        """Sends one line as it is and returns the answer with this id (None: an error without id)."""
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
        """Sends a request; returns at once."""
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
        """The arguments, with as much output wanted as there can be: what is shown by default has tests of its own."""
        if self.wants_all and tool in ("execute_code", "create_run_close", "get_execution"):
            return {"max_output_bytes": 204800, **arguments}
        return arguments

    def start_call(self, tool, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": self.whole(tool, arguments)})

    def start_noted(self, token, tool, **arguments):
        """A call that wants progress under this token."""
        return self.start("tools/call", {"name": tool, "arguments": self.whole(tool, arguments), "_meta": {"progressToken": token}})

    def progress(self, token):
        """Notifications of progress that have come for a token."""
        found = [n["params"] for n in self.notifications if n["method"] == "notifications/progress"]
        return [p for p in found if p["progressToken"] == token]

    def call(self, tool, seconds=ANSWER_SECONDS, **arguments):
        """structuredContent of a call that must not fail."""
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

    def stdout(self, code, **arguments):
        """What code prints; it must end well."""
        done = self.run(code, **arguments)
        if done["status"] != "ok":
            raise AssertionError(f"{code!r} ended with {json.dumps(done)[:2500]}")
        return done["stdout"]

    def worker_pid(self, sandbox):
        return self.call("get_sandbox_status", sandbox_id=sandbox)["worker"]["pid"]

    def kill_worker(self, sandbox):
        """SIGKILL to the worker that the sandbox has; returns its pid."""
        pid = self.worker_pid(sandbox)
        assert pid > 1, f"sandbox {sandbox} has no worker"  # 0 would be all of our own process group
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
    """Short enough for socket names, open for sandboxes' mapped users, gone when the test ends."""
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
        environment = {"CLOISTER_RESULTS": "structured", **os.environ, **(env or {})}
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
        """A server of HTTP does not notice that its test is gone."""
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
        """Exit status; kills the server if it stays."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"server still runs after {seconds} s:\n{self.log_tail()}") from None

    def end(self):
        """Asks it to end."""
        self.process.send_signal(signal.SIGTERM)

    def readers(self):
        """Threads that read what it says until it ends."""
        return [self.logger]

    def check_wire(self):
        """Fails if it has said something wrong."""

    def close(self, seconds=30.0):
        """Ends it, and checks what it said on the way."""
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
        """SIGKILL: nothing is cleaned up."""
        self.process.kill()
        self.process.wait()
        for thread in self.readers():
            thread.join(30)

    def sweepers(self):
        """Pids of the processes that would remove what this server leaves."""
        return [pid for pid, line in processes() if "--sweep-after-server" in line and self.runtime_dir in line]

    def kill_with_sweeper(self):
        """SIGKILL for both, as when a machine runs out of memory: only the next server is left to clean up."""
        for pid in self.sweepers():
            os.kill(pid, signal.SIGKILL)
        self.kill()

    def left_behind(self):
        """Processes, sandbox directories and containers that still belong to this runtime directory."""
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
    """A server on pipes, and its client."""

    def __init__(self, *options, **how):
        Client.__init__(self)
        self.wants_all = "--compat" not in options  # other servers' tools may have the same names
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
        """As a client does it, by closing its stdin."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def readers(self):
        return [self.reader, self.logger]

    def check_wire(self):
        Client.check_wire(self)
