"""The profiles python-env and python-sandbox: the calls of clients of those servers, and the exact form of
the answers."""

import datetime
import json
import os
import re
import signal
import struct
import sys
import time
import urllib.error
import urllib.request
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import NONE, ONE, Skip, Suite, contains, equal, mcp, needs_runtime, poll
import wheels
from mcp_http import HttpServer, SseClient

needs_runtime()
# The server makes the answers: on engines only cases with packages and programs run.
suite = Suite(NONE)

ISO = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"
OLD = "2024-11-05"
STRUCTURED = {"cloister/results": "structured"}
_shared = {}


def blocks(client, tool, **arguments):
    result = client.start_call(tool, **arguments).result(120)
    equal(result.get("isError", False), False)
    assert "structuredContent" not in result
    return result["content"]


def text(client, tool, **arguments):
    found = blocks(client, tool, **arguments)
    equal([b["type"] for b in found], ["text"])
    return found[0]["text"]


def dumped(client, tool, **arguments):
    """JSON as json.dumps() writes it."""
    said = text(client, tool, **arguments)
    value = json.loads(said)
    equal(said, json.dumps(value))
    return value


def indented(client, tool, **arguments):
    said = text(client, tool, **arguments)
    value = json.loads(said)
    equal(said, json.dumps(value, indent=2, ensure_ascii=False))
    return value


def env():
    """A client over SSE with an environment, on a server with packages."""
    if "env" not in _shared:
        place = mcp.temporary_directory()
        for name in ("pandas", "matplotlib"):
            package = wheels.distributed(name, "99.1")
            if package is not None:
                package.save(place)
        wheels.wheel("left-pad", "1.0", {"left_pad.py": "PAD = '  '"}).save(place)
        wheels.wheel("needs-more", "1.0", requires=["absent-thing"]).save(place)
        server = HttpServer("--compat", "python-env@later", "--package-dir", place, "--memory-mb", "768")
        client = server.client(OLD, kind=SseClient)
        _shared["env"] = (server, client, text(client, "create_python_env"))
    return _shared["env"]


def first():
    """The same of a server with the shapes of the first version, and network for code."""
    if "first" not in _shared:
        place = mcp.temporary_directory()
        wheels.wheel("left-pad", "1.0", {"left_pad.py": "PAD = '  '"}).save(place)
        wheels.wheel("needs-more", "1.0", requires=["absent-thing"]).save(place)
        server = HttpServer("--compat", "python-env", "--package-dir", place, "--allow-network", "--sync-budget-seconds", "20")
        client = server.client(OLD, kind=SseClient)
        _shared["first"] = (server, client, text(client, "create_python_env"))
    return _shared["first"]


def run(code):
    _, client, ident = first()
    return dumped(client, "execute_python_code", container_id=ident, code=code)


def status(server, ident):
    asked = {"name": "get_sandbox_status", "arguments": {"sandbox_id": ident}, "_meta": STRUCTURED}
    return server.client(mcp.MODERN).request("tools/call", asked)["structuredContent"]


def execute(code):
    _, client, ident = env()
    return dumped(client, "execute_python_code", container_id=ident, code=code)


