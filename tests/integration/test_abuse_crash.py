"""A crash in the sandbox runs no program of the host. Where /proc/sys/kernel/core_pattern begins with `|`, as with
systemd-coredump, apport and abrt, the kernel starts that program as root of the host for every crash in any container,
with a name that the crashing program has given itself. A limit of 0 for core files does not prevent that; only 1 does."""

import contextlib
import os
import shlex
import subprocess
import sys

from common import Shared, Skip, Suite, contains, equal, needs_runtime, poll
import mcp

needs_runtime()
suite = Suite()
shared = Shared()
PATTERN = "/proc/sys/kernel/core_pattern"

# Crashes under a name of one's own, after an attempt to change the limit. The number of the call is that of setrlimit()
# where there is one, so that the C library does not choose another for us.
CRASH = """
import ctypes, os, platform, resource, signal, struct

def crash(name, prepare):
    pid = os.fork()
    if pid == 0:
        open('/proc/self/comm', 'w').write(name)
        try:
            prepare()
        except (OSError, ValueError):
            pass
        os.kill(os.getpid(), signal.SIGSEGV)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])

libc = ctypes.CDLL(None, use_errno=True)
none = ctypes.create_string_buffer(struct.pack('QQ', 0, 0))
old = ctypes.create_string_buffer(16)
above = 1 << 32  # bits that the kernel does not look at
prlimit = ctypes.c_long({'x86_64': 302, 'aarch64': 261}[platform.machine()])
ways = {
    'plain': lambda: None,
    'setrlimit': lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    'soft': lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])),
    'prlimit': lambda: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0)),
    'more': lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    'withold': lambda: libc.syscall(prlimit, ctypes.c_long(0), ctypes.c_long(4), none, old),
    'above': lambda: libc.syscall(prlimit, ctypes.c_long(0), ctypes.c_long(4 | above), none, ctypes.c_void_p(0)),
}
if platform.machine() == 'x86_64':
    ways['old'] = lambda: libc.syscall(ctypes.c_long(160), ctypes.c_long(4), none)
    ways['oldabove'] = lambda: libc.syscall(ctypes.c_long(160), ctypes.c_long(4 | above), none)
"""


def ways(server, sandbox):
    equal(server.run(CRASH, sandbox_id=sandbox)["status"], "ok")
    return eval(server.run("list(ways)", sandbox_id=sandbox)["result"], {})


@suite.case("the limit of core files is 1, and code can change it in no way, whatever it is told")
def limit_stays():
    shared.enforced("core")
    server, sandbox = shared.get()
    for way in ways(server, sandbox):
        code = f"try: ways[{way!r}]()\nexcept (OSError, ValueError) as problem: pass\nresource.getrlimit(resource.RLIMIT_CORE)"
        done = server.run(code, sandbox_id=sandbox)
        equal((way, done["status"], done["result"]), (way, "ok", "(1, 1)"))
    shell = "ulimit -c 0 && ulimit -c && ulimit -Hc && sh -c 'ulimit -c 0; grep \"core file\" /proc/self/limits'"
    equal(server.stdout(shell, language="bash", sandbox_id=sandbox).split()[-4:-1], ["size", "1", "1"])


@suite.case("whoever wants no core files is not told that this is impossible")
def wish_granted():
    server, sandbox = shared.get()
    equal(server.run("import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n'went on'", sandbox_id=sandbox).get("result"), "'went on'")
    equal(server.stdout("ulimit -c 0 && echo went on", language="bash", sandbox_id=sandbox), "went on\n")
    equal(server.run("resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1024))\nresource.getrlimit(resource.RLIMIT_NOFILE)[0]", sandbox_id=sandbox)["result"], "100")


@contextlib.contextmanager
def handler_of_crashes():
    """Installs a handler that writes down the names of what crashes, for as long as this process lives: another process
    puts the old pattern back when the pipe to it ends. A host that has a handler of its own keeps it."""
    if os.getuid() != 0:
        raise Skip("needs root")
    with open(PATTERN, encoding="utf-8") as file:
        before = file.read().strip()
    if before.startswith("|") or not os.access(PATTERN, os.W_OK):
        raise Skip(f"{PATTERN} is not for tests to change here: {before}")
    place = mcp.temporary_directory()
    handler = f"{place}/handler"
    with open(handler, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\necho "$1 $(id -u)" >>{shlex.quote(place)}/log\n')
    os.chmod(handler, 0o755)
    restore = f'cat >/dev/null; printf "%s\\n" "$0" >{PATTERN}'
    with subprocess.Popen(["sh", "-c", restore, before], stdin=subprocess.PIPE, start_new_session=True) as keeper:
        try:
            with open(PATTERN, "w", encoding="utf-8") as file:
                file.write(f"|{handler} %e")
            yield lambda: names_in(place)
        finally:
            keeper.stdin.close()
    with open(PATTERN, encoding="utf-8") as file:
        equal(file.read().strip(), before, PATTERN)


def names_in(place):
    """What the handler has written, when no handler is at work any more."""
    poll("handlers have ended", lambda: not [line for _, line in mcp.processes() if f"{place}/handler" in line])
    try:
        with open(f"{place}/log", encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


@suite.case("a real handler of the host is not run by any crash in the sandbox, but by one outside of it")
def no_handler():
    shared.enforced("core")
    server, sandbox = shared.fresh()
    tries = ways(server, sandbox)
    crash = "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nopen('/proc/self/comm', 'w').write('outside')\nos.kill(os.getpid(), 11)"
    with handler_of_crashes() as names:
        for way in tries:
            done = server.run(f"crash('in-{way}', ways[{way!r}])", sandbox_id=sandbox)
            equal((way, done.get("result")), (way, "11"))
        shell = "sh -c 'ulimit -c 0; echo in-shell >/proc/self/comm; kill -SEGV $$'; true"
        server.stdout(shell, language="bash", sandbox_id=sandbox)
        server.run("import signal\nopen('/proc/self/comm', 'w').write('in-interpreter')\nos.kill(os.getpid(), signal.SIGSEGV)", sandbox_id=sandbox)
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
        # the kernel starts a handler before the end of the process is reported, so whatever was to run has begun
        equal(subprocess.run([sys.executable, "-c", crash], check=False).returncode, -11)
        seen = poll("the handler runs at all", names)
        contains(seen, "outside 0")
        equal([line for line in seen if line.startswith("in-")], [], "crashes of the sandbox that ran the host's handler")
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
