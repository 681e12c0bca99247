"""Sandboxes with and without network, on a network that the test makes: what they can reach, and that the
helper which connects a sandbox lives exactly as long as the sandbox."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from common import ON_OCI, Server, Skip, Suite, clear, contains, doctor, equal, needs_runtime, poll, skip_all
import mcp
import net

if not ON_OCI:
    skip_all("about the oci backend: engines have networks of their own")
net.needs_network()
HELPER = shutil.which("slirp4netns")
if HELPER is None:
    skip_all("slirp4netns is not installed")
network = net.enter()
needs_runtime()
suite = Suite()

SERVICE = net.Greeter(network.listen(8080), "outside")
SERVICE6 = net.Greeter(network.listen(8086, "::", socket.AF_INET6), "outside by IPv6")
LOOPBACK = net.Greeter(socket.create_server(("127.0.0.1", 0)), "loopback")
LOOPBACK6 = net.Greeter(socket.create_server(("::1", 0), family=socket.AF_INET6), "loopback by IPv6")

ASK = """
import socket
def ask(host, port, seconds=5):
    try:
        with socket.create_connection((host, port), seconds) as connection:
            return connection.recv(100).decode()
    except OSError as problem:
        return type(problem).__name__
"""
GATEWAYS = ["127.0.0.1", "10.0.2.2", "10.0.2.3", "10.0.2.100", "localhost"]


def started(*options, **how):
    server = Server(*options, **how)
    server.legacy()
    return server


def connected(server, network="full", **arguments):
    """A sandbox in which ask() is defined."""
    sandbox = server.call("create_sandbox", network=network, **arguments)
    equal(sandbox["network"], network)
    server.run(ASK, sandbox_id=sandbox["sandbox_id"])
    return sandbox["sandbox_id"]


def ask(server, sandbox, host, port):
    return server.run(f"ask({host!r}, {port})", sandbox_id=sandbox)["result"].strip("'")


def helpers(server):
    """Pids of the helpers in the records of this server's sandboxes."""
    found = []
    for directory in mcp.sandbox_dirs(server.runtime_dir):
        try:
            with open(os.path.join(directory, "oci.net"), encoding="utf-8") as file:
                found.append(int(re.search(r"^pid (\d+)$", file.read(), re.M).group(1)))
        except FileNotFoundError:
            continue
    return found


