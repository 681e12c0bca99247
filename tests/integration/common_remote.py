"""Shared by the tests of backends whose sandboxes are not on the server's host: a cloud's (test_e2b.py) and a cluster's (test_kubernetes.py).

A place is what `started()` of lib/e2b.py and lib/kube.py returns. Its sandboxes are boxes here: `boxes()` of all servers, `boxes_of()` one
server, `box_of()` a sandbox; `id_of()` is the id that the place has given, and `remove()` does what somebody else may do. A place of the
tests' own is a lib/node_standin.py, too, and takes orders to misbehave.
"""

import contextlib
import json

from common import clear, contains, equal, poll, works
import mcp

LINES = 200
STREAM = f"""
import time
for i in range({LINES}):
    print('line', i, 'x' * 200, flush=True)
    if i == 20:
        open('begun', 'w').close()
    time.sleep(0.005)
"""
WANTED = "".join(f"line {i} {'x' * 200}\n" for i in range(LINES))
ENDLESS = "open('begun', 'w').close()\nimport time\nwhile True: time.sleep(0.1)"


def opened(place, *options, **how):
    """Starts a server with a sandbox: (server, id)."""
    server = place.server(*options, **how)
    server.legacy()
    return server, server.call("create_sandbox")["sandbox_id"]


def begun(server, sandbox, code):
    """A call whose code has written the file `begun`."""
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=code)
    poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
    return pending


def left(place, server):
    return place.boxes_of(server.runtime_dir)


def nothing_left(place, server):
    poll("nothing of this server is left", lambda: not left(place, server), found=lambda: left(place, server))


# ---- cases that any place has to pass ----


@contextlib.contextmanager
def living(place):
    """A sandbox that runs code, keeps its state, and is a box until it is closed: (its status, the box), to be looked at while it lives."""
    server, sandbox = opened(place)
    with server:
        equal(server.run("x = 6 * 7\nprint('hello')", sandbox_id=sandbox)["stdout"], "hello\n")
        equal(server.run("x", sandbox_id=sandbox)["result"], "42")
        box = place.box_of(sandbox)
        assert box, f"no {sandbox} among {place.boxes()}"
        yield server.call("get_sandbox_status", sandbox_id=sandbox), box
        server.call("close_sandbox", sandbox_id=sandbox)
        poll("it is gone", lambda: place.box_of(sandbox) is None)
    nothing_left(place, server)


def sweeps(place):
    """A server dies with its sweeper, and the next one removes its sandbox, but not its own."""
    directory = mcp.temporary_directory()
    server, sandbox = opened(place, runtime_dir=directory)
    equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.kill_with_sweeper()
    assert place.box_of(sandbox), "it has gone by itself"
    successor, other = opened(place, runtime_dir=directory)
    with successor:
        poll("the dead server's is gone", lambda: place.box_of(sandbox) is None)
        assert place.box_of(other), "the living server's is gone"
    nothing_left(place, successor)


def ends(place):
    """A server that ends takes its sandboxes with it."""
    server, _ = opened(place)
    with server:
        server.call("create_sandbox")
        equal(len(left(place, server)), 2, "sandboxes")
    nothing_left(place, server)


def keeps_apart(place):
    """Sandboxes that are made at once share neither state nor files."""
    server, _ = opened(place)
    with server:
        pending = [server.start_call("create_sandbox") for _ in range(4)]
        boxes = [p.structured()["sandbox_id"] for p in pending]
        for box in boxes:
            server.run(f"x = {box!r}\nopen('own', 'w').write(x)", sandbox_id=box)
        for box in boxes:
            equal(server.run("(x, open('own').read())", sandbox_id=box)["result"], repr((box, box)))
    nothing_left(place, server)


def removed_in_a_call(place):
    """Somebody removes a sandbox while it runs code: its calls fail, another's do not. Returns the error of the next call."""
    server, sandbox = opened(place)
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS)
        place.remove(place.box_of(sandbox))
        answer = pending.result()
        assert answer["isError"], answer
        error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
        equal(server.run("1 + 1", sandbox_id=other)["result"], "2")
    return error


