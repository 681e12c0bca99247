"""Chaos where sandboxes are beyond this host: the cloud or the cluster, and what can happen to it.

Both are the tests' own (tests/integration/lib/e2b.py and kube.py), which really run sandboxes as processes of this host; so agents, interpreters
and relays are found and killed as those of the other backends are. For Kubernetes it is a real cluster on this host where CLOISTER_KUBE names one.

There are more kinds of attacks than on this host, since there is more in between: streams are cut in the middle of a message, the relay of one is
killed, requests are not answered, the service does nothing for a moment, somebody removes a sandbox, or pauses it. Of none may anybody notice more
than a delay, but of the removal.
"""

import signal
import sys
import threading
import time

import chaos_check as check
import e2b
import kube
from node_standin import missing

STOPPED_SECONDS = 1.5  # for so long a service does nothing
HIT_SECONDS = 30  # within which a request meets a fault
ANSWER_SECONDS = 30
SOME_DAY = float("inf")


def wait_for(probe, seconds):
    deadline = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def refuse(reason):
    if reason:
        sys.exit(f"nothing stands in for the service: {reason}")


class Remote:
    """The place of the sandboxes. `kinds` are what can happen to it, `faults` how a request can go wrong, `environment` is for a server."""

    left_seconds = check.GRACE_SECONDS  # after the end of the server, for what may still be there
    kinds = {"relay": 14, "streams cut": 10, "removed from outside": 5, "answer lost": 10, "service stopped": 4}
    faults = []

    def __init__(self, cloud, environment):
        self.cloud = cloud
        self.faulting = threading.Lock()  # over what the lanes know of faults
        self.environment = environment

    # ---- attacks ----

    def attack(self, kind, killer, places, delay):
        """Does one of `kinds`. `delay` is a number of the plan below 0.05, by which is chosen what is left to choose."""
        number = int(delay * 1e6)
        if kind == "streams cut":
            self.disturb_all(kind, killer, self.cut)
        elif kind == "answer lost":
            self.disturb_all(kind, killer, lambda: self.spoil(killer.lanes, self.faults[number % len(self.faults)]))
            killer.later(self.until_hit, killer.lanes)
        elif kind == "service stopped":
            self.disturb_all(kind, killer, self.stop)
        elif kind == "removed from outside":
            self.remove(kind, killer, places, number)
        else:
            box = next((b for b in places if not b.doomed and any(lane.busy_since for lane in b.lanes.values())), None)
            if box:
                self.disturb(kind, killer, box)

    def disturb_all(self, kind, killer, act):
        blows = [(box, box.blow(kind)) for box in killer.lanes.boxes if not box.doomed]
        act()
        killer.killed(kind)
        for box, blow in blows:
            killer.later(self.recovers, kind, killer, box, blow)

    def disturb(self, kind, killer, box):
        blow = box.blow(kind)
        if self.act_on(kind, box.id):
            killer.killed(kind)
            killer.later(self.recovers, kind, killer, box, blow)
        else:
            box.done(blow)

    @staticmethod
    def recovers(kind, killer, box, blow):
        """A call made right now is answered."""
        sandbox, at, life = box.id, time.monotonic(), killer.instance.life.number
        try:
            killer.instance.insist("list_files", ANSWER_SECONDS, sandbox_id=sandbox, path="/workspace/..")
            if life == killer.instance.life.number:
                killer.court.measured(f"{kind}: to the answer of the next call", time.monotonic() - at)
        except Exception as problem:
            if not box.doomed:
                killer.court.violation(f"{sandbox}: a call right after {kind}: {type(problem).__name__}: {problem}")
        box.done(blow)

    def cut(self):
        self.cloud.order(cut=True)

    def stop(self):
        self.cloud.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(STOPPED_SECONDS)
        finally:
            self.cloud.process.send_signal(signal.SIGCONT)

    def spoil(self, lanes, fault):
        """One of the next requests goes wrong. Until it has, that may be one of a creation, which may fail then with a clear error."""
        method, path, do, more = fault
        with self.faulting:
            lanes.hits = (*lanes.hits, SOME_DAY)
        self.cloud.fault(method, path, do, **more)

    def until_hit(self, lanes):
        if not wait_for(lambda: all(self.cloud.hits()), HIT_SECONDS):
            self.cloud.calm()
        with self.faulting:
            hits = list(lanes.hits)
            if SOME_DAY in hits:
                hits.remove(SOME_DAY)  # its own: another fault may wait for its request
            lanes.hits = (*hits, time.monotonic())

    def act_on(self, kind, sandbox):
        """Does what concerns one sandbox; whether it could be done."""
        process = check.relay_of(sandbox)
        if process is None:
            return False
        process.send(signal.SIGKILL)
        process.close()
        return True

    def remove(self, kind, killer, places, number):
        box = next((b for b in places if not b.doomed and not b.parked), None)
        found = box and self.cloud.box_of(box.id)
        if not found:
            return
        box.doomed = time.monotonic()
        self.take_away(found, number)
        killer.killed(kind)
        killer.later(killer.buries, box)

    def take_away(self, found, _number):
        self.cloud.remove(found)

    # ---- remains ----

    def traces_of(self, sandbox):
        found = self.cloud.box_of(sandbox)
        return [f"{self.cloud.id_of(found)} in the service"] if found else []

    def left(self, runtime_dir):
        return [f"{each} in the service" for each in self.cloud.boxes_of(runtime_dir)]

    def misfits(self):
        """Requests that were not as the service's contract has them."""
        return []

    def close(self):
        self.cloud.close()


