"""A machine without resources or with broken parts: clear errors, a server that goes on, and a doctor that
names the cause."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile

from common import NONE, ONE, ON_OCI, OWN_TOOLS, Server, Skip, Suite, clear, contains, doctor, ended_in_time, equal, needs_runtime, poll, works
import mcp

needs_runtime()
suite = Suite()

NOBODY = 65534


def script(place, text):
    path = os.path.join(place, "runtime")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)
    return path


def as_nobody():
    """A command prefix for an ordinary user; skips if that user cannot run our program."""
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    tried = subprocess.run([*prefix, os.environ["CLOISTER"], "--version"], capture_output=True, check=False)
    if tried.returncode != 0:
        raise Skip("the built program cannot be run by another user")
    return prefix


# ---- doctor ----


@suite.case("doctor names a usable runtime or engine with its version and leaves nothing")
def healthy():
    place = mcp.temporary_directory()
    done = doctor("--runtime-dir", place)
    equal(done.returncode, 0, done.stdout + done.stderr)
    if ON_OCI:
        assert "runc" in done.stdout or "crun" in done.stdout, done.stdout
    else:
        contains(done.stdout, os.environ["DOCKER_HOST"])
        contains(done.stdout, mcp.ENGINE.ask("GET", "/version")["Version"])
        equal(mcp.containers_of(place), [])
    equal(mcp.sandbox_dirs(place), [])
    equal(mcp.processes_of(place), [])
    shutil.rmtree(place)


@suite.case("doctor shows a broken runtime's own words, and fails", when=ON_OCI)
def broken_runtime():
    place = mcp.temporary_directory()
    path = script(place, "echo 'exploded: flux capacitor missing' >&2; exit 3")
    done = doctor("--runtime-dir", place, "--runtime", path)
    assert done.returncode != 0, done.stdout
    contains(done.stdout + done.stderr, "flux capacitor")
    shutil.rmtree(place)


@suite.case("what means nothing to the backend is refused before anything begins", when=ON_OCI)
def not_taken():
    done = doctor("--backend", "oci", "--pull", "never")
    assert done.returncode != 0, done.stdout
    contains(done.stderr, "--pull means nothing to the backend oci: it is for docker")


@suite.case("a backend that has nothing but its row is tried, used and explained by doctor", when=ON_OCI)
def door():
    done = doctor("--backend", "fake")
    if "expected one of" in done.stderr:
        raise Skip("this build has no fake backend")
    equal(done.returncode, 0, done.stdout + done.stderr)
    contains(done.stdout, "backend fake, runtime fake: usable, and the one that is used")
    done = doctor("--backend", "fake", "--engine", "fault:create=fail")
    assert done.returncode != 0, done.stdout
    contains(done.stdout, "backend fake, engine fault:create=fail")
    contains(done.stdout, "the place that was given fault:create=fail: it is a fake")
    contains(done.stdout, "creation was ordered to fail")
    done = doctor("--backend", "fake", "--allow-network")
    contains(done.stderr, "--allow-network means nothing to the backend fake: it is for docker, oci, kubernetes and e2b")


@suite.case("doctor says when a runtime is not there", when=ON_OCI)
def missing_runtime():
    done = doctor("--runtime", "/nowhere/runc")
    assert done.returncode != 0, done.stdout
    contains(done.stdout + done.stderr, "/nowhere/runc")


@suite.case("doctor makes a sandbox of the image that is configured, and tells of one that is of no use", when=ON_OCI)
def useless_image():
    place = mcp.temporary_directory()
    os.makedirs(f"{place}/image/bin")
    for path in ("bin/sh", "etc"):
        if "/" in path:
            shutil.copy("/bin/true", f"{place}/image/{path}")
            os.chmod(f"{place}/image/{path}", 0o755)
        else:
            os.mkdir(f"{place}/image/{path}")
    os.chmod(place, 0o755)
    done = doctor()
    equal(done.returncode, 0, done.stdout)
    contains(done.stdout, "sandbox: works")
    contains(done.stdout, "python")
    for image, said in ((f"{place}/image", "no interpreter"), (f"{place}/absent", f"{place}/absent")):
        done = doctor("--runtime-dir", f"{place}/run", "--image", image)
        assert done.returncode != 0, done.stdout
        contains(done.stdout, said)
        contains(done.stdout, "what to do")
    equal(mcp.processes_of(place), [])
    shutil.rmtree(place)


@suite.case("create_sandbox with a broken runtime fails with engine_unavailable and what to do", when=ON_OCI)
def engine_unavailable():
    place = mcp.temporary_directory()
    path = script(place, "echo 'exploded' >&2; exit 3")
    with Server("--runtime", path) as server:
        server.legacy()
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "engine_unavailable")
        contains(error["hint"], "doctor")
        equal(server.call("get_sandbox_status")["count"], 0)
        equal(server.request("ping"), {})
    shutil.rmtree(place)


@suite.case("a runtime that hangs blocks neither the server nor its end", when=ON_OCI)
def hanging_runtime():
    place = mcp.temporary_directory()
    path = script(place, f"echo $$ > {place}/started; exec tail -f /dev/null")
    server = Server("--runtime", path)
    server.legacy()
    creating = server.start_call("create_sandbox")
    poll("the runtime was started", lambda: os.path.exists(f"{place}/started"))
    equal(server.request("ping"), {})
    assert not creating.answered(), "the runtime hangs"
    server.process.stdin.close()
    server.wait_exit()  # the runtime hangs on
    ended_in_time(server)
    with open(f"{place}/started", encoding="utf-8") as file:
        pid = int(file.read())
    try:
        poll("the runtime is gone", lambda: not mcp.alive(pid))
    finally:
        if mcp.alive(pid):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(place)


@suite.case("only images that the operator offers can be chosen, and only by name", when=ON_OCI)
def chosen_images():
    with Server() as server:
        server.legacy()
        for image in ("/proc/1/root", "..", "/"):
            error = clear(server.call_failing("create_sandbox", image=image)["error"])
            equal(error["code"], "invalid_argument", image)
        error = clear(server.call_failing("create_sandbox", image="root")["error"])
        equal(error["code"], "image_not_found")
        works(server)
    place = tempfile.mkdtemp(prefix="cloister-images-")
    try:
        os.mkdir(f"{place}/empty")
        with Server("--image-dir", place) as server:
            server.legacy()
            for image in ("absent", "empty"):
                error = clear(server.call_failing("create_sandbox", image=image)["error"])
                equal(error["code"], "image_not_found", image)
            works(server)
    finally:
        shutil.rmtree(place)


# ---- our own programs ----


@suite.case("a worker program that cannot be used gives a clear error, not a hang", engines=NONE)
def bad_worker():
    for path in ("/nowhere/worker", "/bin/false"):
        place = mcp.temporary_directory()  # no sweeper is left to clean up after such a worker
        with Server("--worker-path", path, runtime_dir=place) as server:
            server.legacy()
            clear(server.call_failing("create_sandbox")["error"])
            equal(server.request("ping"), {})
        shutil.rmtree(place)


@suite.case("an agent program that cannot be used gives a clear error, and nothing stays behind")
def bad_agent():
    for path in ("/nowhere/agent", "/bin/false"):
        with Server("--agent-path", path) as server:
            server.legacy()
            clear(server.call_failing("create_sandbox")["error"])
            equal(server.request("ping"), {})


# ---- resources ----


@suite.case("no descriptors left: the call fails clearly, the server lives and recovers", engines=ONE)
def no_descriptors():
    limit = 128

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    with Server("--max-sandboxes", "64", "--memory-mb", "64", preexec=lower) as server:
        server.legacy()
        made, failed = [], None
        for _ in range(limit):
            result = server.start_call("create_sandbox").result()
            if result.get("isError"):
                failed = result["structuredContent"]["error"]
                break
            made.append(result["structuredContent"]["sandbox_id"])
        assert failed, f"{len(made)} sandboxes with {limit} descriptors?"
        assert failed["message"], failed
        equal(server.request("ping"), {})
        for sandbox in made:
            server.call("close_sandbox", sandbox_id=sandbox)
        if made:
            works(server)


@suite.case("fork failing: the call fails clearly, whatever the limit, and the server lives", engines=ONE)
def no_processes():
    for limit in (1, 2, 4, 6, 8, 12):
        place = mcp.temporary_directory()
        prefix = ["bash", "-c", f'ulimit -u {limit} && exec "$0" "$@"']
        if os.getuid() == 0:  # limits do not apply to root
            prefix = [*as_nobody(), *prefix]
            os.chown(place, NOBODY, NOBODY)
        # the leak checker needs to fork
        with Server(runtime_dir=place, prefix=prefix, env={"ASAN_OPTIONS": "detect_leaks=0"}) as server:
            server.legacy()
            result = server.start_call("create_sandbox").result()
            assert result.get("isError") or limit > 1, f"a sandbox where nothing can be started: {result}"
            if result.get("isError"):
                assert result["structuredContent"]["error"]["message"], result
            equal(server.request("ping"), {})
            equal(len(server.request("tools/list")["tools"]), OWN_TOOLS)
        shutil.rmtree(place, ignore_errors=True)


@suite.case("the runtime directory on a full disk: the call fails clearly, the server lives", engines=ONE)
def disk_full():
    if os.getuid() != 0:
        raise Skip("needs root to mount a small file system")
    place = mcp.temporary_directory()
    prepare = 'mount -t tmpfs -o size=32k,nr_inodes=64,mode=0755 tmpfs "$0" && { head -c 1M /dev/zero >"$0/filler" 2>/dev/null; exec "$@"; }'
    server = Server(runtime_dir=place, prefix=["unshare", "--mount", "sh", "-c", prepare, place])
    with server:
        server.legacy()
        failed = server.call_failing("create_sandbox")["error"]
        assert "space" in failed["message"].lower() or "disk" in failed["message"].lower(), failed
        equal(server.request("ping"), {})
        equal(server.call("get_sandbox_status")["count"], 0)
    shutil.rmtree(place, ignore_errors=True)


@suite.case("a runtime directory that cannot be written: a clear error that names it", engines=NONE)
def unwritable():
    place = mcp.temporary_directory()
    blocked = os.path.join(place, "file")
    with open(blocked, "w", encoding="utf-8") as file:
        file.write("in the way")
    with Server(runtime_dir=os.path.join(blocked, "run")) as server:
        server.legacy()
        failed = server.call_failing("create_sandbox")["error"]
        contains(failed["message"], blocked)
        equal(server.request("ping"), {})
    shutil.rmtree(place)


# ---- ordinary users ----


@suite.case("as an ordinary user it works, or says what is missing")
def ordinary_user():
    if os.getuid() != 0:
        raise Skip("all other cases run as an ordinary user already")
    place = mcp.temporary_directory()
    os.chown(place, NOBODY, NOBODY)
    with Server(runtime_dir=place, prefix=as_nobody(), env={"HOME": place}) as server:
        server.legacy()
        result = server.start_call("create_sandbox").result()
        if result.get("isError"):
            clear(result["structuredContent"]["error"])
            return
        sandbox = result["structuredContent"]["sandbox_id"]
        done = server.run("import os; (os.getuid(), os.path.exists('/etc/shadow'))", sandbox_id=sandbox)
        equal(done["status"], "ok")
        contains(done["result"], "False")
    shutil.rmtree(place, ignore_errors=True)


@suite.case("directories of the server are for its user only", engines=ONE)
def permissions():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        found = [d for d in mcp.sandbox_dirs(server.runtime_dir) if sandbox in d]
        assert found, "no directory of the sandbox"
        mode = stat.S_IMODE(os.stat(found[0]).st_mode)
        equal(mode & 0o066, 0, "nobody else may list or write it")


suite.run()