def cannot_create(server, *words):
    """A server that cannot reach its place says so with these words when a sandbox is asked for, and lives on."""
    with server:
        server.legacy()
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "engine_unavailable")
        for word in words:
            contains(json.dumps(error), word, "the error")
        equal(server.request("ping"), {})


def add_cases(suite, place):
    """Those that are the same everywhere, by their names as well."""

    @suite.case("several languages, standard input, and output in order")
    def _languages():
        server, sandbox = opened(place)
        with server:
            equal(server.stdout("echo $((6 * 7)); uname -s", language="bash", sandbox_id=sandbox), "42\nLinux\n")
            equal(server.stdout("print(input() * 2)", stdin="ab\n", sandbox_id=sandbox), "abab\n")
            done = server.run("import sys\nfor i in range(3000): print(i)\nprint('end', file=sys.stderr)", sandbox_id=sandbox)
            equal((done["stdout"], done["stderr"]), ("".join(f"{i}\n" for i in range(3000)), "end\n"))

    @suite.case("files are written, listed and read, small ones and of some megabytes, and code sees them")
    def _files():
        server, sandbox = opened(place)
        with server:
            server.call("write_file", sandbox_id=sandbox, path="a/b.txt", content="text\n")
            equal(server.run("open('a/b.txt').read()", sandbox_id=sandbox)["result"], "'text\\n'")
            large = "0123456789abcdef" * (1 << 16)
            server.call("write_file", sandbox_id=sandbox, path="large", content=large)
            equal(server.run("len(open('large').read())", sandbox_id=sandbox)["result"], str(len(large)))
            server.run("open('big', 'wb').write(bytes(range(256)) * 8192)", sandbox_id=sandbox)
            entries = {e["path"]: e["size"] for e in server.call("list_files", sandbox_id=sandbox)["entries"]}
            equal(entries.get("big", entries.get("/workspace/big")), 2 << 20, f"size among {entries}")
            read = server.call("read_file", sandbox_id=sandbox, path="big", encoding="base64", offset=256, length=4)
            equal(read["content"], "AAECAw==")

    @suite.case("a worker killed in the middle of a call: its full result comes, once")
    def _worker_killed():
        server, sandbox = opened(place)
        with server:
            server.run("before = 'state'", sandbox_id=sandbox)
            pending = begun(server, sandbox, STREAM)
            server.kill_worker(sandbox)
            done = pending.structured()
            equal((done["status"], done["stdout"], done["interpreter"]), ("ok", WANTED, "kept"))
            equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")

    @suite.case("a server killed and started again under its name finds its sandboxes and their state")
    def _adopted():
        directory = mcp.temporary_directory()
        server = place.server("--instance", "main", runtime_dir=directory)
        server.legacy()
        sandbox = server.call("create_sandbox", name="mine")["sandbox_id"]
        server.run("before = 'state'", sandbox_id=sandbox)
        ident = place.id_of(place.box_of(sandbox))
        server.kill()
        with place.server("--instance", "main", runtime_dir=directory) as successor:
            successor.legacy()
            boxes = {box["sandbox_id"]: box["name"] for box in successor.call("get_sandbox_status")["sandboxes"]}
            equal(boxes, {sandbox: "mine"})
            equal(successor.run("before", sandbox_id=sandbox)["result"], "'state'")
            equal(place.id_of(place.box_of(sandbox)), ident, "the same one")
            successor.call("close_sandbox", sandbox_id=sandbox)
        poll("it is gone", lambda: place.box_of(sandbox) is None)


# ---- faults, which a place of the tests' own does on order ----


@contextlib.contextmanager
def faulty(place, *options, **how):
    """A server for a case of faults, after which nothing may be left of it."""
    with place.server(*options, **how) as server:
        server.legacy()
        try:
            yield server
        finally:
            place.calm()
    nothing_left(place, server)


def fails(place, server, *words):
    """A creation fails with these words, leaves nothing, and the next one works. Returns the error."""
    error = clear(server.call_failing("create_sandbox")["error"])
    for word in words:
        contains(json.dumps(error), word, "the error")
    assert sum(place.hits()) > 0 or not place.order(ask="faults"), "the fault has not occurred"
    place.calm()
    nothing_left(place, server)
    works(server)
    return error
