"""The profile docker-interpreter: one sandbox, its three tools, and their answers."""

import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import NONE, ONE, Server, Suite, contains, equal, mcp, needs_runtime, poll

# The server makes the answers: on engines only cases with images run.
suite = Suite(NONE)
needs_runtime()


def start(*options):
    server = Server("--compat", "docker-interpreter", *options)
    equal(server.legacy("2024-11-05")["serverInfo"]["name"], "Docker Code Sandbox")
    return server


def value(server, tool, **arguments):
    """The single text of an answer, as JSON in the exact form of json.dumps."""
    result = server.start_call(tool, **arguments).result()
    equal(result.get("isError", False), False)
    equal([block["type"] for block in result["content"]], ["text"])
    assert "structuredContent" not in result, result
    said = result["content"][0]["text"]
    parsed = json.loads(said)
    equal(said, json.dumps(parsed))
    return parsed


STATE = {"status": "error", "error_type": "StateError", "message": "Sandbox not initialized. Call 'initialize_sandbox' first."}
STOPPED = {"status": "success", "message": "Sandbox stopped and removed."}


@suite.case("start, run, stop", engines=ONE)
def life():
    server = start()
    equal(value(server, "execute_code", code="print(1)"), STATE)
    equal(value(server, "stop_sandbox"), STOPPED)
    begun = value(server, "initialize_sandbox")
    equal(sorted(begun), ["container_id", "status"])
    assert re.fullmatch("[0-9a-f]{64}", begun["container_id"]), begun
    equal(value(server, "initialize_sandbox", image="python:3.12")["container_id"], begun["container_id"])

    equal(value(server, "execute_code", code="x = 2\nprint('two ü')"), {"status": "success", "exit_code": 0, "output": "two ü\n"})
    equal(value(server, "execute_code", code="print(x + 1)", language="python")["output"], "3\n")
    failed = value(server, "execute_code", code="print('before')\n1/0")
    equal((failed["status"], failed["error_type"], failed["exit_code"]), ("error", "ExecutionError", 1))
    equal(failed["message"], "Execution failed with exit code 1")
    contains(failed["output"], "before\nTraceback")
    contains(failed["output"], "ZeroDivisionError")
    equal(value(server, "execute_code", code="import sys; sys.exit(7)")["message"], "Execution failed with exit code 7")
    equal(value(server, "execute_code", code="echo $((6*7))", language="bash")["output"], "42\n")
    equal(
        value(server, "execute_code", code="x", language="klingon"),
        {
            "status": "error",
            "error_type": "ExecutionError",
            "message": "Unsupported language: klingon",
            "output": None,
            "exit_code": None,
        },
    )
    equal(value(server, "stop_sandbox"), STOPPED)
    equal(value(server, "execute_code", code="print(1)"), STATE)
    assert value(server, "initialize_sandbox")["container_id"] != begun["container_id"]
    equal(value(server, "execute_code", code="print('x' in globals())")["output"], "False\n")
    server.close()


@suite.case("JavaScript runs where there is node, and is refused in their words where there is none", engines=ONE)
def javascript():
    server = start()
    value(server, "initialize_sandbox")
    has_node = "node" in value(server, "execute_code", code="import shutil; print(shutil.which('node'))")["output"]
    done = value(server, "execute_code", code="console.log([1, 2].map(n => n * 2).join())", language="javascript")
    if has_node:
        equal(done, {"status": "success", "exit_code": 0, "output": "2,4\n"})
    else:
        equal(done["message"], "JavaScript execution not supported in minimal container")
    server.close()


@suite.case("arguments that are not in the schemas are ignored")
def strays():
    images = mcp.temporary_directory()
    os.mkdir(os.path.join(images, "empty"))
    server = start("--image-dir", images)
    equal(value(server, "initialize_sandbox", image="empty", env=["a"], memory_mb="x")["status"], "success")
    server.close()


@suite.case("arguments that a model has nothing for are left out: null, and texts that are empty")
def fillers():
    server = start()
    begun = value(server, "initialize_sandbox", image="")
    equal(sorted(begun), ["container_id", "status"])
    equal(value(server, "initialize_sandbox", image=None), begun)
    for language in ("", None):
        equal(value(server, "execute_code", code="print(1)", language=language)["output"], "1\n")
    equal(server.start_call("execute_code", code=None).error()["code"], -32602)
    server.close()


@suite.case("an image that cannot be had is replaced, and that is said", engines=ONE)
def image():
    server = start()
    begun = value(server, "initialize_sandbox", image="no-such-registry.invalid/none:1")
    equal(begun["status"], "success")
    contains(begun["note"], "configured one")
    equal(value(server, "execute_code", code="print(1)")["output"], "1\n")
    server.close()


@suite.case("a sandbox that has ended by itself is none: the next one is made instead of it")
def ended():
    server = start()
    first = value(server, "initialize_sandbox")["container_id"]
    listed = server.start_call("get_sandbox_status").result()["content"][0]["text"]
    (sandbox,) = re.findall(r"^(\w{16}) docker-interpreter", listed, re.MULTILINE)
    for pid in mcp.agents_of(sandbox):
        os.kill(pid, signal.SIGKILL)
    poll("it is known to have ended", lambda: value(server, "execute_code", code="1") == STATE)
    assert value(server, "initialize_sandbox")["container_id"] != first
    equal(value(server, "execute_code", code="print(1)")["output"], "1\n")
    server.close()


