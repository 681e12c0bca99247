"""Packages: installed by a sandbox that reaches their sources, and at once usable in one without network.

On a network of the test's own, with an index that offers packages made by hand. On container engines by
with_engine.py --network, only for cases that depend on engines and not on installers.
"""

import os
import signal
import socket
import time

from common import ON_OCI, Common, Server, Skip, Suite, clear, contains, ended_in_time, equal, needs_runtime, poll, works
from certificates import certificate
import mcp
import net as nets
import wheels

needs_runtime()
net = nets.enter()
suite = Suite()
index = wheels.Index(net.listen(8080), f"http://{nets.NAME}:8080")
index.add(wheels.wheel("colours", "1.2", requires=["shades>=1"], scripts={"colours": "colours:main"}))
index.add(wheels.wheel("shades", "1.0"))
index.add(wheels.wheel("paints", "1.0", {"paints/__init__.py": "VERSION = '1.0'\n", "paints/old.py": ""}))
index.add(wheels.wheel("paints", "2.0", {"paints/__init__.py": "VERSION = '2.0'\n"}))
index.add(wheels.wheel("heavy", "1.0", {"heavy/__init__.py": "", "heavy/data.bin": os.urandom(3 << 20)}))
for name in ("slow", "steady", "late", "early", "spare", "once"):
    index.add(wheels.wheel(name, "1.0"))
index.add(wheels.sdist("broken", "0.1", setup="raise SystemExit('no compiler here')"))
index.add(wheels.wheel("locked", "1.0", {"locked.py": "", ".lock/inside.py": ""}))
FILL = "with open('/packages/python/filling', 'wb') as f:\n    f.truncate(1 << 30)\nimport time; time.sleep(300)"
index.add(wheels.sdist("chatty", "0.1", setup="print('much to say\\n' * 20000)\nraise SystemExit('over')"))
index.add(wheels.sdist("filling", "1.0", setup=FILL))
index.add(wheels.npm("left", "1.0.0", {"index.js": "exports.side = require('@made/right').side"}, requires={"@made/right": "^1.0.0"}))
index.add(wheels.npm("@made/right", "1.1.0", {"index.js": "exports.side = 'both'"}))
DAEMON = "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nraise SystemExit('the build is over')"
index.add(wheels.sdist("lingering", "1.0", setup=DAEMON))
index.add(wheels.npm("stays", "1.0.0", scripts={"postinstall": "setsid sleep 1000 & exit 0"}))
index.add(wheels.npm("left", "2.0.0", {"index.js": "exports.side = 'new'"}))

SOURCES = ("--package-index", index.pip_url, "--npm-registry", index.npm_url)
common = Common(*SOURCES)  # for cases that change neither
building = Common(*SOURCES, "--build-packages")


def server_with(*options, **how):
    server = Server("--package-index", index.pip_url, *options, **how)
    server.legacy()
    return server


def status(server, sandbox, name, **more):
    return server.call("check_package_status", package_name=name, sandbox_id=sandbox, **more)


def versions(done):
    return {row["name"]: row["version"] for row in done["packages"]}


def installers(server):
    """Directories of installers: their ids begin in a way of their own."""
    return [d for d in mcp.sandbox_dirs(server.runtime_dir) if os.path.basename(d).startswith("0")]


def no_installer(server):
    poll("no installer is left", lambda: not installers(server))


def installer_worker(server):
    """Pid of its worker."""

    def find():
        for directory in installers(server):
            for pid, line in mcp.processes():
                if os.path.basename(directory) in line and "cloister-worker" in line:
                    return pid
        return None

    return poll("an installer has a worker", find)


# ---- the usual ----


