"""Files that all sandboxes and the host have in common, as a channel: a lock on one is met by everybody who has the same inode, and a
watch tells who opens it. Code without network could hand what it knows to code that has it, keep a program of the host waiting, and see what others do.

So in every sandbox what it sees is its own, though the content is in memory once.
"""

import ctypes
import fcntl
import os

from common import ON_OCI, Server, Skip, Suite, contains, equal, needs_runtime
import mcp

needs_runtime()
suite = Suite()
CLONE_NEWNS, MS_RDONLY, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 1, 0x4000, 1 << 18, 2
MANY_FILES = ("--files", "8192")

# Each file and directory that code can open, but those of processes; of /usr only the programs. On an engine all containers have the agent in one
# volume (contrib/docs/security.md).
COMMON = ("proc", "shared") if ON_OCI else ("proc", "shared", ".cloister")
PLACES = f"common = {COMMON!r}" + """
import fcntl, os
def places():
    for top, inner, names in os.walk('/'):
        inner[:] = [] if top.startswith('/usr/bin') else [d for d in inner if top != '/' or d not in common]
        if top == '/usr':
            inner[:] = ['bin']
        yield top
        yield from (os.path.join(top, name) for name in names)
held, met, known = {}, [], set()
def take(path):
    try:
        fd = os.open(path, (os.O_RDWR if path.startswith('/dev/') else os.O_RDONLY) | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return  # not for this user
    held[path] = fd
    name = (os.fstat(fd).st_dev, os.fstat(fd).st_ino)
    if name in known:
        return  # another name of a file that is locked already
    known.add(name)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.startswith('/dev/'):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 4711)
    except BlockingIOError:
        met.append(path)
    except OSError:
        pass  # it takes no locks
for place in places():
    if not os.path.islink(place):
        take(place)
(len(held), sorted(met))
"""
RELEASE = "for fd in held.values():\n    os.close(fd)\nheld.clear()"
HOSTS = ("/usr/bin/env", "/usr/bin", "/dev/null", "/dev/zero")


class Pair:
    """Two sandboxes of one server."""

    def __init__(self):
        self.server = Server(*MANY_FILES)
        self.server.legacy()
        self.first, self.second = (self.server.call("create_sandbox") for _ in range(2))

    def run(self, box, code):
        done = self.server.run(code, sandbox_id=box["sandbox_id"])
        equal(done["status"], "ok", str(done))
        return done.get("result")


pairs = []


def pair():
    """The sandboxes; skips the case where this host cannot give them files of their own, as they report."""
    if not pairs:
        pairs.append(Pair())
    both = pairs[0]
    for missing in both.first["limits"]["unapplied"]:
        if missing.startswith("private "):
            raise Skip(f"not on this host: {missing}")
    return both


@suite.case("a lock that code takes on any file is met by no other sandbox")
def between_sandboxes():
    both = pair()
    count, met = eval(both.run(both.first, PLACES))  # pylint: disable=eval-used
    equal(met, [])
    assert count > 100, f"only {count} files can be opened"
    try:
        equal(eval(both.run(both.second, PLACES))[1], [], "files on which the other's locks are met")  # pylint: disable=eval-used
    finally:
        both.run(both.first, RELEASE)
        both.run(both.second, RELEASE)


@suite.case("a lock of a sandbox keeps no program of the host waiting, and none of the host's is met inside", when=ON_OCI)
def with_host():
    both = pair()
    both.run(both.first, PLACES)
    kept = []
    try:
        for path in HOSTS:
            fd = os.open(path, os.O_RDWR if path.startswith("/dev/") else os.O_RDONLY)
            kept.append(fd)
            # BlockingIOError: the sandbox's. Others of this host have shared ones, too.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if path.startswith("/dev/"):
                fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 4711)
        equal(eval(both.run(both.second, PLACES))[1], [], "files on which the host's locks are met")  # pylint: disable=eval-used
    finally:
        for fd in kept:
            os.close(fd)
        both.run(both.first, RELEASE)
        both.run(both.second, RELEASE)


WATCH = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
assert watch >= 0, os.strerror(ctypes.get_errno())
IN_ACCESS, IN_OPEN = 1, 0x20
for place in (b'/usr/bin', b'/usr/lib', b'/dev/null'):
    assert libc.inotify_add_watch(watch, place, IN_ACCESS | IN_OPEN) > 0, os.strerror(ctypes.get_errno())
"""
SEEN = """
open('/usr/bin/nice').close()  # so that one is seen for certain
data, names = os.read(watch, 65536), []
while data:
    length, = struct.unpack_from('I', data, 12)
    names.append(data[16:16 + length].rstrip(b'\\0').decode())
    data = data[16 + length:]
sorted(set(names))
"""
TOUCH = "[len(open(path, 'rb').read(10)) for path in ('/usr/bin/env', '/dev/null')] and None"


@suite.case("a watch on files shows what its own sandbox opens, nothing of what others or the host do")
def watches():
    both = pair()
    both.run(both.first, WATCH)
    both.run(both.second, TOUCH)
    if ON_OCI:
        for path in ("/usr/bin/env", "/dev/null"):
            with open(path, "rb") as file:
                file.read(10)
    equal(both.run(both.first, SEEN), "['nice']")


@suite.case("no mount of a sandbox is seen on the host, while it runs and afterwards", when=ON_OCI)
def mounts():
    both = pair()

    def ours():
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            return [line for line in file if both.server.runtime_dir in line]

    equal(ours(), [])
    both.server.close()
    pairs.clear()
    equal(ours(), [])


@suite.case("an image of which the kernel takes no overlay runs all the same, and says what is not its own", when=ON_OCI)
def refused():
    if os.geteuid() != 0:
        raise Skip("only root can mount such an image")
    libc = ctypes.CDLL(None, use_errno=True)

    def done(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    done(libc.unshare(CLONE_NEWNS))  # ends with this process
    done(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    place = mcp.temporary_directory()
    done(libc.mount(b"tmpfs", place.encode(), b"tmpfs", 0, b"mode=755"))
    try:
        below = "/"
        for top in (f"{place}/one", f"{place}/two"):  # more than two on top of each other the kernel refuses
            os.mkdir(top)
            os.mkdir(f"{top}-empty")
            done(libc.mount(b"overlay", top.encode(), b"overlay", MS_RDONLY, f"lowerdir={below}:{top}-empty".encode()))
            below = top
        with Server("--image", below) as server:
            server.legacy()
            box = server.call("create_sandbox")
            told = [text for text in box["limits"]["unapplied"] if text.startswith("private files: ")]
            equal(len(told), 1, str(box["limits"]["unapplied"]))
            equal(server.run("6 * 7", sandbox_id=box["sandbox_id"])["result"], "42")
            equal(server.call("get_sandbox_status", sandbox_id=box["sandbox_id"])["limits"]["unapplied"], box["limits"]["unapplied"])
        with Server("--image", below, "--strict") as server:
            server.legacy()
            error = server.call_failing("create_sandbox")["error"]
            contains(error["message"], "private files: ")
    finally:
        done(libc.umount2(place.encode(), MNT_DETACH))


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    for both in pairs:
        both.server.close()


suite.run()
