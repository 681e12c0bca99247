"""The load: calls as a model makes them, and the recovery of lost answers.

Each lane of a box is a thread that makes one call after another, of kinds chosen by its own generator, which
is derived from the seed, so the plan does not depend on the scheduling of threads. All code begins with the
same head, which logs the operation, counts, and prints both. The rest of the output is known in advance, so
every answer is compared completely.

run_to_end() does what a client has to do to get an outcome exactly once, whatever dies: it waits; after the
server's death it looks whether the next server knows the execution, and fetches it; only if it is unknown and
has left no trace in the log, it sends the call again.
"""

import datetime
import random
import re
import threading
import time

from chaos_server import EXIT_SECONDS, Late, Lost, Refused
from mcp import ServerGone

SLACK_SECONDS = 12.0  # a worker that hangs is found within 5 s, and a deadline may be the agent's own
TAKEOVER_SECONDS = 60.0  # until a new server knows what a sandbox has done
CALM_SECONDS = 8.0  # if nothing was done to this sandbox: only a margin for a shared machine
SHOWN_BYTES = 100 << 10  # minimum of an output that is shown before it is cut
KEPT_BYTES = 250 << 10  # minimum of an output that is kept when another server has taken over
LEFT_OUT = re.compile(r"\[\.\.\. (\d+) bytes left out[^\]]*\.\.\.\]\n")
TOLD = ("status", "stdout", "stdout_bytes", "stderr", "error")  # fields about code whose sandbox has died, which must not change
CLOCK_SECONDS = 0.01  # tolerance for times that a server reports
LEFT_RUNNING_SECONDS = 4.0  # duration of code that is cancelled: it may be that nothing can stop it
FOR_EVER_SECONDS = 60.0  # duration of code that is stopped in any case

PYTHON_HEAD = """\
with open('/workspace/{log}', 'ab', 0) as log_: log_.write(b'{name}\\n')
n_ = globals().get('n_', 0) + 1
print('{name}', n_, flush=True)
"""
BASH_HEAD = """\
echo {name} >>/workspace/{log}
n_=$((n_ + 1))
echo {name} $n_
"""


class Op:
    """One execution: its code, and the expected outcome."""

    def __init__(self, name, language, log, body, expected, nominal, **arguments):
        self.name = name
        self.language = language
        head = PYTHON_HEAD if language == "python" else BASH_HEAD
        self.code = head.format(name=name, log=log) + body
        self.expected = expected  # standard output after the head
        self.nominal = nominal  # its duration in seconds
        self.arguments = arguments
        self.kind = ""
        self.chapter = 0
        self.statuses = {"ok"}
        self.cancel_after = None
        self.sent_at = self.sent_wall = 0.0


