"""OCI runtimes with different features on the same host: which one is chosen, and which limits then hold for
user code."""

import os
import pwd
import shutil
import signal
import time

from common import ON_OCI, Server, Skip, Suite, contains, doctor, equal, needs_runtime, poll, skip_all
import mcp

needs_runtime()
if not ON_OCI:
    skip_all("is about the oci backend")
if os.getuid() != 0:
    skip_all("needs root")
REAL = shutil.which("runc")
if REAL is None:
    skip_all("needs runc")
suite = Suite()

# A wrapper of the real runtime that checks the container's configuration first.
WRAPPER = """#!/usr/bin/env python3
import json, os, sys

args = sys.argv[1:]
{version}
if "run" in args:
    bundle = args[args.index("--bundle") + 1]
    with open(bundle + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    mappings = config["linux"].get("uidMappings")

    def refuse(why):
        sys.stderr.write("runtime: error: " + why + "\\n")
        sys.exit(1)
{body}
os.execv({real!r}, [{real!r}, *args])
"""

REFUSES_USER_NAMESPACES = """
    if mappings:
        refuse("user namespaces are not supported")
"""

# The way in which runc 1.1.14 and 1.1.15 open each mount point.
OPENS_MOUNT_POINTS_AS_ROOT_OF_THE_SANDBOX = """
    if mappings and os.fork() == 0:
        os.setgroups([])
        os.setgid(config["linux"]["gidMappings"][0]["hostID"])
        os.setuid(mappings[0]["hostID"])
        for mount in config["mounts"]:
            path = config["root"]["path"] + os.path.dirname(mount["destination"])
            if os.path.isdir(path):
                try:
                    os.listdir(path)
                except OSError as problem:
                    os.write(2, f"runtime: error: open {path}: {problem}\\n".encode())
                    os._exit(1)
        os._exit(0)
    if mappings and os.wait()[1] != 0:
        sys.exit(1)
"""


# As gVisor's.
KNOWS_NO_DESCRIPTORS = """
    if "--preserve-fds" in args:
        refuse("flag provided but not defined: -preserve-fds")
"""

LOSES_DESCRIPTORS = """
    if "--preserve-fds" in args:
        at = args.index("--preserve-fds")
        del args[at : at + 2]
        os.closerange(3, 64)
"""


def wrapper(directory, name, body, version=None):
    path = f"{directory}/{name}"
    tell = f"if args == ['--version']: sys.exit(print('runc version {version}'))" if version else ""
    with open(path, "w", encoding="utf-8") as file:
        file.write(WRAPPER.format(version=tell, body=body, real=REAL))
    os.chmod(path, 0o755)
    return path


def lacks_user_namespace(server, sandbox):
    limits = server.call("get_sandbox_status", sandbox_id=sandbox)["limits"]
    return any(text.startswith("user namespace:") for text in limits.get("unapplied", []))


def unapplied(path):
    """What a sandbox of this runtime says it goes without: the word before the colon of each."""
    with Server("--runtime", path) as server:
        server.legacy()
        return [text.split(":")[0] for text in server.call("create_sandbox")["limits"].get("unapplied", [])]


def host_uids(server, sandbox):
    """All four uids, on the host, of a process that user code started."""
    name = f"seen-from-outside-{sandbox}"
    server.run(f"import subprocess; seen = subprocess.Popen(['sh', '-c', 'sleep 600; :', '{name}'])", sandbox_id=sandbox)
    found = poll("the process", lambda: [pid for pid, line in mcp.processes() if line.endswith(name) and "sleep 600" in line])
    return [int(number) for number in mcp.status_of(found[0])["Uid"].split()]


def is_nobodys(uid):
    assert uid != 1000 and uid > 59999, uid
    assert uid not in [account.pw_uid for account in pwd.getpwall()], f"{uid} is somebody's"
    for path in ("/etc/subuid", "/etc/subgid"):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                ranges = [line.strip().split(":") for line in file if line.count(":") == 2]
            inside = [r for r in ranges if int(r[1]) <= uid < int(r[1]) + int(r[2])]
            equal(inside, [], f"{uid} is granted to somebody")


def needs_user_namespaces():
    with Server("--runtime", REAL) as server:
        server.legacy()
        if lacks_user_namespace(server, server.call("create_sandbox")["sandbox_id"]):
            raise Skip("this host has no user namespaces")


NOTED = """#!/bin/sh
echo "$@" >> {calls}
case " $* " in *" --detach "*) rm {refusing} 2>/dev/null && echo "runtime: error: not now" >&2 && exit 1 ;; esac
exec {real} "$@"
"""


@suite.case("the next server makes no trial container, but for another runtime, and after a sandbox that could not be made")
def trials_are_kept():
    directory = mcp.temporary_directory()
    shared = mcp.temporary_directory()
    runtime, calls, refusing = (f"{directory}/{name}" for name in ("runtime", "calls", "refusing"))

    def install(comment):
        with open(runtime, "w", encoding="utf-8") as file:
            file.write(NOTED.format(calls=calls, refusing=refusing, real=REAL) + f"# {comment}\n")
        os.chmod(runtime, 0o755)
        poll("the runtime is not of this second", lambda: int(time.time()) > int(os.stat(runtime).st_ctime))

    def trials(refused=False):
        """How many trial containers a server has made that has run code, at once or after a refusal."""
        with open(calls, "w", encoding="utf-8"):
            pass
        with Server("--runtime", runtime, runtime_dir=shared) as server:
            server.legacy()
            if refused:
                equal(server.call_failing("create_sandbox")["error"]["code"], "engine_unavailable")
            equal(server.run("1 + 1")["result"], "2")
        with open(calls, encoding="utf-8") as file:
            return sum(" run " in line and "--detach" not in line for line in file)

    install("one")
    assert trials() > 0
    kept = [name for name in os.listdir(shared) if mcp.is_of_trial(name)]
    if not kept:
        raise Skip("this host does not allow the strongest way")
    equal(trials(), 0)
    install("another")
    equal(trials(), 1)
    equal(trials(), 0)
    with open(refusing, "w", encoding="utf-8"):
        pass
    equal(trials(refused=True), 1)
    assert not os.path.exists(refusing)
    equal(trials(), 0)
    with open(f"{shared}/{kept[0]}", "wb") as file:
        file.write(b"\0" * 100)
    equal(trials(), 1)
    equal(doctor("--runtime", runtime, "--runtime-dir", shared).returncode, 0)
    with open(calls, encoding="utf-8") as file:
        equal(sum(" run " in line and "--detach" not in line for line in file), 2, "the doctor tries for real")


