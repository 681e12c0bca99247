"""The host of the server lacks something for a while: disk space, descriptors, processes, memory, a runtime,
a directory, or the server itself is stopped. Each time there is a clear error for what is impossible, running
code goes on, and when the cause is gone the same server works again, with nothing left behind."""

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import time

from common import ON_OCI, Server, Skip, Suite, alive, clear, contains, equal, needs_runtime, poll, works
import mcp

needs_runtime()
suite = Suite()

FEW = 10  # fewer than every process of ours has open, so with this limit none can be added
STREAM = "import time\nfor i in range(200):\n    print('line', i, flush=True)\n    if i == 5:\n        open('begun', 'w').close()\n    time.sleep(0.01)"
WANTED = "".join(f"line {i}\n" for i in range(200))


def needs_root():
    if os.getuid() != 0:
        raise Skip("needs root")


def sandbox_of(server, **arguments):
    return server.call("create_sandbox", **arguments)["sandbox_id"]


def begun(server, sandbox, code=STREAM, **arguments):
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=code, **arguments)
    poll("the code runs", lambda: server.read_text("begun", sandbox) is not None)
    return pending


def create(server):
    """A sandbox's id, or None and a clear error."""
    result = server.start_call("create_sandbox").result()
    content = result["structuredContent"]
    if result.get("isError"):
        return None, clear(content["error"])
    return content["sandbox_id"], None


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def quiet(server, cpu=1.0, lines=200):
    """Requires that the server uses little CPU and writes few lines of log meanwhile."""
    used, written = cpu_seconds(server.process.pid), len(server.log)
    yield
    used, written = cpu_seconds(server.process.pid) - used, len(server.log) - written
    assert used < cpu, f"the server used {used:.1f} s of CPU"
    assert written < lines, f"{written} lines in the log:\n{server.log_tail(60)}"


def nothing_left(server, sandbox):
    poll(f"nothing is left of {sandbox}", lambda: not mcp.traces_of(sandbox))
    poll("nor its directory", lambda: not [d for d in mcp.sandbox_dirs(server.runtime_dir) if sandbox in d])


# ---- disk ----


