"""What the host has once, or once for each of its users, and one sandbox must not take away: inotify instances, pseudo-terminals,
pending signals, AIO contexts, memory for programs on sockets. Each case takes all that it can get, holds it, and then somebody
else needs some: root of the host, and another sandbox."""

import ctypes
import os
import pty
import struct
import subprocess

from common import ON_OCI, Shared, Skip, Suite, equal, needs_runtime
import mcp

needs_runtime()
suite = Suite()
shared = Shared()
NEEDED = 8  # for somebody else
LIBC = ctypes.CDLL(None, use_errno=True)

# A sandbox may have so many processes, and each of them may hold as much as its descriptors allow.
TAKE = """
import ctypes, errno, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
PROCESSES = 5

def inotify():
    return libc.inotify_init1(0) >= 0

def terminal():
    try:
        return os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY) >= 0
    except OSError as problem:
        ctypes.set_errno(problem.errno)
        return False

def timer():
    ident = ctypes.c_void_p()
    event = ctypes.create_string_buffer(struct.pack('Pii', 0, signal.SIGUSR1, 0), 64)  # SIGEV_SIGNAL
    return libc.timer_create(0, event, ctypes.byref(ident)) == 0

def queued():
    value = ctypes.c_void_p(0)
    return libc.sigqueue(os.getpid(), signal.SIGRTMIN, value) == 0

def take_all(take):
    "Takes all, in processes that hold it until release(); returns how much it was."
    global gate
    done, told = os.pipe()
    ends, gate = os.pipe()
    for _ in range(PROCESSES):
        if os.fork() == 0:
            os.close(gate)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
            count = 0
            while count < 200000 and take():
                count += 1
            os.write(told, struct.pack('i', count))
            os.read(ends, 1)
            os._exit(0)
    os.close(ends)
    os.close(told)
    total = sum(struct.unpack('i', os.read(done, 4))[0] for _ in range(PROCESSES))
    os.close(done)
    return total

def release():
    os.close(gate)
    for _ in range(PROCESSES):
        os.wait()

def have(take, count):
    "Whether so many can be had; they go with a child."
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
        os._exit(not all(take() for _ in range(count)))
    return os.waitpid(pid, 0)[1] == 0
"""


