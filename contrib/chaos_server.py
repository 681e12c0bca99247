"""One named instance of cloister, through the lives of its servers.

A client of a server that dies loses its answers, not its work. So a call here ends in one of three ways: with
its answer, with Lost (the server died or was shutting down, and another one follows), or with Late, which is
a violation. The caller decides what to do about a lost answer: run_to_end() in chaos_load.py.

A server is replaced under a lock; lives are numbered, and a caller that has lost an answer waits for the next
number.
"""

import collections
import os
import re
import signal
import subprocess
import threading
import time

import mcp

RECOVERED = re.compile(r"sandbox recovered after_us=(\d+)")
SICK = re.compile(r"given up|AddressSanitizer|LeakSanitizer|runtime error:|Assertion|assertion|killed by signal (?!9\b)\d+")
SILENT = re.compile(r"is not known to have ended$")  # a sandbox that does not answer for some seconds
INSIST_TIMES = 20
EXIT_SECONDS = 6.0
ADOPT_SECONDS = 15.0


class Lost(Exception):
    """The server has ended before the answer, in this life."""

    def __init__(self, life):
        super().__init__(f"in life {life}")
        self.life = life


class Late(Exception):
    """No answer within the limit."""


class Refused(Exception):
    """An answer that is an error: of the protocol, or of a tool that failed."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Life(mcp.Server):
    """A server for many threads, whose log is kept with our times."""

    def __init__(self, number, court, options, program, runtime_dir):
        self.number = number
        self.court = court
        self.turn = threading.RLock()
        self.ending = False  # ended by us
        self.tail = collections.deque(maxlen=60)
        super().__init__(*options, program=program, runtime_dir=runtime_dir)

    def start(self, method, params=None, ident=None):
        with self.turn:
            return super().start(method, params, ident)

    def send_bytes(self, data):
        with self.turn:
            try:
                super().send_bytes(data)
            except (OSError, ValueError):  # ValueError: closed by us
                raise mcp.ServerGone("it is gone") from None

    def log_tail(self, lines=40):
        return "\n".join(list(self.tail)[-lines:])

    def _read_log(self):
        with open(self.court.log_path, "a", encoding="utf-8") as file:
            for raw in self.process.stderr:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                self.tail.append(line)
                file.write(f"{time.monotonic() - self.court.begun:10.4f} {self.number:4d} {line}\n")
                file.flush()
                found = RECOVERED.search(line)
                if found:
                    self.court.measured("recovery as the server's log has it", int(found.group(1)) / 1e6)
                if SICK.search(line):
                    self.court.violation(f"the server's log says: {line}")

    def forget(self, pending):
        """Gives up an answer; if it comes anyway, it is no violation."""
        with self.lock:
            self.pending.pop(self._key(pending.ident), None)


class Instance:
    def __init__(self, court, program, runtime_dir, options):
        self.court = court
        self.program = program
        self.runtime_dir = runtime_dir
        self.options = ["--instance", f"chaos-{os.getpid()}", *options]
        self.changed = threading.Condition()
        self.life = None
        self.over = False
        self.start()

    # ---- lives ----

    def start(self):
        """Starts the next life; returns the monotonic time of its beginning."""
        begun = time.monotonic()
        number = self.life.number + 1 if self.life else 1
        life = Life(number, self.court, self.options, self.program, self.runtime_dir)
        life.legacy()
        with self.changed:
            self.life = life
            self.changed.notify_all()
        return begun

    def end(self, number, wanted=0):
        """Ends the present life by a signal; all of its output has been read when this returns."""
        life = self.life
        life.ending = True
        life.process.send_signal(number)
        try:
            status = life.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.court.violation(f"the server still ran {EXIT_SECONDS:.0f} s after signal {number}")
            life.process.kill()
            status = life.process.wait()
        life.reader.join(10)
        life.logger.join(10)
        for stream in (life.process.stdin, life.process.stdout, life.process.stderr):
            try:
                stream.close()
            except OSError:
                pass
        if status != wanted:
            self.court.violation(f"the server exited with {status} on signal {number}, not {wanted}")
        if number == signal.SIGKILL and life.violations:
            life.violations.pop()  # the line during which it died
        self.check_wire(life)

    def check_wire(self, life):
        """Checks for answers without a request, and lines that are not of the protocol."""
        for message in life.unmatched:
            self.court.violation(f"an answer that nobody waits for (a second one?): {str(message)[:300]}")
        for line in life.violations:
            self.court.violation(f"not protocol on stdout: {str(line)[:300]}")
        life.unmatched, life.violations = [], []

    def next_life(self, number):
        """Waits until a life after `number` answers."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.life.number > number or self.over, 60):
                raise Late("no server came back")
            if self.over:
                raise Late("the server went away at the end")

    def watch(self):
        """Reports a death of the server that was not caused here as a violation, and goes on with the next one."""
        life = self.life
        if life.process.poll() is not None and not life.ending:
            self.court.violation(f"the server ended by itself with {life.process.returncode}:\n{life.log_tail()}")
            life.ending = True
            self.start()

    # ---- calls ----

    def begin(self, tool, arguments):
        """Sends a call; returns (life, pending)."""
        life = self.life
        try:
            return life, life.start_call(tool, **arguments)
        except mcp.ServerGone:
            raise Lost(life.number) from None

    def finish(self, life, pending, seconds):
        """structuredContent of the answer; Refused if there is only an error."""
        try:
            answer = pending.wait(seconds)
        except mcp.ServerGone:
            raise Lost(life.number) from None
        except AssertionError:
            raise Late(f"no answer within {seconds:.0f} s") from None
        return self.read(life, answer)

    def read(self, life, answer):
        if "error" in answer:
            raise Refused("protocol", str(answer["error"]))
        content = answer["result"].get("structuredContent", {})
        error = content.get("error") if answer["result"].get("isError") else None
        if error and "status" not in content:
            if error["code"] == "shutting_down":
                raise Lost(life.number)
            raise Refused(error["code"], error["message"])
        return content

    def call(self, tool, seconds, **arguments):
        """One attempt."""
        life, pending = self.begin(tool, arguments)
        return self.finish(life, pending, seconds)

    def insist(self, tool, seconds, **arguments):
        """Repeats the call when servers die during it, or when they say that the sandbox does not answer, as their hint asks for: for calls
        that may be made twice. Whether there was a reason for it not to answer is seen by the time that this takes."""
        for _ in range(INSIST_TIMES):
            try:
                return self.call(tool, seconds, **arguments)
            except Lost as lost:
                self.next_life(lost.life)
            except Refused as problem:
                if problem.code != "engine_unavailable" or not SILENT.search(problem.message):
                    raise
                self.court.count(self.court.remarks, "calls sent again: the sandbox did not answer for some seconds")
        raise Late(f"sent {INSIST_TIMES} times, and never answered")

    def sandboxes(self, seconds=10.0):
        """id -> status of all that the server knows."""
        return {s["sandbox_id"]: s for s in self.insist("get_sandbox_status", seconds)["sandboxes"]}


SIGNALS = {"SIGKILL": (signal.SIGKILL, -signal.SIGKILL), "SIGTERM": (signal.SIGTERM, 0)}
