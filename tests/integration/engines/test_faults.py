"""Failures of container engines: they are absent or send garbage, and people remove containers by hand. Each
leads to a clear error within a limit of time. Engines that end or hang are in test_outages.py.

Run by with_engine.py only.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import Server, Skip, Suite, alive, clear, contains, doctor, equal, opened, poll, works
from common_docker import DOCKER, ENDLESS, STREAM, WANTED, begun, container_of, lost, running
import engine as engines
import mcp
from standin import Standin, WarningProxy

suite = Suite()


# ---- the requests to the engine ----


@suite.case("hardening, read back from the engine", beside=True)
def hardening():
    server, sandbox = opened("--memory-mb", "128", "--cpus", "0.5", "--pids", "50")
    with server:
        made = container_of(sandbox)
        host, config = made["HostConfig"], made["Config"]
        equal(host["NetworkMode"], "none")
        equal(host["ReadonlyRootfs"], True)
        equal(host["Privileged"], False)
        unapplied = [u.split(":")[0] for u in server.call("get_sandbox_status", sandbox_id=sandbox)["limits"]["unapplied"]]
        if "memory" not in unapplied:
            equal(host["Memory"], 128 << 20)
        if not {"memory", "swap"} & set(unapplied):
            equal(host["MemorySwap"], host["Memory"], "no swap on top")
        if "cpus" not in unapplied:
            equal(host["NanoCpus"] or host["CpuQuota"] * 1_000_000_000 // (host["CpuPeriod"] or 100_000), 500_000_000)
        if "pids" not in unapplied:
            assert 50 <= host["PidsLimit"] <= 50 + 64, host["PidsLimit"]
        assert not any("unconfined" in o for o in host["SecurityOpt"] or []), host["SecurityOpt"]
        binds = host.get("Binds") or []  # Podman lists volumes here
        ours = ("cloister-agent-", f"cloister-packages-{sandbox}-")
        assert all(b.startswith(ours) and b.split(":")[2].split(",")[0] == "ro" for b in binds), binds
        assert not host.get("Devices"), host.get("Devices")
        equal(sorted({m["Type"] for m in made["Mounts"]} - {"tmpfs"}), ["volume"])
        volumes = {m["Destination"]: m["RW"] for m in made["Mounts"] if m["Type"] == "volume"}
        if DOCKER:  # no directory, but the terminals of this container, of which there are only so many
            equal((volumes.pop("/dev/pts"), "devpts /dev/pts devpts " in (mounts := server.stdout("cat /proc/mounts", language="bash", sandbox_id=sandbox)), ",max=" in mounts), (True, True, True))
        equal(volumes, dict.fromkeys(["/.cloister", "/packages/python", "/packages/node"], False), "volumes are read-only")
        contains(json.dumps(config["Labels"]), sandbox)
        contains(json.dumps(config["Labels"]), server.runtime_dir)
        if DOCKER:
            equal(host["CapDrop"], ["ALL"])
            contains([o.removesuffix("=true") for o in host["SecurityOpt"]], "no-new-privileges")
            assert {c.removeprefix("CAP_") for c in host["CapAdd"] or []} <= {"SETUID", "SETGID", "KILL", "SETPCAP"}, host["CapAdd"]
            equal(host["LogConfig"]["Type"], "none")
            equal(host["IpcMode"], "private")
            assert host["PidMode"] == "" and host["UTSMode"] == "", (host["PidMode"], host["UTSMode"])
            assert any(o.startswith("seccomp=") for o in host["SecurityOpt"]) or "name=seccomp" in str(running.ask("GET", "/info")["SecurityOptions"])
        bounding = mcp.status_of(made["State"]["Pid"])
        wanted = sum(1 << bit for bit in (5, 6, 7, 8))  # KILL, SETGID, SETUID, SETPCAP
        equal(int(bounding["CapBnd"], 16) & ~wanted, 0, "capabilities of the agent")
        equal((bounding["NoNewPrivs"], bounding["Seccomp"]), ("1", "2"))


@suite.case("a limit that the engine drops with a warning is named, and --strict refuses to go without it", beside=True)
def dropped_limits():
    for warning, name in (
        ("Your kernel does not support pids limit capabilities or the cgroup is not mounted. PIDs limit discarded.", "pids"),
        ("Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory limited without swap.", "swap"),
    ):
        with WarningProxy(running.path, mcp.temporary_directory(), warning) as proxy:
            environment = {"DOCKER_HOST": proxy.host}
            with Server(env=environment) as server:
                server.legacy()
                limits = server.call("create_sandbox")["limits"]
                contains([u.split(":")[0] for u in limits["unapplied"]], name)
            with Server("--strict", env=environment) as server:
                server.legacy()
                error = clear(server.call_failing("create_sandbox")["error"])
                contains(error["message"].lower(), name)
                poll("nothing of it is left", lambda s=server: not mcp.containers_of(s.runtime_dir))


@suite.case("an engine that stops answering is told as that, not as a host without resources", beside=True)
def engine_went_away():
    place = mcp.temporary_directory()
    path = f"{place}/engine.sock"
    with Server(env={"DOCKER_HOST": f"unix://{path}"}) as server:
        server.legacy()
        os.symlink(running.path, path)
        works(server)
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as gone:  # bound, but not listening: connection refused
            gone.bind(path)
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "engine_unavailable")
        assert "descriptors" not in error["hint"], error
        contains(error["hint"], "engine")
        os.unlink(path)
        os.symlink(running.path, path)
        works(server)


# ---- the container ----


@suite.case("a container removed by hand under a running call: a clear end, others live on", beside=True)
def removed_by_hand():
    server, sandbox = opened()
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        server.run("x = 1", sandbox_id=other)
        pending = begun(server, sandbox, ENDLESS)
        running.ask("DELETE", f"/containers/{container_of(sandbox)['Id']}", force="1", v="1")
        lost(server, sandbox, pending)
        equal(server.run("x", sandbox_id=other)["result"], "1")


@suite.case("a container killed by hand under a running call: a clear end, and it is removed", beside=True)
def killed_by_hand():
    server, sandbox = opened()
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS)
        running.ask("POST", f"/containers/{container_of(sandbox)['Id']}/kill")
        lost(server, sandbox, pending)
        poll("its container is removed", lambda: not mcp.containers_of(sandbox))
        equal(server.run("1 + 1", sandbox_id=other)["result"], "2")


@suite.case("a container paused by hand for a while: the call goes on afterwards", beside=True)
def paused_for_a_while():
    server, sandbox = opened()
    with server:
        pending = begun(server, sandbox, STREAM)
        container = container_of(sandbox)["Id"]
        running.pause(container)
        time.sleep(3)  # the test needs it to last for so long
        running.ask("POST", f"/containers/{container}/unpause")
        equal(pending.structured()["stdout"], WANTED)


@suite.case("a container paused by hand for good: its calls are answered, and it can be closed", beside=True)
def paused_for_good():
    server, sandbox = opened()
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS, timeout_seconds=3)
        running.pause(container_of(sandbox)["Id"])
        failed = pending.failed(60)  # though nobody unpauses it
        contains(["timeout", "crashed"], failed["status"])
        equal(server.run("1 + 1", sandbox_id=other)["result"], "2")
        server.start_call("close_sandbox", sandbox_id=sandbox).result()
        poll("its container is removed", lambda: not mcp.containers_of(sandbox))
        works(server)


@suite.case("an image is removed under running sandboxes: they go on, creating reports the missing image, and works again later", when=DOCKER, beside=True)  # Podman removes them with the image
def image_vanishes():
    reference = "localhost/cloister-test:vanishing"
    running.derive(engines.IMAGE, reference, "LABEL vanishing=yes")
    server, sandbox = opened("--image", reference, "--pull", "never")
    with server:
        server.run("x = 'kept'", sandbox_id=sandbox)
        running.ask("DELETE", f"/images/{reference}", force="1")
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "image_not_found")
        contains(error["message"] + error["hint"], reference)
        server.kill_worker(sandbox)
        equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
        running.derive(engines.IMAGE, reference, "LABEL vanishing=yes")
        works(server)
        server.call("close_sandbox", sandbox_id=sandbox)
    running.ask("DELETE", f"/images/{reference}", force="1")


@suite.case("an idle sandbox whose container was removed says so at the next call", beside=True)
def removed_while_idle():
    server, sandbox = opened()
    with server:
        running.ask("DELETE", f"/containers/{container_of(sandbox)['Id']}", force="1", v="1")
        error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
        equal(error["code"], "sandbox_not_found")
        works(server)


@suite.case("memory that no process holds, files in tmpfs, ends in a clear state as well", beside=True)
def whole_container_out_of_memory():
    server, sandbox = opened(memory_mb=64)
    with server:
        shared = server.call("get_sandbox_status", sandbox_id=sandbox)["limits"]["unapplied"]
        if any(u.startswith("memory") for u in shared):
            raise Skip(f"not enforced on this host: {shared}")
        # the limit on files leaves memory for programs, so a program uses that as well
        fill = "import mmap\nfor p in ('/workspace/a', '/tmp/a', '/dev/shm/a'):\n    with open(p, 'wb', 0) as f:\n        try:\n            while True: f.write(b'x' * 1048576)\n        except OSError: pass\nrest = mmap.mmap(-1, 1 << 30)\nwhile True: rest.write(b'x' * 1048576)"
        done = server.start_call("execute_code", sandbox_id=sandbox, code=fill, timeout_seconds=20).failed(40)
        if "status" in done:
            contains(["memory_exceeded", "crashed"], done["status"])  # crashed: the agent was killed, and with it the sandbox
        else:
            clear(done["error"])
        after = server.start_call("execute_code", sandbox_id=sandbox, code="1 + 1", timeout_seconds=20).result(40)
        text = json.dumps(after)
        assert "memory" in text or "sandbox_not_found" in text or after["structuredContent"].get("result") == "2", text
        works(server)


@suite.case("a fork bomb does not keep a new worker from opening its link", beside=True)
def fork_bomb_and_worker():
    server, sandbox = opened(pids=40)
    with server:
        bomb = "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(300)\n            os._exit(0)\n        n += 1\nexcept BlockingIOError: pass\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('held', n >= 5)"
        pending = begun(server, sandbox, bomb)
        for _ in range(2):
            first = server.worker_pid(sandbox)
            os.kill(first, signal.SIGKILL)
            poll("another worker", lambda f=first: server.worker_pid(sandbox) not in (f, 0))
            equal(server.read_text("begun", sandbox), "")
        server.call("write_file", sandbox_id=sandbox, path="go", content="")
        equal(pending.structured()["stdout"], "held True\n")


# ---- without an engine, or with something else in its place ----


def unavailable(env, options=(), silent=False):
    with Server(*options, env=env) as server:
        server.legacy()
        pending = server.start_call("create_sandbox")
        equal(server.request("ping"), {})
        assert not silent or not pending.answered(), "the ping was answered after the call that waits for the engine"
        error = clear(pending.failed()["error"])
        equal(error["code"], "engine_unavailable")
        equal(server.call("get_sandbox_status")["count"], 0)
        return error


@suite.case("an engine that accepts and never answers: engine_unavailable, and nobody else waits", beside=True)
def silent_engine():
    with Standin(mcp.temporary_directory(), b"", hold=True) as standin:
        error = unavailable({"DOCKER_HOST": standin.host}, silent=True)
        contains(error["message"], standin.path)


@suite.case("auto takes no engine that does not answer, and falls to oci", beside=True)
def auto_falls_to_oci():
    base = {"CLOISTER_BACKEND": "oci", "CLOISTER_IMAGE": ""}
    with Server(env=base) as server:
        server.legacy()
        result = server.start_call("create_sandbox").result()
        if result.get("isError"):
            raise Skip(f"oci does not work here: {result['structuredContent']['error']['message']}")
    with Standin(mcp.temporary_directory(), b"", hold=True) as standin:
        home = mcp.temporary_directory()
        os.makedirs(f"{home}/.docker/run")
        os.symlink(standin.path, f"{home}/.docker/run/docker.sock")
        for env in ({"DOCKER_HOST": standin.host}, {"DOCKER_HOST": "", "HOME": home}):
            with Server(env={**base, "CLOISTER_BACKEND": "auto", **env}) as server:
                server.legacy()
                made = server.call("create_sandbox")  # the engine does not answer before the end of the test
                equal(made["backend"], "oci", str(env))


@suite.case("auto takes an engine that answers", beside=True)
def auto_takes_engine():
    with Server(env={"CLOISTER_BACKEND": "auto"}) as server:
        server.legacy()
        equal(server.call("create_sandbox")["backend"], "docker")


@suite.case("an engine with malformed answers is reported as engine_unavailable", beside=True)
def nonsense():
    head = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nOstype: linux\r\n"
    for answer in (
        b"\x00\xff\xfegarbage" * 100,
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort",
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno",
        head + b"Content-Length: 10\r\n\r\n{\"Version\"",
        head + b"Content-Length: 2\r\n\r\n[]",
        head + b"\r\n" + b"x" * (8 << 20),
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nApi-Version: 0.1\r\nOstype: linux\r\nContent-Length: 2\r\n\r\nOK",
        b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nOstype: windows\r\nContent-Length: 2\r\n\r\nOK",
    ):
        with Standin(mcp.temporary_directory(), answer) as standin:
            unavailable({"DOCKER_HOST": standin.host})


@suite.case("no engine at the address: refused, absent or unreadable, each is named", beside=True)
def absent():
    directory = mcp.temporary_directory()
    for path, words in ((f"{directory}/absent.sock", "absent.sock"), (f"{directory}/file", "file")):
        if path.endswith("file"):
            with open(path, "w", encoding="utf-8"):
                pass
        contains(unavailable({"DOCKER_HOST": f"unix://{path}"})["message"], words)
    contains(unavailable({"DOCKER_HOST": "tcp://127.0.0.1:1"})["message"], "127.0.0.1:1")
    contains(unavailable({"DOCKER_HOST": ""}, options=("--engine", f"unix://{directory}/named.sock"))["message"], "named.sock")


@suite.case("ssh:// is refused, and the hint says what to do instead", beside=True)
def ssh_refused():
    error = unavailable({"DOCKER_HOST": "ssh://somebody@example.org"})
    contains(error["message"] + error["hint"], "ssh")
    done = doctor(DOCKER_HOST="ssh://somebody@example.org")
    assert done.returncode != 0, done.stdout
    contains(done.stdout, "ssh")


@suite.case("doctor shows each place that was tried, and what it answered", beside=True)
def doctor_places():
    home = mcp.temporary_directory()
    done = doctor(DOCKER_HOST=f"unix://{home}/nothing.sock")
    assert done.returncode != 0, done.stdout
    contains(done.stdout, f"{home}/nothing.sock")
    contains(done.stdout, "DOCKER_HOST")
    done = doctor(DOCKER_HOST=None, HOME=home, XDG_RUNTIME_DIR=home)
    contains(done.stdout, "docker.sock")
    done = doctor()
    equal(done.returncode, 0, done.stdout)
    contains(done.stdout, running.path)


@suite.case("the engine is found by a docker context as well, and the doctor names it", beside=True)
def context():
    home = mcp.temporary_directory()
    name = "tests"
    meta = f"{home}/contexts/meta/{hashlib.sha256(name.encode()).hexdigest()}"
    os.makedirs(meta)
    with open(f"{meta}/meta.json", "w", encoding="utf-8") as file:
        json.dump({"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": running.host, "SkipTLSVerify": False}}}, file)
    with open(f"{home}/config.json", "w", encoding="utf-8") as file:
        json.dump({"currentContext": name}, file)
    done = doctor(DOCKER_HOST=None, DOCKER_CONFIG=home)
    equal(done.returncode, 0, done.stdout)
    contains(done.stdout, name)
    with Server(env={"DOCKER_HOST": "", "DOCKER_CONFIG": home}) as server:
        server.legacy()
        works(server)
    with Server(env={"DOCKER_HOST": "", "DOCKER_CONFIG": home, "DOCKER_CONTEXT": "nosuch"}) as server:
        server.legacy()
        contains(clear(server.call_failing("create_sandbox")["error"])["message"], "nosuch")


# ---- a server whose records are gone ----


# A container that still runs is left to its agent, which ends it after the grace period. Any server may sweep an ended one, so none runs beside.
@suite.case("ended containers of a server whose directory is gone are swept by any other server")
def swept_without_records():
    if not os.path.exists("/etc/machine-id"):
        raise Skip("this host has no identity, so its containers cannot be told from those of another")

    server, sandbox = opened()
    worker = server.worker_pid(sandbox)
    mcp.send_signal(worker, signal.SIGSTOP)  # so that it cannot clean up
    server.kill_with_sweeper()
    os.kill(worker, signal.SIGKILL)
    poll("the worker is gone", lambda: not alive(worker))
    assert mcp.containers_of(sandbox), "the container went too early for this test"
    shutil.rmtree(server.runtime_dir)
    running.ask("POST", f"/containers/{container_of(sandbox)['Id']}/kill")
    poll("the container has ended", lambda: not container_of(sandbox)["State"]["Running"])
    with Server() as successor:
        successor.legacy()
        successor.call("create_sandbox")
        poll("the dead server's container is gone", lambda: not mcp.containers_of(sandbox))


suite.run()
