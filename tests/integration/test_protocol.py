"""The protocol itself: both eras, five revisions, and messages of broken clients. None of the cases needs a sandbox."""

import json
import os
import time

from common import LATEST_LEGACY, LEGACY, MODERN, ON_PIPE, Server, Suite, contains, equal, modern_meta
from mcp import status_of
from schema import check

suite = Suite()

TOOLS = [
    "cancel_execution",
    "check_package_status",
    "close_sandbox",
    "create_run_close",
    "create_sandbox",
    "execute_code",
    "get_execution",
    "get_sandbox_status",
    "install_package",
    "list_files",
    "read_file",
    "upload_file",
    "write_file",
    "write_stdin",
]

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION = -32022


def line(ident, method, params=None, **more):
    message = {"jsonrpc": "2.0", "id": ident, "method": method, **more}
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode()


def still_answers(server):
    """Requires that the server still answers, which must be so after every bad line."""
    equal(server.raw(line("alive?", "ping"), "alive?").get("result"), {}, "ping after a bad line")


def code_of(answer):
    return answer.get("error", {}).get("code")


# ---- opening a session ----


@suite.case("each legacy revision is agreed on as it was asked for")
def handshakes():
    for version in LEGACY:
        with Server() as server:
            result = server.legacy(version)
            check(version, "InitializeResult", result)
            equal(result["protocolVersion"], version)
            equal(result["serverInfo"]["name"], "cloister")
            contains(result["capabilities"], "tools")
            for member in ("resultType", "ttlMs", "cacheScope"):
                assert member not in result, f"{member} in a legacy result"


@suite.case("an unknown revision, or a modern one, is answered with the latest legacy one")
def unknown_revision():
    for asked in ("1999-01-01", MODERN, "nonsense"):
        with Server() as server:
            params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            equal(server.request("initialize", params)["protocolVersion"], LATEST_LEGACY)


@suite.case("server/discover names the modern revision and nothing else")
def discover():
    with Server() as server:
        server.modern()
        result = server.request("server/discover")
        check(MODERN, "DiscoverResult", result)
        equal(result["supportedVersions"], [MODERN])
        equal(result["resultType"], "complete")
        equal(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "cloister")


@suite.case("modern requests need no handshake and leave no state")
def modern_is_stateless():
    with Server() as server:
        server.modern()
        check(MODERN, "ListToolsResult", server.request("tools/list"))
        bare = server.raw(line(90, "tools/list", {}), 90)
        assert "error" in bare, "a claimless request must not inherit the era of an earlier one"


@suite.case("modern requests with incomplete or foreign _meta are refused")
def modern_envelope():
    prefix = "io.modelcontextprotocol/"
    whole = modern_meta()
    with Server() as server:
        bare = server.raw(line(1, "server/discover", {}), 1)
        equal(code_of(bare), INVALID_PARAMS)
        no_capabilities = {k: v for k, v in whole.items() if not k.endswith("clientCapabilities")}
        equal(code_of(server.raw(line(2, "tools/list", {"_meta": no_capabilities}), 2)), INVALID_PARAMS)
        ill_typed = {**whole, prefix + "clientCapabilities": []}
        equal(code_of(server.raw(line(3, "tools/list", {"_meta": ill_typed}), 3)), INVALID_PARAMS)
        for version in ("2099-01-01", "2025-11-25"):
            meta = {**whole, prefix + "protocolVersion": version}
            answer = server.raw(line(4, "tools/list", {"_meta": meta}), 4)
            equal(code_of(answer), UNSUPPORTED_VERSION)
            equal(answer["error"]["data"], {"supported": [MODERN], "requested": version})
        anonymous = {k: v for k, v in whole.items() if not k.endswith("clientInfo")}
        assert "result" in server.raw(line(5, "tools/list", {"_meta": anonymous}), 5)
        bad_level = {**whole, prefix + "logLevel": "loud"}
        equal(code_of(server.raw(line(6, "tools/list", {"_meta": bad_level}), 6)), INVALID_PARAMS)