@suite.case("a deadline ends the code, not the sandbox")
def deadline():
    server = start("--timeout-seconds", "2")
    value(server, "initialize_sandbox")
    late = value(server, "execute_code", code="while True: pass")
    equal((late["status"], late["error_type"]), ("error", "ExecutionError"))
    contains(late["message"], "timed out after ")
    equal(value(server, "execute_code", code="print(1)")["output"], "1\n")
    server.close()


@suite.case("output is merged in the order in which it was written, and code runs in /tmp")
def merged():
    server = start()
    value(server, "initialize_sandbox")
    mixed = "import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')\nos.system('echo d >&2; echo e')\nprint(os.getcwd())"
    equal(value(server, "execute_code", code=mixed)["output"], "a\nb\nc\nd\ne\n/tmp\n")
    equal(value(server, "execute_code", code="import sys\nprint('1')\nprint('2', file=sys.stderr)\n1/0")["output"].split("Traceback")[0], "1\n2\n")
    equal(value(server, "execute_code", code="echo 1; echo 2 >&2; echo 3; pwd", language="bash")["output"], "1\n2\n3\n/tmp\n")
    for language, program, code in (
        ("javascript", "node", "console.log(1); console.error(2); console.log(3); console.log(process.cwd())"),
        ("perl", "perl", 'use Cwd; $| = 1; print "1\\n"; print STDERR "2\\n"; print "3\\n"; print getcwd(), "\\n";'),
        (
            "c",
            "gcc",
            '#warning "first"\n#include <stdio.h>\n#include <unistd.h>\nint main(void) {\n  char cwd[99];\n  setbuf(stdout, NULL);\n'
            '  puts("1");\n  fputs("2\\n", stderr);\n  puts("3");\n  puts(getcwd(cwd, 99));\n}',
        ),
    ):
        if value(server, "execute_code", code=f"import shutil; print(shutil.which({program!r}))")["output"] != "None\n":
            said = value(server, "execute_code", code=code, language=language)["output"]
            assert said.endswith("1\n2\n3\n/tmp\n"), said
            equal("first" in said, language == "c", said)  # the compiler's words come before the program's
    server.close()


@suite.case("what that server does is told in notifications/message, too")
def messages():
    server = start()
    value(server, "execute_code", code="1")
    ident = value(server, "initialize_sandbox")["container_id"]
    value(server, "execute_code", code="print(1)")
    value(server, "execute_code", code="1/0")
    value(server, "stop_sandbox")
    told = [(n["params"]["level"], n["params"]["data"]) for n in server.notifications if n["method"] == "notifications/message"]
    equal(
        told,
        [
            ("warning", "Sandbox not initialized. Cannot execute code."),
            ("info", "Attempting to initialize sandbox with image: alpine:latest"),
            ("info", f"Sandbox initialized successfully. Container ID: {ident}"),
            ("info", "Executing python code in the container..."),
            ("info", "Execution completed. Exit code: 0"),
            ("info", "Executing python code in the container..."),
            ("error", "Code execution failed: Execution failed with exit code 1"),
            ("info", "Attempting to stop and remove sandbox..."),
            ("info", "Sandbox stopped and removed successfully."),
        ],
    )
    server.close()


@suite.case("code that runs longer than a call may wait: the failure has the output so far, and says how to go on")
def long_code():
    server = start("--sync-budget-seconds", "6")
    value(server, "initialize_sandbox")
    done = value(server, "execute_code", code="import time\nprint('begun', flush=True)\nfor _ in range(600): time.sleep(0.1)")
    equal((list(done), done["error_type"]), (["status", "error_type", "message", "output", "exit_code"], "ExecutionError"))
    equal((done["output"], done["exit_code"]), ("begun\n", None))
    server.start_call("cancel_execution", execution_id=re.search(r'execution_id "(\w+)"', done["message"])[1]).result()
    equal(value(server, "execute_code", code="print(1)")["output"], "1\n")
    server.close()


@suite.case("the instructions are about the tools of the profile")
def instructions():
    for profile, first, never in (
        ("code-sandbox", "Start with create_sandbox and a session_id", "sandbox_id"),
        ("docker-interpreter", "Start with initialize_sandbox", "sandbox_id"),
        ("python-env", "Start with create_python_env", "/workspace"),
        ("python-sandbox", "Start with create_sandbox", "/workspace"),
    ):
        with mcp.Server("--compat", profile) as server:
            said = server.legacy("2024-11-05")["instructions"]
            assert said.startswith(first) and never not in said, said


@suite.case("profiles that have a tool of one name are refused at the start, and the tool is named")
def clashes():
    for one, two, tool in (("code-sandbox", "docker-interpreter", "execute_code"), ("python-env", "python-sandbox", "execute_python_code"), ("python-env", "python-env@later", "create_python_env"), ("code-sandbox", "python-sandbox", "create_sandbox")):
        refused = mcp.Process("--compat", f"{one},{two}", stdio=False)
        equal(refused.wait_exit(), 64)
        refused.logger.join(30)
        contains(refused.log_tail(), f"--compat: {one} and {two} both have the tool {tool}")
    with mcp.Server("--compat", "docker-interpreter", "--compat", "python-env") as server:
        server.legacy("2024-11-05")
        names = [tool["name"] for tool in server.request("tools/list")["tools"]]
        assert {"initialize_sandbox", "create_python_env"} <= set(names), names


suite.run()