@suite.case("a live interpreter sees a package at once, with what it depends on, and has no network itself")
def at_once():
    server, sandbox = common()
    equal(server.run("import colours", sandbox_id=sandbox)["error"]["name"], "ModuleNotFoundError")
    equal(status(server, sandbox, "colours")["status"], "not_installed")
    done = server.call("install_package", package_name="colours", sandbox_id=sandbox)
    equal((done["status"], versions(done)), ("installed", {"colours": "1.2"}))
    contains(done["output"], "Successfully installed")
    run = server.run("import colours, shades\n(colours.VERSION, shades.VERSION)", sandbox_id=sandbox)
    equal((run["result"], run["interpreter"]), ("('1.2', '1.0')", "kept"))
    probe = f"import socket\nsocket.create_connection(('{nets.OUTSIDE}', 8080), 3)"
    equal(server.run(probe, sandbox_id=sandbox)["error"]["name"], "OSError")
    equal(server.call("get_sandbox_status", sandbox_id=sandbox)["network"], "none")
    no_installer(server)
    equal(server.call("get_sandbox_status")["count"], 1, "sandboxes that a client sees")


@suite.case("programs that code starts see packages, too, and their commands")
def programs():
    server, sandbox = common()
    server.call("install_package", package_name="colours", sandbox_id=sandbox)
    out = server.stdout("python3 -c 'import colours; print(colours.VERSION)'; command -v colours", sandbox_id=sandbox, language="bash")
    equal(out, "1.2\n/packages/python/bin/colours\n")


@suite.case("user code cannot write where packages are")
def read_only():
    server, sandbox = common()
    run = server.run("open('/packages/python/mine.py', 'w')", sandbox_id=sandbox)
    assert run["error"]["name"] in ("OSError", "PermissionError"), run


@suite.case("a package has one status, however its name is written, and those of the image count")
def statuses():
    server, sandbox = common()
    server.call("install_package", package_name="colours==1.2", sandbox_id=sandbox)
    for name in ("colours", "Colours", "colours==1.2"):
        found = status(server, sandbox, name)
        equal((found["status"], found["version"]), ("installed", "1.2"), name)
    found = status(server, sandbox, "numpy")
    equal(found["status"], "installed")
    assert found["version"][0].isdigit(), found
    begun = len(index.requests)
    done = server.call("install_package", package_name="numpy", sandbox_id=sandbox)
    equal((done["status"], done["packages"][0]["version"]), ("installed", found["version"]))
    equal(len(index.requests), begun, "requests for what is there")


@suite.case("another version replaces the one that is there", when=ON_OCI)
def replaced():
    server, sandbox = common()
    equal(versions(server.call("install_package", package_name="paints<2", sandbox_id=sandbox)), {"paints": "1.0"})
    equal(server.run("import paints.old; paints.VERSION", sandbox_id=sandbox)["result"], "'1.0'")
    equal(versions(server.call("install_package", package_name="paints>=2", sandbox_id=sandbox)), {"paints": "2.0"})
    equal(status(server, sandbox, "paints")["version"], "2.0")
    equal(server.run("paints.VERSION", sandbox_id=sandbox)["result"], "'1.0'")
    code = "import importlib.metadata as m, os, paints\n"
    code += "print(paints.VERSION, m.version('paints'), os.listdir(os.path.dirname(paints.__file__)))"
    equal(server.stdout(code, sandbox_id=sandbox), "2.0 2.0 ['__init__.py', '__pycache__']\n")


@suite.case("npm packages are there for require at once")
def node():
    server, sandbox = common()
    live = {"code": "require('left').side", "language": "javascript", "sandbox_id": sandbox}
    contains(server.run(**live)["error"]["message"], "Cannot find module")
    done = server.call("install_package", package_name="left@^1", manager="npm", sandbox_id=sandbox)
    equal(versions(done), {"left": "1.0.0"})
    run = server.run(**live)
    equal((run["result"], run["interpreter"]), ("'both'", "kept"))
    show = """node -p 'require("left").side'"""
    equal(server.stdout(show, sandbox_id=sandbox, language="bash"), "both\n")
    equal(status(server, sandbox, "@made/right", manager="npm")["version"], "1.1.0")
    equal(versions(server.call("install_package", package_name="left@latest", manager="npm", sandbox_id=sandbox)), {"left": "2.0.0"})
    equal(server.stdout(show, sandbox_id=sandbox, language="bash"), "new\n")