class SmallDisk:
    """A server whose runtime directory is a small file system, visible only to the server and its children."""

    def __init__(self, options):
        needs_root()
        self.shown = mcp.temporary_directory()
        prepare = f'mount -t tmpfs -o {options},mode=0755 tmpfs "$0" && exec "$@"'
        self.server = Server(runtime_dir=self.shown, prefix=["unshare", "--mount", "sh", "-c", prepare, self.shown])
        self.server.legacy()
        self.place = f"/proc/{self.server.process.pid}/root{self.shown}"
        self.fillers = 0

    def __enter__(self):
        return self, self.server

    def __exit__(self, kind, problem, trace):
        if kind is None:
            self.heal()
            poll("no sandbox has left a directory", lambda: not self.left())
            left = [line for line in mcp.processes_of(self.shown)[1:] if "--sweep-after-server" not in line]
            equal(left, [], "processes beside the server and its sweeper")
        self.server.__exit__(kind, problem, trace)

    def command(self, *words):
        """Runs a program in the server's mount namespace."""
        subprocess.run(["nsenter", f"--mount=/proc/{self.server.process.pid}/ns/mnt", *words], check=True)

    def left(self):
        """Directories of sandboxes that the server does not list."""
        listed = {s["sandbox_id"] for s in self.server.call("get_sandbox_status")["sandboxes"]}
        return [d for d in mcp.sandbox_dirs(self.place) if os.path.basename(d) not in listed]

    def fill(self, pages):
        """Fills the file system except for so many pages."""
        self.heal()
        with open(f"{self.place}/filler", "wb", 0) as file:
            try:
                while file.write(b"x" * 4096) == 4096:
                    pass
            except OSError as problem:
                equal(problem.errno, errno.ENOSPC)
            size = file.tell() // 4096 - pages
            file.truncate(max(size, 0) * 4096)

    def fill_names(self, names):
        """Uses all inodes except for so many."""
        self.heal()
        os.mkdir(f"{self.place}/fillers")
        try:
            while True:
                with open(f"{self.place}/fillers/{self.fillers}", "wb"):
                    self.fillers += 1
        except OSError as problem:
            equal(problem.errno, errno.ENOSPC)
        for _ in range(names):
            self.fillers -= 1
            os.unlink(f"{self.place}/fillers/{self.fillers}")

    def heal(self):
        self.fillers = 0
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.place}/filler")
        shutil.rmtree(f"{self.place}/fillers", ignore_errors=True)

    def run_out(self, fill, amounts):
        """A disk that is full at each step of a creation in turn; an earlier sandbox is not affected."""
        server = self.server
        before = sandbox_of(server)
        server.run("x = 'before'", sandbox_id=before)
        failures = []
        for amount in amounts:
            fill(amount)
            made, error = create(server)
            equal(server.run("x", sandbox_id=before)["result"], "'before'")
            if error is None:
                equal(server.run("1 + 1", sandbox_id=made)["result"], "2")
                server.call("close_sandbox", sandbox_id=made)
            else:
                failures.append(error)
                contains(error["message"].lower(), "space", f"with {amount} left")
                equal(error["code"], "engine_unavailable", f"with {amount} left")
            poll(f"with {amount} left nothing stays", lambda: not self.left())
        assert failures, "the disk was never full"
        fill(0)
        pending = begun(server, before)
        server.kill_worker(before)
        equal(pending.structured()["stdout"], WANTED)
        equal(server.run("x", sandbox_id=before)["result"], "'before'")
        server.call("write_file", sandbox_id=before, path="mine", content="mine")  # it is on another file system
        equal(server.read_text("mine", before), "mine")
        self.heal()
        works(server)
        server.call("close_sandbox", sandbox_id=before)


@suite.case("no space below the runtime directory: creating reports it, everything else goes on, and creating works when space is free")
def disk_full():
    with SmallDisk("size=4m") as (disk, _):
        disk.run_out(disk.fill, (0, 1, 2, 3, 4, 6, 8, 12, 16))


@suite.case("no further files below the runtime directory: the same")
def no_inodes():
    with SmallDisk("size=4m,nr_inodes=2000") as (disk, _):
        disk.run_out(disk.fill_names, (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16))


@suite.case("a runtime directory that became read-only: creating says so, the rest goes on, and it heals")
def read_only():
    with SmallDisk("size=4m") as (disk, server):
        before = sandbox_of(server)
        server.run("x = 1", sandbox_id=before)
        disk.command("mount", "--bind", disk.shown, disk.shown)  # the lower mount has files open for writing
        disk.command("mount", "-o", "remount,bind,ro", disk.shown)
        made, error = create(server)
        equal(made, None)
        contains(error["message"].lower(), "read-only")
        equal(server.run("x", sandbox_id=before)["result"], "1")
        server.kill_worker(before)
        pending = server.start_call("execute_code", sandbox_id=before, code="x + 1")
        with quiet(server):
            time.sleep(3)  # the test needs it to last for so long
        disk.command("umount", "--lazy", disk.shown)
        equal(pending.structured()["result"], "2")
        works(server)
        server.call("close_sandbox", sandbox_id=before)


@suite.case("the disk of a sandbox is full: its code and write_file get an error, deleting frees space, the interpreter goes on")
def sandbox_disk_full():
    with Server("--disk-mb", "8") as server:
        server.legacy()
        sandbox = sandbox_of(server)
        fill = "import os\nkept = 'kept'\ntry:\n    with open('/workspace/big', 'wb', 0) as f:\n        while True: f.write(b'x' * 65536)\nexcept OSError as e:\n    print(e.strerror)"
        equal(server.stdout(fill, sandbox_id=sandbox), "No space left on device\n")
        error = clear(server.call_failing("write_file", sandbox_id=sandbox, path="more", content="x" * 100000)["error"])
        contains(error["message"].lower(), "space")
        equal(server.read_text("more", sandbox), None)
        equal(server.run("kept", sandbox_id=sandbox)["result"], "'kept'")
        equal(server.run("echo here", language="bash", sandbox_id=sandbox)["stdout"], "here\n")
        server.kill_worker(sandbox)
        equal(server.run("os.unlink('/workspace/big'); kept", sandbox_id=sandbox)["result"], "'kept'")
        server.call("write_file", sandbox_id=sandbox, path="more", content="x" * 100000)
        equal(len(server.read_text("more", sandbox)), 100000)


