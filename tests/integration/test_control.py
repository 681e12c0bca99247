"""The control API: what it shows and does, on the socket of an instance and over HTTP, and who may use it."""

import base64
import json
import os
import signal
import socket
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "http"))

# pylint: disable=wrong-import-position
from common import LATEST_LEGACY, NONE, Skip, Suite, contains, equal, needs_runtime, poll
from control import Control, OnSocket, Stream, sockets
from mcp import Server
from mcp_http import HttpServer
from tokens_file import Tokens, bearer

needs_runtime()
suite = Suite(NONE)  # it is about the supervisor
_shared = []
WATCHERS = 64


def shared():
    """A server over HTTP, a client of it, and its API."""
    if not _shared:
        server = HttpServer()
        _shared.extend([server, server.client(LATEST_LEGACY), Control(server)])
    return _shared


@suite.case("a server over HTTP has its socket from the start, for its user only; a socket that was left is replaced")
def place():
    server, _, control = shared()
    mode = os.stat(control.path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, oct(mode)
    version = control.get("/v1/version")
    equal(version["pid"], server.process.pid)
    equal(version["api"], 1)
    other = HttpServer()
    other.kill()
    equal(len(sockets(other.runtime_dir)), 1, "sockets left by a server that was killed")
    following = HttpServer(runtime_dir=other.runtime_dir)
    equal(Control(following).get("/v1/version")["pid"], following.process.pid)
    following.close()
    equal(sockets(other.runtime_dir), [], "sockets after an orderly end")


@suite.case("a process of another user is turned away, even where it can reach the socket", when=os.geteuid() == 0)
def others():
    with HttpServer() as server:
        path = Control(server).path
        os.chmod(server.runtime_dir, 0o711)
        os.chmod(path, 0o666)
        code = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.sendall(b'GET /v1/version HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nprint(len(s.recv(100)))"
        for user, answered in ((65534, False), (0, True)):
            done = subprocess.run(["/usr/bin/python3", "-c", code, path], user=user, capture_output=True, text=True, timeout=120, check=False)
            equal(done.returncode == 0 and int(done.stdout) > 0, answered, f"user {user}: {done.stdout} {done.stderr[-300:]}")
        poll("the log says so", lambda: any("turned away" in line for line in server.log))


@suite.case("a server on stdio has no socket before its first sandbox, and takes it away at the end")
def on_stdio():
    server = Server()
    server.legacy()
    server.request("tools/list")
    equal(sockets(server.runtime_dir), [])
    sandbox = server.call("create_sandbox")["sandbox_id"]
    control = Control(server)
    status = control.get("/v1/status")
    equal((status["instance"], status["url"], status["stdio"]), ("", "", True))
    equal(status["sandboxes"]["states"], {"ready": 1})
    assert status["engine"]["backend"], status
    equal([s["sandbox_id"] for s in control.get("/v1/sandboxes")["sandboxes"]], [sandbox])
    server.close()
    equal(sockets(server.runtime_dir), [])


@suite.case("curl reads it")
def with_curl():
    _, _, control = shared()
    try:
        command = ["curl", "-sS", "--unix-socket", control.path, "http://cloister/v1/version"]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    except FileNotFoundError:
        raise Skip("no curl here") from None
    equal(json.loads(done.stdout)["pid"], shared()[0].process.pid)


@suite.case("sandboxes, workers and executions are shown with their owner, as tools show them")
def shown():
    _, client, control = shared()
    made = client.call("create_sandbox", name="shown", memory_mb=256)
    run = client.call("execute_code", sandbox_id=made["sandbox_id"], code="print('seen'); 6 * 7")
    for name in ("shown", made["sandbox_id"]):
        sandbox = control.get(f"/v1/sandboxes/{name}")
        for member in ("sandbox_id", "name", "backend", "state", "limits", "created_at", "workspace"):
            equal(sandbox[member], client.call("get_sandbox_status", sandbox_id=made["sandbox_id"])[member])
        equal(sandbox["owner"], "local")
        assert sandbox["usage"]["memory_bytes"] > 0, sandbox
        equal([e["execution_id"] for e in sandbox["executions_recent"]], [run["execution_id"]])
    (row,) = [s for s in control.get("/v1/sandboxes?usage=1")["sandboxes"] if s["name"] == "shown"]
    assert row["usage"]["processes"] >= 1, row
    assert all("usage" not in s for s in control.get("/v1/sandboxes")["sandboxes"])
    (worker,) = [w for w in control.get("/v1/workers")["workers"] if w["sandbox_id"] == made["sandbox_id"]]
    equal((worker["pid"], worker["owner"]), (client.worker_pid(made["sandbox_id"]), "local"))
    execution = control.get(f"/v1/executions/{run['execution_id']}")
    equal((execution["stdout"], execution["result"], execution["owner"]), ("seen\n", "42", "local"))
    rows = control.get(f"/v1/executions?sandbox=shown&limit=1")["executions"]
    equal([(r["execution_id"], r["status"]) for r in rows], [(run["execution_id"], "ok")])
    client.call("close_sandbox", sandbox_id=made["sandbox_id"])


@suite.case("an execution is waited for and stopped, all of a sandbox at once, and a sandbox is closed")
def ended():
    _, client, control = shared()
    sandbox = client.call("create_sandbox", name="ended")["sandbox_id"]
    code = "import time\nprint('on', flush=True)\ntime.sleep(900)"
    calls = [client.start_call("execute_code", sandbox_id=sandbox, code=code, timeout_seconds=1000)]
    running = "/v1/executions?running=1&sandbox=ended"
    (first,) = poll("it runs", lambda: control.get(running)["executions"])
    equal(control.get(f"/v1/executions/{first['execution_id']}")["status"], "running")
    equal(control.ask("POST", f"/v1/executions/{first['execution_id']}/stop").json()["stopping"], True)
    equal(control.get(f"/v1/executions/{first['execution_id']}?wait=600")["status"], "cancelled")
    equal(calls.pop().failed()["status"], "cancelled")
    waits = {"python": code, "bash": "sleep 900"}
    calls = [client.start_call("execute_code", sandbox_id=sandbox, code=waits[name], timeout_seconds=1000, language=name) for name in waits]
    both = poll("both run", lambda: (lambda rows: rows if len(rows) == 2 else None)(control.get(running)["executions"]))
    stopped = control.ask("POST", "/v1/sandboxes/ended/stop").json()["stopped"]
    equal(sorted(stopped), sorted(row["execution_id"] for row in both))
    for call in calls:
        call.wait()
    equal(control.get("/v1/sandboxes/ended")["state"], "ready")
    equal(control.ask("DELETE", "/v1/sandboxes/ended").json(), {"sandbox_id": sandbox, "state": "closed"})
    equal(control.failing("GET", "/v1/sandboxes/ended", 404)["code"], "sandbox_not_found")
    equal(client.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"]["code"], "sandbox_not_found")


@suite.case("what happens is told as it happens, and to those who come later from where they say")
def events():
    _, client, control = shared()
    last = control.get("/v1/status")["last_event"]
    with Stream(control, "/v1/events?follow=1") as stream:
        equal(stream.status, 200)
        sandbox = client.call("create_sandbox", name="told")["sandbox_id"]
        client.call_failing("execute_code", sandbox_id=sandbox, code="1 / 0")

        def of_it():
            return [(e["event"], e.get("text")) for e in stream.lines if e["sandbox_id"] == sandbox]

        client.kill_worker(sandbox)
        poll("the next worker", lambda: [name for name, _ in of_it()].count("sandbox.ready") == 2)
        client.call("close_sandbox", sandbox_id=sandbox)
        poll("it is closed", lambda: "sandbox.closed" in [name for name, _ in of_it()])
        seen = of_it()
    names = [name for name, _ in seen]
    equal(names[:4], ["sandbox.ready", "execution.started", "execution.ended", "sandbox.recovering"])
    equal((seen[1][1], seen[2][1]), ("python", "error"))
    assert names.index("sandbox.closing") > names.index("sandbox.ready", 1), names
    equal(len({e["number"] for e in stream.lines}), len(stream.lines), "numbers")
    later = [(e["event"], e.get("text")) for e in control.lines(f"/v1/events?since={last}") if e["sandbox_id"] == sandbox]
    equal(later, seen)
    equal(control.lines("/v1/events?since=999999999")[0]["number"] >= 1, True, "a number of an earlier server")


@suite.case("output is followed as it comes, to its end, whatever bytes it is")
def logs():
    _, client, control = shared()
    sandbox = client.call("create_sandbox")["sandbox_id"]
    code = (
        "import sys, os, pathlib, time\nprint('begun ä', flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.02)\n"
        "sys.stdout.buffer.write(b'\\xff\\x00' * 3); sys.stdout.flush()\nprint('x' * 100000)\nprint('end', file=sys.stderr)"
    )
    call = client.start_call("execute_code", sandbox_id=sandbox, code=code, timeout_seconds=1000)
    (row,) = poll("it runs", lambda: control.get(f"/v1/executions?running=1&sandbox={sandbox}")["executions"])
    path = f"/v1/executions/{row['execution_id']}/logs"

    def text(lines, stream):
        pieces = [e for e in lines if e.get("stream") == stream and "missed" not in e]
        return b"".join(base64.b64decode(e["base64"]) if "base64" in e else e["text"].encode() for e in pieces)

    with Stream(control, path + "?follow=1") as stream:
        poll("its first line", lambda: text(stream.lines, "stdout") == "begun ä\n".encode())
        (now,) = [e["end"] for e in control.lines(path) if "end" in e]
        equal(now["status"], "running")
        client.call("write_file", sandbox_id=sandbox, path="go", content="")
        poll("its end", lambda: stream.ended)
        whole = "begun ä\n".encode() + b"\xff\x00" * 3 + b"x" * 100000 + b"\n"
        equal(text(stream.lines, "stdout"), whole)
        equal(text(stream.lines, "stderr"), b"end\n")
        equal((stream.lines[-1]["end"]["status"], stream.lines[-1]["end"]["execution_id"]), ("ok", row["execution_id"]))
        assert "stdout" not in stream.lines[-1]["end"]
    call.structured()
    equal(text(control.lines(path), "stdout"), whole, "the same afterwards")
    long = client.call("execute_code", sandbox_id=sandbox, code="for i in range(400000): print('%09d' % i)")
    lines = control.lines(f"/v1/executions/{long['execution_id']}/logs")
    shown, missed = len(text(lines, "stdout")), sum(e.get("missed", 0) for e in lines)
    equal(shown + missed, 4000000, "bytes shown and missed")
    assert text(lines, "stdout").endswith(b"000399999\n") and missed > 0, missed
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("what is wrong with a request is said: path, method, number, name")
def wrong():
    _, _, control = shared()
    contains(control.failing("GET", "/v1/sandboxs", 404)["hint"], "/v1/sandboxes")
    contains(control.failing("GET", "/", 404)["hint"], "GET /v1")
    refused = control.ask("DELETE", "/v1/version")
    equal((refused.status, refused.headers["Allow"]), (405, "GET"))
    equal(control.ask("POST", "/v1/sandboxes/x").headers["Allow"], "GET, DELETE")
    contains(control.failing("GET", "/v1/executions?limit=many", 400)["message"], "limit")
    equal(control.failing("GET", "/v1/executions/none", 404)["code"], "execution_not_found")
    equal(control.failing("POST", "/v1/executions/none/stop", 404)["code"], "execution_not_found")
    equal(control.failing("GET", "/v1/executions/none/logs?follow=1", 404)["code"], "execution_not_found")
    equal(control.failing("DELETE", "/v1/sandboxes/none", 404)["code"], "sandbox_not_found")
    for path in ("/v1/sandboxes/", "/v1/sandboxes//stop", "/v1/sandboxes/a/b", "/v2/version"):
        equal(control.ask("GET", path).status in (404, 405), True, path)
    paths = {(row["method"], row["path"]) for row in control.get("/v1")["paths"]}
    assert ("GET", "/v1/events") in paths and all(p.startswith("/v1") for _, p in paths), paths


@suite.case("more watchers than there is room for are refused, and the server serves on")
def crowd():
    server, client, control = shared()
    streams = [Stream(control, "/v1/events?follow=1") for _ in range(WATCHERS)]
    try:
        equal({s.status for s in streams}, {200})
        refusal = control.failing("GET", "/v1/events?follow=1", 429)
        contains(refusal["hint"], "since=")
        idle = []
        for _ in range(1000):  # far more than it takes at a time: they wait in the kernel, or are refused
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            try:
                one.connect(control.path)
                idle.append(one)
            except (BlockingIOError, OSError):
                one.close()
        sandbox = client.call("create_sandbox")["sandbox_id"]
        equal(client.run("1 + 1", sandbox_id=sandbox)["result"], "2")
        for stream in streams:
            poll("all are told", lambda s=stream: any(e["sandbox_id"] == sandbox for e in s.lines))
        client.call("close_sandbox", sandbox_id=sandbox)
        for one in idle:
            one.close()
    finally:
        for stream in streams:
            stream.close()
    poll("there is room again", lambda: opened_once(control, "/v1/events?follow=1"))
    equal(server.process.poll(), None)


@suite.case("those who read what there is are not counted among those who follow, and have it whole")
def readers():
    _, client, control = shared()
    sandbox = client.call("create_sandbox", name="read")["sandbox_id"]
    call = client.start_call("execute_code", sandbox_id=sandbox, code="import time\nprint('on', flush=True)\ntime.sleep(900)", timeout_seconds=1000)
    (row,) = poll("it runs", lambda: control.get(f"/v1/executions?running=1&sandbox={sandbox}")["executions"])
    path = f"/v1/executions/{row['execution_id']}/logs"
    streams = [Stream(control, f"{path}?follow=1") for _ in range(WATCHERS)]
    streams += [Stream(control, "/v1/events?follow=1") for _ in range(WATCHERS)]
    try:
        equal({s.status for s in streams}, {200})
        contains(control.failing("GET", f"{path}?follow=1", 429)["hint"], "without follow")
        poll("what there is of the output", lambda: any(e.get("text") == "on\n" for e in control.lines(path)))
        last = control.get("/v1/status")["last_event"]
        numbers = [e["number"] for e in control.lines("/v1/events")]
        equal(numbers[-1] >= last and numbers == list(range(numbers[0], numbers[-1] + 1)), True, numbers)
        equal([e["number"] for e in control.lines(f"/v1/events?since={last - 1}")][:1], [last])
    finally:
        for stream in streams:
            stream.close()
    poll("there is room again", lambda: opened_once(control, f"{path}?follow=1"))
    client.call("close_sandbox", sandbox_id=sandbox)
    call.wait()


def opened_once(control, path):
    with Stream(control, path) as stream:
        return stream.status == 200


@suite.case("a watcher who reads nothing costs nothing, and is told what it has missed")
def slow():
    _, client, control = shared()
    connection = OnSocket(control.path)
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.request("GET", "/v1/events?follow=1")
    sandbox = client.call("create_sandbox")["sandbox_id"]
    for _ in range(1500):  # two notes each: several times what is kept
        client.call("execute_code", sandbox_id=sandbox, code="0")
    client.call("close_sandbox", sandbox_id=sandbox)
    response = connection.getresponse()
    lines = []
    while not any(e.get("event") == "sandbox.closed" and e["sandbox_id"] == sandbox for e in lines):
        lines.append(json.loads(response.readline()))
    numbers = [e["number"] for e in lines if "number" in e]
    missed = sum(e["count"] for e in lines if e["event"] == "missed")
    equal(missed, numbers[-1] - numbers[0] + 1 - len(numbers), "notes that were missed")
    connection.close()


@suite.case("over HTTP it is for principals with admin=yes, who see what all have; a reload takes effect")
def admins():
    file = Tokens()
    alice, root = file.add("alice"), file.add("root", "admin=yes", hashed=True)
    with HttpServer("--tokens", file.path) as server:
        client = server.client(LATEST_LEGACY, token=alice)
        sandbox = client.call("create_sandbox")["sandbox_id"]
        equal(server.ask("GET", "/api/v1/sandboxes").head.status, 401)
        refused = server.ask("GET", "/api/v1/sandboxes", [bearer(alice)])
        equal(refused.head.status, 403)
        for word in (b"forbidden", b"admin=yes"):
            contains(refused.body, word)
        equal(server.ask("DELETE", f"/api/v1/sandboxes/{sandbox}", [bearer(alice)]).head.status, 403)
        equal(server.ask("GET", "/api/v1/sandboxes", [bearer(root), ("Origin", "https://elsewhere.example")]).head.status, 403)
        listed = json.loads(server.ask("GET", "/api/v1/sandboxes", [bearer(root)]).body)
        equal([(s["sandbox_id"], s["owner"]) for s in listed["sandboxes"]], [(sandbox, "alice")])
        equal(json.loads(server.ask("DELETE", f"/api/v1/sandboxes/{sandbox}", [bearer(root)]).body)["state"], "closed")
        file.lines[0] += " admin=yes"
        file.write()
        server.process.send_signal(1)
        poll("alice may", lambda: server.ask("GET", "/api/v1/status", [bearer(alice)]).head.status == 200)


@suite.case("where no tokens are asked for everybody may, and streams end with the server")
def open_and_end():
    with HttpServer() as server:
        equal(json.loads(server.ask("GET", "/api/v1/version").body)["pid"], server.process.pid)
        stream = Stream(Control(server), "/v1/events?follow=1")
        server.process.terminate()
        server.wait_exit()
        poll("the stream ends", lambda: stream.ended)
        stream.close()


@suite.case("a request that is not whole when the server begins to end is refused, over HTTP as on the socket")
def late():
    server = HttpServer()
    client, control = server.client(LATEST_LEGACY), Control(server)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    over_http = server.place.connect()
    on_socket = socket.socket(socket.AF_UNIX)
    on_socket.connect(control.path)
    for one, prefix in ((over_http, "/api"), (on_socket, "")):
        one.settimeout(120)
        one.sendall(f"POST {prefix}/v1/sandboxes/{sandbox}/exec HTTP/1.1\r\nHost: {server.place.authority}\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n".encode())
        contains(one.recv(1000), b"100 Continue")
    os.kill(client.worker_pid(sandbox), signal.SIGSTOP)  # so that the end takes a while
    server.process.send_signal(signal.SIGINT)
    poll("it has begun to end", lambda: not os.path.exists(control.path))
    for one in (over_http, on_socket):
        one.sendall(b'{"code":"1"}')
        contains(one.recv(10000), b"shutting_down")
        one.close()
    server.wait_exit()


@suite.case("nothing is left at the end")
def end():
    server = shared()[0]
    server.close_sandboxes()
    server.close()


suite.run()