@suite.case("packages at creation are there when the call answers")
def at_creation():
    server, _ = common()
    box = server.call("create_sandbox", packages=["paints==1.0", "shades"])
    equal(versions(box), {"paints": "1.0", "shades": "1.0"})
    equal(server.run("import paints, shades; paints.VERSION", sandbox_id=box["sandbox_id"])["result"], "'1.0'")
    server.call("close_sandbox", sandbox_id=box["sandbox_id"])
    done = server.call("create_run_close", code="import shades; shades.VERSION", packages=["shades"])
    equal((done["result"], done["sandbox_closed"]), ("'1.0'", True))


@suite.case("a sandbox whose packages cannot be installed is not made", when=ON_OCI)
def not_made():
    server, _ = common()
    before = server.call("get_sandbox_status")["count"]
    error = clear(server.call_failing("create_sandbox", packages=["shades", "nothing-like-it"])["error"])
    equal(error["code"], "package_failed")
    error = clear(server.call_failing("create_run_close", code="1", packages=["nothing-like-it"])["error"])
    equal(error["code"], "package_failed")
    equal(server.call("get_sandbox_status")["count"], before)


@suite.case("a directory of wheels is enough: real packages from it are installed, and draw", when=ON_OCI)
def directory_of_wheels():
    made = [
        wheels.of_distribution("numpy", "99.1", ["numpy"]),
        wheels.of_distribution("pandas", "99.2", ["pandas"]),
        wheels.of_distribution("matplotlib", "99.3", ["matplotlib", "mpl_toolkits"]),
    ]
    if None in made:
        raise Skip("the distribution's numpy, pandas and matplotlib are not here")
    place = mcp.temporary_directory()
    for package in made:
        package.save(place)
    begun = len(index.requests)
    with Server("--package-dir", place) as server:
        server.legacy()
        box = server.call("create_sandbox", memory_mb=1024)["sandbox_id"]
        wanted = [f"{package.name}=={package.version}" for package in made]
        done = server.call("install_package", packages=wanted, sandbox_id=box, seconds=180)
        while done["status"] == "installing":
            done = server.call("install_package", packages=wanted, sandbox_id=box, seconds=180)
        equal(versions(done), {package.name: package.version for package in made})
        code = """
import matplotlib, numpy, pandas, importlib.metadata as m
matplotlib.use("Agg")
import matplotlib.pyplot as plt
frame = pandas.DataFrame({"x": numpy.arange(5), "y": numpy.arange(5) ** 2})
plt.plot(frame.x, frame.y)
plt.savefig("plot.png")
print(frame.y.sum(), m.version("pandas"), all(p.__file__.startswith("/packages/python/") for p in (numpy, pandas, matplotlib)))
"""
        equal(server.stdout(code, sandbox_id=box, timeout_seconds=120), "30 99.2 True\n")
        contains(server.call("read_file", path="plot.png", sandbox_id=box, encoding="base64")["content"][:12], "iVBORw0KGgo")
    equal(len(index.requests), begun, "requests to an index")


@suite.case("packages come through a proxy where there is one", when=ON_OCI)
def through_proxy():
    far = ("--package-index", "http://far.example/simple/", "--npm-registry", "http://far.example/npm/")
    far += ("--package-hosts", f"{nets.NAME}:8080")  # where the index says that its files are
    with Server(*far, "--package-proxy", f"http://{nets.NAME}:8080") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(server.call("install_package", package_name="colours", sandbox_id=sandbox)["status"], "installed")
        equal(server.call("install_package", package_name="left", manager="npm", sandbox_id=sandbox)["status"], "installed")
    asked = [path for _, path in index.requests]
    for path in ("http://far.example/simple/colours/", "http://far.example/npm/left"):
        contains(asked, path)


