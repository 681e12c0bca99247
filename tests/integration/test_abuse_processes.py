"""What somebody has won who takes over one of our processes, or runs beside them as the same person: the
server, its sweeper, and the worker of a sandbox."""

import contextlib
import errno
import json
import os
import re
import shutil
import subprocess

from common import HERE, NONE, ON_OCI, Server, Skip, Suite, equal, needs_runtime, poll
import mcp

needs_runtime()
suite = Suite()

NOBODY = 65534
OURS = os.getpid()  # these tests may run several times at once, each with an engine of its own
SECRETS = {
    "GITHUB_TOKEN": f"ghp-of-the-person-{OURS}",
    "AWS_SECRET_ACCESS_KEY": f"aws-of-the-person-{OURS}",
    "CLOISTER_TEST_SECRET": f"option-of-the-person-{OURS}",
    "SSH_AUTH_SOCK": f"/tmp/agent-of-the-person-{OURS}",
}


def parts(server, sandbox):
    """Pids by what the process is."""
    (sweeper,) = server.sweepers()
    return {"server": server.process.pid, "worker": server.worker_pid(sandbox), "sweeper": sweeper}


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return dict(word.partition(b"=")[::2] for word in file.read().split(b"\0") if word)
    except OSError:
        return {}


def needs_environments():
    """Skips the case where nobody but root could see what is in the environment of our processes."""
    if os.getuid() != 0 and not traceable():
        raise Skip("only root can look into the processes of this build")


# ---- the environment ----


@suite.case("tokens and keys in the environment of a server are in no process that it starts")
def secrets():
    needs_environments()
    with Server(env=SECRETS) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.run("1", sandbox_id=sandbox)
        found = {name: environment(pid) for name, pid in parts(server, sandbox).items() if name != "server"}
        equal({name: sorted(set(SECRETS) & {n.decode() for n in got}) for name, got in found.items()}, {"worker": [], "sweeper": []})
        values = [value.encode() for value in SECRETS.values()]
        everywhere = {pid: environment(pid) for pid, _ in mcp.processes() if pid not in (os.getpid(), server.process.pid)}
        equal([pid for pid, got in everywhere.items() if set(values) & set(got.values())], [])
        for name in ("worker", "sweeper"):
            assert found[name].get(b"PATH") == os.environ["PATH"].encode(), f"{name}: it finds no programs"


@suite.case("a worker that replaces a dead one has no more of it")
def secrets_later():
    needs_environments()
    with Server(env=SECRETS) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.kill_worker(sandbox)
        equal(server.run("6 * 7", sandbox_id=sandbox)["result"], "42")
        equal(set(SECRETS) & {name.decode() for name in environment(server.worker_pid(sandbox))}, set())


# ---- being read ----


def traceable():
    """Whether this build keeps itself open to debuggers and the leak checker (meson.build)."""
    with open(os.environ["CLOISTER"], "rb") as file:
        return os.environ.get("CLOISTER_TRACEABLE") == "1" or re.search(rb"__[at]san_init", file.read()) is not None


SPY = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)

def tried(what):
    try:
        what()
    except OSError as problem:
        return errno.errorcode[problem.errno]
    return "done"

def attach(pid):
    if libc.ptrace(16, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "")
    libc.ptrace(17, pid, None, None)

def spy(pid):
    return {
        "environment": tried(lambda: open(f"/proc/{pid}/environ", "rb").read()),
        "memory": tried(lambda: open(f"/proc/{pid}/mem", "rb")),
        "descriptors": tried(lambda: os.listdir(f"/proc/{pid}/fd")),
        "tracing": tried(lambda: attach(pid)),
    }

