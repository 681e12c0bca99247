"""The model of one sandbox: what its variables, its log and its files must be, given what was done to it.

A box always has a sandbox; when the agent of one is killed, another one takes its place. It has two lanes, one for each
language, in each of which one call follows another. So the model of a lane is exact:

- a counter in the interpreter is incremented by each call, and restarts only after the interpreter was lost for a reason
  that the box knows;
- each operation first appends its id to a log file, then prints it with the counter. An operation whose answer says that
  it ran is in that file once, any other one at most once, and the file contains nothing else;
- an answer with more or less than the output of the code is wrong.

Unknown values are sets: a call that was stopped may have reached the counter or not.
"""

import threading
import time


class Lane:
    def __init__(self, language):
        self.language = language
        self.counters = {0}  # possible values of the interpreter's counter
        self.begun = False  # it has run something: stopping a call while it starts only costs the start
        self.lost = False  # it has ended: the next call must find a new one
        self.may_be_lost = False  # it may have ended
        self.killed = None  # (before, after) of a kill from outside whose effect has not been seen yet
        self.known = {}  # execution ids that have been handled, in order
        self.unanswered = 0  # calls just before this one that were cancelled, and so have told no execution id
        self.chapter = 0
        self.written = {}  # chapter -> {operation: "once" or "maybe"}
        self.busy_since = None  # a call is pending

    def log_name(self, chapter=None):
        return f"log.{self.language}.{self.chapter if chapter is None else chapter}"

    def expect(self, op, how):
        self.written.setdefault(op.chapter, {})[op.name] = how

    # ---- the interpreter ----

    def unsure(self):
        """A call has ended of which it is unknown whether it found a new interpreter."""
        if self.lost or self.may_be_lost or self.killed:
            self.counters = self.counters | {0, 1}
            self.may_be_lost, self.lost = True, False
            if self.killed and self.killed[1] < float("inf"):
                self.killed = None

    def know_nothing(self):
        """After a violation: accepts any next state, so that one mistake is reported once."""
        self.counters, self.may_be_lost = set(range(1 << 16)), True

    def forget_interpreter(self):
        self.lost, self.may_be_lost, self.killed = False, False, None

    def judge(self, op, said, counter):
        """Compares an answer's statement about the interpreter with the possible states; returns what is wrong."""
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
        self.status = None  # when it was created
        self.doomed = None  # time when its agent was killed, or since when its sandbox is known to be lost
        self.lost = False  # its sandbox has ended by itself, which was reported: another one must take its place
        self.generation = 0
        self.lanes = {}
        self.parked = set()
        self.blows = []  # (before, after, what) of attacks on its worker or the server
        self.worker_deaths = []  # times, to keep a distance

    def settle(self, status):
        """A new sandbox for this box."""
        with self.lock:
            self.id = status["sandbox_id"]
            self.status = status
            self.doomed, self.lost = None, False
            self.generation += 1
            self.lanes = {language: Lane(language) for language in ("python", "bash")}
            self.parked = set()
            self.blows = []
            self.worker_deaths = []
            self.lock.notify_all()

    def park(self, language, over):
        """A lane has noticed that the sandbox is gone, and waits for the next one."""
        with self.lock:
            generation = self.generation
            self.parked.add(language)
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.generation != generation or over(), 90)

    def lose(self, sandbox):
        """A lane has noticed that the sandbox is gone, and nobody had killed its agent; true for the first that does."""
        with self.lock:
            if self.id != sandbox or self.doomed:
                return False
            self.doomed, self.lost = time.monotonic(), True
            return True

    def wait_parked(self, seconds):
        with self.lock:
            return self.lock.wait_for(lambda: len(self.parked) == len(self.lanes), seconds)

    # ---- attacks ----

    def blow(self, what):
        """Records an attack that is about to happen; returns the entry, to be closed by done()."""
        entry = [time.monotonic(), float("inf"), what]
        with self.lock:
            self.blows = [*self.blows[-30:], entry]
        return entry

    @staticmethod
    def done(entry):
        entry[1] = time.monotonic()

    def disturbed(self, since, until):
        """Whether the worker or the server was attacked between two moments, or a little before."""
        with self.lock:
            return [b[2] for b in self.blows if b[0] <= until and b[1] >= since - 1.0]

    def hangs(self):
        """Whether its worker was stopped and has not been replaced yet."""
        with self.lock:
            return any("SIGSTOP" in b[2] and b[1] == float("inf") for b in self.blows)

    def may_kill_worker(self, deaths=1):
        """Five deaths within 30 s without a success in between give a sandbox up, so there are never so many."""
        now = time.monotonic()
        with self.lock:
            recent = [t for t in self.worker_deaths if t > now - 35]
            if self.doomed or self.id is None or len(recent) + deaths > 3:
                return False
            self.worker_deaths = recent + [now] * deaths
            return True
