"""Live JavaScript through the whole server."""

import json
import shutil

from common import NONE, ONE, ON_OCI, Shared, Suite, contains, equal, needs_runtime
from tap import skip_all

# The agent handles state and errors: on engines only cases run that depend on the image's node and its
# memory.
suite = Suite(NONE)
needs_runtime()
shared = Shared()


def run(code, **arguments):
    return shared.run(code, language="javascript", **arguments)


if ON_OCI and shutil.which("node") is None:
    skip_all("no node on this machine")
if not ON_OCI and "javascript" not in shared.get()[0].call("get_sandbox_status", sandbox_id=shared.get()[1])["languages"]:
    shared.close()
    skip_all("no node in this image")


@suite.case("state, values and awaits", engines=ONE)
def values():
    done = run("const rows = [{n: 1}, {n: 2}]; let sum = 0; for (const r of rows) sum += r.n; console.log('sum', sum); rows")
    equal((done["status"], done["stdout"], done["result"]), ("ok", "sum 3\n", "[ { n: 1 }, { n: 2 } ]"))
    done = run("const rows = await Promise.all([1, 2].map(async n => n * sum)); rows.at(-1)")
    equal((done["result"], done["interpreter"]), ("6", "kept"))
    equal(run("import {basename} from 'node:path'\nbasename('/a/b.txt')")["result"], "'b.txt'")


@suite.case("js and node are names of JavaScript, too")
def aliases():
    for name in ("js", "node"):
        equal(shared.run("typeof sum", language=name)["result"], "'number'")


@suite.case("an error has its name, message and place")
def errors():
    done = run("function half(x) {\n  return x.y.z\n}\nhalf({})")
    equal((done["status"], done["error"]["name"]), ("error", "TypeError"))
    contains(done["error"]["traceback"], ":2:14)")
    equal(run("process.exit(4)")["exit_code"], 4)


@suite.case("stdin, arguments and environment are those of the run")
def inputs():
    done = run(
        "console.log(require('fs').readFileSync(0, 'utf8'), process.argv.slice(2), process.env.GREETING)",
        stdin="in put",
        args=["a", "b c"],
        env={"GREETING": "hello"},
    )
    equal(done["stdout"], "in put [ 'a', 'b c' ] hello\n")


@suite.case("a deadline ends a loop and keeps what there was")
def deadline():
    run("kept = 'still'")
    for code in ("for (;;);", "await new Promise(() => {})", "await null; for (;;);"):
        done = run(code, timeout_seconds=1)
        equal((done["status"], done["interpreter"]), ("timeout", "kept"), code)
        equal(run("kept")["result"], "'still'")


@suite.case("names of globals may be used for anything, and what follows works")
def names_of_globals():
    for name in ("process", "Buffer", "Set", "String", "Number", "Object", "Error", "Promise"):
        for declared in (f"function {name}(x) {{ return 7 }}", f"class {name} {{}}"):
            done = run(f"{declared}; 7")
            equal((done["status"], done["result"]), ("ok", "7"), declared)
            done = run("throw 'it'")
            equal((done["status"], done["interpreter"], done["error"]["message"]), ("error", "kept", "'it'"), declared)
            equal(run("display({'text/html': 'a'}, {raw: true}); 1 + 1")["result"], "2", declared)
            run("require('fs').closeSync(4)")  # restarts the interpreter


@suite.case("code that breaks what JavaScript is made of gets a new interpreter, not one deadline after the other")
def broken_language():
    for code in ("delete Array.prototype[Symbol.iterator]", "Array.prototype.push = () => { throw 1 }", "Object.assign = null", "Buffer.from = null"):
        run(f"{code}; 1", timeout_seconds=10)
        run("1", timeout_seconds=10)
        done = run("[1, 2].map(n => n + 1)", timeout_seconds=10)
        equal((done["status"], done["result"]), ("ok", "[ 2, 3 ]"), code)


@suite.case("what is shown comes as an image and as html", engines=ONE)
def shows():
    server, sandbox = shared.get()
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    result = server.start_call(
        "execute_code",
        language="javascript",
        sandbox_id=sandbox,
        code=f"display(Buffer.from('{pixel}', 'base64')); display({{'text/html': '<b>bold</b>'}}, {{raw: true}})",
    ).result()
    images = [block for block in result["content"] if block["type"] == "image"]
    equal([(block["mimeType"], block["data"]) for block in images], [("image/png", pixel)])
    contains(json.dumps(result["structuredContent"]["displays"]), "text/html")


@suite.case("memory that the sandbox does not have is reported as that", engines=ONE)
def memory():
    server, sandbox = shared.fresh(memory_mb=256)
    full = "const all = []; for (;;) all.push(new Array(100000).fill({}))"
    done = server.run(full, language="javascript", sandbox_id=sandbox)
    equal(done["status"], "memory_exceeded", json.dumps(done)[:1500])
    equal(server.run("1 + 1", language="javascript", sandbox_id=sandbox)["result"], "2")


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
