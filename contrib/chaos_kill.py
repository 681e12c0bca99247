"""The killer: which process is killed or stopped next, how, and what must follow at once.

Kinds and places come from one generator of the seed; the load decides the situation, and where it matters the
killer waits for one: a worker dies with a call pending, or while its sandbox is created or closed. Several
things are limited so that the server's own limits are not reached: deaths of one worker keep a distance, and
an interpreter is only killed again when its death has been seen.

The effects on processes are checked here: a stopped worker is replaced, a call made right after the kill is
answered by the next worker, the sandbox of a dead agent reports that and leaves nothing, a new server has all
sandboxes as they were. The load checks the rest.
"""

import random
import signal
import threading
import time

import chaos_check as check
from chaos_server import ADOPT_SECONDS, SIGNALS, Late, Lost, Refused

KINDS = {
    "worker": 34,
    "worker stopped": 8,
    "worker twice": 5,
    "worker while creating": 8,
    "worker while closing": 6,
    "interpreter": 16,
    "agent": 6,
    "supervisor": 10,
    "supervisor by SIGTERM": 4,
    "supervisor and worker": 4,
}
PAUSE_SECONDS = (0.6, 2.4)
FOUND_SECONDS = 12.0  # a stopped worker is found after 5 s, or 3 s later if its server is replaced meanwhile, on a busy machine
MOMENT_SECONDS = 2.0  # how long the killer waits for a situation
TOLD_SECONDS = 10.0  # from the death of an agent to the status of its sandbox
STEADY = ("name", "backend", "image", "limits", "network", "workspace", "created_at")


