"""The profile code-sandbox: the calls of users of such a server, and the texts of the answers."""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import NONE, ONE, ON_OCI, ON_PIPE, Server, Skip, Suite, contains, equal, mcp, needs_modules, needs_runtime, poll
import wheels
from png import Picture

# The server makes the answers: on engines only cases with images, packages and network run.
suite = Suite(NONE)
needs_runtime()


def start(kind=None, *options):
    env = {"INTERPRETER_TYPE": kind, "E2B_API_KEY": "unused"} if kind else {}
    server = Server("--compat", "code-sandbox", *options, env=env)
    server.legacy("2024-11-05")
    return server


def text(server, tool, **arguments):
    """The single text of an answer, which is never an error."""
    result = server.start_call(tool, **arguments).result()
    equal(sorted(set(result) - {"isError"}), ["content"], f"{result}")
    equal(result.get("isError", False), False)
    equal([block["type"] for block in result["content"]], ["text"])
    return result["content"][0]["text"]


def value(server, tool, **arguments):
    """The same as JSON, in the exact form of json.dumps."""
    said = text(server, tool, **arguments)
    parsed = json.loads(said)
    equal(said, json.dumps(parsed))
    return parsed


@suite.case("it says the name of that server, and offers its tools under their names")
def names():
    server = Server("--compat", "code-sandbox")
    equal(server.legacy("2024-11-05")["serverInfo"]["name"], "code-sandbox")
    tools = {tool["name"]: tool for tool in server.request("tools/list")["tools"]}
    wanted = {
        "create_sandbox": ["session_id"],
        "close_sandbox": ["session_id"],
        "get_sandbox_status": [],
        "execute_code": ["session_id", "code"],
        "install_package": ["session_id", "package_name"],
        "create_run_close": ["code"],
        "list_files": ["session_id"],
        "read_file": ["session_id", "file_path"],
        "write_file": ["session_id", "file_path", "content"],
        "upload_file": ["session_id", "file_name", "file_content"],
    }
    for name, required in wanted.items():
        equal(tools[name]["inputSchema"].get("required", []), required, name)
        assert "outputSchema" not in tools[name], name
    server.close()


@suite.case("packages: what the installer says is the output, in either shape of logs, and what went wrong the error", engines=ONE)
def packages():
    place = mcp.temporary_directory()
    wheels.wheel("onlyhere", "1.0").save(place)
    wheels.wheel("needy", "1.0", requires=["nowhere"]).save(place)
    for kind in ("e2b", "firecracker"):
        server = start(kind, "--package-dir", place)
        text(server, "create_sandbox", session_id="p")
        done = value(server, "install_package", session_id="p", package_name="onlyhere")
        equal((list(done), done["package"], done["error"]), (["package", "output", "error"], "onlyhere", None))
        said = done["output"] if kind == "firecracker" else "".join(done["output"]["stdout"])
        contains(said, "Successfully installed onlyhere-1.0")
        run = value(server, "execute_code", session_id="p", code="import onlyhere; print(onlyhere.VERSION)")
        equal(run, {"logs": "1.0\n" if kind == "firecracker" else {"stdout": ["1.0\n"], "stderr": []}, "error": None})
        failed = value(server, "install_package", session_id="p", package_name="needy")
        equal((list(failed), failed["package"]), (["package", "output", "error"], "needy"))
        contains(failed["error"] if kind == "firecracker" else failed["error"]["value"], "nowhere")
        server.close()