@suite.case("methods that the modern era has not are unknown to it")
def modern_methods():
    with Server() as server:
        for number, method in enumerate(("initialize", "ping", "logging/setLevel", "resources/subscribe")):
            answer = server.raw(line(number, method, {"_meta": modern_meta()}), number)
            equal(code_of(answer), NO_METHOD, method)


@suite.case("both eras share one pipe")
def both_eras():
    with Server() as server:
        probe = server.raw(line("d", "server/discover", {"_meta": modern_meta()}), "d")
        equal(probe["result"]["supportedVersions"], [MODERN])
        server.legacy()
        equal(server.request("ping"), {})
        modern = server.raw(line("m", "tools/list", {"_meta": modern_meta()}), "m")
        equal(modern["result"]["resultType"], "complete")
        assert "resultType" not in server.request("tools/list")


@suite.case("a request before initialize is refused, ping is not", when=ON_PIPE)
def before_initialize():
    with Server() as server:
        for method in ("tools/list", "tools/call"):
            answer = server.raw(line(1, method, {"name": "get_sandbox_status"}), 1)
            assert "error" in answer, f"{method} before initialize was answered"
            contains(answer["error"]["message"], "initialize")
        equal(server.raw(line(2, "ping"), 2)["result"], {})
        server.legacy()
        assert server.request("tools/list")["tools"]


# ---- listing ----


@suite.case("tools/list fits the schema of every revision and shows what it knows")
def lists():
    for version in (*LEGACY, MODERN):
        with Server() as server:
            server.open(version)
            result = server.request("tools/list")
            check(version, "ListToolsResult", result)
            equal(sorted(t["name"] for t in result["tools"]), TOOLS)
            for tool in result["tools"]:
                equal(tool["inputSchema"]["type"], "object")
                assert len(tool["description"]) > 20, tool["name"]
                equal("annotations" in tool, version >= "2025-03-26", f"annotations in {version}")
                equal("outputSchema" in tool, version >= "2025-06-18", f"outputSchema in {version}")
                equal("title" in tool, version >= "2025-06-18", f"title in {version}")
            if version == MODERN:
                assert result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private")
            equal(server.request("tools/list"), result, "the same list again")


@suite.case("a cursor that we did not hand out is refused")
def cursor():
    with Server() as server:
        server.legacy()
        equal(server.start("tools/list", {"cursor": "nonsense"}).error()["code"], INVALID_PARAMS)


@suite.case("a tool call's result fits the schema of every revision")
def results():
    for version in (*LEGACY, MODERN):
        with Server() as server:
            server.open(version)
            result = server.request("tools/call", {"name": "get_sandbox_status", "arguments": {}})
            check(version, "CallToolResult", result)
            equal("structuredContent" in result, version >= "2025-06-18", version)
            assert result["content"], "content is never empty"
            missing = server.start_call("close_sandbox", sandbox_id="nosuchsandbox").result()
            check(version, "CallToolResult", missing)
            equal(missing["isError"], True)


# ---- wrong calls ----


@suite.case("unknown methods and tools")
def unknown_names():
    for version in (*LEGACY, MODERN):
        with Server() as server:
            server.open(version)
            equal(server.start("no/such/method", {}).error()["code"], NO_METHOD)
            equal(server.start("prompts/list", {}).error()["code"], NO_METHOD, "not offered")
            error = server.start_call("no_such_tool").error()
            equal(error["code"], INVALID_PARAMS)
            contains(error["message"], "no_such_tool")
            equal(server.start("tools/call", {}).error()["code"], INVALID_PARAMS)
            equal(server.start("tools/call", {"name": 7}).error()["code"], INVALID_PARAMS)