@suite.case("a runtime that passes no descriptors on: streams come by a relay, also behind a worker's death")
def streams_by_a_relay():
    for body in (KNOWS_NO_DESCRIPTORS, LOSES_DESCRIPTORS):
        with Server("--runtime", wrapper(mcp.temporary_directory(), "other", body)) as server:
            server.legacy()
            sandbox = server.call("create_sandbox")["sandbox_id"]
            equal(server.run("x = 41", sandbox_id=sandbox)["status"], "ok")
            code = "open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nx + 1"
            pending = server.start_call("execute_code", sandbox_id=sandbox, code=f"import os, time\n{code}")
            poll("the code runs", lambda: server.read_text("begun", sandbox) is not None)
            os.kill(server.worker_pid(sandbox), signal.SIGKILL)
            server.call("write_file", sandbox_id=sandbox, path="go", content="")
            equal(pending.structured()["result"], "42")


@suite.case("a runtime that opens mount points for reading gives a user namespace all the same")
def mount_points_are_readable():
    needs_user_namespaces()
    path = wrapper(mcp.temporary_directory(), "runc", OPENS_MOUNT_POINTS_AS_ROOT_OF_THE_SANDBOX)
    with Server("--runtime", path) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(lacks_user_namespace(server, sandbox), False)
        for uid in host_uids(server, sandbox):
            is_nobodys(uid)


@suite.case("where there is no user namespace, user code has a uid that nobody has on the host, and its own in each sandbox")
def without_user_namespace():
    path = wrapper(mcp.temporary_directory(), "runc", REFUSES_USER_NAMESPACES)
    with Server("--runtime", path) as server:
        server.legacy()
        seen = []
        for _ in range(2):
            sandbox = server.call("create_sandbox")["sandbox_id"]
            equal(lacks_user_namespace(server, sandbox), True)
            uids = host_uids(server, sandbox)
            is_nobodys(uids[0])
            equal(uids, [uids[0]] * 4)
            seen.append(uids[0])
            made = "open('f', 'w').write('x'), open('/tmp/f', 'w').write('x'), __import__('os').path.expanduser('~')"
            equal(server.run(made, sandbox_id=sandbox)["result"], "(1, 1, '/home/user')")
            equal(server.call("read_file", path="f", sandbox_id=sandbox)["content"], "x")
        assert seen[0] != seen[1], seen


@suite.case("of two runtimes that work, the one that enforces more is taken")
def the_better_runtime():
    needs_user_namespaces()
    place = mcp.temporary_directory()
    wrapper(place, "runc", REFUSES_USER_NAMESPACES)
    os.symlink(REAL, f"{place}/crun")
    with Server(env={"PATH": f"{place}:{os.environ['PATH']}"}) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(lacks_user_namespace(server, sandbox), False)
        equal(server.run("__import__('os').getuid()", sandbox_id=sandbox)["result"], "1000")
        # and for later sandboxes, which rely on the trial made for the first one
        again = server.call("create_sandbox")["sandbox_id"]
        equal(lacks_user_namespace(server, again), False)
        equal(server.run("1 + 1", sandbox_id=again)["result"], "2")


@suite.case("a worse runtime, or one that breaks, does not take the place of one that works")
def the_worse_runtime():
    needs_user_namespaces()
    for body in (REFUSES_USER_NAMESPACES, "\n    refuse('broken')\n"):
        place = mcp.temporary_directory()
        wrapper(place, "runc", REFUSES_USER_NAMESPACES)
        wrapper(place, "crun", body)
        with Server(env={"PATH": f"{place}:{os.environ['PATH']}"}) as server:
            server.legacy()
            sandbox = server.call("create_sandbox")["sandbox_id"]
            equal(lacks_user_namespace(server, sandbox), True)
            equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")


@suite.case("a runtime of a version that is known to let code out is told as that, and not taken with --strict")
def known_ways_out():
    path = wrapper(mcp.temporary_directory(), "runc", "", "1.1.11")
    contains(unapplied(path), "runtime")
    with Server("--runtime", path, "--strict") as server:
        server.legacy()
        contains(server.start_call("create_sandbox").failed()["error"]["message"], "runtime: ways out")
    contains(doctor("--runtime", path).stdout, "CVE-2024-21626")


@suite.case("a distribution may mend without a new number, so its runtime is taken, and doctor says what to look for")
def mended_by_distribution():
    path = wrapper(mcp.temporary_directory(), "runc", "", "1.1.11+ds1")
    equal([name for name in unapplied(path) if name.startswith("runtime")], [])
    contains(doctor("--runtime", path).stdout, "unless its distribution has mended: CVE-2024-21626")


suite.run()