def fetch(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.headers, answer.read()


def pixels(png):
    """Width, height and the number of different bytes in the rows."""
    equal(png[:8], b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    data, at = b"", 8
    while at < len(png):
        size = struct.unpack(">I", png[at : at + 4])[0]
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    return width, height, len(set(zlib.decompress(data)))


@suite.case("python-env@later over SSE is that server by name, with its tools beside ours")
def listed():
    server, _, _ = env()
    client = server.client(kind=SseClient)
    said = client.legacy(OLD)
    equal(said["serverInfo"]["name"], "Python Docker Executor 🐳")
    tools = {t["name"]: t for t in client.request("tools/list")["tools"]}
    for name, arguments in (
        ("create_python_env", []),
        ("list_python_envs", []),
        ("execute_python_code", ["container_id", "code"]),
        ("install_package_in_env", ["container_id", "package_name"]),
        ("check_package_status", ["container_id", "package_name"]),
    ):
        equal(list(tools[name]["inputSchema"].get("properties", {})), arguments)
        equal(tools[name]["inputSchema"].get("required", []), arguments)
    contains(tools, "execute_code")
    equal(server.ask("GET", "/health").body, b'{"status":"healthy"}')


@suite.case("code runs as a program of its own, and the answer has output, exit code, files and links", engines=ONE)
def execution():
    done = execute("import os, sys\nprint('hä', os.getcwd().split('/')[-1])\nprint('e', file=sys.stderr)\nx = 1\nsys.exit(3)")
    equal(list(done), ["stdout", "stderr", "exit_code", "files", "file_links"])
    equal((done["stderr"], done["exit_code"], done["files"], done["file_links"]), ("e\n", 3, [], []))
    assert done["stdout"].startswith("hä "), done
    equal(execute("x")["stderr"].splitlines()[-1], "NameError: name 'x' is not defined")
    failed = execute("def f():\n    raise ValueError('no')\nf()")
    equal(failed["exit_code"], 1)
    contains(failed["stderr"], "    raise ValueError('no')\n")
    equal(execute("print('one')\nEOL\n'''\nEOF\n'''")["exit_code"], 1)
    equal(execute("import sys; print(repr(sys.stdin.read()), __name__)")["stdout"], "'' __main__\n")
    equal(execute("import sys; sys.stdout.buffer.write(b'a\\xff\\x00b')")["stdout"].replace("\0", "\ufffd"), "a\ufffd\ufffdb")
    for code in ("print('x' * 3_000_000, 'end')", "print('x\\n' * 100_000, 'end')"):
        long = execute(code)
        assert 1000 < len(long["stdout"]) < 1 << 20
        contains(long["stdout"], "bytes left out]")
        assert long["stdout"].endswith(" end\n"), long["stdout"][-100:]


@suite.case("files of a run are named, and only those, and their links lead to them")
def files():
    _, _, ident = env()
    done = execute("import os\nos.makedirs('sub', exist_ok=True)\nopen('sub/a b&ä.txt', 'w').write('one')")
    equal(done["files"], ["/app/results/sub/a b&ä.txt"])
    link = done["file_links"][0]
    assert re.match(rf"http://127\.0\.0\.1:\d+/sandbox/file\?container_id={ident}&file_path=/app/results/sub/a%20b%26%C3%A4\.txt&expires=\d+&sig=[0-9a-f]+$", link), link
    headers, body = fetch(link)
    equal((body, headers["Content-Type"], headers["X-Content-Type-Options"]), (b"one", "text/plain; charset=utf-8", "nosniff"))
    equal(execute("print(open('sub/a b&ä.txt').read())")["files"], [])
    equal(execute("open('two.html', 'w').write('<script>')")["files"], ["/app/results/two.html"])
    for wrong in (link.replace("a%20b", "b"), link.replace("file_path=/app/results/", "file_path=/etc/"), link.split("&expires")[0]):
        try:
            fetch(wrong)
            raise AssertionError(f"{wrong} opened")
        except urllib.error.HTTPError as refused:
            equal(refused.code, 403)


@suite.case("files with names that fill an answer: those that fit are named, and it says that there are more")
def many_files():
    done = execute("import os\nfor i in range(90):\n    os.makedirs('/'.join(['ä' * 120] * 7), exist_ok=True)\n    open('/'.join(['ä' * 120] * 7 + [f'{i}.txt']), 'w').close()")
    equal(done["exit_code"], 0, done)
    assert 5 < len(done["files"]) < 90, len(done["files"])
    equal((len(done["file_links"]), done["files_truncated"]), (len(done["files"]), True))
    assert len(json.dumps(json.dumps(done))) < 1 << 20, "larger than clients take"
    execute("import shutil\nshutil.rmtree('ä' * 120)")


@suite.case("/app/results is a directory, the working directory, and can be named", engines=ONE)
def own_name():
    equal(execute("import os; print(os.getcwd(), os.path.realpath('/app/results'), os.path.islink('/app/results'))")["stdout"], "/app/results /app/results False\n")
    done = execute("import os\nopen('/app/results/named.txt', 'w').write('n')\nprint(os.listdir('/app/results').count('named.txt'))")
    equal((done["stdout"], done["files"]), ("1\n", ["/app/results/named.txt"]))
    equal(fetch(done["file_links"][0])[1], b"n")


@suite.case("an unknown id, a bad package name and a missing package have the texts of that server")
def refusals():
    _, client, ident = env()
    for tool, more in (("execute_python_code", {"code": "1"}), ("install_package_in_env", {"package_name": "x"}), ("check_package_status", {"package_name": "x"})):
        equal(text(client, tool, container_id="0123", **more), '{"error": true, "message": "Container not found: 0123"}')
    equal(
        dumped(client, "check_package_status", container_id=ident, package_name="nothing-of-it"),
        {"status": "not_found", "message": "No installation record found for nothing-of-it", "complete": True, "success": False},
    )
    odd = dumped(client, "check_package_status", container_id=ident, package_name="a b")
    equal((list(odd), odd["status"], odd["success"]), (["status", "message", "complete", "success"], "error", False))
    for name in ("--index-url=x", "a;b", "../x", "http://x/y.whl"):
        done = dumped(client, "install_package_in_env", container_id=ident, package_name=name)
        equal((done["status"], done["success"], done["complete"]), ("failed", False, True), name)
        assert done["stderr"]


def settled(client, tool, **arguments):
    """The answer of a check when it has ended."""

    def over():
        done = dumped(client, tool, **arguments)
        if done["status"] == "installing":
            equal(list(done), ["status", "start_time", "message", "complete", "elapsed_seconds"])
            assert re.fullmatch(ISO, done["start_time"]) and done["complete"] is False and done["elapsed_seconds"] >= 0, done
            return None
        return done

    return poll("the installation is over", over, 240)


def installed(client, ident, package):
    first = dumped(client, "install_package_in_env", container_id=ident, package_name=package)
    if first["status"] == "installing":
        equal(first, {"success": None, "status": "installing", "message": f"Installation of {package} in progress. Use check_package_status to monitor progress."})
        again = dumped(client, "install_package_in_env", container_id=ident, package_name=package)
        if again["status"] == "installing":
            contains(
                [f"Package {package} installation already in progress", f"Installation of {package} in progress. Use check_package_status to monitor progress."],
                again["message"],
            )
        first = settled(client, "check_package_status", container_id=ident, package_name=package)
    end = first.pop("end_time")
    assert re.fullmatch(ISO, end), end
    equal(first, {"status": "success", "message": f"Successfully installed {package}", "complete": True, "success": True})


@suite.case("a package is installed, seen by code, and known by a check; a failure says why", engines=ONE)
def packages():
    _, client, ident = env()
    installed(client, ident, "left-pad")
    equal(execute("import left_pad; print(repr(left_pad.PAD))")["stdout"], "'  '\n")
    done = dumped(client, "check_package_status", container_id=ident, package_name="left-pad")
    equal((done["status"], done["success"], done["complete"]), ("success", True, True))
    failed = dumped(client, "install_package_in_env", container_id=ident, package_name="needs-more")
    if failed["status"] == "installing":
        failed = settled(client, "check_package_status", container_id=ident, package_name="needs-more")
    equal((failed["status"], failed["success"], failed["complete"]), ("failed", False, True))
    contains(failed["stderr"], "absent-thing")
    envs = dumped(client, "list_python_envs")
    equal([e["container_id"] for e in envs], [ident])
    equal(list(envs[0]), ["container_id", "name", "status", "image", "created", "last_used", "installed_packages"])
    contains([(p["name"], p["version"]) for p in envs[0]["installed_packages"]], ("left-pad", "1.0"))


@suite.case("the workflow of their readme: install pandas and matplotlib, plot to a file, fetch it by its link", engines=ONE)
def workflow():
    if not os.path.isdir(f"{wheels.SITE}/pandas") or not os.path.isdir(f"{wheels.SITE}/matplotlib"):
        raise Skip("pandas or matplotlib is not installed on this machine")
    _, client, ident = env()
    for package in ("pandas==99.1", "matplotlib==99.1"):
        installed(client, ident, package)
    done = execute(
        "import pandas as pd\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
        "df = pd.DataFrame({'x': range(10), 'y': [v * v for v in range(10)]})\nprint(df['y'].sum(), pd.__file__, matplotlib.__file__)\n"
        "df.plot(x='x', y='y')\nplt.savefig('plot.png', dpi=50)\n"
    )
    equal((done["exit_code"], done["files"]), (0, ["/app/results/plot.png"]), done["stderr"])
    contains(done["stdout"], "285 /packages/")
    equal(done["stdout"].count("/packages/"), 2)
    headers, body = fetch(done["file_links"][0])
    equal((headers["Content-Type"], headers["Content-Disposition"].split(";")[0]), ("image/png", "inline"))
    width, height, colours = pixels(body)
    equal((width, height), (320, 240))
    assert colours > 50, "an empty picture"


@suite.case("python-env: files get names with the environment's id and the time, and links with names below /static/", engines=ONE)
def first_files():
    _, _, ident = first()
    done = run("import os\nprint(os.getcwd())\nopen('plot.tar.gz', 'w').write('one')\nopen('plain', 'w').write('two')\nos.mkdir('deep')\nopen('deep/x', 'w').close()")
    equal((list(done), done["stdout"], done["exit_code"]), (["stdout", "stderr", "exit_code", "files", "file_links"], "/app/results\n", 0))
    plain, plot = sorted(done["files"])
    assert re.fullmatch(rf"plain_{ident[:8]}_20\d{{6}}_\d{{6}}", plain) and re.fullmatch(rf"plot\.tar_{ident[:8]}_20\d{{6}}_\d{{6}}\.gz", plot), done
    links = {link["name"]: link["url"] for link in done["file_links"]}
    equal((sorted(links), [list(link) for link in done["file_links"]]), ([plain, plot], [["name", "url"]] * 2))
    assert re.match(rf"http://127\.0\.0\.1:\d+/static/{re.escape(plot)}\?container_id={ident}&expires=\d+&sig=[0-9a-f]+$", links[plot]), links
    equal((fetch(links[plot])[1], fetch(links[plain])[1]), (b"one", b"two"))
    for wrong in (links[plain].replace("/static/plain", "/static/plot"), links[plain].split("&sig")[0], links[plain].replace("/static/", "/static/../")):
        try:
            fetch(wrong)
            raise AssertionError(f"{wrong} opened")
        except urllib.error.HTTPError as refused:
            assert refused.code in (403, 404), refused
    again = run(f"print(open({plain!r}).read())\nopen('third.txt', 'w').write('3')")
    equal((again["stdout"], len(again["files"]), sorted(again["files"])[:2]), ("two\n", 3, [plain, plot]))
    run("for i in range(101):\n    open(f'{i:03}.txt', 'w').close()")
    many = run("open('fresh.txt', 'w').close()")
    equal((len(many["files"]), len(many["file_links"]), many["files_truncated"]), (100, 100, True))
    assert any(name.startswith(f"fresh_{ident[:8]}_") for name in many["files"]), many["files"]
    run("import os, shutil\nfor name in os.listdir('.'):\n    shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)")


@suite.case("python-env: an environment and links to its files are good for an hour, and fetching a file is use of it")
def an_hour():
    server, client, ident = first()
    link = run("open('kept.txt', 'w').write('k')")["file_links"][0]["url"]
    left = int(re.search(r"expires=(\d+)", link)[1]) - time.time()
    assert 3500 < left <= 3600, left
    equal(status(server, ident)["limits"]["ttl_seconds"], 3600)

    def expires():
        return datetime.datetime.fromisoformat(status(server, ident)["expires_at"].replace("Z", "+00:00")).timestamp()

    before = expires()

    def used():
        fetch(link)
        return expires() - before > 1  # times of the same end differ by some milliseconds

    poll("fetching the file delays the end of its sandbox", used)
    with HttpServer("--compat", "python-env", "--ttl-seconds", "100", "--max-lifetime-seconds", "1000") as other:
        short = other.client(OLD, kind=SseClient)
        ident = text(short, "create_python_env")
        link = dumped(short, "execute_python_code", container_id=ident, code="open('x', 'w').close()")["file_links"][0]["url"]
        left = int(re.search(r"expires=(\d+)", link)[1]) - time.time()
        assert 900 < left <= 1000, left  # not longer than its sandbox can live, and longer than it lives unused
        other.close_sandboxes()


@suite.case("python-env: an unknown id has the text of that version, and its sandboxes have network if the operator allows it")
def first_texts():
    server, client, ident = first()
    said = server.client(kind=SseClient)
    equal(said.legacy(OLD)["serverInfo"]["name"], "Python Docker Executor 🐳")
    names = [t["name"] for t in said.request("tools/list")["tools"]]
    equal(names[:4], ["create_python_env", "execute_python_code", "install_package_in_env", "check_package_status"])
    assert "list_python_envs" not in names, names
    for tool, more in (("execute_python_code", {"code": "1"}), ("install_package_in_env", {"package_name": "x"}), ("check_package_status", {"package_name": "x"})):
        equal(
            text(client, tool, container_id="0123", **more),
            '{"error": "Container 0123 does not exist or was cleaned up. Please create a new one using create_python_env."}',
        )
    equal(status(server, ident)["network"], "full")
    other, _, plain = env()
    equal(status(other, plain)["network"], "none")


@suite.case("python-env: a failed installation has pip's own words, its end_time stands still, and versions are compared", engines=ONE)
def first_packages():
    _, client, ident = first()
    failed = dumped(client, "install_package_in_env", container_id=ident, package_name="needs-more")
    if failed["status"] == "installing":
        failed = settled(client, "check_package_status", container_id=ident, package_name="needs-more")
    equal((failed["status"], failed["success"]), ("failed", False))
    contains(failed["stderr"], "ERROR: No matching distribution found for absent-thing")
    assert "there is no such package" not in failed["stderr"], failed
    equal(failed["message"], f"Failed to install needs-more: {failed['stderr']}")
    installed(client, ident, "left-pad==1.0")
    first_look = dumped(client, "check_package_status", container_id=ident, package_name="left-pad")
    equal(dumped(client, "check_package_status", container_id=ident, package_name="left-pad"), first_look)
    equal(first_look["success"], True)
    for requirement, there in (("left-pad==1.0", True), ("left-pad>=0.9,<2", True), ("left-pad==2.0", False), ("left-pad<1", False)):
        done = dumped(client, "check_package_status", container_id=ident, package_name=requirement)
        equal((done["status"], done["success"]), ("success" if there else "not_found", there), requirement)
        if not there:
            equal(done["message"], f"No installation record found for {requirement}")
    failed = dumped(client, "install_package_in_env", container_id=ident, package_name="left-pad==2.0")
    checked = settled(client, "check_package_status", container_id=ident, package_name="left-pad==2.0")
    equal((checked["status"], checked["success"]), ("failed", False))
    contains(checked["stderr"], "No matching distribution found for left-pad==2.0")
    assert failed["status"] == "installing" or failed == checked, (failed, checked)
    equal(dumped(client, "check_package_status", container_id=ident, package_name="left-pad==1.0")["status"], "success")
    equal(dumped(client, "check_package_status", container_id=ident, package_name="left-pad==3.0")["status"], "not_found")


@suite.case("code that runs longer than a call may wait: the answer has what there is, and how to go on")
def long_code():
    with mcp.Server("--compat", "python-env", "--sync-budget-seconds", "6") as server:
        server.legacy(OLD)
        ident = text(server, "create_python_env")
        done = dumped(server, "execute_python_code", container_id=ident, code="import time\nprint('begun', flush=True)\nfor _ in range(600):\n    time.sleep(0.1)")
        equal((done["stdout"], done["exit_code"], done["files"]), ("begun\n", None, []))
        execution = re.search(r'get_execution with execution_id "(\w+)"', done["error"])[1]
        stopped = server.start_call("cancel_execution", execution_id=execution).result(60)
        contains(stopped["content"][0]["text"], "begun")
        equal(dumped(server, "execute_python_code", container_id=ident, code="print(1)")["stdout"], "1\n")


@suite.case("python-sandbox on stdio: sandboxes by name, a terminal, uploads, links as resources", engines=ONE)
def sandbox():
    place = mcp.temporary_directory()
    with open(os.path.join(place, "data.csv"), "w", encoding="utf-8") as file:
        file.write("a,b\n1,2\n")
    with mcp.Server("--compat", "python-sandbox", "--local-files", place) as server:
        equal(server.legacy(OLD)["serverInfo"]["name"], "Python Sandbox Executor")
        equal(blocks(server, "list_sandboxes"), [])
        made = indented(server, "create_sandbox", name="Mein Kasten ä")
        equal(list(made), ["sandbox_id", "user_id", "name", "status"])
        equal((made["name"], made["status"]), ("Mein Kasten ä", "active"))
        ident = made["sandbox_id"]
        other = indented(server, "create_sandbox", name=None)
        equal([list(s) for s in indented(server, "list_sandboxes")], [["sandbox_id", "name", "installed_packages"]] * 2)
        done = indented(server, "execute_terminal_command", sandbox_id=ident, command="echo 'a b'  $HOME \"c\\\"d\" e\\ f; ls")
        equal(done, {"stdout": "a b $HOME c\"d e f; ls\n", "stderr": "", "exit_code": 0})
        equal(indented(server, "execute_terminal_command", sandbox_id=ident, command="sh -c 'echo x >&2; exit 7'"), {"stdout": "", "stderr": "x\n", "exit_code": 7})
        done = indented(server, "execute_terminal_command", sandbox_id=ident, command="sh -c 'cat /dev/zero >/tmp/full 2>/dev/null; ls /tmp | wc -l'")
        equal(done["stdout"], "1\n")
        done = indented(server, "execute_python_code", sandbox_id=ident, code="print('begun')\n" + "# \n" * 100_000)
        equal((done["stdout"], done["exit_code"]), ("", 1))  # without the part that would still have fitted
        contains(done["stderr"], "No space left")
        equal(indented(server, "execute_terminal_command", sandbox_id=ident, command="rm /tmp/full")["exit_code"], 0)
        for wrong in ("no-such-program", "echo 'open", "", "  ", "echo \\"):
            done = indented(server, "execute_terminal_command", sandbox_id=ident, command=wrong)
            equal((done["stdout"], done["exit_code"]), ("", -1), wrong)
            assert done["stderr"]
        done = indented(server, "upload_file_to_sandbox", sandbox_id=ident, local_file_path=os.path.join(place, "data.csv"))
        equal((list(done), done["success"]), (["success", "message"], True))
        done = indented(server, "upload_file_to_sandbox", sandbox_id=ident, local_file_path=os.path.join(place, "data.csv"), dest_path="/app/results/deep/er")
        equal(done["success"], True)
        equal(indented(server, "execute_terminal_command", sandbox_id=ident, command="sleep 0.1")["exit_code"], 0)  # file times have a coarse resolution
        done = indented(server, "execute_python_code", sandbox_id=ident, code="print(open('data.csv').read() == open('deep/er/data.csv').read())\nopen('out.txt', 'w').write('ä')")
        equal((done["stdout"], done["files"], done["file_links"]), ("True\n", ["/app/results/out.txt"], [f"sandbox://{ident}/app/results/out.txt"]))
        refused = indented(server, "upload_file_to_sandbox", sandbox_id=ident, local_file_path="/etc/passwd")
        equal((list(refused), refused["error"]), (["error", "message"], True))
        for tool, more in (("execute_python_code", {"code": "1"}), ("execute_terminal_command", {"command": "ls"}), ("check_package_installation_status", {"package_name": "x"}), ("install_package_in_sandbox", {"package_name": "x"})):
            equal(indented(server, tool, sandbox_id="0123", **more), {"error": True, "message": "Sandbox not found: 0123"})
        equal(indented(server, "check_package_installation_status", sandbox_id=other["sandbox_id"], package_name="nothing-of-it")["status"], "not_found")
        for pid in mcp.agents_of(ident):
            os.kill(pid, signal.SIGKILL)
        gone = {"error": True, "message": f"Sandbox not found: {ident}"}
        poll("it is known to have ended", lambda: indented(server, "execute_python_code", sandbox_id=ident, code="1") == gone)
        equal([s["sandbox_id"] for s in indented(server, "list_sandboxes")], [other["sandbox_id"]])
        server.start_call("close_sandbox", sandbox_id=other["sandbox_id"]).result()
        equal(blocks(server, "list_sandboxes"), [])


@suite.case("APP_HOST and APP_PORT say where, for these profiles alone, and not to everybody by accident")
def address():
    with HttpServerByEnvironment("--compat", "python-sandbox", env={"APP_PORT": "0"}) as server:
        client = server.client(OLD, kind=SseClient)
        ident = indented(client, "create_sandbox")["sandbox_id"]
        done = indented(client, "execute_python_code", sandbox_id=ident, code="open('x.txt', 'w').write('x')")
        contains(done["file_links"][0], f"/sandbox/file?sandbox_id={ident}&file_path=/app/results/x.txt&")
        equal(fetch(done["file_links"][0])[1], b"x")
        server.close_sandboxes()
    refused = mcp.Process("--compat", "python-env", env={"APP_HOST": "0.0.0.0", "APP_PORT": "0"}, stdio=False)
    equal(refused.wait_exit(), 64)
    refused.logger.join(30)
    contains(refused.log_tail(), "--insecure-http")
    with mcp.Server("--compat", "code-sandbox", env={"APP_PORT": "0"}) as server:
        server.legacy()


class HttpServerByEnvironment(HttpServer):
    """A server that listens where its environment says."""

    def __init__(self, *options, **how):
        mcp.Process.__init__(self, *options, stdio=False, **how)
        self.find_place(None)


@suite.finish
def finish():
    """the server ends and leaves nothing behind"""
    for server, _, _ in _shared.values():
        server.close_sandboxes()
        server.close()


suite.run()
