"""A small MCP client over stdio, for tests that need to see the wire.

It speaks both eras: legacy() opens a session by `initialize`, modern requests carry everything they
need in `_meta`. Any number of requests can be in flight; a reader thread sorts the answers. It
insists on what every client may insist on: whole lines of JSON on stdout, nothing else, one answer
per request.
"""

import atexit
import base64
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from engine import Engine, alive, is_waiting_monitor

# Said aloud, so that an engine which this machine happens to run is not taken. with_engine.py sets another.
BACKEND = os.environ.setdefault("CLOISTER_BACKEND", "oci")
ENGINE = Engine.attached()  # the one that belongs to the tests, or None

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY = LEGACY[-1]
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"

ANSWER_SECONDS = 60.0  # sanitised builds on a busy machine; every wait ends by then


def modern_meta(version=MODERN):
    return {
        PREFIX + "protocolVersion": version,
        PREFIX + "clientCapabilities": {},
        PREFIX + "clientInfo": {"name": "test", "version": "1"},
    }


class ServerGone(Exception):
    pass


class Pending:
    """A request in flight."""

    def __init__(self, server, ident):
        self.server = server
        self.ident = ident
        self.box = queue.Queue()
        self.begun = time.monotonic()
        self.ended = None

    def answered(self):
        return not self.box.empty()

    def wait(self, seconds=ANSWER_SECONDS):
        """The whole answer, as a dict."""
        try:
            answer = self.box.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(
                f"no answer to request {self.ident!r} within {seconds} s; stderr:\n"
                + self.server.log_tail()
            ) from None
        if answer is None:
            raise ServerGone(f"server ended with {self.server.process.poll()}:\n{self.server.log_tail()}")
        self.ended = time.monotonic()
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
        """structuredContent of a tool call that must not have failed."""
        result = self.result(seconds)
        if result.get("isError"):
            raise AssertionError(f"tool call failed: {json.dumps(result)[:3000]}")
        return result["structuredContent"]

    def failed(self, seconds=ANSWER_SECONDS):
        """structuredContent of a tool call that must have failed."""
        result = self.result(seconds)
        if not result.get("isError"):
            raise AssertionError(f"tool call did not fail: {json.dumps(result)[:3000]}")
        return result.get("structuredContent", {})

    def seconds(self):
        return self.ended - self.begun


