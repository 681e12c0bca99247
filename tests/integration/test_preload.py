"""Modules that sandboxes of the pool import in advance (--preload): what code sees of them, and what becomes of those
that cannot be imported."""

import os
import re
import shutil
import signal
import subprocess

from common import NONE, Server, Skip, Suite, contains, equal, needs_runtime, poll
import mcp
from control import Control

needs_runtime()
suite = Suite(engines=NONE)

PYTHON = "/usr/bin/python3"
SLOW = re.compile("cannot be given.*no answer in time")  # a machine that is too busy: the client got another one
SEEN = "import sys; [name for name in {!r} if name in sys.modules]"
_images = []


def figures(server):
    return server.call("get_sandbox_status")["pool"]


def filled(server):
    poll("the pool is full", lambda: figures(server)["ready"] == figures(server)["size"], seconds=150)


def begun(modules, *options, pool="1", **how):
    """A server whose pool is full."""
    server = Server("--pool", pool, "--preload", modules, *options, **how)
    server.legacy()
    server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])
    filled(server)
    return server


def hit(server, **arguments):
    """A sandbox out of the pool."""
    for _ in range(10):
        filled(server)
        before = figures(server)["hits"]
        made = server.call("create_sandbox", **arguments)["sandbox_id"]
        if figures(server)["hits"] > before:
            return made
        poll("the log says why", lambda: any(SLOW.search(line) for line in list(server.log)))
        server.call("close_sandbox", sandbox_id=made)
    raise AssertionError("this machine is too slow for any")


def says(server, *words):
    poll(f"the log has {words}", lambda: any(all(word in line for word in words) for line in list(server.log)))


def entries_that_import(server, mine):
    """Those that are nobody's, when the module that hangs is being imported."""
    ids = {os.path.basename(path) for path in mcp.sandbox_dirs(server.runtime_dir)} - {mine}
    return [ident for ident in ids if any("sandbox is for whoever comes" in line and ident in line for line in list(server.log)) and mcp.traces_of(ident)]


def told(server):
    """What the API says of each module."""
    rows = Control(server).get("/v1/status")["pool"]["preload"]
    return {row["module"]: (row["state"], row["reason"]) for row in rows}


def python_image():
    """A root directory with a shell and a Python, and where its modules are."""
    if not os.path.exists(PYTHON) or shutil.which("ldd") is None:
        raise Skip(f"no {PYTHON} to make an image of, or no ldd")
    asked = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise Skip(f"no {PYTHON} to make an image of")
    top, library = mcp.temporary_directory(), asked.stdout.strip()
    os.makedirs(f"{top}/usr/bin")
    os.mkdir(f"{top}/etc")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{top}/{name}")
    copies = {"/usr/bin/python3": os.path.realpath(PYTHON), "/usr/bin/sh": os.path.realpath("/bin/sh")}
    for program in list(copies.values()):
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", needed):
            copies[f"{os.path.realpath(os.path.dirname(path))}/{os.path.basename(path)}"] = path
    for inside, path in copies.items():
        os.makedirs(f"{top}{os.path.dirname(inside)}", exist_ok=True)
        shutil.copy(path, f"{top}{inside}")
    leave = shutil.ignore_patterns("test", "dist-packages", "config-3*")
    shutil.copytree(library, f"{top}{library}", ignore=leave, ignore_dangling_symlinks=True)
    return top, f"{top}{library}"


def image_with(**modules):
    """A root directory whose Python has these modules besides its own."""
    if not _images:
        _images.append(python_image())
    top, library = _images[0]
    for name, text in modules.items():
        with open(f"{library}/{name}.py", "w", encoding="utf-8") as file:
            file.write(text)
    return top


def needs(server, sandbox, module):
    found = server.run(f"import importlib.util as u; u.find_spec({module!r}) is not None", sandbox_id=sandbox)
    if found["result"] != "True":
        raise Skip(f"this machine's Python has no {module}")