@suite.case("a session from its creation to its end", engines=ONE)
def session():
    server = start()
    equal(text(server, "create_sandbox", session_id="s1"), "Sandbox created successfully with session ID: s1")
    equal(text(server, "create_sandbox", session_id="s1"), "Sandbox with session ID s1 already exists.")
    odd = "My session / über"
    equal(text(server, "create_sandbox", session_id=odd), f"Sandbox created successfully with session ID: {odd}")
    equal(
        value(server, "get_sandbox_status", session_id="s1"),
        {"status": "active", "session_id": "s1", "interpreter_type": "e2b"},
    )
    status = value(server, "get_sandbox_status", session_id=None)
    equal((status["active_sandbox_count"], status["interpreter_type"]), (2, "e2b"))
    equal(status["active_sessions"], ["s1", odd])
    equal(value(server, "get_sandbox_status", session_id=""), status, "an empty text is no session")
    equal(value(server, "get_sandbox_status", session_id="no"), {"error": "No sandbox found with session ID: no"})

    run = lambda code: value(server, "execute_code", session_id="s1", code=code)
    equal(run("x = 6\nprint('six é')"), {"logs": {"stdout": ["six é\n"], "stderr": []}, "error": None})
    equal(run("import sys; print(x * 7); print('e', file=sys.stderr)"), {"logs": {"stdout": ["42\n"], "stderr": ["e\n"]}, "error": None})
    failed = run("1/0")
    equal(failed["logs"], {"stdout": [], "stderr": []})
    equal(sorted(failed["error"]), ["name", "traceback", "value"])
    equal((failed["error"]["name"], failed["error"]["value"]), ("ZeroDivisionError", "division by zero"))
    contains(failed["error"]["traceback"], "Traceback (most recent call last)")
    equal(run("raise SystemExit(3)")["error"]["name"], "SystemExit")
    equal(value(server, "execute_code", session_id=odd, code="print(1)")["logs"]["stdout"], ["1\n"])

    for end in (
        "Sandbox with session ID s1 has been successfully closed and all resources freed.",
        "Sandbox with session ID s1 is not active or has already been closed.",
    ):
        equal(text(server, "close_sandbox", session_id="s1"), end)
    gone = {"error": "No sandbox found with session ID: s1. Create a sandbox first."}
    for tool, more in (
        ("execute_code", {"code": "1"}),
        ("install_package", {"package_name": "six"}),
        ("list_files", {}),
        ("read_file", {"file_path": "/x"}),
        ("write_file", {"file_path": "/x", "content": ""}),
        ("upload_file", {"file_name": "x", "file_content": ""}),
    ):
        equal(value(server, tool, session_id="s1", **more), gone)
    server.close()


@suite.case("a sandbox that has ended by itself is no session any more, and its id can be used again")
def ended():
    server = start()
    gone = {"error": "No sandbox found with session ID: e. Create a sandbox first."}

    def made():
        return re.findall(r"sandbox creating: .*sandbox=(\w{16})", "\n".join(server.log))

    for last in (False, True):
        equal(text(server, "create_sandbox", session_id="e"), "Sandbox created successfully with session ID: e")
        # The log is read independently of the answers, and may report the end of the previous sandbox after
        # the beginning of this one.
        poll("the log names this sandbox", lambda: len(made()) == 1 + last)
        agents = mcp.agents_of(made()[-1])
        assert agents, made()
        for pid in agents:
            os.kill(pid, signal.SIGKILL)
        poll("it is known to have ended", lambda: value(server, "execute_code", session_id="e", code="1") == gone)
        equal(value(server, "get_sandbox_status")["active_sessions"], [])
        equal(value(server, "get_sandbox_status", session_id="e"), {"error": "No sandbox found with session ID: e"})
        if last:
            equal(text(server, "close_sandbox", session_id="e"), "Sandbox with session ID e has been successfully closed and all resources freed.")
    server.close()


