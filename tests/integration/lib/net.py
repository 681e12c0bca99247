"""A network of the test's own, from which nothing gets out.

enter() moves the test, and whatever it starts from then on, into a network namespace with loopback and one cable. At
the other end of the cable is another namespace, "outside": listen() gives sockets there, so servers of the test are
threads of it. Names of the zone `test` lead outside, by a name server there which /etc/resolv.conf names, in a mount
namespace that is ours as well. Needs root.

    net = enter()                         # before any thread is started
    index = wheels.Index(net.listen(8080))
    ... cloister reaches http://packages.test:8080/, code in a sandbox without network does not

Run by with_engine.py, the containers of its engine reach outside as well, by names, too; for this the engine needs a
network (--network). Namespaces end with the process and its last child.
"""

import ctypes
import os
import socket
import struct
import subprocess
import tempfile
import threading

from engine import Engine
from tap import skip_all

HOST = "10.99.0.1"  # the host, where cloister runs
OUTSIDE = "10.99.0.2"
HOST6 = "fd99::1"
OUTSIDE6 = "fd99::2"
NUMBER = os.getpid() % 30000
USER = 20000 + NUMBER  # for make_user(): one for each test, since tests count what a user has
USER_IDS = (1 << 30) + NUMBER * 65536  # its subordinate ids, which have to fit into 32 bits
NAME = "packages.test"  # resolves to OUTSIDE, as every name of the zone

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def needs_network():
    """Skips the whole file where no network can be made."""
    if os.geteuid() != 0:
        skip_all("needs root: the network of this test is made of network namespaces")


def _check(rc, what):
    if rc != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _in_thread(work):
    """Runs `work` in a thread, since namespaces belong to threads, and returns its result."""
    box = {}

    def run():
        try:
            box["result"] = work()
        except Exception as problem:  # pylint: disable=broad-exception-caught
            box["problem"] = problem

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "problem" in box:
        raise box["problem"]
    return box["result"]


def _new_namespace():
    _check(LIBC.unshare(CLONE_NEWNET), "unshare")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