@suite.case("with a directory of wheels and an index, packages come from both; the directory may be named as the shell sees it", when=ON_OCI)
def both_places():
    place = mcp.temporary_directory()
    wheels.wheel("homemade", "1.0").save(place)
    with server_with("--package-dir", os.path.relpath(place)) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        done = server.call("install_package", packages=["homemade", "shades"], sandbox_id=sandbox)
        equal(versions(done), {"homemade": "1.0", "shades": "1.0"})


@suite.case("an index whose certificate only --package-ca names is believed then, by pip and by npm, and not without", when=ON_OCI)
def own_authority():
    made = certificate(mcp.temporary_directory(), "index", f"DNS:{nets.NAME}")
    private = wheels.Index(net.listen(8443), f"https://{nets.NAME}:8443", made)
    private.add(wheels.wheel("secretive", "1.0"))
    private.add(wheels.npm("hidden", "1.0.0"))
    options = ("--package-index", private.pip_url, "--npm-registry", private.npm_url)
    with Server(*options, "--package-ca", made[0]) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(versions(server.call("install_package", package_name="secretive", sandbox_id=sandbox)), {"secretive": "1.0"})
        equal(server.run("import secretive; secretive.VERSION", sandbox_id=sandbox)["result"], "'1.0'")
        done = server.call("install_package", package_name="hidden", manager="npm", sandbox_id=sandbox)
        equal(versions(done), {"hidden": "1.0.0"})
    files = len(private.asked_for("/files/"))
    with Server(*options) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for name, manager in (("secretive", "pip"), ("hidden", "npm")):
            failed = fails(server, sandbox, "certificate", package_name=name, manager=manager)
            contains(failed["error"]["hint"], "--package-ca")
    equal(len(private.asked_for("/files/")), files, "files taken from a stranger")
    with Server(*options, "--package-ca", "/no/such/file") as server:
        server.legacy()
        failed = fails(server, server.call("create_sandbox")["sandbox_id"], "/no/such/file", package_name="secretive")
        contains(failed["error"]["hint"], "--package-ca")


# ---- bad input ----


@suite.case("what is no name of a package is refused, and nothing is started for it", when=ON_OCI)
def bad_names():
    server, sandbox = common()
    begun = len(index.requests)
    for name in ("--index-url=x", "a;b", "../x", "a b", "https://example.org/x.whl", "a@file:/etc/passwd", "-r/etc/passwd", "\u0430", "x.whl"):
        error = clear(server.call_failing("install_package", package_name=name, sandbox_id=sandbox)["error"])
        equal(error["code"], "invalid_argument", name)
    for name in ("user/repo", "a@npm:b", "--registry=x"):
        error = clear(server.call_failing("install_package", package_name=name, manager="npm", sandbox_id=sandbox)["error"])
        equal(error["code"], "invalid_argument", name)
    error = clear(server.call_failing("create_sandbox", packages=["shades", "a;b"])["error"])
    equal(error["code"], "invalid_argument")
    error = clear(server.call_failing("install_package", sandbox_id=sandbox)["error"])
    equal(error["code"], "invalid_argument")
    equal((len(index.requests), installers(server)), (begun, []))


def fails(server, sandbox, part, **arguments):
    """Requires that an installation fails with an error that contains `part`."""
    failed = server.call_failing("install_package", sandbox_id=sandbox, **arguments)
    equal((failed["status"], clear(failed["error"])["code"]), ("failed", "package_failed"))
    contains(failed["error"]["message"], part)
    no_installer(server)
    return failed


@suite.case("what cannot be installed says why, with the lines that tell it", when=ON_OCI)
def failures():
    server, sandbox = building()
    failed = fails(server, sandbox, "no such package or version", package_name="nothing-like-it")
    contains(failed["output"], "No matching distribution found")
    fails(server, sandbox, "no such package or version", package_name="shades==7")
    failed = fails(server, sandbox, "does not build here: no compiler here", package_name="broken")
    contains(failed["output"], "broken")
    found = status(server, sandbox, "broken")
    equal(found["status"], "failed")
    contains(found["reason"], "does not build")
    fails(server, sandbox, "no such package or version", package_name="nothing-like-it", manager="npm")
    fails(server, sandbox, "no such package or version", package_name="left@9.9.9", manager="npm")


