"""The audit log: a line for each tool call, and none of its secrets; a file that is renamed, or cannot be used."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, MODERN, NONE, Suite, contains, equal, mcp, needs_runtime, poll
from control import Control
from mcp_http import HttpServer
from metrics_page import number, page
from tokens_file import Tokens, bearer

needs_runtime()
suite = Suite(NONE)  # what is noted does not depend on the backend


def new_file():
    return os.path.join(mcp.temporary_directory(), "audit.log")


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines()]


def wait_lines(path, count):
    """Lines are written by a thread, soon after the answer."""
    return poll(f"{count} lines", lambda: len(found := lines(path)) >= count and found)


def digest(code):
    return hashlib.sha256(code.encode()).hexdigest()


@suite.case("a line for each call: who, what, where, how it ended, and the digest of the code; no secrets")
def each_call():
    path, file = new_file(), Tokens()
    alice, bob = file.add("alice"), file.add("bob")
    with HttpServer("--tokens", file.path, "--audit-log", path) as server:
        client = server.client(LATEST_LEGACY, token=alice)
        sandbox = client.call("create_sandbox", env={"KEY": "marsupial-env"})["sandbox_id"]
        code = "print('marsupial-code')"
        run = client.call("execute_code", sandbox_id=sandbox, code=code, stdin="marsupial-stdin")
        client.call_failing("execute_code", sandbox_id=sandbox, code="1 / 0", language="python")
        client.call("write_file", sandbox_id=sandbox, path="marsupial-path", content="marsupial-content")
        client.call_failing("read_file", sandbox_id=sandbox, path="marsupial-none")
        client.request("tools/call", {"name": "read_file", "arguments": {"marsupial": 1}})
        client.call("close_sandbox", sandbox_id=sandbox)
        modern = server.client(MODERN, token=bob)
        modern.request("tools/call", {"name": "get_sandbox_status", "arguments": {}})
        found = wait_lines(path, 8)
        equal([line["tool"] for line in found],
              ["create_sandbox", "execute_code", "execute_code", "write_file", "read_file", "read_file", "close_sandbox", "get_sandbox_status"])
        equal([line["outcome"] for line in found], ["ok", "ok", "error", "ok", "failed", "invalid", "ok", "ok"])
        equal([line["principal"] for line in found], ["alice"] * 7 + ["bob"])
        equal([line["session"] for line in found], ["session"] * 7 + ["request"])
        equal({line.get("sandbox") for line in found[1:5]}, {sandbox})
        first = found[1]
        equal((first["execution"], first["code_sha256"], first["code_bytes"]), (run["execution_id"], digest(code), len(code)))
        assert first["duration_ms"] >= first["run_ms"] >= 0 and first["cpu_ms"] >= 0, first
        equal(found[2]["language"], "python")
        equal(found[4]["error"], "file_not_found")
        equal(os.stat(path).st_mode & 0o7777, 0o600)
    with open(path, "rb") as text:
        whole = text.read()
    for secret in (b"marsupial", alice.encode(), bob.encode()):
        assert secret not in whole, whole


@suite.case("with --audit-code the code is there; a call that was cancelled, and one that goes on, are told as that")
def with_code():
    path = new_file()
    with HttpServer("--audit-log", path, "--audit-code") as server:
        client = server.client(LATEST_LEGACY)
        code = "import time\nprint('Größe', flush=True)\ntime.sleep(600)"
        waiting = client.start_call("execute_code", code=code, timeout_seconds=900)
        poll("it is in flight", lambda: number(page(server), "cloister_sandboxes", state="ready") == 1)
        client.notify("notifications/cancelled", {"requestId": waiting.ident})
        line = wait_lines(path, 1)[0]
        equal((line["outcome"], line["code"], line["code_sha256"]), ("cancelled", code, digest(code)))
        server.close_sandboxes()


@suite.case("on stdio as well, and its last call before the end is there")
def on_stdio():
    path = new_file()
    with mcp.Server("--audit-log", path) as server:
        server.open(LATEST_LEGACY)
        server.call("get_sandbox_status")
    found = lines(path)
    if "could not be written" in server.log_tail():
        return  # a disk that slow costs lines, and not the end of the server
    equal([(line["session"], line["tool"], line["outcome"]) for line in found], [("stdio", "get_sandbox_status", "ok")])


@suite.case("what operators do has a line: who, what, on which sandbox, and how it ended; who only looks has none")
def operators():
    path, file = new_file(), Tokens()
    alice, root = file.add("alice"), file.add("root", "admin=yes")
    with HttpServer("--tokens", file.path, "--audit-log", path) as server:
        control, me = Control(server), f"user {os.geteuid()}"
        sandbox = server.client(LATEST_LEGACY, token=alice).call("create_sandbox", name="box")["sandbox_id"]
        wait_lines(path, 1)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CLOISTER_")}

        def command(*words, status=0, **how):
            done = subprocess.run([os.environ["CLOISTER"], "--runtime-dir", server.runtime_dir, *words], env=environment, capture_output=True, timeout=300, check=False, **how)
            equal(done.returncode, status, done.stderr)

        command("ps", stdin=subprocess.DEVNULL)
        command("exec", "box", "echo", "marsupial", stdin=subprocess.DEVNULL)
        command("cp", "-", "box:marsupial", input=b"marsupial")
        command("cp", "box:marsupial", "-", stdin=subprocess.DEVNULL)
        command("cp", "box:none", "-", status=1, stdin=subprocess.DEVNULL)
        command("stop", "box", stdin=subprocess.DEVNULL)
        command("--tokens", file.path, "--audit-log", path, "token", "add", "bob", "admin=yes", "sandboxes=2", stdin=subprocess.DEVNULL)
        command("--tokens", file.path, "--audit-log", path, "token", "revoke", "eve", status=65, stdin=subprocess.DEVNULL)
        command("reload", stdin=subprocess.DEVNULL)
        equal(server.ask("GET", "/api/v1/sandboxes", [bearer(root)]).head.status, 200)
        equal(server.ask("DELETE", "/api/v1/sandboxes/box", [bearer(alice)]).head.status, 403)
        equal(server.ask("DELETE", "/api/v1/sandboxes/box", [bearer(root)]).head.status, 200)
        equal(control.failing("DELETE", "/v1/sandboxes/box", 404)["code"], "sandbox_not_found")
        found = sorted(wait_lines(path, 11)[1:], key=lambda line: line["time"])
        told = [(line["principal"], line["session"], line["action"], line.get("sandbox"), line["outcome"]) for line in found]
        equal(told, [
            (me, "control", "execution.start", sandbox, "ok"),
            (me, "control", "file.write", sandbox, "ok"),
            (me, "control", "file.read", sandbox, "ok"),
            (me, "control", "file.read", sandbox, "failed"),
            (me, "control", "sandbox.stop", sandbox, "ok"),
            (me, "command", "token.add", None, "ok"),
            (me, "command", "token.revoke", None, "failed"),
            (me, "control", "reload", None, "ok"),
            ("root", "control", "sandbox.close", sandbox, "ok"),
            (me, "control", "sandbox.close", None, "failed"),
        ])
        equal((found[0]["code_sha256"], len(found[0]["execution"]) > 0), (digest("echo marsupial"), True))
        equal((found[3]["error"], found[9]["error"]), ("file_not_found", "sandbox_not_found"))
        equal([(line.get("target"), line.get("words")) for line in found[5:7]], [("bob", "admin=yes sandboxes=2"), ("eve", None)])
    with open(path, "rb") as text:
        assert b"marsupial" not in text.read()


@suite.case("cloister token makes no audit log, which a server of another user could not open, but says what is missing")
def no_log_yet():
    path, file = new_file(), Tokens()
    words = ["--tokens", file.path, "--audit-log", path, "token", "add", "alice"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CLOISTER_")}
    done = subprocess.run([os.environ["CLOISTER"], *words], env=environment, capture_output=True, text=True, timeout=120, check=True)
    contains(done.stderr, "this is not in the audit log")
    contains(done.stderr, path)
    equal((os.path.exists(path), len(done.stdout.split())), (False, 1), "the token is made")


@suite.case("SIGHUP opens the file again, and reads tokens as before")
def rotation():
    path, file = new_file(), Tokens()
    alice = file.add("alice", "metrics=yes")
    with HttpServer("--tokens", file.path, "--audit-log", path) as server:
        client = server.client(LATEST_LEGACY, token=alice)
        client.call("get_sandbox_status")
        wait_lines(path, 1)
        os.rename(path, path + ".1")
        bob = file.add("bob", "metrics=yes")
        os.kill(server.process.pid, signal.SIGHUP)
        poll("bob's token is good", lambda: server.ask("GET", "/metrics", [bearer(bob)]).head.status == 200)
        poll("there is a new file", lambda: os.path.exists(path))
        client.call("get_sandbox_status")
        wait_lines(path, 1)
        equal(len(lines(path + ".1")), 1)


@suite.case("a file that cannot grow stops no call; missing lines are counted")
def full():
    path = new_file()

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    with open(path, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(b"{}\n" * 330)  # ten bytes are left
    with HttpServer("--audit-log", path, preexec=limit) as server:
        client = server.client(LATEST_LEGACY)
        for _ in range(3):
            client.call("get_sandbox_status")
        poll("they are counted", lambda: number(page(server), "cloister_audit_dropped_total", reason="write_failed") == 3)
        equal(number(page(server), "cloister_audit_lines_total"), 0)
        poll("the log says so", lambda: "cannot write to" in server.log_tail())


@suite.case("a file that others could choose or read is refused when the server starts, with what to do")
def refused():
    path = new_file()
    directory = os.path.dirname(path)
    os.symlink("elsewhere", path)
    with open(os.path.join(directory, "open"), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
    for options, words in (
        (("--audit-log", path), "symbolic link"),
        (("--audit-log", os.path.join(directory, "open")), "chmod 600"),
        (("--audit-log", "/dev/null"), "not a file"),
        (("--audit-log", directory), "directory"),
        (("--audit-code",), "--audit-log"),
    ):
        done = subprocess.run([os.environ["CLOISTER"], "--runtime-dir", directory, *options], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        equal((done.returncode, done.stdout), (64, ""), f"{options}: {done.stderr}")
        contains(done.stderr, words)


suite.run()