def gone(pid):
    """Whether it has ended; its new parent may take a while to reap it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def packages_left(server):
    """Package directories, in both possible places."""
    found = []
    for directory, names, _ in os.walk(server.runtime_dir):
        found += [os.path.join(directory, n) for n in names if n.startswith("packages-")]
    apart = f"/var/tmp/cloister-{os.geteuid()}"
    for name in os.listdir(apart) if os.path.isdir(apart) else []:
        of = os.path.join(apart, name, "of")
        if os.path.islink(of) and os.readlink(of).startswith(server.runtime_dir):
            found.append(os.path.join(apart, name))
    return found


@suite.case("network full: the network is reached, by address and by name")
def reached():
    with started("--allow-network") as server:
        sandbox = connected(server)
        equal(ask(server, sandbox, net.OUTSIDE, 8080), "outside")
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        contains(server.start_call("get_sandbox_status", sandbox_id=sandbox).result()["content"][0]["text"], "full network")
        equal(ask(server, sandbox, "nowhere.invalid", 8080), "gaierror")
        # addresses come from router advertisements, which take a moment
        poll("IPv6", lambda: ask(server, sandbox, net.OUTSIDE6, 8086) == "outside by IPv6")
        equal(ask(server, sandbox, "fd00::2", LOOPBACK6.port) in ("", "ConnectionRefusedError", "OSError", "TimeoutError"), True)
        equal(LOOPBACK6.peers, [])


@suite.case("network full: nothing that listens on this host's loopback is reached, by no address")
def loopback():
    with started("--allow-network") as server:
        sandbox = connected(server)
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        for host in GATEWAYS + ["::1", "fd00::2", "fd00::3"]:
            assert "loopback" not in ask(server, sandbox, host, LOOPBACK.port), host
            assert "loopback" not in ask(server, sandbox, host, LOOPBACK6.port), host
        equal((LOOPBACK.peers, LOOPBACK6.peers), ([], []))


@suite.case("without network, which is the default: nothing is reached, and no name is looked up")
def unreached():
    with started("--allow-network") as server:
        sandbox = connected(server, "none")
        equal(server.call("create_sandbox")["network"], "none")
        network.names.asked.clear()
        before = len(SERVICE.peers)
        for host in [net.OUTSIDE, net.NAME, net.OUTSIDE6, net.HOST] + GATEWAYS:
            for port in (8080, 8086, LOOPBACK.port):
                assert ask(server, sandbox, host, port) in ("OSError", "gaierror", "ConnectionRefusedError"), host
        equal((len(SERVICE.peers), LOOPBACK.peers, network.names.asked), (before, [], []))
        equal(helpers(server), [])


@suite.case("a name server on this host's loopback, as service managers have it, is asked all the same")
def local_resolver():
    with resolver_on_loopback() as names, started("--allow-network") as server:
        sandbox = connected(server)
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        contains(names.asked, net.NAME)


@suite.case("the name server is asked by TCP for answers that are too long for a datagram")
def local_resolver_by_tcp():
    with resolver_on_loopback(socket.create_server(("127.0.0.53", 53))) as names, started("--allow-network") as server:
        sandbox = connected(server)
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        contains(names.asked_by_tcp, net.NAME)
        equal(ask(server, sandbox, "127.0.0.53", 53), "ConnectionRefusedError", "the sandbox's own loopback, where nobody listens")


@contextlib.contextmanager
def resolver_on_loopback(listening=None):
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.53", 53))
    names = net.NameServer(bound, listening)
    network.nameserver("127.0.0.53")
    try:
        yield names
    finally:
        network.nameserver(net.OUTSIDE)
        names.close()


@suite.case("an image whose resolv.conf leads into /run, as service managers make it: code looks names up all the same")
def linked_resolv_conf():
    image = mcp.temporary_directory()
    os.mkdir(f"{image}/usr")
    os.mkdir(f"{image}/etc")
    os.symlink("../run/systemd/resolve/stub-resolv.conf", f"{image}/etc/resolv.conf")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{image}/{name}")
    subprocess.run(["mount", "--bind", "/usr", f"{image}/usr"], check=True)
    try:
        with started("--allow-network", "--image", image) as server:
            sandbox = connected(server)
            equal(ask(server, sandbox, net.NAME, 8080), "outside")
    finally:
        subprocess.run(["umount", f"{image}/usr"], check=True)


@suite.case("a name server that this host reaches only by IPv6 is used")
def resolver_by_ipv6():
    bound = network.datagrams(53, socket.AF_INET6)
    names = net.NameServer(bound)
    network.nameserver(net.OUTSIDE6)
    try:
        with started("--allow-network") as server:
            sandbox = connected(server)
            # its own address comes from router advertisements, which take a moment
            poll("the name is found", lambda: ask(server, sandbox, net.NAME, 8080) == "outside")
            contains(names.asked, net.NAME)
    finally:
        network.nameserver(net.OUTSIDE)
        bound.close()


@suite.case("a server that does not allow network says so")
def refused():
    with started() as server:
        error = clear(server.call_failing("create_sandbox", network="full")["error"])
        equal(error["code"], "network_disabled")
        equal(server.call("create_sandbox", network="none")["network"], "none")


MUCH = "".join(f"{i} \"ä\"\n" for i in range(60000))
LEFT_OVER = re.compile(r"\n\.\.\. \[\d+ more characters have come, the next send_command begins with them\]$")


@suite.case("telnet of the profile code-sandbox reaches what sandboxes reach, and not this host's loopback")
def telnet():
    def converse(connection):
        connection.sendall(b"\xff\xfb\x01who are you?\r\n")  # begins with a negotiation, as telnet does
        with connection.makefile("rb") as lines:
            for line in lines:
                connection.sendall(MUCH.encode() if line == b"much\r\n" else b"you are " + line)

    def serve():
        while True:
            threading.Thread(target=converse, args=(listening.accept()[0],), daemon=True).start()

    listening = network.listen(2323)
    threading.Thread(target=serve, daemon=True).start()
    before = len(LOOPBACK.peers)
    with Server("--compat", "code-sandbox", "--allow-network") as server:
        server.legacy("2024-11-05")

        def said(tool, **arguments):
            return json.loads(server.start_call(tool, **arguments).result()["content"][0]["text"])

        made = said("connect", host=net.NAME, port=2323)
        session = made["session_id"]
        equal(made, {"session_id": session, "connected": True, "host": net.NAME, "port": 2323, "initial_response": "who are you?\r\n"})
        equal(said("send_command", session_id=session, command="$(id); ä"), {"success": True, "response": "you are $(id); ä\r\n"})
        got, more = said("send_command", session_id=session, command="much", timeout=30)["response"], 0
        while LEFT_OVER.search(got) or not got.endswith("you are more\r\n"):
            assert more < 50, got[-300:]
            more += 1
            response = said("send_command", session_id=session, command="more", timeout=30)["response"]
            assert len(json.dumps(response)) < 256 << 10, len(json.dumps(response))
            got = LEFT_OVER.sub("", got) + response
        assert got.startswith(MUCH) and set(got[len(MUCH) :].split("\r\n")) == {"you are more", ""}, (len(got), got[len(MUCH) :][:300])
        listed = [{"session_id": session, "host": net.NAME, "port": 2323}]
        equal(said("list_connections"), {"count": 1, "connections": listed})
        for host in GATEWAYS:
            refused = said("connect", host=host, port=LOOPBACK.port, timeout=2)
            assert refused["error"] and refused["connected"] is False, host
        equal(len(LOOPBACK.peers), before)
        equal(said("disconnect", session_id=session), {"success": True, "message": f"Connection {session} closed successfully"})
        equal(said("list_connections")["count"], 0)
        for tool, more in (("send_command", {"command": "x"}), ("disconnect", {})):
            equal(said(tool, session_id=session, **more), {"success": False, "error": f"No active connection with session ID {session}"})


@suite.case("a killed worker costs nothing: connections of the sandbox stay open")
def worker_killed():
    listening = network.listen()
    port = listening.getsockname()[1]
    with started("--allow-network") as server:
        sandbox = connected(server)
        server.run(f"kept = socket.create_connection(({net.OUTSIDE!r}, {port}), 5)", sandbox_id=sandbox)
        connection, _ = listening.accept()
        before = helpers(server)
        server.kill_worker(sandbox)
        connection.sendall(b"still here")
        equal(server.run("kept.recv(100).decode()", sandbox_id=sandbox)["result"], "'still here'")
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        equal((helpers(server), [gone(pid) for pid in before]), (before, [False]))
        connection.close()
    listening.close()


def groups_of(pid):
    """Control groups by controller; with version 2 all have one."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        rows = [line.strip().split(":", 2) for line in file]
    return {name: path for _, names, path in rows for name in names.split(",")}