@suite.case("an index that cannot be reached, packages without room and endless installations fail with their reason", when=ON_OCI)
def limits():
    with Server("--package-index", f"http://{nets.OUTSIDE}:9/simple/", "--npm-registry", f"http://{nets.OUTSIDE}:9/") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for name, manager in (("shades", "pip"), ("left", "npm")):
            failed = fails(server, sandbox, "index could not be reached", package_name=name, manager=manager)
            assert "refused" in failed["error"]["message"] or "ECONNREFUSED" in failed["error"]["message"], failed["error"]
    with server_with("--packages-mb", "1", "--install-timeout-seconds", "30") as server:  # a busy machine may need that for the first two
        sandbox = server.call("create_sandbox")["sandbox_id"]
        fails(server, sandbox, "no room", package_name="heavy")
        equal(server.call("install_package", package_name="shades", sandbox_id=sandbox)["status"], "installed")
        with wheels.Held(index):
            fails(server, sandbox, "took longer than 30 s", package_name="slow")
        equal(server.run("import shades; shades.VERSION", sandbox_id=sandbox)["result"], "'1.0'")
    with server_with("--packages-mb", "1", "--build-packages") as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        fails(server, sandbox, "no room", package_name="filling")  # a file that pip does not unpack
    with Server("--package-dir", "/nowhere") as server:
        server.legacy()
        fails(server, server.call("create_sandbox")["sandbox_id"], "no installer could be started", package_name="shades")


@suite.case("a build that leaves a process behind is over when it has ended, and holds no installer", when=ON_OCI)
def daemons():
    times = ("--install-timeout-seconds", "100", "--sync-budget-seconds", "110")
    with server_with("--npm-registry", index.npm_url, "--build-packages", *times) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        failed = fails(server, sandbox, "does not build here: the build is over", package_name="lingering")
        contains(failed["output"], "which a build left behind")
        done = server.call("install_package", package_name="stays", manager="npm", sandbox_id=sandbox)
        equal((done["status"], versions(done)), ("installed", {"stays": "1.0.0"}))


@suite.case("a package may be called and contain what it likes, the next is installed all the same", when=ON_OCI)
def odd_content():
    with server_with() as server:
        sandbox = server.call("create_sandbox", packages=["locked"])["sandbox_id"]
        equal(server.call("install_package", package_name="shades", sandbox_id=sandbox)["status"], "installed")


@suite.case("where names are looked up by IPv6 alone, the index is found", when=ON_OCI)
def names_by_ipv6():
    bound = net.datagrams(53, socket.AF_INET6)
    names = nets.NameServer(bound)
    net.nameserver(nets.OUTSIDE6)
    try:
        with server_with("--npm-registry", index.npm_url) as server:
            sandbox = server.call("create_sandbox")["sandbox_id"]
            equal(server.call("install_package", package_name="shades", sandbox_id=sandbox)["status"], "installed")
            equal(server.call("install_package", package_name="left", manager="npm", sandbox_id=sandbox)["status"], "installed")
        contains(names.asked, nets.NAME)
    finally:
        net.nameserver(nets.OUTSIDE)
        bound.close()


@suite.case("a server without packages or network says so", when=ON_OCI)
def disabled():
    with Server("--packages=no") as server:
        server.legacy()
        error = clear(server.call_failing("install_package", package_name="shades")["error"])
        equal(error["code"], "package_failed")
        contains(error["hint"], "--packages")
        error = clear(server.call_failing("create_sandbox", network="full")["error"])
        equal(error["code"], "network_disabled")
        contains(error["hint"], "--allow-network")
        works(server)