@suite.case("the first code finds it imported, and nothing else of it")
def imported():
    with begun("this,xml.dom.minidom") as server:
        sandbox = hit(server)
        done = server.run(SEEN.format(["this", "xml.dom.minidom", "wave"]), sandbox_id=sandbox)
        equal((done["result"], done["interpreter"]), ("['this', 'xml.dom.minidom']", "fresh"))
        equal((done["stdout"], done["stderr"]), ("", ""))
        equal(server.run("[name for name in globals() if name[0] != '_']", sandbox_id=sandbox)["result"], "['sys']")
        equal(server.run("xml", sandbox_id=sandbox)["error"]["name"], "NameError")
        equal(server.call("get_sandbox_status", sandbox_id=sandbox)["executions"], 3)
        equal(told(server), {"this": ("imported", ""), "xml.dom.minidom": ("imported", "")})


@suite.case("one that is made the cold way, and one whose interpreter has ended, import as ever")
def cold():
    with begun("wave") as server:
        cold = server.call("create_sandbox", pids=40)["sandbox_id"]
        equal(server.run(SEEN.format(["wave"]), sandbox_id=cold)["result"], "[]")
        sandbox = hit(server)
        equal(server.run(SEEN.format(["wave"]) + "; x = 1", sandbox_id=sandbox)["status"], "ok")
        server.kill_worker(sandbox)
        done = server.run(f"{SEEN.format(['wave'])} + [x]", sandbox_id=sandbox)
        equal((done["result"], done["interpreter"]), ("['wave', 1]", "kept"))
        equal(server.run("import os; os._exit(1)", sandbox_id=sandbox)["status"], "crashed")
        done = server.run(SEEN.format(["wave"]), sandbox_id=sandbox)
        equal(done["result"], "[]")
        equal(server.run("import wave; wave.__name__", sandbox_id=sandbox)["result"], "'wave'")


@suite.case("numpy: imported, with memory to work in, and each sandbox has random numbers of its own")
def numpy():
    with begun("numpy", "--disk-mb", "16", pool="2") as server:
        first = hit(server)
        needs(server, first, "numpy")
        equal(server.run("import sys; ('numpy' in sys.modules, 'numpy' in globals())", sandbox_id=first)["result"], "(True, False)")
        equal(server.run("import numpy; int(numpy.arange(3).sum())", sandbox_id=first)["result"], "3")
        drawn = {server.run("import numpy, random; (numpy.random.random(), random.random())", sandbox_id=ident)["result"] for ident in (first, hit(server))}
        equal(len(drawn), 2)
        filled(server)
        before = figures(server)
        small = server.call("create_sandbox", memory_mb=48)["sandbox_id"]  # what numpy has taken leaves no room in it
        equal(figures(server)["misses"], before["misses"] + 1)
        equal(server.run("6 * 7", sandbox_id=small)["result"], "42")


@suite.case("one that does not exist is told and left out after some sandboxes, and the others are imported")
def absent():
    with begun("nonesuch,wave") as server:
        for _ in range(3):
            equal(server.run(SEEN.format(["wave"]), sandbox_id=hit(server))["result"], "['wave']")
            filled(server)
        says(server, "nonesuch cannot be imported in advance", "No module named", "the next one tries again")
        says(server, "nonesuch cannot be imported in advance", "left out from now on")
        equal(told(server)["wave"], ("imported", ""))
        equal(told(server)["nonesuch"][0], "left out")
        contains(told(server)["nonesuch"][1], "No module named")
        equal(sum("nonesuch cannot be imported" in line for line in list(server.log)), 3)


