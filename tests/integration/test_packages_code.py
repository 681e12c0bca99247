"""Packages that code asks for by itself: pip and npm in cells, in shells and in programs that code starts, installed by the installer.

On a network of the test's own, with an index that offers packages made by hand. On container engines by with_engine.py --network.
"""

from common import NONE, ON_OCI, Common, Server, Skip, Suite, contains, equal, needs_runtime, poll
import mcp
import net as nets
import wheels

needs_runtime()
net = nets.enter()
# An engine makes the installer, its network and its volume another, and the image its pip; how an interpreter reads a cell, what our `pip` in front of
# it takes and says, and what the server answers are the same everywhere.
suite = Suite()
index = wheels.Index(net.listen(8080), f"http://{nets.NAME}:8080")
for name in ("colours", "shades", "paints", "brushes", "frames", "canvas", "quiet", "asked", "steady", "left_alone", "later"):
    index.add(wheels.wheel(name, "1.0", {f"{name}.py": f"VERSION = '{name} 1.0'\n"}))
index.add(wheels.wheel("colours", "1.1", {"colours.py": "VERSION = 'colours 1.1'\n"}))
for number in range(6):
    index.add(wheels.wheel(f"many{number}", "1.0", {f"many{number}.py": ""}))
index.add(wheels.npm("left", "1.0.0", {"index.js": "exports.side = 'left'"}))

# an installer on an engine takes longer on a busy machine than code has by default
common = Common("--package-index", index.pip_url, "--npm-registry", index.npm_url, "--timeout-seconds", "600")


def run(code, **arguments):
    server, sandbox = common()
    return server.run_to_end(code, sandbox_id=sandbox, **arguments)


def good(code, **arguments):
    done = run(code, **arguments)
    equal(done["status"], "ok", str(done))
    return done


def one_line(done):
    """What it said, which is one line."""
    said = (done["stdout"] + done["stderr"]).strip()
    equal(len(said.splitlines()), 1, said)
    return said


# ---- it works ----


@suite.case("%pip install in a cell installs, shows what the installer says, and the next line imports")
def magic():
    done = good("%pip install colours==1.0\nimport colours\ncolours.VERSION")
    contains(done["stdout"], "Successfully installed colours-1.0")
    equal(done["result"], "'colours 1.0'")
    server, sandbox = common()
    equal(server.call("check_package_status", package_name="colours", sandbox_id=sandbox)["status"], "installed")


@suite.case("!pip install, and pip install without a sign, do the same", engines=NONE)
def commands():
    equal(good("!pip install shades\nimport shades\nshades.VERSION")["result"], "'shades 1.0'")
    equal(good("pip install paints\nimport paints\npaints.VERSION")["result"], "'paints 1.0'")


@suite.case("pip install in a shell, and code goes on")
def shell():
    done = good("pip install brushes && python3 -c 'import brushes; print(brushes.VERSION)'", language="bash")
    contains(done["stdout"], "Successfully installed brushes-1.0")
    assert done["stdout"].endswith("brushes 1.0\n"), done["stdout"]
    contains(good("%%bash\npip3 install -q frames\necho after")["stdout"], "after")
    equal(good("import frames; frames.VERSION")["result"], "'frames 1.0'")


@suite.case("python -m pip install in a program that code starts")
def module():
    code = "import subprocess, sys\ndone = subprocess.run([sys.executable, '-m', 'pip', 'install', 'canvas'], capture_output=True, text=True)\n"
    done = good(code + "import canvas\ndone.returncode, canvas.VERSION, 'Successfully installed' in done.stdout")
    equal(done["result"], "(0, 'canvas 1.0', True)")


@suite.case("npm install in a shell, for require at once")
def node():
    if run("command -v npm", language="bash")["status"] != "ok":
        raise Skip("no npm in this sandbox")
    done = good("npm install left && node -p 'require(\"left\").side'", language="bash")
    assert done["stdout"].endswith("left\n"), done["stdout"]
    equal(good("require('left').side", language="javascript")["result"], "'left'")


@suite.case("what is there is said to be there, and -q says nothing when it works", engines=NONE)
def quiet():
    good("pip install colours", language="bash")
    contains(good("pip install colours", language="bash")["stdout"], "Requirement already satisfied: colours 1.0")
    done = good("pip install -q --user --no-cache-dir quiet", language="bash")
    equal((done["stdout"], done["stderr"]), ("", ""))


@suite.case("a file of requirements", engines=NONE)
def requirements():
    server, sandbox = common()
    server.call("write_file", path="requirements.txt", content="# ours\nasked >= 1  # comment\n\nshades\n", sandbox_id=sandbox)
    equal(good("%pip install -r requirements.txt\nimport asked\nasked.VERSION")["result"], "'asked 1.0'")


@suite.case("pip's other commands are those of the image's pip")
def others():
    if run("python3 -I -m pip --version", language="bash")["status"] != "ok":
        raise Skip("no pip in this sandbox")
    real = good("python3 -I -m pip --version", language="bash")["stdout"]
    for command in ("pip --version", "pip3 --version", "python3 -m pip --version"):
        equal(good(command, language="bash")["stdout"], real, command)
    contains(good("%pip list")["stdout"], "Package")
    equal(good("import pip; pip.__version__ in %r" % real)["result"], "True")


# ---- it does not ----


@suite.case("what is not there fails as install_package says it, and code may go on", engines=NONE)
def absent():
    done = run("pip install no-such-package", language="bash")
    equal((done["status"], done["exit_code"]), ("error", 1))
    contains(done["stdout"], "ERROR: there is no such package or version")
    contains(good("!pip install no-such-package\n_exit_code")["result"], "1")