def usage_of(server, sandbox):
    return server.call("get_sandbox_status", sandbox_id=sandbox)["usage"]


def used_by(pid):
    """Memory in bytes, and time of processors in milliseconds."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid() makes it
    return int(mcp.status_of(pid)["VmRSS"].split()[0]) << 10, time.clock_gettime(clock) * 1000


FLOOD = """
import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
kept = [socket.socket() for _ in range(400)]
for s in kept:
    s.setblocking(False)
    s.connect_ex(({host!r}, {port}))
sent, begun = 0, time.monotonic()
while sent < 64 << 20 and time.monotonic() - begun < 30:
    for s in kept:
        try:
            sent += s.send(bytes(65536))
        except OSError:
            pass
sent
"""


@suite.case("what code makes the helper buffer and compute counts for the sandbox, not for the host")
def helper_counts():
    listening = network.listen()
    with started("--allow-network") as server:
        sandbox = connected(server, memory_mb=128)
        server_side = []
        threading.Thread(target=lambda: accept_all(listening, server_side), daemon=True).start()
        (pid,), (agent,) = helpers(server), mcp.agents_of(sandbox)
        groups = groups_of(agent)
        wanted = ("memory", "cpu", "cpuacct", "pids") if "memory" in groups else ("",)
        limited = {name: groups[name] for name in wanted if sandbox in groups.get(name, "")}
        if not limited:
            raise Skip("sandboxes have no control groups here")
        flood = FLOOD.format(host=net.OUTSIDE, port=listening.getsockname()[1])
        before, helper_before = usage_of(server, sandbox), used_by(pid)
        done = server.run(flood, sandbox_id=sandbox, timeout_seconds=60)
        (grown, helper_ms), after = (now - then for now, then in zip(used_by(pid), helper_before)), usage_of(server, sandbox)
        both = f"{before}, then {after}"
        assert grown > 1 << 20 and helper_ms > 0, f"the flood has not reached the helper: {grown} bytes, {helper_ms} ms, sent {done['result']}"
        assert after["memory_bytes"] - before["memory_bytes"] >= grown - (1 << 20), f"{both}, without the helper's {grown} bytes"
        assert after["cpu_ms"] - before["cpu_ms"] >= done["cpu_ms"] + helper_ms - 20, f"{both}, without the helper's {helper_ms} ms beside {done['cpu_ms']} ms of code"
        found = groups_of(pid)
        equal({name: found[name] for name in limited}, limited)
        for connection in server_side:
            connection.close()


def accept_all(listening, kept):
    """Connections from which nothing is read."""
    with contextlib.suppress(OSError):
        while True:
            kept.append(listening.accept()[0])


@suite.case("the helper is nobody on this host: the root of the sandbox, which is nobody here")
def helper_is_nobody():
    with started("--allow-network") as server:
        sandbox = connected(server)
        (pid,), (agent,) = helpers(server), mcp.agents_of(sandbox)
        root = mcp.status_of(agent)["Uid"].split()[0]
        if root == "0":
            raise Skip("sandboxes have no user namespace here")
        for name in ("Uid", "Gid"):
            equal(set(mcp.status_of(pid)[name].split()), {root})
        equal(os.readlink(f"/proc/{pid}/ns/user"), os.readlink(f"/proc/{agent}/ns/user"))
        assert os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user")
        equal(ask(server, sandbox, net.NAME, 8080), "outside")


@suite.case("a device that only root may open: sandboxes have network all the same")
def device_of_root():
    os.chmod("/dev/net/tun", 0o600)
    try:
        with started("--allow-network") as server:
            sandbox = connected(server)
            equal(ask(server, sandbox, net.NAME, 8080), "outside")
            equal(mcp.status_of(helpers(server)[0])["Uid"].split()[0], "0")
    finally:
        os.chmod("/dev/net/tun", 0o666)


@suite.case("user code sees nothing of the helper")
def out_of_reach():
    look = "import os; print(sorted(os.listdir('/proc/self/fd')), [p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())])"
    with started("--allow-network") as server:
        seen = [server.stdout(look, sandbox_id=connected(server, kind)) for kind in ("none", "full")]
        equal(seen[1], seen[0])


@suite.case("twenty sandboxes come and go: no helper, no directory is left")
def many():
    with started("--allow-network") as server:
        pids, problems = [], []

        def come_and_go():
            try:
                for _ in range(5):
                    sandbox = connected(server)
                    equal(ask(server, sandbox, net.OUTSIDE, 8080), "outside")
                    pids.extend(helpers(server))
                    server.call("close_sandbox", sandbox_id=sandbox)
            except Exception as problem:  # pylint: disable=broad-exception-caught
                problems.append(repr(problem))

        threads = [threading.Thread(target=come_and_go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(problems, [])
        assert len(set(pids)) >= 20, pids
        poll("all helpers are gone", lambda: all(gone(pid) for pid in pids))
        poll("all package directories are gone", lambda: not packages_left(server))


@suite.case("server and worker killed: the next server sweeps helper and packages, even if the helper hangs")
def swept():
    server = started("--allow-network", "--grace-seconds", "3600")
    sandbox = connected(server)
    (pid,) = helpers(server)
    assert packages_left(server)
    worker = server.worker_pid(sandbox)
    mcp.send_signal(pid, signal.SIGSTOP)
    server.kill_with_sweeper()
    os.kill(worker, signal.SIGKILL)
    with started(runtime_dir=server.runtime_dir) as second:
        second.call("create_sandbox")
        poll("the helper is ended", lambda: gone(pid))
        poll("its directory is removed", lambda: not any(sandbox in p for p in mcp.sandbox_dirs(server.runtime_dir)))
        equal([p for p in packages_left(server) if sandbox in p], [])
        poll("so is the worker that swept", lambda: not mcp.traces_of(sandbox), found=lambda: mcp.traces_of(sandbox))


@suite.case("server and worker killed and nobody comes: the sandbox ends after its grace, and the helper with it")
def orphaned():
    server = started("--allow-network", "--grace-seconds", "1")
    sandbox = connected(server)
    (pid,) = helpers(server)
    worker = server.worker_pid(sandbox)
    server.kill_with_sweeper()
    os.kill(worker, signal.SIGKILL)
    poll("the helper is gone", lambda: gone(pid))


@suite.case("no helper on this host: creation says what to install, doctor too, and other sandboxes work")
def no_helper():
    network.hide(HELPER)
    try:
        with started("--allow-network") as server:
            error = clear(server.call_failing("create_sandbox", network="full")["error"])
            equal(error["code"], "network_disabled")
            contains(error["hint"], "slirp4netns")
            equal(server.run("1 + 1", sandbox_id=server.call("create_sandbox")["sandbox_id"])["result"], "2")
        contains(doctor().stdout, "slirp4netns is not installed")
    finally:
        network.show(HELPER)
    contains(doctor().stdout, "network            can be had")


@suite.case("a runtime directory in memory: packages lie elsewhere, and go with their sandbox, or with its next server")
def in_memory():
    place = mcp.temporary_directory()
    mcp.subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,size=16m,mode=711", "tmpfs", place], check=True)
    try:
        server = started("--grace-seconds", "3600", runtime_dir=place)
        kept, closed = (connected(server, "none") for _ in range(2))
        first = packages_left(server)
        equal((len(first), [p for p in first if p.startswith(place)]), (2, []))
        server.call("close_sandbox", sandbox_id=closed)
        equal([p for p in packages_left(server) if p.endswith(closed)], [])
        equal(server.stdout("import os; print(sorted(os.listdir('/packages')))", sandbox_id=kept), "['node', 'python']\n")
        worker = server.worker_pid(kept)
        server.kill_with_sweeper()
        os.kill(worker, signal.SIGKILL)
        equal(len(packages_left(server)), 1)
        with started(runtime_dir=place) as second:
            second.call("create_sandbox")
            poll("they are removed", lambda: not [p for p in packages_left(server) if p.endswith(kept)])
        equal(packages_left(server), [])
    finally:
        mcp.subprocess.run(["umount", "-l", place], check=False)


def ordinary(ids):
    prefix = network.make_user(ids)
    tried = mcp.subprocess.run([*prefix, os.environ["CLOISTER"], "--version"], capture_output=True, check=False)
    if tried.returncode != 0:
        raise Skip("the built program cannot be run by another user")
    if ids and shutil.which("newuidmap") is None:
        raise Skip("newuidmap is not installed")
    place = mcp.temporary_directory()
    os.chown(place, net.USER, net.USER)
    with started("--allow-network", runtime_dir=place, prefix=prefix) as server:
        sandbox = connected(server)
        unapplied = server.call("get_sandbox_status", sandbox_id=sandbox)["limits"]["unapplied"]
        equal(any(text.startswith("uid:") for text in unapplied), not ids)
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        for host in GATEWAYS:
            assert "loopback" not in ask(server, sandbox, host, LOOPBACK.port), host
        plain = connected(server, "none")
        equal(ask(server, plain, net.OUTSIDE, 8080), "OSError")
        (pid,) = helpers(server)
        equal(mcp.status_of(pid)["Uid"].split()[0], str(net.USER))
        server.kill_worker(sandbox)
        equal(ask(server, sandbox, net.NAME, 8080), "outside")
        server.call("close_sandbox", sandbox_id=sandbox)
        poll("the helper is gone", lambda: gone(pid))
    equal(LOOPBACK.peers, [])
    equal(packages_left(server), [])


@suite.case("an ordinary user's sandboxes have network as well")
def ordinary_user():
    ordinary(True)


@suite.case("sandboxes of an ordinary user without subordinate ids have network")
def user_without_ids():
    ordinary(False)


suite.run()
