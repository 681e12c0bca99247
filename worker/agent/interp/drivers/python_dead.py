# Reaps the zombies that a stopped run leaves among the children of the live interpreter. python.py
# compiles this under its name when a run is stopped for the first time.
#
# The agent kills the processes of a stopped run after the run's end, when the code that would have
# waited for them does not run any more. Until they are reaped, they count against the user's
# process limit. They are reaped here in a way that takes nothing away from later code:
#
# - A Popen or a Process that still exists gets its returncode, as if user code had called poll().
# - Children of asyncio are left to its loop, which reaps them when it runs the next time.
# - Later code may wait for any other child, such as one of os.fork(). The latest few of these are
#   left.

import gc
import os
import sys

KEPT = 8


def instances(kind):
    """All existing instances, also of subclasses. Calls none of their methods."""
    kinds = [kind]
    for each in kinds:
        kinds.extend(type.__subclasses__(each))
    # before 3.9 instances do not count as referrers of their class
    objects = gc.get_referrers(*kinds) if sys.version_info >= (3, 9) else gc.get_objects()
    return [obj for obj in objects if issubclass(type(obj), kind)]


def class_of(module, name):
    kind = getattr(sys.modules.get(module), name, None)
    return kind if isinstance(kind, type) else None


def dead_children(since, known):
    """The pids of our zombies that were started since that clock tick or are in `known`, oldest
    first."""
    found = []
    us = b"%d" % os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # gone
        if words[0] == b"Z" and words[1] == us and (int(words[19]) >= since or int(name) in known):
            found.append((int(words[19]), int(name)))
    return [pid for _, pid in sorted(found)]


def left_to_asyncio():
    """The Popen objects of asyncio transports, which their loop will notify."""
    kind = class_of("asyncio.base_subprocess", "BaseSubprocessTransport")
    found = []
    for transport in instances(kind) if kind else ():
        of = transport.__dict__
        waits = of.get("_proc") is not None and of.get("_returncode") is None
        if waits and not of["_loop"].is_closed():
            found.append(of["_proc"])
    return found


def tell_popens(dead):
    """Makes each Popen poll its child. Returns the pids of all of them."""
    kind = class_of("subprocess", "Popen")
    if kind is None:
        # not imported, or replaced: then any child may belong to it
        return set(dead) if "subprocess" in sys.modules else set()
    for base in kind.__mro__:
        kind = base if base.__module__ == "subprocess" else kind  # may be a subclass by user code
    theirs = set()
    spared = {id(popen) for popen in left_to_asyncio()}
    for popen in instances(kind):
        pid = popen.__dict__.get("pid")
        if pid in dead and popen.__dict__.get("returncode") is None:
            theirs.add(pid)
            if id(popen) not in spared:
                kind.poll(popen)
    return theirs


def tell_processes(dead):
    """The same for multiprocessing. Its fork server is reaped when the next one is needed."""
    theirs = set()
    for process in list(getattr(sys.modules.get("multiprocessing.process"), "_children", ())):
        popen = getattr(process, "_popen", None)
        if getattr(popen, "pid", None) in dead:
            theirs.add(popen.pid)
            popen.poll()
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    theirs.add(getattr(server, "_forkserver_pid", None))
    return theirs


class Dead:
    def __init__(self):
        self.left = []  # pids of zombies without a known owner

    def take_off(self, since):
        """Called after the end of a stopped run that began at that clock tick."""
        dead = dead_children(since, set(self.left))
        self.left = []
        if not dead:
            return
        among = set(dead)
        theirs = tell_popens(among) | tell_processes(among)
        nobodys = [pid for pid in dead if pid not in theirs]
        for pid in nobodys[:-KEPT]:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass  # a thread of user code has reaped it
        self.left = nobodys[-KEPT:]