WRONG_ARGUMENTS = [
    # tool, arguments, the field that the message must name, a part of what was expected
    ("execute_code", {}, "code", "required"),
    ("execute_code", {"code": 42}, "code", "string"),
    ("execute_code", {"code": "1", "colour": "red"}, "colour", ""),
    ("execute_code", {"code": "1", "timeout_seconds": "long"}, "timeout_seconds", "number"),
    ("execute_code", {"code": "1", "timeout_seconds": -1}, "timeout_seconds", ""),
    ("execute_code", {"code": "1", "args": "a b"}, "args", "array"),
    ("execute_code", {"code": "1", "env": {"A": []}}, "env", "array"),
    ("create_sandbox", {"memory_mb": "big"}, "memory_mb", ""),
    ("create_sandbox", {"cpus": -2}, "cpus", ""),
    ("create_sandbox", {"name": "n" * 65}, "name", "64"),
    ("close_sandbox", {"sandbox_id": ""}, "sandbox_id", "64"),
    ("read_file", {"sandbox_id": "x"}, "path", "required"),
    ("write_file", {"path": "a"}, "content", "required"),
    ("write_file", {"path": "a", "content": "b", "append": "yes"}, "append", "true or false"),
    ("close_sandbox", {}, "sandbox_id", "required"),
]


@suite.case("wrong arguments are answered as the revision wants, naming the field")
def wrong_arguments():
    for version in (*LEGACY, MODERN):
        with Server() as server:
            server.open(version)
            for tool, arguments, field, expected in WRONG_ARGUMENTS:
                answer = server.start_call(tool, **arguments).wait()
                if version < "2025-11-25":
                    equal(code_of(answer), INVALID_PARAMS, f"{version} {tool} {arguments}")
                    text = answer["error"]["message"]
                else:
                    assert answer.get("result", {}).get("isError"), f"{version}: {answer}"
                    check(version, "CallToolResult", answer["result"])
                    text = answer["result"]["content"][0]["text"]
                    error = answer["result"]["structuredContent"]["error"]
                    equal(error["code"], "invalid_argument")
                contains(text, field, f"message of {tool} {arguments}")
                contains(text, expected, f"message of {tool} {arguments}")
            equal(server.start("tools/call", {"name": "execute_code", "arguments": []}).error()["code"], INVALID_PARAMS)


# ---- wrong JSON-RPC ----