@suite.case("a sandbox may have network where the server allows it, and then reaches it")
def allowed():
    with Server("--allow-network") as server:
        server.legacy()
        box = server.call("create_sandbox", network="full")
        equal(box["network"], "full")
        probe = f"import socket\nsocket.create_connection(('{nets.NAME}', 8080), 10).close()"
        equal(server.run(probe, sandbox_id=box["sandbox_id"])["status"], "ok")


# ---- in parallel ----


@suite.case("two calls for one package are one installation", when=ON_OCI)
def joined():
    server, sandbox = common()
    with wheels.Held(index) as held:
        first = server.start_call("install_package", package_name="once", sandbox_id=sandbox)
        held.asked("once")
        second = server.start_call("install_package", package_name="once", sandbox_id=sandbox)
        equal(status(server, sandbox, "once")["status"], "installing")
        equal(len(installers(server)), 1)
        held.release()
        equal(first.structured()["execution_id"], second.structured()["execution_id"])
    equal(len(index.asked_for("/files/once-")), 1)


@suite.case("code that runs while a package is installed goes on, and can import it then")
def while_running():
    server, sandbox = common()
    code = "import time, importlib\nwhile True:\n    try:\n        import steady\n        break\n    except ImportError:\n        time.sleep(0.05)\nsteady.VERSION"
    running = server.start_call("execute_code", code=code, sandbox_id=sandbox)
    equal(server.call("install_package", package_name="steady", sandbox_id=sandbox)["status"], "installed")
    equal(running.structured()["result"], "'1.0'")


@suite.case("an installation can be left alone, followed and stopped")
def in_background():
    server, sandbox = common()
    with wheels.Held(index) as held:
        begun = server.call("install_package", package_name="late", sandbox_id=sandbox, wait=False)
        equal((begun["status"], versions(begun)), ("installing", {"late": ""}))
        held.asked("late")
        so_far = server.call("get_execution", execution_id=begun["execution_id"], wait_seconds=0)
        equal((so_far["status"], so_far["language"]), ("running", "pip"))
        held.release()
        done = server.call("get_execution", execution_id=begun["execution_id"])
        equal(done["status"], "ok")
        contains(done["stdout"], "Successfully installed late")
    with wheels.Held(index) as held:
        begun = server.call("install_package", package_name="early", sandbox_id=sandbox, wait=False)
        held.asked("early")
        result = server.start_call("cancel_execution", execution_id=begun["execution_id"]).result()
        assert not result.get("isError"), result  # the result that was asked for
        equal(result["structuredContent"]["status"], "cancelled")
        result = server.start_call("get_execution", execution_id=begun["execution_id"]).result()
        equal(result["structuredContent"]["status"], "cancelled")
        found = status(server, sandbox, "early")
        equal(found["status"], "failed")
        contains(found["reason"], "cancelled")
        no_installer(server)
    equal(server.call("install_package", package_name="early", sandbox_id=sandbox)["status"], "installed")


@suite.case("of an installer that says much all is counted, and the end of it can be fetched from any place on", when=ON_OCI)
def chatty():
    server, sandbox = building()
    failed = server.start_call("install_package", package_name="chatty", sandbox_id=sandbox).failed()
    get = lambda **more: server.start_call("get_execution", execution_id=failed["execution_id"], **more).result()["structuredContent"]
    whole = get()
    assert whole["stdout_bytes"] > 100_000, whole["stdout_bytes"]
    page = get(offset=whole["stdout_bytes"] - 50)
    equal((page["offset"], page["next_offset"], len(page["stdout"])), (whole["stdout_bytes"] - 50, whole["stdout_bytes"], 50))
    assert whole["stdout"].endswith(page["stdout"]), whole["stdout"][-200:]
    kept = get(offset=0)  # output that is not kept is skipped
    equal((kept["offset"] > 0, kept["offset"] + len(kept["stdout"].encode())), (True, whole["stdout_bytes"]))


