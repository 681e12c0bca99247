"""A service of the tests' own that is a script for Node (e2b_standin.mjs, kube_standin.mjs), as a process of its own: the script prints its port,
then takes one order a line on stdin and prints one answer a line, all in JSON. It ends, with all that it runs, when its stdin does.
The orders and faults that a script knows are at its beginning.
"""

import atexit
import json
import os
import shutil
import subprocess
import threading

from tap import poll

HERE = os.path.dirname(os.path.abspath(__file__))
NAMESPACES = ("unshare", "-m", "-p", "-n", "-u", "-i", "-f", "mount", "-t", "tmpfs", "tmpfs", "/mnt")


def node():
    own = os.path.join(os.environ["CLOISTER_CLIENTS"], "node_modules", ".bin", "node")
    return own if os.path.exists(own) else "node"


def missing(*packages):
    """What a service with these packages of npm, which runs sandboxes as processes of this host, lacks on this machine, or None."""
    clients = os.environ.get("CLOISTER_CLIENTS", "")
    for name in packages:
        if not os.path.isdir(os.path.join(clients, "node_modules", name)):
            return f"the package {name} is not installed (contrib/test does that)"
    if os.geteuid() != 0:
        return "only root can make the namespaces of sandboxes"
    for each in ("setpriv", "unshare", "nsenter", "pivot_root"):
        if shutil.which(each) is None:
            return f"no {each} here"
    tried = subprocess.run(NAMESPACES, capture_output=True, text=True, check=False)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


class NodeStandin:
    """One that runs; orders may come from any thread."""

    def __init__(self, script, *words):
        self.lock = threading.Lock()
        command = [node(), os.path.join(HERE, script), *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # pylint: disable=consider-using-with
        atexit.register(self.close)
        self.port = json.loads(self.process.stdout.readline())["port"]

    def order(self, **what):
        with self.lock:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def fault(self, method, path, do, **more):
        """The next request like that goes wrong."""
        self.order(fault={"method": method, "path": path, "do": do, "times": 1, **more})

    def calm(self):
        """No more faults."""
        self.order(calm=True)

    def hits(self):
        """How often each fault has occurred."""
        return [fault.get("hits", 0) for fault in self.order(ask="faults")]

    def requests(self):
        return self.order(ask="requests")

    def cut_streams(self):
        """Each stream to an agent ends in the middle of what is said next."""
        poll("there is a stream to cut", lambda: self.order(cut=True)["count"] > 0)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(60)