def temporary_directory():
    """Short enough for socket names, open for sandboxes' mapped users, gone when the test ends."""
    path = tempfile.mkdtemp(prefix="clotest", dir="/tmp")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Server:
    """One cloister process on pipes, with a runtime directory of its own."""

    def __init__(self, *options, env=None, program=None, runtime_dir=None, preexec=None, prefix=()):
        self.own_dir = None
        if runtime_dir is None:
            self.own_dir = runtime_dir = temporary_directory()
        self.runtime_dir = runtime_dir
        environment = dict(os.environ, **(env or {}))
        command = [*prefix, program or os.environ["CLOISTER"], "--runtime-dir", runtime_dir, *options]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=preexec,
            start_new_session=True,
        )
        self.lock = threading.Lock()
        self.pending = {}
        self.next_id = 1
        self.version = None
        self.notifications = []
        self.unmatched = []  # answers without a request of ours: errors without id, or a bug
        self.violations = []  # lines that should not have been on stdout
        self.log = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.logger = threading.Thread(target=self._read_log, daemon=True)
        self.logger.start()

    # ---- the wire ----

    def _read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line.decode("utf-8", "strict"))
                self._sort(message)
            except (ValueError, AttributeError) as problem:
                self.violations.append((line[:200], str(problem)))
        with self.lock:
            waiting, self.pending = self.pending, {}
        for pending in waiting.values():
            pending.box.put(None)

    def _sort(self, message):
        if isinstance(message, list):
            for part in message:
                self._sort(part)
            return
        if message.get("jsonrpc") != "2.0":
            raise ValueError("not JSON-RPC 2.0")
        if "method" in message:
            self.notifications.append(message)
            return
        if ("result" in message) == ("error" in message):
            raise ValueError("an answer has a result or an error")
        with self.lock:
            pending = self.pending.pop(self._key(message.get("id")), None)
        if pending is None:
            self.unmatched.append(message)
        else:
            pending.box.put(message)

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.decode("utf-8", "replace").rstrip("\n"))

    def log_tail(self, lines=40):
        return "\n".join(self.log[-lines:])

    @staticmethod
    def _key(ident):
        return json.dumps(ident)

    def send_bytes(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ServerGone(f"server is gone:\n{self.log_tail()}") from None

    def send(self, message):
        self.send_bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def expect(self, ident):
        """Registers a wait for the answer to an id that the test puts on the wire by itself."""
        pending = Pending(self, ident)
        with self.lock:
            self.pending[self._key(ident)] = pending
        return pending

    def raw(self, line, ident):
        """Sends one line as it is and returns the answer with this id (None: an error without id)."""
        if ident is None:
            before = len(self.unmatched)
            self.send_bytes(line + b"\n")
            deadline = time.monotonic() + ANSWER_SECONDS
            while len(self.unmatched) == before:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError(f"no answer to a bad line:\n{self.log_tail()}")
                time.sleep(0.005)
            return self.unmatched.pop()
        pending = self.expect(ident)
        self.send_bytes(line + b"\n")
        return pending.wait()

    def start(self, method, params=None, ident=None):
        """Sends a request; returns at once."""
        if ident is None:
            ident = self.next_id
            self.next_id += 1
        if self.version == MODERN:
            params = dict(params or {})
            params.setdefault("_meta", modern_meta())
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
                "capabilities": {},
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

    def start_call(self, tool, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": arguments})

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

    # ---- the end ----

    def wait_exit(self, seconds=10.0):
        """Exit status; kills the server if it stays."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"server still runs after {seconds} s:\n{self.log_tail()}") from None

    def close(self, seconds=10.0):
        """Ends it as a client does, by closing its stdin, and checks what it said on the way."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.wait_exit(seconds)
        self.reader.join(10)
        self.logger.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        left = self.left_behind() if self.own_dir else []
        if self.own_dir:
            shutil.rmtree(self.own_dir, ignore_errors=True)
        if self.violations:
            raise AssertionError(f"not protocol on stdout: {self.violations}")
        if code != 0:
            raise AssertionError(f"server exited with {code}:\n{self.log_tail(80)}")
        if left:
            raise AssertionError(f"left behind: {left}\n{self.log_tail()}")

    def kill(self):
        """SIGKILL: nothing is cleaned up."""
        self.process.kill()
        self.process.wait()
        self.reader.join(10)
        self.logger.join(10)

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
                self.process.wait(8)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


# ---- looking at the host ----


def processes():
    """(pid, argv joined by blanks) of every process that can be read."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            yield int(entry), b" ".join(words).decode("utf-8", "replace").strip()


def processes_of(text):
    """Command lines that name `text`, e.g. a runtime directory; the test itself left out."""
    mine = {os.getpid(), os.getppid()}
    found = [(pid, line) for pid, line in processes() if text in line and pid not in mine]
    return [f"{pid} {line}" for pid, line in found if not is_waiting_monitor(line)]


def processes_left(text):
    """As above, when the engine's monitors have had a moment to see that their container is gone."""
    deadline = time.monotonic() + 2
    while True:
        found = processes_of(text)
        if not any("/conmon " in line or "containerd-shim" in line for line in found) or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def sandbox_dirs(runtime_dir):
    """Directories of sandboxes below a runtime directory."""
    found = []
    for directory, names, _ in os.walk(runtime_dir):
        if os.path.basename(directory) == "sandboxes":
            found += [os.path.join(directory, n) for n in names]
            names[:] = []
    return found


def cgroups_of(text):
    """Control group directories, of any hierarchy, whose name contains `text`."""
    found = []
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(directory, n) for n in names if text in n]
    return found


def mounts_of(text):
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line.strip() for line in file if text in line]


def containers_of(text):
    """Containers of the tests' engine, running or not, with `text` in their names or labels; none without an engine."""
    if ENGINE is None:
        return []
    return [f"{c['Id'][:12]} {c['Name']} ({c['State']['Status']})" for c in ENGINE.containers(text)]


def traces_of(sandbox):
    """All that can be seen of a sandbox on this host: empty once it is gone."""
    return cgroups_of(sandbox) + processes_of(sandbox) + mounts_of(sandbox) + containers_of(sandbox)


def pid_namespace(pid):
    """What tells the pid namespace of a process from others; None if the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def agents_of(sandbox):
    """Pids, on the host, of processes in the sandbox that are its first process."""
    if ENGINE is not None:
        states = [c["State"] for c in ENGINE.containers(sandbox)]
        return [s["Pid"] for s in states if s["Running"] and s["Pid"] > 0]
    found = []
    for pid, line in processes():
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
                inside = sandbox in file.read()
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                status = file.read()
        except OSError:
            continue
        nested = next((text.split()[1:] for text in status.splitlines() if text.startswith("NSpid:")), [])
        if (inside or sandbox in line) and len(nested) > 1 and nested[-1] == "1":
            found.append(pid)
    return found


def unusable_backend():
    """None if sandboxes can be made here by the backend under test, else the reason why not."""
    done = subprocess.run(
        [os.environ["CLOISTER"], "doctor"], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode == 0:
        return None
    return " ".join(done.stdout.split())[:300] or f"doctor exited with {done.returncode}"


def decode64(text):
    return base64.b64decode(text)