@suite.case("a sandbox whose packages take longer than a call may: the call ends, they go on, and the text says so", when=ON_OCI)
def longer_than_a_call():
    with server_with("--sync-budget-seconds", "3") as server:
        with wheels.Held(index) as held:
            waiting = server.start_call("create_sandbox", packages=["slow"])
            made = waiting.result()
            assert waiting.seconds() > 2.9, f"the budget is 3 s, and the installation is held: {waiting.seconds()}"
            equal(versions(made["structuredContent"]), {"slow": ""})
            contains(made["content"][0]["text"], f"Still installing in sandbox {made['structuredContent']['sandbox_id']}: slow")
            waiting = server.start_call("create_run_close", code="import late; late.VERSION", packages=["late"])
            failed = waiting.failed()
            assert waiting.seconds() > 2.9, f"the budget is 3 s, and the installation is held: {waiting.seconds()}"
            equal((clear(failed["error"])["code"], failed["sandbox_closed"]), ("package_failed", False))
            contains(failed["error"]["message"], "the code has not run")
            contains(failed["error"]["hint"], failed["sandbox_id"])
            held.release()
        box = failed["sandbox_id"]
        poll("it goes on", lambda: status(server, box, "late")["status"] == "installed")
        equal(server.run("import late; late.VERSION", sandbox_id=box)["result"], "'1.0'")
        server.call("close_sandbox", sandbox_id=box)
    with server_with("--sync-budget-seconds", "20") as server, wheels.Held(index) as held:
        # the answer comes when the code has run for 12 s; if it had a budget of its own, it would come after 20 s
        code = "import time\nprint('runs', flush=True)\ntime.sleep(18)\nprint('late', flush=True)\ntime.sleep(60)"
        waiting = server.start_call("create_run_close", code=code, packages=["early"])
        time.sleep(8)  # the test needs it to take so long
        held.release()
        done = waiting.structured()
        equal((done["status"], done["stdout"], done["sandbox_closed"]), ("running", "runs\n", False), "installing and running have one budget")


@suite.case("who waits is told how it goes on; who stops waiting does not stop it", when=ON_OCI)
def progress():
    server, sandbox = common()
    with wheels.Held(index) as held:
        waiting = server.start_noted("p1", "install_package", package_name="spare", sandbox_id=sandbox)
        held.asked("spare")
        poll("progress shows the installer's words", lambda: any("spare" in p.get("message", "") for p in server.progress("p1")))
        server.notify("notifications/cancelled", {"requestId": waiting.ident, "reason": "test"})
        held.release()
    poll("it is installed all the same", lambda: status(server, sandbox, "spare")["status"] == "installed")


# ---- ends ----


@suite.case("closing a sandbox ends its installation, and nothing of both is left")
def closed():
    server, _ = common()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    with wheels.Held(index) as held:
        waiting = server.start_call("install_package", package_name="slow", sandbox_id=sandbox)
        before = len(index.asked_for("/files/slow-"))
        poll("it is downloading", lambda: len(index.asked_for("/files/slow-")) > before - 1 and installers(server))
        held.asked("slow")
        inside = [os.path.basename(d) for d in installers(server)]
        server.call("close_sandbox", sandbox_id=sandbox)
        failed = waiting.failed()
        contains(clear(failed["error"])["message"], "the sandbox was closed")
    for gone in inside + [sandbox]:
        poll(f"nothing of {gone} is left", lambda gone=gone: not mcp.traces_of(gone))
    no_installer(server)


@suite.case("closing a sandbox ends what it has waiting for its turn, too", when=ON_OCI)
def closed_while_waiting():
    server, _ = common()
    boxes = [server.call("create_sandbox")["sandbox_id"] for _ in range(5)]
    with wheels.Held(index):
        for box in boxes[:4]:
            server.call("install_package", package_name="slow", sandbox_id=box, wait=False)
        waiting = server.start_call("install_package", package_name="slow", sandbox_id=boxes[4])
        poll("all installers are at work", lambda: len(installers(server)) == 4)
        server.call("close_sandbox", sandbox_id=boxes[4])
        equal(clear(waiting.failed()["error"])["message"], "the sandbox was closed")
        equal(len(installers(server)), 4)
        for box in boxes[:4]:
            server.call("close_sandbox", sandbox_id=box)
    no_installer(server)