@suite.case("files go in and come out, right below the root too", engines=ONE)
def files():
    server = start()
    text(server, "create_sandbox", session_id="f")
    equal(
        value(server, "write_file", session_id="f", file_path="/tmp/d/a.json", content='{"a": 1}'),
        {"path": "/tmp/d/a.json", "message": "File written successfully"},
    )
    equal(value(server, "read_file", session_id="f", file_path="/tmp/d/a.json"), {"path": "/tmp/d/a.json", "content": '{"a": 1}'})
    equal(
        value(server, "list_files", session_id="f", path="/tmp/d"),
        {"path": "/tmp/d", "files": [{"name": "a.json", "type": "file", "path": "/tmp/d/a.json"}]},
    )
    root = value(server, "list_files", session_id="f")
    equal(root["path"], "/")
    assert {"name": "tmp", "type": "dir", "path": "/tmp"} in root["files"], root
    equal(
        value(server, "upload_file", session_id="f", file_name="data.csv", file_content="a,b\n1,2\n"),
        {"path": "/data.csv", "message": "File uploaded successfully"},
    )
    equal(value(server, "read_file", session_id="f", file_path="/data.csv")["content"], "a,b\n1,2\n")
    equal(value(server, "execute_code", session_id="f", code="print(open('data.csv').read())")["logs"]["stdout"], ["a,b\n1,2\n\n"])
    root = value(server, "list_files", session_id="f")["files"]
    equal([item for item in root if item["name"] == "data.csv"], [{"name": "data.csv", "type": "file", "path": "/data.csv"}])
    value(server, "write_file", session_id="f", file_path="/deep/er/x", content="x")
    equal(value(server, "list_files", session_id="f", path="/deep")["files"], [{"name": "er", "type": "dir", "path": "/deep/er"}])
    for item in root:  # so that all files of the image can be read
        shown = value(server, "list_files", session_id="f", path=item["path"])
        assert "No such file" not in shown.get("error", ""), shown
    equal(value(server, "upload_file", session_id="f", file_name="b", file_content="", destination_path="/tmp/d/")["path"], "/tmp/d/b")
    for directory, path in (("sub", "/sub/f"), ("sub/deeper/", "/sub/deeper/f"), ("", "/f"), ("tmp/d", "/tmp/d/f")):
        done = value(server, "upload_file", session_id="f", file_name="f", file_content=path, destination_path=directory)
        equal(done, {"path": path, "message": "File uploaded successfully"})
        equal(value(server, "read_file", session_id="f", file_path=path)["content"], path)
    done = value(server, "upload_file", session_id="f", file_name="/tmp/d/whole", file_content="w", destination_path="/sub")
    equal(done, {"path": "/tmp/d/whole", "message": "File uploaded successfully"})  # an absolute name replaces the directory
    equal(value(server, "read_file", session_id="f", file_path="/tmp/d/whole")["content"], "w")
    equal(value(server, "execute_code", session_id="f", code="print(open('sub/f').read())")["logs"]["stdout"], ["/sub/f\n"])
    contains(value(server, "list_files", session_id="f", path="/sub")["files"], {"name": "f", "type": "file", "path": "/sub/f"})
    value(server, "execute_code", session_id="f", code="import os\nos.symlink('sub', 'way')\nos.symlink('sub/f', 'ref')\nos.symlink('none', 'lost')")
    kinds = {item["name"]: item["type"] for item in value(server, "list_files", session_id="f")["files"]}
    equal((kinds["way"], kinds["ref"], kinds["lost"], kinds["sub"]), ("dir", "file", "file", "dir"))
    contains(value(server, "read_file", session_id="f", file_path="/tmp/none")["error"], "Error reading file: ")
    contains(value(server, "list_files", session_id="f", path="/tmp/none")["error"], "Error listing files: ")
    contains(value(server, "write_file", session_id="f", file_path="/etc/x", content="")["error"], "Error writing file: ")
    contains(value(server, "upload_file", session_id="f", file_name="x", file_content="", destination_path="/etc")["error"], "Error uploading file: ")
    server.close()


@suite.case("create_run_close runs code in a sandbox that is removed afterwards")
def once():
    server = start()
    done = value(server, "create_run_close", code="print('hello world')")
    equal(
        done,
        {
            "logs": {"stdout": ["hello world\n"], "stderr": []},
            "error": None,
            "sandbox_status": "created and will be closed automatically",
            "sandbox_closed": True,
            "sandbox_removed": True,
        },
    )
    equal(value(server, "create_run_close", code="nope")["error"]["name"], "NameError")
    equal(value(server, "get_sandbox_status")["active_sandbox_count"], 0)
    server.close()


@suite.case("output that does not fit into an answer is cut, with exact counts")
def much():
    server = start()
    text(server, "create_sandbox", session_id="m")
    shown = value(server, "execute_code", session_id="m", code="print('first\\n' + 'xy\\n' * 1000000 + 'last')")["logs"]["stdout"][0]
    head, count, tail = re.fullmatch(r"(first\n.*)\n\.\.\. \[(\d+) bytes left out\] \.\.\.\n(.*last\n)", shown, re.DOTALL).groups()
    equal(len(head) + int(count) + len(tail), 3000011)
    value(server, "execute_code", session_id="m", code="open('long', 'w').write('y' * 3000000)")
    content = value(server, "read_file", session_id="m", file_path="long")["content"]
    contains(content, "\n... [cut: 3000000 bytes in all]")
    value(server, "execute_code", session_id="m", code="import os\nos.mkdir('many')\nfor i in range(5000): open(f'many/{i:0100}', 'w').close()")
    listed = value(server, "list_files", session_id="m", path="/many")
    assert 0 < len(listed["files"]) < 5000 and listed["truncated"] is True, list(listed)
    refused = server.start_call("create_sandbox", session_id="s" * 2000000).wait()
    assert "error" in refused and len(json.dumps(refused)) < 1000, refused
    server.close()


