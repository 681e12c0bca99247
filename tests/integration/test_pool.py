"""Sandboxes that are made in advance: when there are any, that they are like any other, and that nobody notices
when something is wrong with one."""

import os
import re
import signal

from common import NONE, Server, Skip, Suite, contains, equal, needs_runtime, poll
import mcp
from mcp_http import HttpServer

needs_runtime()
suite = Suite(engines=NONE)

SLOW = re.compile("cannot be given.*no answer in time")  # a machine that is too busy: the client got another one


def with_pool(pool, *options, **how):
    server = Server("--pool", pool, *options, **how)
    server.legacy()
    return server


def figures(server):
    return server.call("get_sandbox_status").get("pool")


def filled(server, ready):
    poll(f"{ready} are ready", lambda: figures(server)["ready"] == ready)


def ids_of(server):
    return {box["sandbox_id"] for box in server.call("get_sandbox_status")["sandboxes"]}


def entries(server):
    """Ids of the sandboxes that are nobody's, those that are being removed among them."""
    return {os.path.basename(path) for path in mcp.sandbox_dirs(server.runtime_dir)} - ids_of(server)


def the_entry(server):
    """The only sandbox that is nobody's, when those that were closed are removed."""
    filled(server, 1)
    return poll("only it is there", lambda: found if len(found := entries(server)) == 1 else None).pop()


def says(server, *words):
    poll(f"the log has {words}", lambda: any(all(word in line for word in words) for line in list(server.log)))


def begun(*arguments, **how):
    """A server whose pool is full, after a first call."""
    server = with_pool(*arguments, **how)
    server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])
    filled(server, int(arguments[0].split(":")[0]))
    poll("that sandbox is removed", lambda: len(mcp.sandbox_dirs(server.runtime_dir)) == figures(server)["size"])
    return server


def hit(server, **arguments):
    """A sandbox out of the pool."""
    for _ in range(10):
        filled(server, figures(server)["size"])
        ready, before = entries(server), figures(server)["hits"]
        made = server.call("create_sandbox", **arguments)
        if figures(server)["hits"] > before:
            assert made["sandbox_id"] in ready, (made, ready)
            return made
        poll("the log says why", lambda: any(SLOW.search(line) for line in list(server.log)))
        server.call("close_sandbox", sandbox_id=made["sandbox_id"])
    raise AssertionError("this machine is too slow for any")


@suite.case("nothing is made before the first call that needs a sandbox; then one is")
def first_call():
    with Server(env={"CLOISTER_POOL": "auto"}) as server:
        server.legacy()
        server.request("tools/list")
        equal(figures(server), {"size": 1, "ready": 0, "hits": 0, "misses": 0})
        equal(os.listdir(server.runtime_dir), [])
        equal(server.run("1 + 1")["result"], "2")
        filled(server, 1)
        equal(len(ids_of(server)), 1)
        equal(len(entries(server)), 1)


@suite.case("a server over HTTP is to have four, and has none before the first call either")
def over_http():
    with HttpServer(env={"CLOISTER_POOL": "auto"}) as server:
        client = server.client(mcp.LATEST_LEGACY)
        equal(figures(client), {"size": 4, "ready": 0, "hits": 0, "misses": 0})
        equal(mcp.sandbox_dirs(server.runtime_dir), [])


@suite.case("what comes out of it is a sandbox like any other")
def like_any_other():
    with begun("1") as server:
        made = hit(server, name="mine")
        equal((made["name"], made["state"]), ("mine", "ready"))
        first = server.run("import os; x = 1; open('f', 'w').close(); os.listdir()", sandbox_id="mine")
        equal((first["result"], first["interpreter"]), ("['f']", "fresh"))
        equal(server.run("x", sandbox_id="mine")["interpreter"], "kept")
        equal(server.run("echo $((6 * 7))", sandbox_id="mine", language="bash")["stdout"], "42\n")
        status = server.call("get_sandbox_status", sandbox_id="mine")
        equal((status["executions"], status["worker"]["restarts"]), (3, 0))
        server.kill_worker("mine")
        equal(server.run("x", sandbox_id="mine")["result"], "1")


@suite.case("it is given once")
def once():
    with begun("2") as server:
        first, second = hit(server)["sandbox_id"], hit(server)["sandbox_id"]
        assert first != second
        server.run("x = 1; open('f', 'w').close()", sandbox_id=first)
        server.call("close_sandbox", sandbox_id=first)
        equal(server.run("import os; ('x' in dir(), os.listdir())", sandbox_id=second)["result"], "(False, [])")
        third = hit(server)["sandbox_id"]
        assert third not in (first, second)
        equal(server.run("import os; ('x' in dir(), os.listdir())", sandbox_id=third)["result"], "(False, [])")


@suite.case("it has the limits that are asked for, and memory is held to them")
def limits():
    with begun("1", "--disk-mb", "16") as server:
        more = hit(server, memory_mb=640, cpus=0.5)
        if any(text.startswith(("memory", "cpus")) for text in more["limits"]["unapplied"]):
            raise Skip(f"not enforced on this host: {more['limits']['unapplied']}")
        equal((more["limits"]["memory_mb"], more["limits"]["cpus"]), (640, 0.5))
        less = hit(server, memory_mb=300)
        equal(less["limits"]["memory_mb"], 300)
        fill = "len(bytearray(b'x') * ({} << 20))"
        for sandbox, fits, too_much in ((more, 540, 700), (less, 200, 340)):
            ident = sandbox["sandbox_id"]
            equal(server.run(fill.format(fits), sandbox_id=ident)["result"], str(fits << 20))
            done = server.run(fill.format(too_much), sandbox_id=ident)
            equal(done["status"], "memory_exceeded")
            contains(str(done["error"]), f"{sandbox['limits']['memory_mb']} MiB")
        server.kill_worker(more["sandbox_id"])  # the next one knows the limits, too
        done = server.run(fill.format(700), sandbox_id=more["sandbox_id"])
        contains(str(done["error"]), "640 MiB")


