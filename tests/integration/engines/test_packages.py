"""Network and packages on container engines: what an installer can reach and a sandbox cannot, what an
installer sees of this host, and the end of the volumes that contain packages.

Run by with_engine.py --languages --network only.
"""

import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import Server, Suite, alive, clear, contains, equal, opened, poll
from common_docker import running, swept
import engine as engines
import mcp
import net as nets
import wheels

net = nets.enter()
suite = Suite()
index = wheels.Index(net.listen(8080), f"http://{nets.NAME}:8080")
for version in ("1.2", "1.3"):
    index.add(wheels.wheel("colours", version, {"colours.py": f"RED = 'red {version}'\n"}))
greeter = nets.Greeter(net.listen(8081))
silent = net.listen(8082)  # accepts connections without an answer, so that clients wait
BRIDGE = engines.BRIDGE.split("/", maxsplit=1)[0]
SILENT_INDEX = f"http://{nets.NAME}:8082/simple"

PROBE = """
import os, socket
def reaches(host, port):
    try:
        with socket.create_connection((host, port), 3) as s:
            return s.recv(100).decode()
    except OSError:
        return 'nothing'
"""


def installed(server, sandbox, name, **arguments):
    done = server.call("install_package", sandbox_id=sandbox, package_name=name, **arguments)
    equal(done["status"], "installed", str(done))
    return done


def installer_of(sandbox):
    """The container that installs packages for the sandbox, None if there is none."""
    found = [c for c in running.containers() for m in c["Mounts"] if sandbox in m.get("Name", "") and m["RW"]]
    return found[0] if found else None


def installing(server, sandbox):
    """Starts an installation that never ends by itself."""
    pending = server.start_call("install_package", sandbox_id=sandbox, package_name="never")
    poll("the installer is there", lambda: installer_of(sandbox))
    return pending


def nothing_left_of(text):
    poll("containers and volumes are gone", lambda: not mcp.containers_of(text))


@suite.case("an installer reaches the index, which its sandbox does not, and the sandbox sees what it installed")
def installer_reaches_the_index():
    server, sandbox = opened("--package-index", index.pip_url)
    with server:
        server.run(PROBE, sandbox_id=sandbox)
        installed(server, sandbox, "colours==1.2")
        assert index.asked_for("colours"), "the installer has asked the index"
        equal(server.run("import colours; colours.RED", sandbox_id=sandbox)["result"], "'red 1.2'")

        equal(greeter.peers, [])
        for host in (nets.OUTSIDE, nets.HOST, nets.NAME, BRIDGE):
            equal(server.run(f"reaches({host!r}, 8081)", sandbox_id=sandbox)["result"], "'nothing'", host)
        equal(greeter.peers, [], "the sandbox reached something")
        equal(server.stdout("print(sorted(os.listdir('/sys/class/net')))", sandbox_id=sandbox), "['lo']\n")

        for code in ("open('/packages/python/x', 'w')", "os.mkdir('/packages/x')", "os.remove('/packages/python/colours.py')"):
            failed = server.call_failing("execute_code", sandbox_id=sandbox, code=code)
            contains(["OSError", "PermissionError"], failed["error"]["name"])
        assert "colours.py" in server.stdout("print(os.listdir('/packages/python'))", sandbox_id=sandbox)
        server.call("close_sandbox", sandbox_id=sandbox)
        nothing_left_of(sandbox)


@suite.case("what one installer has written the next can replace, though each is another container")
def replaced():
    server, sandbox = opened("--package-index", index.pip_url)
    with server:
        installed(server, sandbox, "colours==1.2")
        installed(server, sandbox, "colours==1.3")
        equal(server.run("import colours; colours.RED", sandbox_id=sandbox)["result"], "'red 1.3'")


@suite.case("a sandbox with network reaches what is outside, by name, too, but no loopback of the host")
def network_full():
    server, sandbox = opened("--allow-network", network="full")
    with server, socket.create_server(("127.0.0.1", 0)) as own:
        server.run(PROBE, sandbox_id=sandbox)
        for host in (nets.OUTSIDE, nets.NAME):
            equal(server.run(f"reaches({host!r}, 8081)", sandbox_id=sandbox)["result"], "'hello'", host)
        port = own.getsockname()[1]
        for host in ("127.0.0.1", "localhost", nets.HOST, BRIDGE):
            equal(server.run(f"reaches({host!r}, {port})", sandbox_id=sandbox)["result"], "'nothing'", host)
        made = next(c for c in running.containers(sandbox))
        assert not any((made["NetworkSettings"].get("Ports") or {}).values()), "a port is published"
        other = server.call("create_sandbox")["sandbox_id"]
        server.run(PROBE, sandbox_id=other)
        equal(server.run(f"reaches({nets.OUTSIDE!r}, 8081)", sandbox_id=other)["result"], "'nothing'")


