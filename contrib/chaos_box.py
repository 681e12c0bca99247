"""The model of one sandbox: what its variables, its log and its files must be, given what was done to it.

A box is a place that always has a sandbox; when the agent of one is killed another one takes its place. In it live two
lanes, one for each language, in each of which one call follows another. So the model of a lane is exact:

- a counter in the interpreter goes up by one with each call, and starts again only after the interpreter was lost for a
  reason that the box knows of;
- each operation first appends its id to a log file, then prints it with the counter. What was answered as run is in
  that file once, what was not is there at most once, nothing else is;
- an answer that says more or less than what the code printed is wrong.

What is not known is a set: a call that was stopped may have got as far as the counter or not.
"""

import threading
import time


class Lane:
    def __init__(self, language):
        self.language = language
        self.counters = {0}  # what the interpreter's counter may be
        self.begun = False  # it has run something: a call that is stopped while it starts costs nothing but the start
        self.lost = False  # it is gone: the next call must find a new one
        self.may_be_lost = False  # it may be gone
        self.killed = None  # (before, after) of a kill from outside whose effect was not seen yet
        self.known = {}  # execution ids that have been dealt with, in order
        self.chapter = 0
        self.written = {}  # chapter -> {operation: "once" or "maybe"}
        self.busy_since = None  # a call is under way

    def log_name(self, chapter=None):
        return f"log.{self.language}.{self.chapter if chapter is None else chapter}"

    def expect(self, op, how):
        self.written.setdefault(op.chapter, {})[op.name] = how

    # ---- the interpreter ----

    def unsure(self):
        """A call has ended of which nobody knows whether it has found a new interpreter."""
        if self.lost or self.may_be_lost or self.killed:
            self.counters = self.counters | {0, 1}
            self.may_be_lost, self.lost = True, False
            if self.killed and self.killed[1] < float("inf"):
                self.killed = None

    def know_nothing(self):
        """After a violation: whatever comes next is taken as it is, so that one mistake is told once."""
        self.counters, self.may_be_lost = set(range(1 << 16)), True

    def forget_interpreter(self):
        self.lost, self.may_be_lost, self.killed = False, False, None

    def judge(self, op, said, counter):
        """Compares what an answer says about the interpreter with what may be; returns what is wrong."""
        wrong = []
        if said == "restarted":
            if self.begun and not (self.lost or self.may_be_lost or self.killed):
                wrong.append("the interpreter was restarted, and nobody had touched it")
            self.counters = {0}
            self.forget_interpreter()
        elif said == "fresh":
            if self.begun:
                wrong.append("the interpreter says fresh, but it was used before")
            self.counters = {0}
            self.forget_interpreter()
        elif said == "kept":
            if self.lost:
                wrong.append("the interpreter says kept, but the call before this one had crashed it")
            if self.killed and op.sent_at > self.killed[1]:
                wrong.append("the interpreter says kept, but it had been killed before this call")
            self.lost = self.may_be_lost = False
        self.begun = True
        if counter is not None:
            if counter - 1 not in self.counters:
                wrong.append(f"the counter is {counter} after {sorted(self.counters)}")
            self.counters = {counter}
        return wrong


class Box:
    def __init__(self, number, name):
        self.number = number
        self.name = name
        self.lock = threading.Condition()
        self.id = None
        self.status = None  # as it was created
        self.doomed = None  # when its agent was killed
        self.generation = 0
        self.lanes = {}
        self.parked = set()
        self.blows = []  # (before, after, what) done to its worker or to the server
        self.worker_deaths = []  # times, for the spacing

    def settle(self, status):
        """A new sandbox lives here."""
        with self.lock:
            self.id = status["sandbox_id"]
            self.status = status
            self.doomed = None
            self.generation += 1
            self.lanes = {language: Lane(language) for language in ("python", "bash")}
            self.parked = set()
            self.blows = []
            self.worker_deaths = []
            self.lock.notify_all()

    def park(self, language, over):
        """A lane has seen that the sandbox is gone, and waits for the next one."""
        with self.lock:
            generation = self.generation
            self.parked.add(language)
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.generation != generation or over(), 90)

    def wait_parked(self, seconds):
        with self.lock:
            return self.lock.wait_for(lambda: len(self.parked) == len(self.lanes), seconds)

    # ---- what was done to it ----

    def blow(self, what):
        """Something is about to be done; returns the entry, to be closed by done()."""
        entry = [time.monotonic(), float("inf"), what]
        with self.lock:
            self.blows = [*self.blows[-30:], entry]
        return entry

    @staticmethod
    def done(entry):
        entry[1] = time.monotonic()

    def disturbed(self, since, until):
        """Whether anything was done to the worker or the server between two moments, or a little before."""
        with self.lock:
            return [b[2] for b in self.blows if b[0] <= until and b[1] >= since - 1.0]

    def hangs(self):
        """Its worker was stopped, and has not been replaced yet."""
        with self.lock:
            return any("SIGSTOP" in b[2] and b[1] == float("inf") for b in self.blows)

    def may_kill_worker(self, deaths=1):
        """Five deaths within 30 s give a sandbox up if nothing succeeds in between; so many are never done."""
        now = time.monotonic()
        with self.lock:
            recent = [t for t in self.worker_deaths if t > now - 35]
            if self.doomed or self.id is None or len(recent) + deaths > 3:
                return False
            self.worker_deaths = recent + [now] * deaths
            return True