@suite.case("an installation survives its installer's worker")
def worker_killed():
    server, _ = common()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    with wheels.Held(index) as held:
        before = len(index.asked_for("/files/slow-"))
        waiting = server.start_call("install_package", package_name="slow", sandbox_id=sandbox)
        poll("it is downloading", lambda: len(index.asked_for("/files/slow-")) > before)
        os.kill(installer_worker(server), signal.SIGKILL)
        held.release()
        equal(waiting.structured()["status"], "installed")
    equal(server.run("import slow; slow.VERSION", sandbox_id=sandbox)["result"], "'1.0'")
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("an installer that dies is not taken for the sandbox, which goes on", when=ON_OCI)
def installer_killed():
    server, _ = common()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    equal(server.run("kept = 5", sandbox_id=sandbox)["status"], "ok")
    with wheels.Held(index) as held:
        before = len(index.asked_for("/files/slow-"))
        waiting = server.start_call("install_package", package_name="slow", sandbox_id=sandbox)
        poll("it is downloading", lambda: len(index.asked_for("/files/slow-")) > before)
        (inside,) = (os.path.basename(d) for d in installers(server))
        for pid, line in mcp.processes():
            if inside in line and "/.cloister/agent" in line:
                os.kill(pid, signal.SIGKILL)
        error = clear(waiting.failed()["error"])
        equal((error["code"], error["message"]), ("package_failed", "the installer ended before its work was done"))
        held.release()
    no_installer(server)
    equal(server.call("install_package", package_name="slow", sandbox_id=sandbox)["status"], "installed")
    equal(server.run("import slow; (kept, slow.VERSION)", sandbox_id=sandbox)["result"], "(5, '1.0')")
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("a server killed while it installs leaves no installer; its sandbox goes on, and can install again")
def server_killed():
    first = server_with("--instance", "main", runtime_dir=mcp.temporary_directory())
    sandbox = first.call("create_sandbox")["sandbox_id"]
    equal(first.run("kept = 5", sandbox_id=sandbox)["status"], "ok")
    with wheels.Held(index):
        before = len(index.asked_for("/files/slow-"))
        first.start_call("install_package", package_name="slow", sandbox_id=sandbox)
        poll("it is downloading", lambda: len(index.asked_for("/files/slow-")) > before)
        first.kill()
        second = server_with("--instance", "main", runtime_dir=first.runtime_dir)
        no_installer(second)
        equal(status(second, sandbox, "slow")["status"], "not_installed")
    equal(second.call("install_package", package_name="slow", sandbox_id=sandbox)["status"], "installed")
    equal(second.run("import slow; (kept, slow.VERSION)", sandbox_id=sandbox)["result"], "(5, '1.0')")
    staging = "import os; [n for n in os.listdir('/packages/python') if n.startswith('.staging')]"
    equal(second.run(staging, sandbox_id=sandbox)["result"], "[]")
    second.process.send_signal(signal.SIGINT)
    equal(second.wait_exit(), 0, f"exit status; {second.log_tail()}")
    second.join()
    equal(second.left_behind(), [])


@suite.case("a server that stops while it installs does not wait for that, and leaves nothing")
def server_stopped():
    server = server_with()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    with wheels.Held(index):
        before = len(index.asked_for("/files/slow-"))
        server.start_call("install_package", package_name="slow", sandbox_id=sandbox)
        poll("it is downloading", lambda: len(index.asked_for("/files/slow-")) > before)
        server.close()  # while the index holds what is downloaded
        ended_in_time(server)


@suite.case("nothing is left when all is done")
def finished():
    common()
    common.close()
    building()
    building.close()


suite.run()