class Lanes:
    """All threads that make calls."""

    def __init__(self, court, instance, boxes, seed, without):
        self.court = court
        self.instance = instance
        self.boxes = boxes
        self.seed = seed
        self.without = without
        self.over = threading.Event()
        self.threads = []
        self.ids = set()  # of all sandboxes so far
        self.closing = {}  # id -> Event, for sandboxes that the churn is closing

    def start(self):
        for box in self.boxes:
            for language in ("python", "bash"):
                self.spawn(self.lane, box, language)
        self.spawn(self.churn)

    def spawn(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def stop(self):
        self.over.set()
        for box in self.boxes:
            with box.lock:
                box.lock.notify_all()
        deadline = time.monotonic() + 60
        for thread in self.threads:
            thread.join(max(0.1, deadline - time.monotonic()))
            if thread.is_alive():
                self.court.violation("a thread of the load did not come to its end")

    # ---- plans ----

    def make(self, rng, lane, name):
        """Makes the next execution of a lane."""
        kinds = ["count", "count", "stream", "stream", "large", "deadline", "cancel"]
        if "executions" not in self.without:
            kinds += ["long", "stop"]
        kind = rng.choice(kinds)
        op = getattr(self, f"make_{kind}")(rng, lane.language, name, lane.log_name())
        op.kind = kind
        op.chapter = lane.chapter
        return op

    @staticmethod
    def make_count(rng, language, name, log):
        number = rng.randrange(10**6)
        if language == "python":
            return Op(name, language, log, f"print({number} * 3)", f"{number * 3}\n", 0.1)
        return Op(name, language, log, f"echo $(({number} * 3))", f"{number * 3}\n", 0.1)

    @staticmethod
    def streaming(rng, language, name, log, seconds):
        lines = rng.randrange(5, 120)
        step = max(seconds / lines, 0.002)
        pad = "x" * rng.randrange(200)
        if language == "python":
            body = f"import time\nfor i_ in range({lines}):\n    print('line', i_, '{pad}', flush=True)\n    time.sleep({step:.4f})"
        else:
            lines = min(lines, 20)
            step = seconds / lines
            body = f"for ((i_ = 0; i_ < {lines}; i_++)); do echo \"line $i_ {pad}\"; sleep {step:.4f}; done"
        return Op(name, language, log, body, "".join(f"line {i} {pad}\n" for i in range(lines)), lines * step)

    def make_stream(self, rng, language, name, log):
        return self.streaming(rng, language, name, log, rng.uniform(0.1, 3.0))

    def make_long(self, rng, language, name, log):
        return self.streaming(rng, language, name, log, rng.uniform(2.5, 5.0))

    @staticmethod
    def make_large(rng, language, name, log):
        lines = rng.randrange(1000, 30000)
        if language == "python":
            body = f"print(''.join(f'number {{i_}}\\n' for i_ in range({lines})), end='')"
        else:
            body = f"seq -f 'number %.0f' 0 {lines - 1}"
        return Op(name, language, log, body, "".join(f"number {i}\n" for i in range(lines)), 0.5)

    @staticmethod
    def sleeping(rng, language, name, log, seconds):
        if language == "python":
            body = rng.choice(
                [
                    f"import time\ntime.sleep({seconds})",
                    f"import time\nend_ = time.monotonic() + {seconds}\nwhile time.monotonic() < end_: time.sleep(0.01)",
                ]
            )
        else:
            body = f"sleep {seconds}"
        return Op(name, language, log, body, "", seconds)

    def make_deadline(self, rng, language, name, log):
        op = self.sleeping(rng, language, name, log, FOR_EVER_SECONDS)
        op.arguments["timeout_seconds"] = 1
        op.nominal = 1.0
        op.statuses = {"timeout"}
        return op

    def make_cancel(self, rng, language, name, log):
        op = self.sleeping(rng, language, name, log, LEFT_RUNNING_SECONDS)
        op.cancel_after = rng.uniform(0.0, 0.6)
        op.statuses = {"cancelled", "ok"}
        return op

    def make_stop(self, rng, language, name, log):
        """An execution that is stopped by its id, after the time budget of the call."""
        op = self.sleeping(rng, language, name, log, FOR_EVER_SECONDS)
        op.nominal = 3.0
        op.statuses = {"cancelled"}
        return op

    # ---- one lane ----

    def lane(self, box, language):
        rng = random.Random(f"{self.seed}:{box.number}:{language}")
        number = 0
        contents = {}
        generation = 0
        while not self.over.is_set():
            if box.generation != generation:
                generation, contents = box.generation, {}
            number += 1
            name = f"{box.number}{language[0]}{number}"
            choice, pause = rng.random(), rng.uniform(0.02, 0.35)
            lane, sandbox = box.lanes[language], box.id
            lane.busy_since = time.monotonic()
            try:
                if choice < 0.2:
                    self.files(rng, box, sandbox, language, contents)
                else:
                    self.execute(self.make(rng, lane, name), box, sandbox, lane)
                    if number % CHAPTER_CALLS == 0:
                        self.check_chapter(sandbox, lane, lane.chapter)
                        lane.chapter += 1
            except Refused as problem:
                self.refused(box, sandbox, language, name, problem)
            except Late as problem:
                self.court.violation(f"{name} in {sandbox}: {problem}")
                lane.know_nothing()
            except Exception as problem:  # a lane that ends would hide later violations
                self.court.violation(f"{name} in {sandbox}: {type(problem).__name__}: {problem}")
                lane.know_nothing()
            lane.busy_since = None
            self.over.wait(pause)
        with box.lock:
            box.parked.add(language)
            box.lock.notify_all()

    def refused(self, box, sandbox, language, name, problem):
        # If the server died as well, the next one never knew the executions that ended with their sandbox.
        if box.doomed and problem.code in ("sandbox_not_found", "execution_not_found"):
            if len(problem.message) < 10:
                self.court.violation(f"{name} in {box.id}: ended without a reason: {problem}")
            self.court.count(self.court.calls, "answered that the sandbox has ended")
            box.park(language, self.over.is_set)
            return
        self.court.violation(f"{name} in {sandbox}: refused: {problem}")
        if problem.code == "sandbox_not_found" and box.lose(sandbox):
            box.park(language, self.over.is_set)
        else:
            time.sleep(0.5)

    def limit(self, nominal):
        return nominal + SLACK_SECONDS + CALM_SECONDS

    def execute(self, op, box, sandbox, lane):
        lane.expect(op, "maybe")
        begun = time.monotonic()
        answer = self.run_to_end(op, sandbox, lane)
        ended = time.monotonic()
        disturbed = box.disturbed(begun, ended)
        if not disturbed and not lane.killed and not box.doomed and ended - begun > op.nominal + CALM_SECONDS:
            self.court.violation(f"{op.name} in {sandbox}: took {ended - begun:.1f} s, and nobody had touched this sandbox")
        self.court.count(self.court.calls, f"{op.language} {op.kind}: {answer['status'] if answer else 'not answered'}")
        for wrong in self.judge(op, lane, box, answer, disturbed):
            self.court.violation(f"{op.name} ({op.kind}) in {sandbox}: {wrong}; after {disturbed or 'nothing'}; answer {brief(answer)}")

    def run_to_end(self, op, sandbox, lane):
        """Returns the outcome, or None if the call was cancelled by notification and so is not answered."""
        for _ in range(20):
            op.sent_at, op.sent_wall, op.life = time.monotonic(), time.time(), self.instance.life.number
            try:
                life, pending = self.instance.begin(
                    "execute_code", {"sandbox_id": sandbox, "code": op.code, "language": op.language, **op.arguments}
                )
                if op.cancel_after is None:
                    answer = self.instance.finish(life, pending, self.limit(op.nominal))
                else:
                    answer = self.cancel(op, life, pending, sandbox)
            except Lost as lost:
                self.instance.next_life(lost.life)
                answer = self.find(op, sandbox, lane)
                if answer is None:
                    continue
            told_in = op.life
            while answer and answer["status"] == "running":
                unconfirmed, asked_in = answer.get("unconfirmed", False), self.instance.life.number
                try:
                    answer = self.fetch(op, answer["execution_id"])
                except Refused as problem:
                    if problem.code != "execution_not_found" or not unconfirmed or told_in == self.instance.life.number:
                        raise
                    self.never_began(op, sandbox, lane)
                    break
                told_in = asked_in
            else:
                if answer:
                    self.deal(lane, answer["execution_id"])
                return answer
        raise Late("sent 20 times, and lost each time")

    @staticmethod
    def deal(lane, execution):
        lane.known[execution] = True
        if len(lane.known) > 200:
            del lane.known[next(iter(lane.known))]

    def cancel(self, op, life, pending, sandbox):
        """Cancels the call; returns the answer if it came before that, else None."""
        try:
            return self.instance.finish(life, pending, max(op.cancel_after, 0.001))
        except Late:
            pass
        try:
            life.notify("notifications/cancelled", {"requestId": pending.ident, "reason": "chaos"})
            # The answer to this call comes after the notification has been handled: an answer of the other
            # call has come by then, or never comes.
            self.instance.finish(life, life.start_call("get_sandbox_status", sandbox_id=sandbox), self.limit(0))
        except (Lost, ServerGone):
            # A server that ends may answer the call before it has read the notification, so its whole output
            # is read.
            life.reader.join(EXIT_SECONDS + CALM_SECONDS)
        life.forget(pending)
        try:
            return self.instance.read(life, pending.wait(0.1)) if pending.answered() else None
        except ServerGone:
            return None

    # ---- after the death of a server ----

    def fetch(self, op, execution):
        if op.kind == "stop":
            self.instance.insist("cancel_execution", self.limit(0), execution_id=execution)
        return self.instance.insist("get_execution", self.limit(op.nominal), execution_id=execution)

    def recovered_status(self, sandbox):
        """What a server says of a sandbox when it has taken it over. It waits for that, but not for ever: until then it says "recovering"."""
        deadline = time.monotonic() + TAKEOVER_SECONDS
        while True:
            status = self.instance.insist("get_sandbox_status", self.limit(0), sandbox_id=sandbox)
            if status["state"] != "recovering":
                return status
            if time.monotonic() > deadline:
                raise Late(f"still recovering after {TAKEOVER_SECONDS:.0f} s")
            time.sleep(0.05)

    def find(self, op, sandbox, lane):
        """The outcome of an execution whose answer was lost; None if it never began."""
        listed_in = self.instance.life.number
        for entry in self.recovered_status(sandbox)["executions_recent"]:
            if entry["language"] != op.language or entry["execution_id"] in lane.known:
                continue
            try:
                answer = self.fetch(op, entry["execution_id"])
                while answer["status"] == "running":
                    answer = self.fetch(op, entry["execution_id"])
            except Refused as problem:
                if problem.code != "execution_not_found" or listed_in == self.instance.life.number:
                    raise
                return self.find(op, sandbox, lane)  # that server has died, too, and no longer had its older ones
            words = answer["stdout"].split()
            if lane.unanswered and answer["status"] == "cancelled" and not words:
                # one cancelled before this one, which a stream that was cut has let begin, and end, after this one was sent
                lane.unanswered -= 1
                self.deal(lane, entry["execution_id"])
                continue
            begun = datetime.datetime.fromisoformat(entry["started_at"].replace("Z", "+00:00")).timestamp()
            if op.name in words[:1] or (not words and begun >= op.sent_wall - CLOCK_SECONDS):
                self.court.count(self.court.remarks, "outcomes fetched after the death of a server")
                return answer
            self.deal(lane, entry["execution_id"])
        if op.name in self.read_log(sandbox, lane, lane.chapter):
            self.court.violation(f"{op.name} in {sandbox}: is in the log, but the next server knows no execution of it")
        self.court.count(self.court.remarks, "calls sent again: the server died before they began")
        return None

    def never_began(self, op, sandbox, lane):
        """It was reported as unconfirmed, its server died, and the next one does not know it."""
        if op.name in self.read_log(sandbox, lane, lane.chapter):
            self.court.violation(f"{op.name} in {sandbox}: was told as unconfirmed and is not known, but is in the log")
        self.court.count(self.court.remarks, "calls sent again: told as unconfirmed, and their server died before they began")

    # ---- judging ----

    def judge(self, op, lane, box, answer, disturbed):
        if answer is None:
            lane.unanswered += 1
            lane.expect(op, "maybe")
            lane.counters |= {c + 1 for c in lane.counters}
            lane.may_be_lost |= bool(disturbed)
            lane.unsure()
            return []
        lane.unanswered = 0
        wrong = []
        head, _, rest = answer["stdout"].partition("\n")
        words = head.split(" ")
        counter = int(words[1]) if len(words) == 2 and words[0] == op.name else None
        status = answer["status"]
        if status == "crashed" and answer.get("error", {}).get("message", "").startswith("the sandbox "):
            return self.judge_ended(op, answer, box)
        crashed = status == "crashed" and lane.killed is not None
        if status not in op.statuses and not crashed:
            wrong.append(f"status {status} instead of {'/'.join(sorted(op.statuses))}")
        lane.expect(op, "once" if counter is not None else "maybe")
        said = answer.get("interpreter")
        if status in ("ok", "error"):
            if said is None:
                wrong.append("nothing is said about the interpreter")
            wrong += lane.judge(op, said, counter)
        else:
            wrong += self.judge_stopped(op, lane, answer, counter, disturbed)
        if counter is None and (status == "ok" or answer["stdout"]):
            wrong.append("the first line is not what the code printed")
        if status == "ok":
            wrong += self.judge_output(op, answer, rest)
        elif not is_part(rest, op.expected):
            wrong.append("printed what the code does not print")
        return wrong

    def judge_ended(self, op, answer, box):
        """The sandbox died during the execution: it is reported with its output so far, the same on every
        request, and listed."""
        wrong = []
        if not box.doomed:
            wrong.append("the sandbox has ended, and nobody had touched its agent")
        head, newline, rest = answer["stdout"].partition("\n")
        words = head.split(" ")
        begins = words[0] == op.name and len(words) == 2 if newline else op.name.startswith(words[0]) or words[0] == op.name
        if not begins or not is_part(rest, op.expected):
            wrong.append("what it is said to have shown is not the beginning of what the code prints")
        try:
            again = self.instance.insist("get_execution", self.limit(0), execution_id=answer["execution_id"])
            if {k: again[k] for k in TOLD} != {k: answer[k] for k in TOLD}:
                wrong.append(f"is told otherwise when asked again: {brief(again)}")
        except Refused as problem:
            if problem.code != "execution_not_found" or op.life == self.instance.life.number:
                wrong.append(f"is not told again: {problem}")
        return wrong

    @staticmethod
    def judge_stopped(op, lane, answer, counter, disturbed):
        """An execution with timeout, cancelled or crashed."""
        wrong = []
        if counter is not None and counter - 1 not in lane.counters and not (counter == 1 and (lane.lost or lane.may_be_lost or lane.killed)):
            wrong.append(f"the counter is {counter} after {sorted(lane.counters)[:5]}")
        lane.counters = {counter} if counter is not None else lane.counters | {c + 1 for c in lane.counters}
        if answer["status"] == "crashed":
            lane.forget_interpreter()
            lane.lost = lane.begun = True
        elif answer.get("interpreter") == "restarted":
            if not (disturbed or lane.lost or lane.may_be_lost or lane.killed):
                wrong.append("the interpreter was lost, though an interrupt was enough")
            lane.may_be_lost = True  # new for this call, or lost at its end
            lane.unsure()
        else:
            lane.may_be_lost |= bool(disturbed)
            if counter is None or lane.lost or lane.killed:
                lane.unsure()
        lane.begun |= counter is not None
        return wrong

    @staticmethod
    def judge_output(op, answer, rest):
        wrong = []
        size = len(answer["stdout"].partition("\n")[0]) + 1 + len(op.expected)
        if answer["stdout_bytes"] != size:
            wrong.append(f"stdout_bytes {answer['stdout_bytes']} instead of {size}")
        cut = LEFT_OUT.search(rest) is not None
        if answer["truncated"] != cut:
            wrong.append(f"truncated is {answer['truncated']} with {len(answer['stdout'])} of {size} bytes")
        if rest != op.expected and not (cut and len(rest) > SHOWN_BYTES and is_part(rest, op.expected, True)):
            wrong.append(f"the output has a gap, a repeat or an early end at {first_difference(rest, op.expected)} of {len(op.expected)}")
        if answer["stderr"]:
            wrong.append("something is on stderr")
        return wrong

    # ---- files ----

    def files(self, rng, box, sandbox, language, contents):
        """Writes a file, or reads and compares one."""
        path = f"{language}-{rng.randrange(4)}.txt"
        size = rng.choice([10, 1000, 30000])
        text = "".join(rng.choice("abcdefgh \n") for _ in range(size))
        writing = rng.random() < 0.5 or path not in contents
        begun = time.monotonic()
        if writing:
            done = self.instance.insist("write_file", self.limit(0), sandbox_id=sandbox, path=path, content=text)
            contents[path] = text
            good = done["size"] == len(text)
        else:
            done = self.instance.insist("read_file", self.limit(0), sandbox_id=sandbox, path=path)
            good = done["content"] == contents[path]
        self.court.count(self.court.calls, "write_file" if writing else "read_file")
        if not good:
            self.court.violation(f"{path} in {sandbox}: {'size' if writing else 'content'} is wrong: {brief(done)}")
        ended = time.monotonic()
        if ended - begun > CALM_SECONDS and not box.disturbed(begun, ended):
            self.court.violation(f"a file call in {sandbox} took {ended - begun:.1f} s, and nobody had touched this sandbox")

    # ---- the log ----

    def read_log(self, sandbox, lane, chapter):
        """The operations in the log, in order."""
        try:
            done = self.instance.insist("read_file", self.limit(0), sandbox_id=sandbox, path=f"/workspace/{lane.log_name(chapter)}")
        except Refused as problem:
            if problem.code == "file_not_found":
                return []
            raise
        return done["content"].split()

    def check_chapter(self, sandbox, lane, chapter):
        found = self.read_log(sandbox, lane, chapter)
        expected = lane.written.get(chapter, {})
        for name in sorted(set(found)):
            if found.count(name) > 1:
                self.court.violation(f"{name} in {sandbox}: ran {found.count(name)} times")
            if name not in expected:
                self.court.violation(f"{name} in {sandbox}: is in {lane.log_name(chapter)}, where it does not belong")
        for name, how in expected.items():
            if how == "once" and name not in found:
                self.court.violation(f"{name} in {sandbox}: was answered, but is not in {lane.log_name(chapter)}")
        self.court.count(self.court.remarks, "logs compared")

    def check_logs(self):
        """Reads all logs of all sandboxes again at the end: nothing has run late."""
        for box in self.boxes:
            for lane in box.lanes.values():
                for chapter in lane.written:
                    try:
                        self.check_chapter(box.id, lane, chapter)
                    except (Refused, Late) as problem:
                        self.court.violation(f"the log of {box.id} cannot be read: {problem}")

    # ---- churn ----

    def churn(self):
        """Sandboxes that are made, used once and closed; every third by create_run_close."""
        rng = random.Random(f"{self.seed}:churn")
        number = 0
        while not self.over.is_set():
            number += 1
            once, pause = rng.random() < 0.33, rng.uniform(0.1, 1.0)
            begun = time.monotonic()
            try:
                if once:
                    self.run_once(number)
                else:
                    self.come_and_go(number)
            except Lost as lost:
                self.court.count(self.court.remarks, "churn cut short by the death of a server")
                self.tidy(lost)
            except (Refused, Late) as problem:
                hit = [b for b in self.hits if b > begun]
                if self.over.is_set() and isinstance(problem, Late):
                    pass
                elif hit and isinstance(problem, Refused) and problem.code in ("engine_unavailable", "internal", "sandbox_not_found"):
                    self.court.count(self.court.remarks, f"creations that failed by a kill: {problem.code}")
                else:
                    self.court.violation(f"churn {number}: {problem}")
            except Exception as problem:
                self.court.violation(f"churn {number}: {type(problem).__name__}: {problem}")
            self.over.wait(pause)

    hits = ()  # times when a worker that the boxes do not know was killed

    def tidy(self, lost):
        """Closes the sandboxes of calls that lost their server, as their client would; a sandbox of
        create_run_close has no name."""
        try:
            self.instance.next_life(lost.life)
            for sandbox, status in self.instance.sandboxes().items():
                if not status["name"] or status["name"].startswith("churn"):
                    self.ids.add(sandbox)
                    self.instance.insist("close_sandbox", self.limit(5), sandbox_id=sandbox)
                    self.court.count(self.court.remarks, "sandboxes that a lost call had left, closed by the client")
        except (Refused, Late) as problem:
            if not self.over.is_set() and getattr(problem, "code", "") != "sandbox_not_found":
                self.court.violation(f"tidying up after the death of a server: {problem}")

    def run_once(self, number):
        done = self.instance.call("create_run_close", self.limit(5), code=f"print({number} * 7)")
        while done["status"] == "running":
            done = self.instance.call("get_execution", self.limit(5), execution_id=done["execution_id"])
        self.ids.add(done["sandbox_id"])
        self.court.count(self.court.calls, f"create_run_close: {done['status']}")
        if (done["status"], done["stdout"]) != ("ok", f"{number * 7}\n") or not done.get("sandbox_closed", True):
            self.court.violation(f"create_run_close {number}: {brief(done)}")

    def come_and_go(self, number):
        made = self.instance.call("create_sandbox", self.limit(5), name=f"churn{number}")
        sandbox = made["sandbox_id"]
        self.ids.add(sandbox)
        self.court.count(self.court.calls, "create_sandbox")
        done = self.instance.call("execute_code", self.limit(1), sandbox_id=sandbox, code=f"print({number} * 5)")
        while done["status"] == "running":
            done = self.instance.call("get_execution", self.limit(1), execution_id=done["execution_id"])
        if (done["status"], done["stdout"]) != ("ok", f"{number * 5}\n"):
            self.court.violation(f"churn {number} in {sandbox}: {brief(done)}")
        self.closing[sandbox] = time.monotonic()
        try:
            self.instance.call("close_sandbox", self.limit(5), sandbox_id=sandbox)
        finally:
            del self.closing[sandbox]
        self.court.count(self.court.calls, "close_sandbox")


CHAPTER_CALLS = 60  # calls of a lane before its log is read and a new one begun


def is_part(shown, expected, whole=False):
    """Whether the output is the beginning of the expected one, or its head and its tail with exactly as much
    left out between them as it says; with `whole`, everything that is kept."""
    mark = LEFT_OUT.search(shown)
    if mark is None:
        return expected.startswith(shown)
    head, tail = shown[: mark.start()], shown[mark.end() :]
    if not expected.startswith(head):
        head = head.removesuffix("\n")  # a newline is added where a line was cut
    at = len(head) + int(mark.group(1))
    end = at + len(tail)
    return expected.startswith(head) and expected[at:end] == tail and (not whole or end == len(expected) or end > KEPT_BYTES)


def first_difference(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def brief(answer):
    if answer is None:
        return "none"
    cut = {k: v if not isinstance(v, str) or len(v) < 200 else f"{v[:90]}…{v[-90:]}" for k, v in answer.items()}
    return str(cut)[:1200]