class Cloud(Remote):
    # One whose worker was killed while it was asked for, and that the service makes after it was looked for, has its first minute only.
    left_seconds = 75.0
    kinds = {**Remote.kinds, "paused from outside": 6}
    faults = [
        ("POST", r"/SendInput$", "unanswered", {}),  # not for Start, whose answer has no end: nothing would come until somebody gives up
        ("POST", r"/SendInput$", "belied", {"code": 503}),
        *(
            ("POST", path, do, more)
            for path in (r"/SendInput$", r"/Start$")
            for do, more in (("reset", {}), ("garbage", {}), *(("status", {"code": code}) for code in (500, 502, 503)))
        ),
    ]

    def __init__(self):
        refuse(missing(*e2b.MODULES))
        cloud = e2b.Standin()
        super().__init__(cloud, cloud.env)

    def act_on(self, kind, sandbox):
        if kind == "relay":
            return super().act_on(kind, sandbox)
        found = self.cloud.box_of(sandbox)
        if found is None or found["state"] != "running":
            return False
        self.cloud.order(pause=found["sandboxID"])
        return True

    def misfits(self):
        return self.cloud.misfits()


class Cluster(Remote):
    endings = ("deleted", "evicted", "drained", "memory")
    faults = [
        ("GET", r"/exec\?", "status", {"code": 500, "reason": "InternalError", "message": "error dialing backend: EOF"}),
        ("GET", r"/exec\?", "status", {"code": 429, "reason": "TooManyRequests", "headers": {"Retry-After": "1"}}),
        ("GET", r"/exec\?", "reset", {}),
        ("GET", r"/exec\?", "cut", {"bytes": 20000}),
        ("GET", r"watch=", "reset", {}),
        ("GET", r"watch=", "status", {"code": 500, "reason": "InternalError", "message": "etcdserver: leader changed"}),
    ]

    def __init__(self):
        refuse(missing("ws"))
        cluster = kube.Standin()
        super().__init__(cluster, {"KUBECONFIG": cluster.kubeconfig, "CLOISTER_IMAGE": cluster.image})

    def take_away(self, found, number):
        self.cloud.end_pod(found, self.endings[number % len(self.endings)])


class RealCluster(Remote):
    """One that runs on this host. Its connections are passed on by a process of ours, which can cut them."""

    kinds = {k: w for k, w in Remote.kinds.items() if k not in ("answer lost", "service stopped")}

    def __init__(self):
        kube.enter()
        cluster = kube.Real()
        self.between = kube.Between(cluster)
        super().__init__(cluster, {"KUBECONFIG": self.between.kubeconfig, "CLOISTER_IMAGE": cluster.image})

    def cut(self):
        self.between.cut()

    def close(self):
        self.between.close()


def place_of(backend):
    if backend == "e2b":
        return Cloud()
    return RealCluster() if kube.DIRECTORY else Cluster()