BAD_LINES = [
    # description, line, id of the answer (None: the id is unknown), code
    ("not JSON", b"hello", None, PARSE_ERROR),
    ("half a value", b'{"jsonrpc":"2.0","id":1', None, PARSE_ERROR),
    ("two values", b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', None, PARSE_ERROR),
    ("single quotes", b"{'jsonrpc':'2.0'}", None, PARSE_ERROR),
    ("invalid UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', None, PARSE_ERROR),
    ("an overlong sequence", b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}', None, PARSE_ERROR),
    ("a NUL byte", b'{"jsonrpc":"2.0","id":1,"method":"pi\0ng"}', None, PARSE_ERROR),
    ("a NUL byte behind the value", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\0', None, PARSE_ERROR),
    ("deep nesting", b'{"jsonrpc":"2.0","id":1,"x":' + b"[" * 100000, None, PARSE_ERROR),
    ("deep and whole", b'{"a":' * 5000 + b"1" + b"}" * 5000, None, PARSE_ERROR),
    ("deep and whole, with an id", b'{"x":' * 5000 + b"1" + b"}" * 4999 + b',"method":"m","id":"d"}', "d", PARSE_ERROR),
    ("a deep answer", b'{"jsonrpc":"2.0","id":1,"result":' + b'{"x":' * 5000 + b"1" + b"}" * 5001, None, PARSE_ERROR),
    ("an id with half a character", rb'{"jsonrpc":"2.0","id":"a\ud83d","method":"ping"}', "a\ud83d", INVALID_REQUEST),
    ("a number", b"42", None, INVALID_REQUEST),
    ("a string", b'"ping"', None, INVALID_REQUEST),
    ("null", b"null", None, INVALID_REQUEST),
    ("an empty object", b"{}", None, INVALID_REQUEST),
    ("an empty array", b"[]", None, INVALID_REQUEST),
    ("no version", b'{"id":1,"method":"ping"}', 1, INVALID_REQUEST),
    ("another version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, INVALID_REQUEST),
    ("a version that is no string", b'{"jsonrpc":2.0,"id":1,"method":"ping"}', 1, INVALID_REQUEST),
    ("no method", b'{"jsonrpc":"2.0","id":1}', 1, INVALID_REQUEST),
    ("a method that is no string", b'{"jsonrpc":"2.0","id":1,"method":7}', 1, INVALID_REQUEST),
    ("a null id", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, INVALID_REQUEST),
    ("an id that is an object", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None, INVALID_REQUEST),
    ("an id that is a fraction", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, INVALID_REQUEST),
    ("an id that is a boolean", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, INVALID_REQUEST),
    ("params that are an array", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 1, None),
    ("params that are a string", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', 1, None),
]


@suite.case("every kind of bad line is answered and the server goes on")
def bad_lines():
    for version in LEGACY:
        with Server() as server:
            server.legacy(version)
            for what, text, ident, code in BAD_LINES:
                answer = server.raw(text, ident)
                if code is None:
                    assert code_of(answer) in (INVALID_REQUEST, INVALID_PARAMS), f"{what}: {answer}"
                else:
                    equal(code_of(answer), code, f"{version}: {what}")
                if ident is None and version >= "2025-11-25":
                    assert "id" not in answer, f"{what}: an unknown id is left out"
                elif ident is None:
                    assert answer.get("id", None if not ON_PIPE else "missing") is None, f"{what}: an unknown id is null"
                still_answers(server)


@suite.case("an escaped NUL in an argument is refused under the request's own id")
def escaped_nul():
    with Server() as server:
        server.legacy()
        text = rb'{"jsonrpc":"2.0","id":"n","method":"tools/call","params":{"name":"execute_code","arguments":{"code":"print(1)\u0000print(2)"}}}'
        answer = server.raw(text, "n")
        assert "error" in answer or answer["result"].get("isError"), answer
        still_answers(server)


@suite.case("half a surrogate pair in an argument becomes U+FFFD, and the call is answered")
def half_a_character():
    with Server() as server:
        server.legacy()
        text = rb'{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"execute_code","arguments":{"code":"print(\"a\ud83d\", \"\ud83d\udc4d\")"}}}'
        answer = server.raw(text, "h")
        contains(answer["result"]["content"][0]["text"], "a\ufffd \U0001f44d")
        text = rb'{"jsonrpc":"2.0","id":"p","method":"pi\udc4dng"}'
        contains(server.raw(text, "p")["error"]["message"], "pi\ufffdng")
        still_answers(server)


@suite.case("a line over 16 MiB is refused without being kept, the next one is read", when=ON_PIPE)
def long_line():
    with Server() as server:
        server.legacy()
        mib = b"x" * (1 << 20)
        before = resident_kb(server.process.pid)
        server.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"')
        for _ in range(64):
            server.send_bytes(mib)
        server.send_bytes(b'"}}\n')
        still_answers(server)
        equal(len(server.unmatched), 1, "answers to one long line")
        answer = server.unmatched[0]
        assert code_of(answer) in (PARSE_ERROR, INVALID_REQUEST), answer
        contains(answer["error"]["message"], "16")
        equal(answer.get("id"), 1, "the id of a line that was not kept")
        grown = resident_kb(server.process.pid) - before
        assert grown < 64 * 1024, f"{grown} kB stay behind a line that was refused"


def resident_kb(pid):
    return int(status_of(pid)["VmRSS"].split()[0])


@suite.case("a line just under 16 MiB is served, where a method can use that much")
def big_line():
    with Server() as server:
        server.legacy()
        head = b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"name":"write_file","arguments":{"sandbox_id":"none","path":"a","content":"'
        filler = b"y" * ((16 << 20) - len(head) - 10)
        result = server.raw(head + filler + b'"}}}', "big")["result"]
        contains(result["content"][0]["text"], str(len(filler)), "what the tool says of the size")
        head = b'{"jsonrpc":"2.0","id":"big","method":"ping","params":{"x":"'
        answer = server.raw(head + filler + b'"}}', "big")
        equal(code_of(answer), INVALID_PARAMS, "of a method that cannot")
        equal(server.request("ping"), {})


@suite.case("blank lines and carriage returns are tolerated", when=ON_PIPE)
def blank_lines():
    with Server() as server:
        server.legacy()
        server.send_bytes(b"\n\r\n   \n")
        equal(server.raw(line(1, "ping") + b"\r", 1)["result"], {})
        assert not server.unmatched, server.unmatched


@suite.case("a message may come in pieces, several may come at once", when=ON_PIPE)
def pieces():
    with Server() as server:
        server.legacy()
        one = server.expect("p")
        for byte in line("p", "ping") + b"\n":
            server.send_bytes(bytes([byte]))
        equal(one.result(), {})
        many = [server.expect(i) for i in range(1000, 1200)]
        server.send_bytes(b"".join(line(i, "ping") + b"\n" for i in range(1000, 1200)))
        for pending in many:
            equal(pending.result(), {})


@suite.case("ids come back as they were: zero, negative, large, text, empty text")
def ids():
    with Server() as server:
        server.legacy()
        for ident in (0, -1, 1722470400000, 2**53 - 1, "", "ä漢😀", '"quoted"\n', "0"):
            answer = server.raw(line(ident, "ping"), ident)
            equal(answer["id"], ident)
            equal(type(answer["id"]), type(ident))


@suite.case("notifications and stray answers get no answer, whatever they are")
def notifications():
    with Server() as server:
        server.legacy()
        server.notify("notifications/nobody/knows", {"x": 1})
        server.notify("notifications/cancelled", {"requestId": "unknown"})
        server.notify("notifications/cancelled", {})
        server.notify("tools/list", {})
        server.send({"jsonrpc": "2.0", "id": 77, "result": {}})
        server.send({"jsonrpc": "2.0", "id": 78, "error": {"code": 1, "message": "no"}})
        still_answers(server)
        equal(server.unmatched, [])


@suite.case("batches are served in the one revision that has them, and refused in others")
def batches():
    two = b"[" + line("b1", "ping") + b"," + line("b2", "tools/list") + b"]"
    with Server() as server:
        server.legacy("2025-03-26")
        pending = [server.expect("b1"), server.expect("b2")]
        server.send_bytes(two + b"\n")
        equal(pending[0].result(), {})
        assert pending[1].result()["tools"]
    with Server() as server:
        server.legacy()
        equal(code_of(server.raw(two, None)), INVALID_REQUEST)
        still_answers(server)


@suite.case("many errors in a row do not wear the server out")
def endurance():
    with Server() as server:
        server.legacy()
        for round_number in range(300):
            server.send_bytes(b'{"jsonrpc":"2.0","id":1,\n[\nnull\n')
            still_answers(server)
        deadline = time.monotonic() + 20
        while len(server.unmatched) < 900 and time.monotonic() < deadline:
            time.sleep(0.01)
        equal(len(server.unmatched), 900, "answers to bad lines")


@suite.case("nothing is made on disk before the first call that needs a sandbox, but what a server over HTTP needs for session ids and its control socket")
def no_side_effects():
    with Server() as server:
        equal(os.listdir(server.runtime_dir), [] if ON_PIPE else ["main"])
        server.legacy()
        server.request("tools/list")
        server.call("get_sandbox_status")
        made = [os.path.join(where, name) for where, _, names in os.walk(server.runtime_dir) for name in names]
        wanted = [] if ON_PIPE else [f"main/{name}" for name in ("control.sock", "key", "lock")]
        equal(sorted(os.path.relpath(path, server.runtime_dir) for path in made), wanted)


@suite.case("--help, --version and a wrong option on the command line")
def command_line():
    import subprocess

    program = os.environ["CLOISTER"]
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20, check=False)
    equal(shown.returncode, 0)
    for word in ("doctor", "demo", "--backend", "--runtime-dir"):
        contains(shown.stdout, word, "--help")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    equal(version.returncode, 0)
    contains(version.stdout, "cloister")
    for options in (["--colour", "red"], ["--backend", "abacus"], ["--memory-mb", "lots"]):
        wrong = subprocess.run([program, *options], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
        assert wrong.returncode != 0, options
        contains(wrong.stderr, options[0])
        equal(wrong.stdout, "")


suite.run()
