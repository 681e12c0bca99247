"""What somebody sees who starts the command by hand, mistypes it, or reads its log."""

import json
import os
import pty
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, NONE, ON_OCI, Server, Suite, contains, equal, mcp, needs_runtime, poll, skip_all

needs_runtime()
if not ON_OCI:
    skip_all("does not depend on the backend")
suite = Suite(NONE)
PROGRAM = os.environ["CLOISTER"]
USAGE = 64  # the status of wrong words, as sysexits.h has it
# without what the tests have for themselves, of which the program would tell
PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("CLOISTER_")}


def run(*words, **env):
    return subprocess.run(
        [PROGRAM, *words], env={**PLAIN, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


@suite.case("on a terminal it says what it waits for and how to leave, serves what is typed, and Ctrl-D ends it")
def terminal():
    ours, theirs = pty.openpty()
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "hands", "version": "1"}}}
    process = subprocess.Popen([PROGRAM, "--runtime-dir", mcp.temporary_directory()], env=PLAIN, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(theirs)
    said = b"".join(process.stderr.readline() for _ in range(3)).decode()
    for words in ("waiting for an MCP client's messages", "Ctrl-D", "cloister --help"):
        contains(said, words)
    os.write(ours, json.dumps(hello).encode() + b"\n")
    equal(json.loads(process.stdout.readline())["id"], 1)
    os.write(ours, b"\x04")
    rest = process.communicate(timeout=120)[1].decode()
    equal(process.returncode, 0, rest)
    contains(run("--help").stdout, "mcpServers")
    os.close(ours)


@suite.case("a pipe is told nothing of that")
def pipe():
    with Server() as server:
        server.legacy()
    server.logger.join(30)
    equal([text for text in server.log if "Ctrl-D" in text], [])


@suite.case("a first call writes a handful of lines, and says more with --log-level debug")
def few_lines():
    lines = {}
    for level in ("info", "debug"):
        with Server("--log-level", level) as server:
            server.legacy()
            equal(server.run("6 * 7")["result"], "42")
        server.logger.join(30)
        lines[level] = [text for text in server.log if re.match(r"\S+ (info|debug) ", text)]
    assert len(lines["info"]) <= 8, lines["info"]
    assert len(lines["debug"]) > 12, lines["debug"]
    contains("\n".join(lines["info"]), "engine: oci with")


@suite.case("words that mean nothing are refused, with the one that was meant")
def mistyped():
    for words, said in (
        (["doctr"], "did you mean doctor?"),
        (["serve"], "cloister --help lists them; none serves"),
        (["--memroy-mb", "5"], "did you mean --memory-mb?"),
        (["token", "list"], "--tokens FILE"),
        (["token", "revok", "alice"], "did you mean token revoke?"),
        (["token"], "expected a name"),
        (["help", "pss"], "unknown command pss: did you mean ps?"),
        (["pss", "--help"], "did you mean ps?"),
        (["help", "ps", "exec"], "unexpected argument exec"),
        (["ps", "--hepl"], "did you mean --help?"),
        (["stop"], "cloister stop --help says more"),
    ):
        done = run(*words)
        equal(done.returncode, USAGE, f"{words}: {done.stderr}")
        contains(done.stderr, said)
        equal(done.stdout, "")


@suite.case("each command says what it does wherever --help stands among its own words, and so does cloister help")
def help_of_commands():
    for words in (
        ["exec", "--help"],
        ["exec", "-h"],
        ["exec", "--instance", "x", "-it", "--help"],
        ["exec", "box", "--help"],
        ["--instance", "x", "exec", "--help"],
        ["--help", "exec"],
    ):
        done = run(*words)
        equal((done.returncode, done.stderr), (0, ""), words)
        equal(done.stdout, run("help", "exec").stdout, words)
    for word in ("usage:", "cloister exec [OPTIONS] NAME COMMAND", "-t, --tty", "example:"):
        contains(done.stdout, word)
    contains(run("ps", "--help").stdout, "a table, or lines of JSON for programs [table]")
    contains(run("token", "add", "alice", "--help").stdout, "cloister token [OPTIONS] revoke NAME")
    equal(run("help").stdout, run("--help").stdout)
    equal(run("stop", "--version").stdout, run("--version").stdout)
    # with a configuration that no server would start with, too
    equal(run("help", "ps", CLOISTER_PIDS="none").stdout, run("ps", "--help").stdout)


def demonstrated(*words, directory, **env):
    """What the demonstration prints: the entry of the client's configuration, and all."""
    done = subprocess.run([PROGRAM, "demo", *words], cwd=directory, env={**PLAIN, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
    equal(done.returncode, 0, done.stderr)
    printed = re.search(r"^\{$.*?^\}$", done.stdout, re.M | re.S).group()
    return json.loads(printed)["mcpServers"]["cloister"], done.stdout


def config_file(directory, text):
    path = os.path.join(directory, "conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o600)


@suite.case("what the demonstration tells people to paste starts the server that was shown, from everywhere")
def demo_on_stdio():
    directory, runtime = mcp.temporary_directory(), mcp.temporary_directory()
    config_file(directory, "memory-mb: 300\n")
    entry, _ = demonstrated("--config", "conf", "--runtime-dir", runtime, directory=directory, CLOISTER_PIDS="77")
    equal(entry["env"], {"CLOISTER_PIDS": "77"})
    process = subprocess.Popen([entry["command"], *entry["args"]], cwd="/", env={"PATH": os.environ["PATH"], **entry["env"]}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(number, method, **params):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if json.loads(line).get("id") == number:
                return json.loads(line)["result"]

    ask(1, "initialize", protocolVersion=LATEST_LEGACY, capabilities={}, clientInfo={"name": "pasted", "version": "1"})
    process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    limits = ask(2, "tools/call", name="create_sandbox", arguments={}, _meta={"cloister/results": "structured"})["structuredContent"]["limits"]
    equal((limits["memory_mb"], limits["pids"]), (300, 77))
    process.communicate(timeout=120)
    equal(process.returncode, 0)


@suite.case("where a configuration file makes a server over HTTP, the demonstration asks it there and prints its URL")
def demo_over_http():
    directory, runtime = mcp.temporary_directory(), mcp.temporary_directory()
    config_file(directory, "http: 127.0.0.1:0\n")
    entry, told = demonstrated("--config", "conf", "--runtime-dir", runtime, directory=directory)
    equal(entry["type"], "http")
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*/mcp", entry["url"]), entry
    equal(sorted(entry), ["type", "url"])
    contains(told, f"{entry['url']} answers")
    contains(told, f"--config {os.path.realpath(directory)}/conf")
    config_file(directory, "http: 127.0.0.1:0\ntokens: " + os.path.join(directory, "tokens") + "\n")
    run("token", "--tokens", os.path.join(directory, "tokens"), "add", "alice")
    entry, told = demonstrated("--config", "conf", "--runtime-dir", runtime, directory=directory)
    equal(entry["headers"], {"Authorization": "Bearer TOKEN"})
    contains(told, f"{entry['url']} asks for a token")
    entry, _ = demonstrated("--config", "conf", "--runtime-dir", runtime, "--stdio", directory=directory)
    equal(sorted(entry), ["args", "command"])


@suite.case("what protects a server over HTTP is refused where there is none")
def without_http():
    for option, value in (("--tokens", "/etc/tokens"), ("--tls-cert", "/etc/cert"), ("--allow-hosts", "a.example"), ("--public-url", "https://a.example")):
        done = run(option, value)
        equal(done.returncode, USAGE, done.stderr)
        contains(done.stderr, f"{option} is for servers over HTTP and does nothing without --http")
    done = run(CLOISTER_TOKENS="/etc/tokens")
    equal(done.returncode, USAGE, done.stderr)
    equal(run("token", "alice", CLOISTER_TOKENS="/etc/tokens").returncode, 0)


@suite.case("variables that are no options are told at the start, with those that were meant")
def unknown_variables():
    with Server(env={"CLOISTER_MEMROY_MB": "64", "CLOISTER_PIDS": "100"}) as server:
        server.legacy()
        line = poll("the warning", lambda: [text for text in server.log if "CLOISTER_MEMROY_MB" in text])[0]
        contains(line, "warn")
        contains(line, "did you mean CLOISTER_MEMORY_MB?")
        assert "CLOISTER_PIDS" not in line, line


suite.run()