class Net:
    """Made by enter()."""

    def __init__(self):
        self.outside = _in_thread(_new_namespace)
        _check(LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare")
        _run("mount", "--make-rslave", "/")
        self.place = tempfile.TemporaryDirectory(prefix="clotestnet", ignore_cleanup_errors=True)
        path = f"/proc/{os.getpid()}/fd/{self.outside}"
        there = ("nsenter", f"--net={path}")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "clo-a", "type", "veth", "peer", "name", "clo-b", "netns", path)
        for command, end, v4, v6 in (((), "clo-a", HOST, HOST6), (there, "clo-b", OUTSIDE, OUTSIDE6)):
            _run(*command, "ip", "link", "set", "lo", "up")
            _run(*command, "ip", "addr", "add", f"{v4}/24", "dev", end)
            _run(*command, "ip", "addr", "add", f"{v6}/64", "dev", end, "nodad")
            _run(*command, "ip", "link", "set", end, "up")
        _run("ip", "route", "add", "default", "via", OUTSIDE)
        _run("ip", "-6", "route", "add", "default", "via", OUTSIDE6)
        self.make_tun()
        self.nameserver(OUTSIDE)
        self.names = NameServer(self.datagrams(53))

    def make_tun(self):
        """Makes /dev/net/tun with the usual permissions: any user with a network namespace of its own may use it."""
        if os.path.exists("/dev/net"):
            _run("mount", "-t", "tmpfs", "-o", "mode=755,size=64k", "tmpfs", "/dev/net")
            os.mknod("/dev/net/tun", 0o20666, os.makedev(10, 200))
            os.chmod("/dev/net/tun", 0o666)

    def nameserver(self, address):
        """Sets the name server of this host."""
        path = os.path.join(self.place.name, "resolv.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"nameserver {address}\n")
        os.chmod(self.place.name, 0o755)
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            mounted = any(self.place.name in line for line in mounts)
        if not mounted:
            _run("mount", "--bind", path, os.path.realpath("/etc/resolv.conf"))

    def make_user(self, ids=True):
        """Makes an ordinary user, with or without subordinate ids; returns the command prefix that runs as it."""
        for path, line in (
            ("/etc/passwd", f"plain:x:{USER}:{USER}::/nonexistent:/bin/sh\n"),
            ("/etc/subuid", f"plain:{USER_IDS}:65536\n" if ids else ""),
            ("/etc/subgid", f"plain:{USER_IDS}:65536\n" if ids else ""),
        ):
            self.replace(path, line)
        return ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")

    def replace(self, path, line):
        """Adds a line to a file, visible only in this mount namespace."""
        ours = os.path.join(self.place.name, os.path.basename(path))
        if not os.path.exists(ours):
            with open(path, "rb") as theirs, open(ours, "wb") as file:
                file.write(theirs.read())
            _run("mount", "--bind", ours, path)
        with open(ours, "r+", encoding="utf-8") as file:
            kept = [row for row in file if not row.startswith("plain:")]
            file.seek(0)
            file.writelines([*kept, line])
            file.truncate()

    def hide(self, path):
        """Hides a program in this mount namespace."""
        _run("mount", "--bind", "/dev/null", path)

    def show(self, path):
        _run("umount", path)

    def _outside(self, make):
        def work():
            _check(LIBC.setns(self.outside, CLONE_NEWNET), "setns")
            return make()

        return _in_thread(work)

    def listen(self, port=0, address="", family=socket.AF_INET):
        """A listening TCP socket outside."""
        return self._outside(lambda: socket.create_server((address, port), family=family, backlog=64))

    def datagrams(self, port, family=socket.AF_INET):
        def make():
            made = socket.socket(family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(("", port))
            return made

        return self._outside(make)


def enter():
    needs_network()
    running = Engine.attached()
    if running is not None and not running.state["network"]:
        skip_all("the engine has no network: with_engine.py --network")
    made = Net()
    if running is not None:
        running.connect(made)
    return made


class Greeter:
    """A server that sends a text to each client, and counts them, to test whether it can be reached."""

    def __init__(self, listening, text="hello"):
        self.text = text.encode()
        self.listening = listening
        self.port = listening.getsockname()[1]
        self.peers = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, peer = self.listening.accept()
            except OSError:
                return
            self.peers.append(peer)
            with connection:
                try:
                    connection.sendall(self.text)
                except OSError:
                    pass

    def close(self):
        self.listening.close()


class NameServer:
    """A name server for the zone `test` and nothing else, with A and AAAA records. With a listening socket it
    asks all clients to repeat the question by TCP, as for answers that exceed a datagram."""

    def __init__(self, bound, listening=None):
        self.asked = []
        self.asked_by_tcp = []
        self.bound = bound
        self.listening = listening
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.run, self.run_tcp)[: 1 if listening is None else 2]]
        for thread in self.threads:
            thread.start()

    def run(self):
        while True:
            try:
                query, peer = self.bound.recvfrom(1500)
            except OSError:
                return
            answer = self.answer(query, self.asked)
            if answer and self.listening is not None:
                truncated = struct.pack("!H", struct.unpack("!H", answer[2:4])[0] | 0x0200)
                answer = answer[:2] + truncated + query[4:6] + bytes(6) + answer[12 : answer.index(0, 12) + 5]
            if answer:
                self.bound.sendto(answer, peer)

    def run_tcp(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            while len(size := stream.read(2)) == 2:
                answer = self.answer(stream.read(struct.unpack("!H", size)[0]), self.asked_by_tcp)
                if answer is None:
                    return
                connection.sendall(struct.pack("!H", len(answer)) + answer)

    def close(self):
        """Its addresses can be used again when this returns."""
        for end, thread in zip((self.bound, self.listening), self.threads):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # a datagram socket has no peer, but this wakes it up
            end.close()
            thread.join(10)

    def answer(self, query, asked):
        labels, at = [], 12
        try:
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
                at += 1 + query[at]
            kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
        except (IndexError, struct.error):
            return None
        name = ".".join(labels)
        asked.append(name)
        question = query[12 : at + 5]
        ours = labels[-1:] == ["test"]
        records = b""
        if ours and kind == 1:
            records = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(OUTSIDE)
        code = 0x8180 if ours else 0x8183
        return query[:2] + struct.pack("!HHHHH", code, 1, 1 if records else 0, 0, 0) + question + records
