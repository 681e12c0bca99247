"""Packages for an ordinary user's sandboxes: with subordinate ids, where sandbox and installer have different
ones, and without; and with a runtime directory in memory, as logins make it."""

import os
import shutil
import signal

from common import ON_OCI, Server, Skip, Suite, contains, equal, needs_runtime, poll, skip_all
import mcp
import net as nets
import wheels

if not ON_OCI:
    skip_all("about the oci backend: on engines nobody but the engine has a uid")
nets.needs_network()
net = nets.enter()
needs_runtime()
suite = Suite()
index = wheels.Index(net.listen(8080))
files = {f"heap/m{i}/n/o.py": "pass" for i in range(200)}
index.add(wheels.wheel("colours", "1.2", requires=["shades"], scripts={"colours": "colours:main"}))
index.add(wheels.wheel("shades", "1.0"), wheels.wheel("heap", "1.0", {"heap/__init__.py": "", **files}))
index.add(wheels.npm("left", "1.0.0", {"index.js": "exports.side = 'left'"}))
APART = f"/var/tmp/cloister-{nets.USER}"


class Place:
    """A runtime directory of the user, in memory and noexec, as /run is."""

    def __init__(self, ids):
        self.prefix = net.make_user(ids)
        tried = mcp.subprocess.run([*self.prefix, os.environ["CLOISTER"], "--version"], capture_output=True, check=False)
        if tried.returncode != 0:
            raise Skip("the built program cannot be run by another user")
        if ids and shutil.which("newuidmap") is None:
            raise Skip("newuidmap is not installed")
        self.path = mcp.temporary_directory()
        options = f"noexec,nosuid,nodev,size=16m,mode=700,uid={nets.USER},gid={nets.USER}"
        mcp.subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.path], check=True)

    def server(self, *options):
        made = Server(
            *("--package-index", index.pip_url, "--npm-registry", index.npm_url, *options),
            runtime_dir=self.path,
            prefix=self.prefix,
            env={"HOME": "/nonexistent"},
        )
        made.legacy()
        return made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        mcp.subprocess.run(["umount", "-l", self.path], check=False)
        shutil.rmtree(APART, ignore_errors=True)


def left():
    return os.listdir(APART) if os.path.isdir(APART) else []


def helpers():
    """Of the user."""
    found = [pid for pid, line in mcp.processes() if "slirp4netns" in line]
    return [pid for pid in found if owner_of(pid) == nets.USER]


def owner_of(pid):
    try:
        return int(mcp.status_of(pid)["Uid"].split()[0])
    except FileNotFoundError:
        return None


def installs(ids):
    with Place(ids) as place:
        with place.server() as server:
            sandbox = server.call("create_sandbox")
            uid = server.run("import os; os.getuid()", sandbox_id=sandbox["sandbox_id"])["result"]
            equal(uid, "1000" if ids else "0")
            sandbox = sandbox["sandbox_id"]
            done = server.call("install_package", packages=["colours", "heap"], sandbox_id=sandbox)
            equal(done["status"], "installed", done["output"])
            done = server.call("install_package", package_name="left", manager="npm", sandbox_id=sandbox)
            equal(done["status"], "installed", done["output"])
            found = server.run("import colours, shades, heap.m7.n.o\nshades.VERSION", sandbox_id=sandbox)
            equal(found["result"], "'1.0'")
            equal(server.call("check_package_status", package_name="colours", sandbox_id=sandbox)["version"], "1.2")
            run = server.run("open('/packages/python/new.py', 'w')", sandbox_id=sandbox)
            contains(run["error"]["message"], "Read-only file system")
            contains(server.stdout("console.log(require('left').side)", language="javascript", sandbox_id=sandbox), "left")
            equal(len(left()), 1, "package directories on a disk")
            server.call("close_sandbox", sandbox_id=sandbox)
            poll("they are gone", lambda: not left())
        # killed while it has packages: the next server removes them
        server = place.server()
        sandbox = server.call("create_sandbox", packages=["colours"])["sandbox_id"]
        worker = server.worker_pid(sandbox)
        server.kill_with_sweeper()
        os.kill(worker, signal.SIGKILL)
        equal(len(left()), 1, "package directories of a sandbox whose server is killed")
        with place.server() as second:
            second.call("create_sandbox")
            poll("they are removed", lambda: not [p for p in left() if p.endswith(sandbox)])
        poll("and those of the last", lambda: not left())
        equal(helpers(), [], "helpers of a network that an installer does not have")


@suite.case("packages are installed, used and removed by a user with subordinate ids")
def with_ids():
    installs(True)


@suite.case("and by one without")
def without_ids():
    installs(False)


suite.run()