# ---- descriptors ----


def descriptors(pid, spare):
    """Limits a process to its open descriptors and `spare` more."""
    used = sorted(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
    limit = FEW
    free = 0
    while free < spare or limit in used:
        free += limit not in used
        limit += 1
    missing = [n for n in range(FEW) if n not in used]
    equal(missing, [], "unused descriptors below the limit")
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))


@contextlib.contextmanager
def short_of_descriptors(pid, spare=0):
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    descriptors(pid, spare)
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)


@suite.case("no descriptors left in the server at any step of a creation: a clear error, and it works again")
def server_descriptors():
    with Server() as server:
        server.legacy()
        before = sandbox_of(server)
        server.run("x = 'before'", sandbox_id=before)
        failures = 0
        for spare in (*range(0, 24), 26, 28, 32, 40):
            with short_of_descriptors(server.process.pid, spare):
                made, error = create(server)
                equal(server.run("x", sandbox_id=before)["result"], "'before'")
                failures += error is not None
            if made is not None:
                server.call("close_sandbox", sandbox_id=made)
        assert failures >= 3, failures
        works(server)
        poll("nothing is left of them", lambda: len(mcp.sandbox_dirs(server.runtime_dir)) == 1)


@suite.case("a worker dies while the server has no descriptors: its sandbox waits for better times")
def recovery_without_descriptors():
    with Server() as server:
        server.legacy()
        sandbox = sandbox_of(server)
        other = sandbox_of(server)
        server.run("x = 'other'", sandbox_id=other)
        pending = begun(server, sandbox)
        with short_of_descriptors(server.process.pid):
            server.kill_worker(sandbox)
            with quiet(server):
                until = time.monotonic() + 4  # the test needs it to last for so long
                while time.monotonic() < until:
                    equal(server.request("ping"), {})
                    equal(server.run("x", sandbox_id=other)["result"], "'other'")
                    time.sleep(0.2)
            equal(server.call("get_sandbox_status", sandbox_id=sandbox)["state"], "recovering")
        equal(pending.structured()["stdout"], WANTED)
        works(server)


@suite.case("sandboxes closed while the server has no descriptors leave nothing once it has some")
def closing_without_descriptors():
    with Server() as server:
        server.legacy()
        healthy, dead = sandbox_of(server), sandbox_of(server)
        with short_of_descriptors(server.process.pid):
            server.kill_worker(dead)
            poll("its worker is missed", lambda: server.call("get_sandbox_status", sandbox_id=dead)["state"] == "recovering")
            for sandbox in (healthy, dead):
                server.start_call("close_sandbox", sandbox_id=sandbox).result()
            time.sleep(1)  # the test needs it to last for so long
        nothing_left(server, healthy)
        nothing_left(server, dead)
        works(server)