@suite.case("options, paths and URLs that cannot be honoured get one line that says so", engines=NONE)
def options():
    for words, what in (("--index-url http://127.0.0.1/simple colours", "--index-url cannot be honoured"), ("-i http://x colours", "-i cannot be honoured"),
                        ("-e .", "-e cannot be honoured"), ("git+https://example.org/a/b", '"git+https://example.org/a/b" is no name'), ("./here.whl", "is no name"),
                        ("--target /tmp/x colours", "--target cannot be honoured"), ("colours;os", "is no package name"), ("", "no package is named")):  # fmt: skip
        done = run(f"pip install {words}" if ";" not in words else f"pip install '{words}'", language="bash")
        equal(done["status"], "error", words)
        contains(one_line(done), what)
    contains(one_line(run("%pip install --index-url http://127.0.0.1/simple colours")), "--index-url cannot be honoured")


@suite.case("more at once than a sandbox may wait for are refused at once, and the others are not disturbed", engines=NONE)
def flood():
    server, sandbox = common()
    with wheels.Held(index):
        pending = server.start_call("execute_code", sandbox_id=sandbox, language="bash", code="for i in 0 1 2 3; do pip install many$i & done; wait")
        poll("an installation is under way", lambda: index.asked_for("/files/many"))
        code = "import subprocess\nsubprocess.run(['pip', 'install', 'many4'], capture_output=True, text=True).stdout"
        poll("four wait", lambda: "too many installations" in run(code, timeout_seconds=5).get("result", ""))
    done = outcome(server, pending)
    equal(done["stdout"].count("Successfully installed"), 4, str(done))


@suite.case("malformed requests to the socket for packages are refused")
def hostile():
    speak = "import os, socket\ndef say(data):\n    s = socket.socket(socket.AF_UNIX)\n    s.connect(os.environ['CLOISTER_INSTALLS'])\n    s.settimeout(30)\n    s.sendall(data)\n    return s.recv(10000)\n"
    good(speak)
    for data in (b"\0", b"pip\0\0", b"rpm\0x\0\0", b"pip\0--index-url=x\0\0", b"pip\0a b\0\0", b"pip\0" + b"x" * 300 + b"\0\0", b"pip\0x\0" * 40, b"pip\0x\0\0more", b"\xff" * 100000):
        result = good(f"say({data[:9000]!r})" if len(data) < 9000 else "say(b'\\xff' * 100000)")["result"]
        assert result.endswith("\\x001'"), (data[:40], result)
    contains(good("say(b'pip\\0http://x/y\\0\\0')")["result"], "is no package name")
    equal(good("1 + 1")["result"], "2")


@suite.case("where packages are off, one line says so at once, in a cell as in a shell", engines=NONE)
def off():
    with Server("--packages=no") as server:
        server.legacy()
        for code, language in (("%pip install colours", "python"), ("!pip install colours", "python"), ("pip install colours", "bash"), ("python3 -m pip install colours", "bash")):
            contains(one_line(server.run(code, language=language)), "--packages=no")


# ---- and who ends meanwhile ----


def outcome(server, pending):
    """How a run has ended, which may take longer than a call waits."""
    done = pending.result()["structuredContent"]
    while done["status"] == "running":
        done = server.start_call("get_execution", execution_id=done["execution_id"], wait_seconds=20).result()["structuredContent"]
    return done


def held_run(server, sandbox, name, **arguments):
    """A run that waits for an installation, which the index holds back."""
    pending = server.start_call("execute_code", sandbox_id=sandbox, language="bash", code=f"pip install {name}; echo code $?", **arguments)
    poll("the index is asked", lambda: index.asked_for(f"/files/{name}-"))
    return pending


@suite.case("a worker that is killed meanwhile changes nothing")
def worker_killed():
    server, sandbox = common()
    with wheels.Held(index):
        pending = held_run(server, sandbox, "steady")
        server.kill_worker(sandbox)
    done = outcome(server, pending)
    contains(done["stdout"], "Successfully installed steady-1.0")
    assert done["stdout"].endswith("code 0\n"), done["stdout"]


@suite.case("a run whose time is over leaves the installation, which goes on")
def late():
    server, sandbox = common()
    with wheels.Held(index):
        pending = held_run(server, sandbox, "left_alone", timeout_seconds=3)
        equal(outcome(server, pending)["status"], "timeout")
        equal(server.call("check_package_status", package_name="left_alone", sandbox_id=sandbox)["status"], "installing")
    poll("it is installed", lambda: server.call("check_package_status", package_name="left_alone", sandbox_id=sandbox)["status"] == "installed")


@suite.case("a server that is killed meanwhile: the next one hears of the wish, installs, and the run goes on", when=ON_OCI)
def server_killed():
    directory = mcp.temporary_directory()
    options = ("--instance", "main", "--package-index", index.pip_url)
    first = Server(*options, runtime_dir=directory)
    first.legacy()
    sandbox = first.call("create_sandbox", name="kept")["sandbox_id"]
    with wheels.Held(index) as held:
        first.start_call("execute_code", sandbox_id=sandbox, language="bash", code="pip install later; echo code $?", timeout_seconds=300)
        held.asked("later")
        ident = first.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"][0]["execution_id"]
        first.kill()
    with Server(*options, runtime_dir=directory) as second:
        second.legacy()
        outcome_of = lambda: second.call("get_execution", execution_id=ident, wait_seconds=20)
        poll("it has ended", lambda: outcome_of()["status"] != "running", 120)
        said = outcome_of()["stdout"]
        assert said.endswith("code 0\n"), said
        equal(second.run("import later; later.VERSION", sandbox_id=sandbox)["result"], "'later 1.0'")
        second.call("close_sandbox", sandbox_id=sandbox)


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    common.close()


suite.run()