@suite.case("what it cannot be is made new, and it stays")
def misses():
    with begun("1") as server:
        kept = entries(server)
        before = figures(server)["misses"]
        for arguments in ({"pids": 40}, {"disk_mb": 20}, {"env": {"A": "1"}}):
            made = server.call("create_sandbox", **arguments)["sandbox_id"]
            assert made not in kept
            server.call("close_sandbox", sandbox_id=made)
        equal(figures(server)["misses"], before + 3)
        filled(server, 1)
        equal(figures(server)["hits"], 0)


@suite.case("create_run_close and the default sandbox come out of it")
def other_tools():
    with begun("1") as server:
        done = server.call("create_run_close", code="6 * 7")
        equal((done["result"], done["sandbox_closed"]), ("42", True))
        filled(server, 1)
        equal(server.run("6 * 7")["result"], "42")
        now = figures(server)
        equal(now["hits"] + now["misses"], 3)


@suite.case("one whose worker or agent was killed is nobody's loss")
def killed():
    with begun("1") as server:
        for kill in ("worker", "agent"):
            entry = the_entry(server)
            if kill == "agent":
                pids = mcp.agents_of(entry)
            else:
                pids = [pid for pid, line in mcp.processes() if "cloister-worker" in line and entry in line]
            assert pids, f"no {kill} of {entry}"
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            made = server.call("create_sandbox")["sandbox_id"]
            equal(server.run("6 * 7", sandbox_id=made)["result"], "42")
            server.call("close_sandbox", sandbox_id=made)
            poll("it is gone", lambda gone=entry: gone not in entries(server))
            poll("nothing is left of it", lambda gone=entry: not mcp.traces_of(gone))
        filled(server, 1)


@suite.case("one whose worker hangs is nobody's loss")
def hangs():
    with begun("1") as server:
        entry = the_entry(server)
        (pid,) = [pid for pid, line in mcp.processes() if "cloister-worker" in line and entry in line]
        os.kill(pid, signal.SIGSTOP)
        try:
            made = server.call("create_sandbox", name="mine")["sandbox_id"]
            assert made != entry
            equal(server.run("6 * 7", sandbox_id="mine")["result"], "42")
            equal(ids_of(server), {made})
            says(server, "cannot be given", entry)
        finally:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass


@suite.case("an image that is gone costs a line in the log")
def no_image():
    with with_pool("2:/nowhere/at/all") as server:
        equal(server.run("6 * 7")["result"], "42")
        says(server, "no sandbox can be made in advance", "/nowhere/at/all")
        equal(server.call("create_run_close", code="6 * 7")["result"], "42")
        equal(figures(server)["ready"], 0)


@suite.case("it gives way to clients, in places and in memory")
def gives_way():
    with begun("2", "--max-sandboxes", "2") as server:
        first = server.call("create_sandbox", pids=40)["sandbox_id"]
        second = server.call("create_sandbox", pids=40)["sandbox_id"]
        contains(server.call_failing("create_sandbox")["error"]["message"], "2 sandboxes already")
        equal(ids_of(server), {first, second})
        poll("they are removed", lambda: not entries(server))
        server.call("close_sandbox", sandbox_id=first)
        filled(server, 1)
    with begun("1", "--memory-mb", "128", "--memory-budget-mb", "256") as server:
        server.call("create_sandbox", memory_mb=256)
        poll("it is removed", lambda: not entries(server))


@suite.case("a server that ends leaves none, and the next one of its name finds none")
def ends():
    directory = mcp.temporary_directory()
    server = begun("2", "--instance", "main", runtime_dir=directory)
    mine = hit(server, memory_mb=512)["sandbox_id"]
    server.run("x = 1", sandbox_id=mine)
    filled(server, 2)
    server.process.send_signal(signal.SIGTERM)
    equal(server.wait_exit(), 0)
    server = with_pool("2", "--instance", "main", runtime_dir=directory)
    equal(server.run("x", sandbox_id=mine)["result"], "1")
    equal(ids_of(server), {mine})
    poll("no other is left", lambda: not entries(server))
    server.call("create_sandbox")
    filled(server, 2)
    left = entries(server)
    server.kill()
    server = with_pool("0", "--instance", "main", runtime_dir=directory)
    equal(server.run("x", sandbox_id=mine)["result"], "1")
    assert not left & ids_of(server)
    for entry in left:
        poll("it is swept", lambda gone=entry: not mcp.traces_of(gone) and gone not in entries(server))
    server.process.send_signal(signal.SIGINT)
    equal(server.wait_exit(), 0)
    equal(server.left_behind(), [])


@suite.case("a size that makes no sense is refused")
def refused():
    for value, words in (("100000", "--max-sandboxes"), ("x", "expected a number"), ("1:", "no image"), ("1:Not/An Image", "path of a directory")):
        server = Server("--backend", "oci", "--pool", value)
        assert server.wait_exit() != 0
        server.logger.join(30)
        contains(" ".join(server.log), words)


suite.run()