@suite.case("a worker dials while the server has no descriptor for it: it waits without burning CPU, then all goes on")
def accepting_without_descriptors():
    place = mcp.temporary_directory()
    worker = os.path.join(os.path.dirname(os.path.dirname(os.environ["CLOISTER"])), "worker", "cloister-worker")
    if not os.path.exists(worker):
        raise Skip("the worker program is not where a build directory has it")
    path = f"{place}/worker"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\ntouch {place}/started\nwhile [ -e {place}/wait ]; do sleep 0.02; done\nexec {worker} "$@"\n')
    os.chmod(path, 0o755)
    with Server("--worker-path", path) as server:
        server.legacy()
        before = sandbox_of(server)
        server.run("x = 'before'", sandbox_id=before)
        for _ in range(2):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{place}/started")
            with open(f"{place}/wait", "w", encoding="utf-8"):
                pass
            creating = server.start_call("create_sandbox")
            poll("a worker is started", lambda: os.path.exists(f"{place}/started"))
            with short_of_descriptors(server.process.pid), quiet(server):
                os.unlink(f"{place}/wait")
                until = time.monotonic() + 5  # the test needs it to last for so long
                while time.monotonic() < until:
                    equal(server.run("x", sandbox_id=before)["result"], "'before'")
                    time.sleep(0.2)
            made = creating.structured()["sandbox_id"]
            equal(server.run("1 + 1", sandbox_id=made)["result"], "2")


@suite.case("a worker without descriptors: calls go on or fail clearly, and its sandbox outlives it")
def worker_descriptors():
    with Server() as server:
        server.legacy()
        sandbox = sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        worker = server.worker_pid(sandbox)
        hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (FEW, hard))
        for code in ("x", "print('y' * 100000)", "import time; time.sleep(0.5)"):
            equal(server.run(code, sandbox_id=sandbox)["status"], "ok", code)
        server.call("get_sandbox_status", sandbox_id=sandbox)
        server.call("write_file", sandbox_id=sandbox, path="f", content="text")
        equal(server.read_text("f", sandbox), "text")
        os.kill(worker, signal.SIGKILL)
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")


@suite.case("workers born with too few descriptors: the sandbox is not taken for gone")
def worker_born_short():
    """The limit of the whole system is reached: new workers fail, and work again afterwards."""
    with Server() as server:
        server.legacy()
        sandbox = sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        for limit in (12, 16, 18, 20, 22, 24):
            usual = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (max(limit, FEW), usual[1]))
            try:
                server.kill_worker(sandbox)
                pending = server.start_call("execute_code", sandbox_id=sandbox, code="x")
                time.sleep(1)  # the test needs it to last for so long
            finally:
                resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, usual)
            equal(pending.structured()["result"], "'kept'", f"limit {limit}")


@suite.case("code that opens all descriptors it may have harms only itself")
def code_descriptors():
    with Server() as server:
        server.legacy()
        sandbox = sandbox_of(server)
        code = "import os\nkept = []\ntry:\n    while True: kept.append(os.open('/dev/null', 0))\nexcept OSError as e:\n    print(e.strerror)"
        equal(server.stdout(code, sandbox_id=sandbox), "Too many open files\n")
        equal(server.run("echo here", language="bash", sandbox_id=sandbox)["stdout"], "here\n")
        server.call("write_file", sandbox_id=sandbox, path="f", content="text")
        equal(server.read_text("f", sandbox), "text")
        server.kill_worker(sandbox)
        equal(server.run("len(kept) > 10", sandbox_id=sandbox)["result"], "True")
        equal(server.run("for fd in kept: os.close(fd)\nopen('f').read()", sandbox_id=sandbox)["status"], "ok")


# ---- memory and processes ----