@suite.case("arguments that are not in the schemas are ignored")
def strays():
    server = start()
    text(server, "create_sandbox", session_id="s", env=["a"], memory_mb="x")
    server.start_call("install_package", session_id="s", package_name="left", packages=[1], manager="npm")
    equal(value(server, "execute_code", session_id="s", code="print(1)")["logs"]["stdout"], ["1\n"])
    server.close()


@suite.case("network, where it is allowed, is the same in every sandbox; that of telnet is no session", engines=ONE)
def network():
    server = start(None, "--allow-network")
    made = text(server, "create_sandbox", session_id="n")
    if made.startswith("Failed"):
        assert ON_OCI and not (shutil.which("slirp4netns") and os.path.exists("/dev/net/tun")), made
        raise Skip(made)
    routes = "print(open('/proc/net/route').read().count('\\n'))"
    ways = value(server, "execute_code", session_id="n", code=routes)["logs"]["stdout"]
    assert int(ways[0]) > 1, ways
    equal(value(server, "create_run_close", code=routes)["logs"]["stdout"], ways)
    refused = value(server, "connect", host="127.0.0.1", port=1)
    contains(refused["error"], "refused")
    equal(refused["connected"], False)
    equal(value(server, "get_sandbox_status")["active_sessions"], ["n"])
    server.close()


@suite.case("code that does not end, or writes without end, is answered in the same form")
def bounds():
    server = start(None, "--timeout-seconds", "2")
    text(server, "create_sandbox", session_id="b")
    late = value(server, "execute_code", session_id="b", code="kept = 1\nwhile True: pass")
    equal(late["error"]["name"], "TimeoutError")
    contains(late["error"]["value"], "timed out after ")
    equal(value(server, "execute_code", session_id="b", code="print(kept)")["logs"]["stdout"], ["1\n"])
    much = text(server, "execute_code", session_id="b", code="print('\\x01\"é' * 3000000)")
    assert len(json.dumps(much)) < 1 << 20, len(much)
    contains(json.loads(much)["logs"]["stdout"][0], "bytes")
    bad = value(server, "install_package", session_id="b", package_name="--index-url=x")
    contains(bad["error"], "Error installing package: ")
    server.close()


ROWS = [{"x": 1, "y": 2.5, "z": 1, "c": "a"}, {"x": 2, "y": 4, "z": 9, "c": "b"}, {"x": 3, "y": 3, "z": 4, "c": "a"}]


def chart(server, tool, **arguments):
    """The JSON of a chart, and the blocks of content after it."""
    result = server.start_call(tool, session_id="c", **arguments).result()
    equal(result.get("isError", False), False)
    first, *more = result["content"]
    done = json.loads(first["text"])
    assert "error" not in done, done
    return done, more


@suite.case("charts come as pictures, each in the sandbox, in the answer and as a block of its own", engines=ONE)
def charts():
    server = start()
    text(server, "create_sandbox", session_id="c")
    tried = value(server, "execute_code", session_id="c", code="import matplotlib")
    needs_modules({"status": "ok" if tried["error"] is None else "error", "said": tried}, "matplotlib")
    for tool, kind, title, more in (
        ("generate_line_chart", "line", "Line Chart", {"data": ROWS, "x_key": "x", "y_keys": ["y", "z"]}),
        ("generate_bar_chart", "bar", "Bar Chart", {"data": ROWS, "category_key": "c", "value_keys": ["y"], "orientation": "horizontal"}),
        ("generate_scatter_plot", "scatter", "Scatter Plot", {"data": ROWS, "x_key": "x", "y_key": "y", "color_key": "c", "size_key": "z"}),
        ("generate_heatmap", "heatmap", "Heatmap", {"data": [[1, 2], [3, 4]], "row_labels": ["a", "b"], "col_labels": None}),
    ):
        done, blocks = chart(server, tool, **more)
        equal(list(done), ["chart_type", "title", "file_path", "base64_image", "message"])
        equal((done["chart_type"], done["title"]), (kind, title))
        equal(blocks, [{"type": "image", "mimeType": "image/png", "data": done["base64_image"]}])
        data = base64.b64decode(done["base64_image"])
        picture = Picture(data)
        drawn = picture.width * picture.height - picture.count((255, 255, 255))
        assert drawn > 100, f"{tool}: {drawn} pixels that are not white"
        digest = f"import hashlib; print(hashlib.sha256(open({done['file_path']!r}, 'rb').read()).hexdigest())"
        equal(value(server, "execute_code", session_id="c", code=digest)["logs"]["stdout"], [hashlib.sha256(data).hexdigest() + "\n"])
    done, _ = chart(server, "generate_line_chart", data=ROWS, x_key="x", y_keys=["y"], save_path="/plot.png")
    equal(done["file_path"], "/workspace/plot.png")
    wrong = value(server, "generate_line_chart", session_id="c", data=ROWS, x_key="none", y_keys=["y"])
    equal(wrong, {"error": "Error generating chart: data has rows without 'none'"})
    server.close()