class Killer:
    def __init__(self, court, instance, lanes, place, options):
        self.court = court
        self.instance = instance
        self.lanes = lanes
        self.place = place
        self.rng = random.Random(f"{options.seed}:killer")
        every = {**KINDS, **(place.remote.kinds if place.remote else {})}
        self.kinds = {k: w for k, w in every.items() if not any(k.startswith(x) for x in options.without)}
        if options.only:
            self.kinds = {k: w for k, w in self.kinds.items() if any(k.startswith(x) for x in options.only)}
        self.helpers = []

    def run(self, until):
        names, weights = list(self.kinds), list(self.kinds.values())
        while time.monotonic() < until:
            kind = self.rng.choices(names, weights)[0]
            places = self.rng.sample(self.lanes.boxes, len(self.lanes.boxes))
            pause = self.rng.uniform(*PAUSE_SECONDS)
            language = self.rng.choice(["python", "bash"])
            delay = self.rng.uniform(0, 0.05)
            time.sleep(pause)
            self.instance.watch()
            self.replace_lost()
            self.court.step += 1
            self.court.note(f"step {self.court.step}: {kind}")
            try:
                self.do(kind, places, language, delay)
            except (Lost, Late, Refused) as problem:
                self.court.violation(f"killing {kind}: {type(problem).__name__}: {problem}")
        for helper in self.helpers:
            helper.join(90)
            if helper.is_alive():
                self.court.violation("a helper of the killer did not come to its end")

    def do(self, kind, places, language, delay):
        if kind == "worker":
            self.worker(places, [signal.SIGKILL])
        elif kind == "worker stopped":
            self.worker(places, [signal.SIGSTOP])
        elif kind == "worker twice":
            self.worker(places, [signal.SIGKILL, signal.SIGKILL])
        elif kind == "worker while creating":
            self.stranger(self.creating, delay)
        elif kind == "worker while closing":
            self.stranger(self.closing, delay / 10)
        elif kind == "interpreter":
            self.interpreter(places, language)
        elif kind == "agent":
            self.agent(places)
        elif kind not in KINDS:
            self.place.remote.attack(kind, self, places, delay)
        else:
            self.supervisor(kind, places)

    def later(self, function, *arguments):
        """Checks the effect in a thread while the next kill is done."""
        self.helpers = [h for h in self.helpers if h.is_alive()]
        thread = threading.Thread(target=self.guarded, args=(function, *arguments), daemon=True)
        self.helpers.append(thread)
        thread.start()

    def guarded(self, function, *arguments):
        try:
            function(*arguments)
        except Exception as problem:
            self.court.violation(f"{function.__name__}: {type(problem).__name__}: {problem}")

    def killed(self, kind):
        self.court.count(self.court.kills, kind)

    def wait_for(self, probe, seconds=MOMENT_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            found = probe()
            if found or time.monotonic() > deadline:
                return found
            time.sleep(0.002)

    # ---- workers ----

    def busy_box(self, places, deaths):
        """The first of these places with a pending call whose worker may die so often."""
        box = self.wait_for(
            lambda: next((b for b in places if not b.doomed and any(lane.busy_since for lane in b.lanes.values())), None)
        )
        return box if box and box.may_kill_worker(deaths) else next((b for b in places if b.may_kill_worker(deaths)), None)

    def worker(self, places, numbers):
        box = self.busy_box(places, len(numbers))
        if box is None:
            return
        blow = box.blow("worker " + " ".join(n.name for n in numbers))
        first = 0
        for number in numbers:
            process = self.wait_for(lambda: self.newer_worker(box.id, first), ADOPT_SECONDS)
            if process is None:
                if not box.doomed:
                    self.court.violation(f"{box.id} has no worker for {ADOPT_SECONDS:.0f} s")
                box.done(blow)
                return
            first = process.pid
            process.send(number)
            if len(numbers) > 1:
                process.close()
        at = time.monotonic()
        for _ in numbers:
            self.killed({signal.SIGSTOP: "worker stopped"}.get(numbers[0], "worker" if len(numbers) == 1 else "worker, twice in a row"))
        self.later(self.recovers, box, blow, process, at, numbers)

    def newer_worker(self, sandbox, pid):
        found = check.worker_of(self.instance.runtime_dir, sandbox)
        return found if found and found.pid != pid else None

    def recovers(self, box, blow, process, at, numbers):
        """A call made right now is answered, by another worker, and the old one ends."""
        sandbox, life = box.id, self.instance.life.number
        try:
            self.instance.insist("list_files", 30, sandbox_id=sandbox, path="/workspace/..")
            took = time.monotonic() - at
            if numbers == [signal.SIGKILL] and life == self.instance.life.number:
                self.court.measured("recovery from outside: SIGKILL of a worker to the answer of the next call", took)
        except Refused as problem:
            if not box.doomed:
                self.court.violation(f"{sandbox}: a call right after the death of its worker: {problem}")
        if len(numbers) == 1:
            if not self.wait_for(process.gone, max(0.0, at + FOUND_SECONDS - time.monotonic())) and not box.doomed:
                self.court.violation(f"{sandbox}: its worker {process.pid} still there {FOUND_SECONDS:.0f} s after {numbers[0].name}")
            if numbers[0] == signal.SIGSTOP and life == self.instance.life.number:
                self.court.measured("a stopped worker to its replacement", time.monotonic() - at)
            process.close()
        box.done(blow)

    def creating(self):
        known = {box.id for box in self.lanes.boxes} | set(self.lanes.closing) | self.lanes.ids
        return next((pid for s, g, pid in check.workers(self.instance.runtime_dir) if s not in known and g == 1), None)

    def closing(self):
        ids = set(self.lanes.closing)
        return next((pid for s, _, pid in check.workers(self.instance.runtime_dir) if s in ids), None) if ids else None

    def stranger(self, probe, delay):
        """The worker of a sandbox of the churn."""
        pid = self.wait_for(probe)
        if pid is None:
            return
        time.sleep(delay)
        process = check.hold_worker(self.instance.runtime_dir, pid)
        if process is None:
            return
        self.lanes.hits = (*self.lanes.hits[-20:], time.monotonic())
        try:
            process.send(signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            process.close()
        self.killed("worker while creating" if probe == self.creating else "worker while closing")

    # ---- interpreters and agents ----

    def interpreter(self, places, language):
        for box in places:
            lane = box.lanes[language]
            if box.doomed or lane.killed or lane.lost or not lane.begun:
                continue
            agent = check.agent_of(box.id)
            process = agent and check.interpreter_of(agent.pid, language)
            if agent:
                agent.close()
            if not process:
                continue
            lane.killed = (time.monotonic(), float("inf"))
            try:
                process.send(signal.SIGKILL)
            except ProcessLookupError:
                lane.killed = None
                continue
            if not self.wait_for(process.gone, 5):
                self.court.violation(f"{box.id}: an interpreter survives SIGKILL")
            if lane.killed:
                lane.killed = (lane.killed[0], time.monotonic())
            process.close()
            self.killed(f"interpreter, {language}")
            return
        self.court.count(self.court.remarks, "no live interpreter to kill")

    def agent(self, places):
        box = next((b for b in places if not b.doomed and len(b.parked) == 0), None)
        process = box and check.agent_of(box.id)
        if not process:
            return
        box.doomed = time.monotonic()
        process.send(signal.SIGKILL)
        process.close()
        self.killed("agent")
        self.later(self.buries, box)

    def buries(self, box):
        """All calls of a dead sandbox are answered, it reports the reason, nothing of it is left, and another
        one is created."""
        # a next server does not know a sandbox that ended before it came
        sandbox, at, life = box.id, time.monotonic(), self.instance.life.number
        if not box.wait_parked(40):
            self.court.violation(f"{sandbox}: calls were not answered within 40 s after the death of the agent")
        asked = time.monotonic()
        try:
            self.says_failed(sandbox, life)
            asked = time.monotonic()
            self.instance.insist("execute_code", 10, sandbox_id=sandbox, code="1")
            self.court.violation(f"{sandbox}: runs code after the death of its agent")
        except Refused as problem:
            if problem.code != "sandbox_not_found" or (life == self.instance.life.number and time.monotonic() - asked > 3):
                self.court.violation(f"{sandbox}: a call after the death of its agent: {problem}, {time.monotonic() - asked:.1f} s")
        left = check.wait_nothing(lambda: self.place.traces_of(sandbox), at + 20 - time.monotonic())
        if left:
            self.court.violation(f"{sandbox}: left after the death of its agent: {left}")
        try:
            self.instance.insist("close_sandbox", 20, sandbox_id=sandbox)
        except Refused as problem:
            if life == self.instance.life.number:
                self.court.violation(f"{sandbox}: close after the death of its agent: {problem}")
        self.replace(box)

    def replace_lost(self):
        for box in self.lanes.boxes:
            if box.lost:
                box.lost = False
                self.later(self.replace, box)

    def replace(self, box):
        """Gives a place another sandbox; if that fails, again before the next kill, so that one failure is reported once."""
        box.wait_parked(40)
        if self.lanes.over.is_set():
            return
        try:
            box.settle(self.create(box))
        except (Refused, Late) as problem:
            self.court.violation(f"no sandbox in the place of {box.id}: {problem}")
            box.lost = True

    def says_failed(self, sandbox, life):
        deadline = time.monotonic() + TOLD_SECONDS
        while True:
            status = self.instance.insist("get_sandbox_status", 10, sandbox_id=sandbox)
            if status["state"] == "failed":
                if len(status.get("reason", "")) < 10:
                    self.court.violation(f"{sandbox}: failed without a reason")
                return
            if time.monotonic() > deadline:
                self.court.violation(f"{sandbox}: {status['state']} {TOLD_SECONDS:.0f} s after the death of its agent")
                return
            time.sleep(0.05)

    def create(self, box):
        """Creates a sandbox for a place; a name is only reused if the answer was lost."""
        box.name = f"box{box.number}x{box.generation + 1}"
        while True:
            begun = time.monotonic()
            try:
                made = self.instance.call("create_sandbox", 40, name=box.name, memory_mb=128 + 16 * box.number)
                break
            except Refused as problem:
                if problem.code != "engine_unavailable" or not any(hit > begun for hit in self.lanes.hits):
                    raise
                self.court.count(self.court.remarks, f"creations that failed by a kill: {problem.code}")
            except Lost as lost:
                self.instance.next_life(lost.life)
                found = [s for s in self.instance.sandboxes().values() if s["name"] == box.name]
                if found:
                    made = found[0]
                    break
        self.lanes.ids.add(made["sandbox_id"])
        return made

    # ---- the server ----

    def supervisor(self, kind, places):
        number, wanted = SIGNALS["SIGTERM" if "SIGTERM" in kind else "SIGKILL"]
        boxes = [b for b in self.lanes.boxes if not b.doomed and b.id]
        blows = [(b, b.blow(kind)) for b in self.lanes.boxes]
        if kind == "supervisor and worker":
            box = next((b for b in places if b.may_kill_worker()), None)
            process = box and check.worker_of(self.instance.runtime_dir, box.id)
            if process:
                process.send(signal.SIGKILL)
                process.close()
                self.killed("worker with its supervisor")
        generations = {b: b.generation for b in boxes}
        hanging = any(b.hangs() for b in boxes)
        self.instance.end(number, wanted)
        self.killed("supervisor by SIGTERM" if number == signal.SIGTERM else "supervisor")
        begun = self.instance.start()
        self.adopted(boxes, generations, begun, hanging)
        for box, blow in blows:
            box.done(blow)

    def adopted(self, boxes, generations, begun, hanging):
        """Requires that all sandboxes are soon ready, and unchanged. One whose worker was stopped at that
        moment (`hanging`) needs time to find that out, and is measured separately."""
        while True:
            here = self.instance.sandboxes()
            mine = [b for b in boxes if not b.doomed and b.generation == generations[b]]
            missing = [b.id for b in mine if b.id not in here]
            unready = [b.id for b in mine if b.id in here and here[b.id]["state"] != "ready"]
            if missing:
                self.court.violation(f"not adopted: {missing}")
                break
            if not unready:
                what = "adoption with a stopped worker" if hanging else "adoption"
                self.court.measured(f"{what}: start of the server to {len(self.lanes.boxes)} sandboxes ready", time.monotonic() - begun)
                break
            if time.monotonic() - begun > ADOPT_SECONDS:
                self.court.violation(f"not ready {ADOPT_SECONDS:.0f} s after the start of the server: {unready}")
                break
            time.sleep(0.01)
        for box in mine:
            if box.id in unready:
                continue  # it shows the rest when it is
            now = here.get(box.id, box.status)
            for field in STEADY:
                if now.get(field) != box.status.get(field):
                    self.court.violation(f"{box.id}: {field} was {box.status.get(field)}, is {now.get(field)} after adoption")