class Group:
    """A control group of the test's own in one hierarchy; skips if there is none."""

    def __init__(self, controller, limit):
        needs_root()
        top = f"/sys/fs/cgroup/{controller}"
        self.limit_file = limit
        self.path = f"{top}/clotest-{os.getpid()}-{controller}"
        try:
            os.mkdir(self.path)
        except OSError as problem:
            raise Skip(f"no {controller} control group of our own: {problem.strerror}") from None
        if not os.path.exists(f"{self.path}/{limit}"):
            os.rmdir(self.path)
            raise Skip(f"{controller} knows no {limit} here")

    def take(self, pid):
        with open(f"{self.path}/cgroup.procs", "w", encoding="utf-8") as file:
            file.write(str(pid))

    def limit(self, value):
        with open(f"{self.path}/{self.limit_file}", "w", encoding="utf-8") as file:
            file.write(str(value))

    def text(self, name):
        with open(f"{self.path}/{name}", encoding="utf-8") as file:
            return file.read()

    def current(self, name):
        return int(self.text(name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        poll("the control group is empty", self.removed)

    def removed(self):
        try:
            os.rmdir(self.path)
        except OSError as problem:
            return problem.errno == errno.ENOENT
        return True


def sanitised(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return "libasan" in file.read()


@suite.case("a worker that the kernel kills for lack of memory is replaced, and its call completes")
def worker_out_of_memory():
    with Group("memory", "memory.limit_in_bytes") as group, Server() as server:
        server.legacy()
        sandbox, other = sandbox_of(server), sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        group.limit(1 << 20)
        worker = server.worker_pid(sandbox)
        group.take(worker)
        text = "m" * (6 << 20)
        server.call("write_file", sandbox_id=sandbox, path="big", content=text)
        poll("the worker was killed", lambda: not alive(worker))
        equal(server.run("len(open('big').read())", sandbox_id=sandbox)["result"], str(len(text)))
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
        status = server.call("get_sandbox_status", sandbox_id=sandbox)
        equal((status["state"], status["worker"]["restarts"]), ("ready", 1))
        equal(server.call("get_sandbox_status", sandbox_id=other)["worker"]["restarts"], 0)


@suite.case("a worker that gets no memory is replaced, and its call completes")
def worker_refused_memory():
    with Server() as server:
        server.legacy()
        if sanitised(server.process.pid):
            raise Skip("a sanitizer's address space cannot be limited")
        sandbox = sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        worker = server.worker_pid(sandbox)
        resource.prlimit(worker, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        text = "m" * (6 << 20)
        server.call("write_file", sandbox_id=sandbox, path="big", content=text)
        poll("the worker has ended", lambda: not alive(worker))
        equal(server.run("len(open('big').read())", sandbox_id=sandbox)["result"], str(len(text)))
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")


@suite.case("no further processes: creating reports it, and a lost worker is replaced when processes are available")
def no_processes():
    with Group("pids", "pids.max") as group, Server() as server:
        server.legacy()
        sandbox = sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        group.take(server.process.pid)
        usual = len(mcp.processes_of(server.runtime_dir))
        pending = begun(server, sandbox)
        for spare in (0, 1, 2, 4, 8, 16):
            group.limit(group.current("pids.current") + spare)
            _, error = create(server)
            assert error is not None, f"{spare} processes were enough"
            equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
            group.limit("max")
        poll("what was tried has ended", lambda: len(mcp.processes_of(server.runtime_dir)) == usual)
        while group.current("pids.current") < int(group.text("pids.max").replace("max", "1000000")):
            group.limit(group.current("pids.current"))
        server.kill_worker(sandbox)
        with quiet(server):
            time.sleep(4)  # the test needs it to last for so long
        equal(server.request("ping"), {})
        equal(server.call("get_sandbox_status", sandbox_id=sandbox)["state"], "recovering")
        group.limit("max")
        equal(pending.structured()["stdout"], WANTED)
        works(server)
        poll("nothing is left of them", lambda: len(mcp.sandbox_dirs(server.runtime_dir)) == 1)


# ---- removed files ----


@suite.case("the runtime vanishes or breaks: what runs goes on and can be closed, creating says so, and it heals", when=ON_OCI)
def runtime_vanishes():
    place = mcp.temporary_directory()
    path = f"{place}/runc"
    os.symlink(shutil.which("runc"), path)
    with Server("--runtime", path) as server:
        server.legacy()
        kept = sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=kept)
        for broken in (None, "#!/bin/sh\necho exploded >&2\nexit 3\n"):
            closed = sandbox_of(server)
            os.unlink(path)
            if broken:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(broken)
                os.chmod(path, 0o755)
            made, error = create(server)
            equal((made, error["code"]), (None, "engine_unavailable"))
            contains(error["message"], "exploded" if broken else path)
            server.kill_worker(kept)
            equal(server.run("x", sandbox_id=kept)["result"], "'kept'")
            server.call("close_sandbox", sandbox_id=closed)
            nothing_left(server, closed)
            if broken:
                os.unlink(path)
            os.symlink(shutil.which("runc"), path)
            works(server)


@suite.case("the control groups of a sandbox are taken away: it goes on, and its end is clean", when=ON_OCI)
def cgroups_vanish():
    needs_root()
    with Server() as server:
        server.legacy()
        sandbox = sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        groups = sorted(mcp.cgroups_of(sandbox), key=len, reverse=True)
        assert groups, "no control groups?"
        for path in groups:
            top = "/".join(path.split("/")[:5])
            with open(f"{path}/cgroup.procs", encoding="utf-8") as file:
                members = file.read().split()
            for pid in members:
                with contextlib.suppress(OSError), open(f"{top}/cgroup.procs", "w", encoding="utf-8") as file:
                    file.write(pid)
            with contextlib.suppress(OSError):
                os.rmdir(path)
        equal(mcp.cgroups_of(sandbox), [])
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
        server.kill_worker(sandbox)
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
        agents = mcp.agents_of(sandbox)
        server.call("close_sandbox", sandbox_id=sandbox)
        poll("its processes are gone", lambda: not any(alive(p) for p in agents))
        works(server)


@suite.case("the runtime directory is removed under the server: what runs goes on, and new sandboxes can be made")
def directory_vanishes():
    with Server() as server:
        server.legacy()
        sandbox, dead = sandbox_of(server), sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=sandbox)
        agents = mcp.agents_of(sandbox) + mcp.agents_of(dead)
        shutil.rmtree(server.runtime_dir)
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
        works(server)
        server.kill_worker(dead)  # so that its agent can no longer be reached
        error = clear(server.call_failing("execute_code", sandbox_id=dead, code="1")["error"])
        contains(["sandbox_not_found", "engine_unavailable"], error["code"])
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
        server.call("close_sandbox", sandbox_id=sandbox)
        poll("their processes are gone", lambda: not any(alive(p) for p in agents))
        nothing_left(server, sandbox)
        nothing_left(server, dead)
        works(server)


# ---- the server itself ----


@suite.case("the server stopped for a while, as by a suspend: no worker is blamed, deadlines hold, calls end")
def server_stopped():
    with Server() as server:
        server.legacy()
        streaming, late, idle = sandbox_of(server), sandbox_of(server), sandbox_of(server)
        server.run("x = 'kept'", sandbox_id=idle)
        pending = begun(server, streaming)
        code = "import time\nopen('begun', 'w').close()\ntry:\n    while True: time.sleep(0)\nexcept KeyboardInterrupt:\n    print(time.clock_gettime(time.CLOCK_MONOTONIC))\n    raise"
        overdue = server.start_call("execute_code", sandbox_id=late, code=code, timeout_seconds=3)
        poll("it runs", lambda: server.read_text("begun", late) is not None)
        creating = server.start_call("create_sandbox")
        mcp.send_signal(server.process.pid, signal.SIGSTOP)
        time.sleep(10)  # the test needs it to last for so long
        goes_on = time.clock_gettime(time.CLOCK_MONOTONIC)
        os.kill(server.process.pid, signal.SIGCONT)
        equal(pending.structured()["stdout"], WANTED)
        failed = overdue.failed()
        equal(failed["status"], "timeout")
        assert float(failed["stdout"]) < goes_on, "the deadline waited for the server"
        made = creating.structured()["sandbox_id"]  # its worker had not said HELLO, and may have been replaced
        equal(server.run("1 + 1", sandbox_id=made)["result"], "2")
        equal(server.run("x", sandbox_id=idle)["result"], "'kept'")
        for sandbox in (streaming, late, idle):
            status = server.call("get_sandbox_status", sandbox_id=sandbox)
            equal((status["state"], status["worker"]["restarts"]), ("ready", 0))


suite.run()