@suite.case("interactive charts are a page that needs nothing else")
def interactive_charts():
    server = start()
    text(server, "create_sandbox", session_id="c")
    title = "a<b & \"c\"; import os"
    for kind in ("line", "bar", "scatter", "area", "sunburst"):
        done, blocks = chart(server, "generate_interactive_chart", chart_type=kind, data=ROWS, x_key="x", y_keys=["y", "z"], title=title, save_path="out/p.html")
        equal(list(done), ["chart_type", "interactive", "title", "file_path", "html_content", "message"])
        equal((done["chart_type"], done["interactive"], done["title"], done["file_path"]), (kind, True, title, "/workspace/out/p.html"))
        equal(blocks, [])
        contains(done["html_content"], "a&lt;b &amp;")
        equal(("<polygon" in done["html_content"], "<polyline" in done["html_content"]), (kind == "area", kind in ("line", "area", "sunburst")), kind)
        equal(("<rect" in done["html_content"], "<circle" in done["html_content"]), (kind == "bar", kind != "bar"), kind)
        assert "src=" not in done["html_content"] and "http" not in done["html_content"]
    for kind in ("a/b", "../x", "x" * 300):  # a kind is no part of a path
        done, _ = chart(server, "generate_interactive_chart", chart_type=kind, data=ROWS, x_key="x", y_keys="y")
        equal(done["chart_type"], kind)
        assert re.fullmatch(r"/workspace/line_[0-9a-f]{8}\.html", done["file_path"]), done["file_path"]
    rows = [{"x": f"{i} {'ä漢' * 30}", "y": i} for i in range(1500)]
    answer = server.start_call("generate_interactive_chart", session_id="c", chart_type="bar", data=rows, x_key="x", y_keys="y").result()
    assert len(json.dumps(answer)) < 1 << 20, len(json.dumps(answer))
    done = json.loads(answer["content"][0]["text"])
    equal(done["html_content"], None)
    contains(done["message"], "too large for this answer")
    server.close()


@suite.case("telnet goes out of a sandbox with network, or not at all", engines=ONE)
def telnet():
    server = start()
    refused = value(server, "connect", host="127.0.0.1", port=1)
    equal((list(refused), refused["connected"]), (["connected", "error"], False))
    contains(refused["error"], "--allow-network")
    equal(value(server, "list_connections"), {"count": 0, "connections": []})
    for tool, more in (("send_command", {"command": "hi"}), ("disconnect", {})):
        equal(value(server, tool, session_id="x", **more), {"success": False, "error": "No active connection with session ID x"})
    server.close()


@suite.case("INTERPRETER_TYPE says how results look")
def shapes():
    if not ON_PIPE:
        return
    server = start("firecracker")
    text(server, "create_sandbox", session_id="v")
    equal(value(server, "get_sandbox_status", session_id="v")["interpreter_type"], "firecracker")
    equal(value(server, "execute_code", session_id="v", code="print(1)"), {"logs": "1\n", "error": None})
    failed = value(server, "execute_code", session_id="v", code="import sys; sys.stderr.write('w\\n'); 1/0")
    contains(failed["error"], "w\nTraceback")
    equal(value(server, "execute_code", session_id="v", code="import sys; print(1); sys.stderr.write('only a warning')"), {"logs": "1\n", "error": "only a warning"})
    value(server, "write_file", session_id="v", file_path="/workspace/a", content="12")
    (item,) = value(server, "list_files", session_id="v", path="/workspace")["files"]
    equal(sorted(item), ["group", "modified", "name", "owner", "permissions", "size", "type"])
    equal((item["name"], item["type"], item["size"], item["permissions"]), ("a", "file", 2, "-rw-r--r--"))
    assert re.fullmatch(r"[A-Z][a-z][a-z] [1-9]\d? \d\d:\d\d", item["modified"]), item
    value(server, "execute_code", session_id="v", code="import os\nos.utime('a', (1582934400, 1582934400))\nos.mkdir('d')\nos.symlink('d', 'way')")
    listed = {item["name"]: item for item in value(server, "list_files", session_id="v", path="/workspace")["files"]}
    equal((listed["a"]["modified"], listed["d"]["type"], listed["way"]["type"], listed["way"]["permissions"]), ("Feb 29 2020", "directory", "directory", "lrwxrwxrwx"))
    server.close()
    server = start("e2b")
    equal(value(server, "get_sandbox_status")["interpreter_type"], "e2b")
    server.close()