@suite.case("modules that end the interpreter, or the program, cost nothing but themselves")
def ends():
    image = image_with(leaver="import os\nprint('bye', flush=True)\nos._exit(3)\n", quitter="import sys\nsys.exit(0)\n", half="import wave\nraise ValueError('half')\n")
    with begun("leaver,csv,quitter,half", "--image", image) as server:
        sandbox = hit(server)
        done = server.run(SEEN.format(["leaver", "csv", "quitter", "half", "wave"]), sandbox_id=sandbox)
        equal((done["result"], done["interpreter"], done["stdout"], done["stderr"]), ("['csv']", "fresh", "", ""))
        said = told(server)
        equal([said[name][0] for name in ("leaver", "csv", "quitter", "half")], ["failed", "imported", "failed", "failed"])
        contains(said["leaver"][1], "exited with code 3")
        contains(said["quitter"][1], "SystemExit(0)")
        contains(said["half"][1], "ValueError: half")


@suite.case("one that hangs is given up after a minute, in which clients are served the cold way")
def hangs():
    image = image_with(hanger="import time\ntime.sleep(10000)\n")
    with Server("--pool", "1", "--preload", "csv,hanger", "--image", image) as server:
        server.legacy()
        equal(server.run("6 * 7")["result"], "42")
        made = server.call("create_sandbox")["sandbox_id"]
        equal(server.run(SEEN.format(["csv"]), sandbox_id=made)["result"], "[]")
        equal(figures(server)["ready"], 0)
        filled(server)
        says(server, "hanger cannot be imported in advance", "not done within 60 s")
        equal(server.run(SEEN.format(["csv", "hanger"]), sandbox_id=hit(server))["result"], "['csv']")


@suite.case("one whose worker or agent is killed while it imports is nobody's loss, and not made again and again")
def killed():
    image = image_with(hanger="import time\ntime.sleep(10000)\n")
    with Server("--pool", "1", "--preload", "hanger,csv", "--image", image, "--log-level", "debug") as server:
        server.legacy()
        mine = server.call("create_sandbox")["sandbox_id"]
        for kill, outcome in (("agent", "tries again"), ("worker", "tries again"), ("agent", "left out from now on")):
            (entry,) = poll("one is being made", lambda: entries_that_import(server, mine))
            pids = mcp.agents_of(entry) if kill == "agent" else [pid for pid, line in mcp.processes() if "cloister-worker" in line and entry in line]
            assert pids, f"the {kill} of {entry} is gone"
            before = sum("hanger cannot be imported" in line for line in list(server.log))
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            poll("that is told", lambda seen=before: sum("hanger cannot be imported" in line for line in list(server.log)) > seen)
            says(server, "hanger cannot be imported in advance", outcome)
            poll("nothing is left of it", lambda gone=entry: not mcp.traces_of(gone))
            equal(server.run("6 * 7", sandbox_id=mine)["result"], "42")
        equal(server.run(SEEN.format(["csv", "hanger"]), sandbox_id=hit(server))["result"], "['csv']")


@suite.case("a server that is told to end does not wait for an import that hangs")
def ended():
    image = image_with(hanger="import time\ntime.sleep(10000)\n")
    with Server("--pool", "1", "--preload", "hanger", "--image", image, "--log-level", "debug") as server:
        server.legacy()
        equal(server.run("6 * 7")["result"], "42")
        poll("one is being made", lambda: len(mcp.sandbox_dirs(server.runtime_dir)) == 2)
        poll("it imports", lambda: any("sandbox is for whoever comes" in line for line in list(server.log)))
        server.process.send_signal(signal.SIGTERM)
        equal(server.wait_exit(), 0)
        equal(server.left_behind(), [])


@suite.case("what is no name of a module is refused at the start")
def refused():
    for value, words in (("numpy;os", "expected names of Python modules"), ("a,a", "named twice"), (",".join(f"m{n}" for n in range(17)), "more than 16")):
        server = Server("--backend", "oci", "--pool", "1", "--preload", value)
        assert server.wait_exit() != 0
        server.logger.join(30)
        contains(" ".join(server.log), words)
        contains(" ".join(server.log), "--preload")


suite.run()