print(json.dumps([spy(int(pid)) for pid in sys.argv[1:]]))
"""


@contextlib.contextmanager
def server_of_a_person():
    """A server of an ordinary user: (server, how that user starts programs)."""
    if traceable():
        raise Skip("this build is for debuggers and the leak checker")
    place = mcp.temporary_directory()
    prefix = []
    if os.getuid() == 0:  # root may read everything
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        os.chown(place, NOBODY, NOBODY)
        if subprocess.run([*prefix, os.environ["CLOISTER"], "--version"], capture_output=True, check=False).returncode != 0:
            raise Skip("the built program cannot be run by another user")
    with Server(runtime_dir=place, prefix=prefix, env={"HOME": place, **SECRETS}) as server:
        server.legacy()
        yield server, prefix
    shutil.rmtree(place, ignore_errors=True)


def sees_nothing(prefix, *pids):
    """Requires that another program of that user gets nothing from these processes."""
    done = subprocess.run([*prefix, "/usr/bin/python3", "-c", SPY, *map(str, pids)], capture_output=True, text=True, check=True)
    nothing = {"environment": "EACCES", "memory": "EACCES", "descriptors": "EACCES", "tracing": "EPERM"}
    equal(json.loads(done.stdout), [nothing] * len(pids))


@suite.case("another program of the same person reads neither memory nor environment of a server, and does not trace it", engines=NONE)
def spied_on():
    with server_of_a_person() as (server, prefix):
        sees_nothing(prefix, server.process.pid)


@suite.case("nor of the sweeper and the worker, which a server has with its first sandbox", engines=NONE)
def others_spied_on():
    with server_of_a_person() as (server, prefix):
        made = server.start_call("create_sandbox").result()
        if made.get("isError"):
            raise Skip(f"an ordinary user can make no sandbox here: {made['structuredContent']['error']['message']}")
        sees_nothing(prefix, *parts(server, made["structuredContent"]["sandbox_id"]).values())


# ---- privileges ----

CAPABILITIES = (
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service net_broadcast net_admin net_raw "
    "ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod "
    "lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore"
).split()
FILES = {"dac_override", "dac_read_search"}
SERVER = FILES | {"chown", "fowner", "fsetid", "kill", "sys_nice", "net_bind_service"}
RUNTIMES = SERVER | {
    *("setuid", "setgid", "setpcap", "setfcap", "sys_admin", "sys_chroot", "sys_ptrace", "sys_resource", "net_admin", "mknod", "ipc_lock")
}


def named(mask):
    bits = int(mask, 16)
    return {CAPABILITIES[i] if i < len(CAPABILITIES) else f"capability {i}" for i in range(bits.bit_length()) if bits >> i & 1}


def needs_root():
    if os.getuid() != 0:
        raise Skip("an ordinary user has no capabilities, and a runtime of its own needs set-user-id programs")


@suite.case("whoever takes over a process gains nothing by set-user-id programs, and has what the role needs and no more")
def privileges():
    needs_root()
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(server.run("6 * 7", sandbox_id=sandbox)["result"], "42")
        worker = RUNTIMES if ON_OCI else FILES
        limits = {"server": (SERVER, RUNTIMES), "sweeper": (SERVER, RUNTIMES), "worker": (worker, worker)}
        for name, pid in parts(server, sandbox).items():
            status, (own, children) = mcp.status_of(pid), limits[name]
            equal(status["NoNewPrivs"], "1", f"{name}: no new privileges")
            equal(named(status["CapEff"]) - own, set(), f"{name}: capabilities beyond its role")
            for field in ("CapPrm", "CapBnd", "CapInh", "CapAmb"):
                equal(named(status[field]) - children, set(), f"{name}: {field} beyond what it starts needs")


@suite.case("what a runtime of a sandbox starts on this host is limited as well", when=ON_OCI)
def privileges_of_children():
    needs_root()
    if shutil.which("runc") is None:
        raise Skip("needs runc")
    place = mcp.temporary_directory()
    runtime = os.path.join(place, "runtime")
    note = os.path.join(place, "status")
    with open(runtime, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\ncat /proc/self/status >"{note}.$$" 2>/dev/null\nenv >"{note}.$$.env"\nexec runc "$@"\n')
    os.chmod(runtime, 0o755)
    with Server("--runtime", runtime, env=SECRETS) as server:
        server.legacy()
        server.call("create_sandbox")
        notes = sorted(name for name in os.listdir(place) if name.startswith("status."))
        assert notes, "the runtime has noted nothing"
        for name in notes:
            with open(os.path.join(place, name), encoding="utf-8") as file:
                text = file.read()
            if name.endswith(".env"):
                equal([value for value in SECRETS.values() if value in text], [], "secrets of the person in the runtime")
            else:
                status = dict(line.split(":\t", 1) for line in text.splitlines())
                equal((status["NoNewPrivs"], named(status["CapEff"]) - RUNTIMES, named(status["CapBnd"]) - RUNTIMES), ("1", set(), set()))
    shutil.rmtree(place)


# ---- system calls ----

TO_ALL = {
    "add_key": errno.EPERM,
    "adjtimex": errno.EPERM,
    "init_module": errno.EPERM,
    "io_uring": errno.ENOSYS,
    "perf_event_open": errno.EPERM,
    "swapoff": errno.EPERM,
    "syslog": errno.EPERM,
    "userfaultfd": errno.EPERM,
    "child": 0,
}
TO_TALKERS = {"namespace": errno.EPERM, "mount": errno.EPERM, "memory": errno.EPERM, "setns": errno.EPERM, "unshare": errno.EPERM}


def library(place):
    """tests/lib/inside.c, which tries what an attacker would who runs code in the process."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Skip("no C compiler here")
    made = os.path.join(place, "inside.so")
    source = os.path.join(os.path.dirname(HERE), "lib", "inside.c")
    subprocess.run([compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@suite.case("code that somebody brings to run in one of our processes gets nothing from the kernel that the role does not need")
def system_calls():
    needs_root()
    place = mcp.temporary_directory()
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    with Server(env={"LD_PRELOAD": library(place), "TMPDIR": place, "ASAN_OPTIONS": asan}) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(server.run("6 * 7", sandbox_id=sandbox)["result"], "42")
        filters = {pid: mcp.status_of(pid).get("Seccomp_filters") for pid in ("self", server.process.pid)}  # None on old kernels
        for name, pid in parts(server, sandbox).items():
            status = mcp.status_of(pid)
            equal(status["Seccomp"], "2", f"{name}: a filter")
            inherited = filters["self" if name == "server" else server.process.pid]
            assert inherited is None or int(status["Seccomp_filters"]) > int(inherited), f"{name}: no filter but inherited ones"
            if name == "sweeper":
                continue  # it sleeps before its loop
            path = os.path.join(place, f"inside.{pid}")
            poll(f"{name} has tried", lambda path=path: os.path.exists(path))
            with open(path, encoding="utf-8") as file:
                got = {word: int(number) for word, number in map(str.split, file)}
            wanted = dict(TO_ALL)
            if name == "worker" and not ON_OCI:
                wanted.update(TO_TALKERS)
                if not traceable():
                    wanted["trace"] = errno.EPERM
            names = {number: errno.errorcode.get(number, "done") for number in {*got.values(), *wanted.values()}}
            equal({word: names[got[word]] for word in wanted}, {word: names[number] for word, number in wanted.items()}, name)
    shutil.rmtree(place, ignore_errors=True)


suite.run()