def has(take, count=NEEDED):
    """The same of this process, as a user of the host; by a child, which keeps nothing."""
    pid = os.fork()
    if pid == 0:
        try:
            held = [take() for _ in range(count)]  # also keeps descriptors open
            os._exit(0 if held else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def host_inotify():
    fd = LIBC.inotify_init1(0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    return fd


def host_timer():
    ident = ctypes.c_void_p()
    event = ctypes.create_string_buffer(struct.pack("Pii", 0, 10, 0), 64)
    if LIBC.timer_create(0, event, ctypes.byref(ident)) < 0:
        raise OSError(ctypes.get_errno(), "timer_create")
    return ident


def others_have(what, on_host, most, least=NEEDED):
    """A sandbox takes all of `what`; then the host and a second sandbox still have some."""
    server, first = shared.fresh()
    _, second = shared.fresh()
    for sandbox in (first, second):
        equal(server.run(TAKE, sandbox_id=sandbox)["status"], "ok")
    taken = int(server.run(f"take_all({what})", sandbox_id=first)["result"])
    try:
        assert has(on_host), f"the host has no {what} after a sandbox has taken {taken}"
        equal(server.run(f"have({what}, {NEEDED})", sandbox_id=second)["result"], "True", f"{what} of another sandbox, after {taken}")
        assert least <= taken <= most, f"{taken} of {what}, wanted {least} to {most}"
    finally:
        server.run("release()", sandbox_id=first)
        for sandbox in (first, second):
            server.call("close_sandbox", sandbox_id=sandbox)


def overlay_can_be_mounted():
    """Whether root can show here a directory by an overlay; tried in a namespace of mounts that ends with the trial."""
    place = mcp.temporary_directory()
    tried = 'mount -t tmpfs tmpfs "$0" && mkdir "$0/empty" "$0/seen" && mount -t overlay -o "ro,lowerdir=/usr:$0/empty" overlay "$0/seen"'
    return subprocess.run(["unshare", "--mount", "sh", "-c", tried, place], capture_output=True, check=False).returncode == 0


@suite.case("what this host can enforce is enforced, whatever a sandbox reports of itself: cases that skip themselves by its report rely on this", when=ON_OCI)
def nothing_left_out():
    if os.getuid() != 0:
        raise Skip("an ordinary user cannot have all of it")
    possible = {"ptys", "core"}
    if overlay_can_be_mounted():
        possible |= {"private files", "private devices"}
    if os.path.exists("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"):
        possible.add("sockets")
    if subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode == 0:
        possible |= {"inotify", "shm"}
    server, sandbox = shared.get()
    unapplied = server.call("get_sandbox_status", sandbox_id=sandbox)["limits"]["unapplied"]
    equal([text for text in unapplied if text.split(":")[0] in possible], [], f"of {sorted(possible)}")


@suite.case("inotify: a sandbox that takes all instances leaves some for root and for other sandboxes, and has enough itself")
def inotify():
    shared.enforced("inotify")
    with open("/proc/sys/user/max_inotify_instances", encoding="ascii") as file:
        all_of_a_user = int(file.read())
    # on an engine without user namespaces code has a uid of its own, and so the instances of a user
    others_have("inotify", host_inotify, most=max(all_of_a_user // 8, 8) if ON_OCI else all_of_a_user)


@suite.case("inotify: files are watched as ever")
def watching():
    code = "import ctypes, os\nfd = ctypes.CDLL(None).inotify_init1(0)\nctypes.CDLL(None).inotify_add_watch(fd, b'/workspace', 0x100)\nopen('/workspace/new', 'w').close()\nos.read(fd, 100)[16:19]"
    equal(shared.run(code)["result"], "b'new'")


@suite.case("pseudo-terminals: a sandbox that opens all it can leaves some for root and for other sandboxes")
def terminals():
    shared.enforced("ptys")
    others_have("terminal", lambda: pty.openpty()[0], most=64)


@suite.case("pending signals: as many timers as can be made leave some for root and for other sandboxes")
def timers():
    others_have("timer", host_timer, most=5000)


@suite.case("pending signals: the same with signals that are never taken")
def signals():
    others_have("queued", host_timer, most=5000)


@suite.case("AIO contexts cannot be made, and programs are told that this kernel has none")
def aio():
    with open("/proc/sys/fs/aio-nr", encoding="ascii") as file:
        before = int(file.read())
    code = "import ctypes, errno, platform\nlibc = ctypes.CDLL(None, use_errno=True)\nctx = ctypes.c_ulong(0)\nlibc.syscall({'x86_64': 206, 'aarch64': 0}[platform.machine()], 60000, ctypes.byref(ctx)), errno.errorcode.get(ctypes.get_errno())"
    equal(shared.run(code)["result"], "(-1, 'ENOSYS')")
    with open("/proc/sys/fs/aio-nr", encoding="ascii") as file:
        assert int(file.read()) < before + 60000


@suite.case("programs in the kernel: none on a socket, none as a filter of a process, so their memory is not for code to take")
def programs():
    code = """
import ctypes, errno, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
one = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))  # lets all pass
program = struct.pack('HxxxxxxP', 1, ctypes.addressof(one))
tried = {}
for name, option, value in (('filter', 26, program), ('bpf', 50, struct.pack('i', 0)), ('reuseport', 51, program), ('reuseport bpf', 52, struct.pack('i', 0))):
    for family in (socket.AF_UNIX, socket.AF_INET):
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            try:
                s.setsockopt(socket.SOL_SOCKET, option, value)
                tried[name, family.name] = 'done'
            except OSError as problem:
                tried[name, family.name] = errno.errorcode[problem.errno]
tried['prctl'] = 'done' if libc.prctl(22, 2, program) == 0 else errno.errorcode[ctypes.get_errno()]
tried
"""
    tried = eval(shared.run(code)["result"], {})
    equal(tried.pop("prctl"), "EINVAL", "a filter of a process")
    equal({k: v for k, v in tried.items() if v != "ENOPROTOOPT"}, {}, "options that the kernel was asked for")
    equal(len(tried), 8)


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