@suite.case("wheels of a directory of this host, copied to wherever the engine is")
def package_dir():
    directory = mcp.temporary_directory()
    long = "x" * 90  # with version and tags longer than names in the oldest form of archives
    wheels.wheel("colours", "9.1", {"colours.py": "RED = 9\n"}).save(directory)
    os.mkdir(f"{directory}/more")
    wheels.wheel(long, "1.0", {"long.py": "X = 1\n"}).save(directory)
    with open(f"{directory}/more/large.bin", "wb") as file:
        file.write(os.urandom(3 << 20))
    os.symlink("/etc/shadow-of-nothing", f"{directory}/dangling")
    os.symlink(directory, f"{directory}/more/loop")
    os.mkfifo(f"{directory}/fifo")
    server, sandbox = opened("--package-dir", directory)
    with server:
        installed(server, sandbox, "colours")
        installed(server, sandbox, long)
        equal(server.run("import colours, long; colours.RED + long.X", sandbox_id=sandbox)["result"], "10")
    with open(f"{directory}/huge.whl", "wb") as file:
        file.truncate(9 << 30)  # a sparse file
    server, sandbox = opened("--package-dir", directory)
    with server:
        error = clear(server.call_failing("install_package", sandbox_id=sandbox, package_name="colours")["error"])
        contains(error["message"] + error["hint"], "package index")
        server.call("close_sandbox", sandbox_id=sandbox)
        nothing_left_of(sandbox)


@suite.case("a sandbox closed while something is installed into it: a clear end, and nothing is left")
def closed_while_installing():
    certificates = os.path.join(mcp.temporary_directory(), "ours.pem")
    with open(certificates, "w", encoding="ascii") as file:
        file.write("-----BEGIN CERTIFICATE-----\nnot looked into before TLS\n-----END CERTIFICATE-----\n")
    server, sandbox = opened("--package-index", SILENT_INDEX, "--package-ca", certificates)
    with server:
        pending = installing(server, sandbox)
        installer = installer_of(sandbox)
        poll("it runs", lambda: running.ask("GET", f"/containers/{installer['Id']}/json")["State"]["Running"])
        equal(running.ask("GET", f"/containers/{installer['Id']}/json")["HostConfig"]["NetworkMode"], "none", "the installer's network")
        (shown,) = [m["Destination"] for m in installer["Mounts"] if "package-ca" in m["Destination"]]
        status, archive = running.send("GET", f"/containers/{installer['Id']}/archive?path={shown}")
        equal((status, b"not looked into before TLS" in archive), (200, True), "the file that --package-ca names")
        server.call("close_sandbox", sandbox_id=sandbox)
        clear(pending.failed(60)["error"])
        nothing_left_of(sandbox)
        poll("the installer is gone", lambda: not mcp.containers_of(server.runtime_dir))


@suite.case("the installer's worker killed, and the sandbox's: the sandbox and its packages live on, and end as usual")
def workers_killed():
    server, sandbox = opened("--package-index", index.pip_url)
    with server:
        installed(server, sandbox, "colours==1.2")
        os.kill(server.worker_pid(sandbox), signal.SIGKILL)
        equal(server.run("import colours; colours.RED", sandbox_id=sandbox)["result"], "'red 1.2'")
        server.call("close_sandbox", sandbox_id=sandbox)
        nothing_left_of(sandbox)


@suite.case("a server killed while it installs: the next one removes containers and volumes")
def server_killed():
    directory = mcp.temporary_directory()
    server = Server("--package-index", SILENT_INDEX, runtime_dir=directory)
    server.legacy()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    installing(server, sandbox)
    workers = [pid for pid, line in mcp.processes() if directory in line and "cloister-worker" in line]
    server.kill_with_sweeper()
    for pid in workers:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    assert any("volume" in found for found in mcp.containers_of(sandbox)), mcp.containers_of(sandbox)
    with Server(runtime_dir=directory) as successor:
        successor.legacy()
        successor.call("create_sandbox")
        nothing_left_of(sandbox)
    nothing_left_of(directory)


@suite.case("packages of a sandbox that is not there any more: said so, and no volume appears in their place")
def target_gone():
    server, sandbox = opened("--package-index", index.pip_url)
    with server:
        worker = server.worker_pid(sandbox)
        mcp.send_signal(worker, signal.SIGSTOP)  # so that it cannot notice
        try:
            for container in running.containers(sandbox):
                running.ask("DELETE", f"/containers/{container['Id']}", force="1", v="1")
            for volume in running.volumes(sandbox):
                running.ask("DELETE", f"/volumes/{volume['Name']}")
            error = clear(server.call_failing("install_package", sandbox_id=sandbox, package_name="colours")["error"])
            equal(error["code"], "sandbox_not_found")
        finally:
            if alive(worker):
                os.kill(worker, signal.SIGCONT)
        nothing_left_of(sandbox)


@suite.case("volumes of servers that are provably gone are swept, others are not")
def swept_by_labels():
    server, sandbox = opened()
    with server:
        labels = running.volumes(sandbox)[0]["Labels"]
        gone, there = mcp.temporary_directory(), server.runtime_dir
        os.rmdir(gone)
        changes = {
            "reboot": {"io.cloister.boot": "00000000-0000-0000-0000-000000000000"},
            "nodir": {"io.cloister.dir": gone},
            "lives": {"io.cloister.dir": there},
            "other-host": {"io.cloister.host": "elsewhere 0123456789abcdef", "io.cloister.dir": gone},
        }
        equal(swept("cloister-packages-test", labels, changes, gone={"reboot", "nodir"}), {"lives", "other-host"})
        assert len(running.volumes(sandbox)) >= 2, "volumes in use were removed"


suite.run()
