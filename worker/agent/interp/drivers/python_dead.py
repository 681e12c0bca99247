# What a stopped run leaves among the children of the live interpreter: the dead. Compiled by python.py under
# its name when a run was stopped for the first time, and never before.
#
# What a stopped run had started is killed after it has ended, and its code, which would have waited for its
# children, is gone. Each of them takes the place of a process until somebody does. So they are taken off
# here, in an order that costs later code nothing it could have had:
#
# - A Popen or a Process that is still there learns its returncode, as if it had been asked by user code.
# - What asyncio waits for is left to it. Its loop takes them off when it runs for the next time.
# - Of all others, as of os.fork(), nobody can know whether they will be waited for. The latest few are left.

import gc
import os
import sys

KEPT = 8


def instances(kind):
    """All that exist, of subclasses too. Nothing of theirs is called."""
    kinds = [kind]
    for each in kinds:
        kinds.extend(type.__subclasses__(each))
    # an old Python does not know who refers to a class by being of it
    objects = gc.get_referrers(*kinds) if sys.version_info >= (3, 9) else gc.get_objects()
    return [obj for obj in objects if issubclass(type(obj), kind)]


def class_of(module, name):
    kind = getattr(sys.modules.get(module), name, None)
    return kind if isinstance(kind, type) else None


def dead_children(since, known):
    """The pids of our zombies that were started since that clock tick, or are known; the oldest first."""
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
    """The Popen objects of transports that will be told by their loop."""
    kind = class_of("asyncio.base_subprocess", "BaseSubprocessTransport")
    found = []
    for transport in instances(kind) if kind else ():
        of = transport.__dict__
        waits = of.get("_proc") is not None and of.get("_returncode") is None
        if waits and not of["_loop"].is_closed():
            found.append(of["_proc"])
    return found


def tell_popens(dead):
    """Has each Popen look after its child. Returns the pids that are theirs."""
    kind = class_of("subprocess", "Popen")
    if kind is None:
        # never used, or replaced by something odd: then nobody can tell
        return set(dead) if "subprocess" in sys.modules else set()
    for base in kind.__mro__:
        kind = base if base.__module__ == "subprocess" else kind  # in its place may stand one that is made of it
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
    """The same for multiprocessing. Its fork server is waited for by who needs the next one."""
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
        self.left = []  # the pids of dead children that nobody is known to wait for

    def take_off(self, since):
        """After the end of a run that has begun at that clock tick, and was stopped."""
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
                pass  # a thread of user code has waited for it
        self.left = nobodys[-KEPT:]