@suite.case("a file .env says the form of results, too, and INTERPRETER_TYPE is no backend to this profile's doctor")
def settings():
    place = mcp.temporary_directory()

    def begun(content, **env):
        with open(os.path.join(place, ".env"), "w", encoding="utf-8") as file:
            file.write(content)
        program = os.path.abspath(os.environ["CLOISTER"])
        return Server("--compat", "code-sandbox", env=env, program=program, preexec=lambda: os.chdir(place))

    for content, env, kind in (
        ("# ours\nE2B_API_KEY=x\nexport INTERPRETER_TYPE = 'firecracker'\n", {}, "firecracker"),
        ("INTERPRETER_TYPE=firecracker # slow\n", {"INTERPRETER_TYPE": "e2b"}, "e2b"),
        ("OTHER=firecracker\n", {}, "e2b"),
    ):
        with begun(content, **env) as server:
            server.legacy("2024-11-05")
            equal(value(server, "get_sandbox_status")["interpreter_type"], kind)
    wrong = begun("INTERPRETER_TYPE=docker\n")
    equal(wrong.wait_exit(), 64)
    wrong.logger.join(30)
    contains(wrong.log_tail(), ".env: INTERPRETER_TYPE: expected e2b or firecracker")
    for words in (("doctor", "--compat", "code-sandbox"), ("--compat=code-sandbox", "doctor")):
        done = run_cloister(*words, INTERPRETER_TYPE="e2b")
        equal((done.returncode, done.stderr.count("INTERPRETER_TYPE")), (0, 1), done.stderr)
        contains(done.stderr, "E2B_API_KEY is not set: sandboxes are those of --backend auto")
    done = run_cloister("doctor", "--compat", "code-sandbox", INTERPRETER_TYPE="e3b")
    equal(done.returncode, 64)
    for name in ("docker", "oci", "--compat code-sandbox also: e2b firecracker"):
        contains(done.stderr, name)


def run_cloister(*words, **env):
    environment = {**os.environ, "CLOISTER_BACKEND": "", "E2B_API_KEY": "", **env}
    return subprocess.run([os.environ["CLOISTER"], *words], env=environment, capture_output=True, text=True, timeout=240, check=False)


@suite.case("code that runs longer than a call may wait: the answer has what there is, and the code goes on")
def long_code():
    slow = "import time\nprint('begun', flush=True)\nfor _ in range(600): time.sleep(0.1)"
    for kind in ("e2b", "firecracker"):
        server = start(kind, "--sync-budget-seconds", "6")
        text(server, "create_sandbox", session_id="w")
        done = value(server, "execute_code", session_id="w", code=slow)
        said = done["error"] if kind == "firecracker" else done["error"]["value"]
        equal(done["logs"] if kind == "firecracker" else done["logs"]["stdout"][0], "begun\n")
        assert kind == "firecracker" or (done["error"]["name"], done["error"]["traceback"]) == ("StillRunning", ""), done
        execution = re.search(r'get_execution with execution_id "(\w+)"', said)[1]
        server.start_call("cancel_execution", execution_id=execution).result()
        equal(value(server, "execute_code", session_id="w", code="print(2)")["error"], None)
        once = value(server, "create_run_close", code=slow)
        equal((once["sandbox_closed"], once["sandbox_removed"]), (False, True))
        contains(once["close_error"], "closes when it has ended")
        said = once["error"] if kind == "firecracker" else once["error"]["value"]
        server.start_call("cancel_execution", execution_id=re.search(r'execution_id "(\w+)"', said)[1]).result()
        server.close()


suite.run()
