"""Talking to code that runs: stdin that stays open, and terminals."""

import json
import signal

from common import EACH, NONE, ONE, Server, Skip, Suite, contains, equal, needs_runtime, poll
from tenants import Tenants
import mcp

needs_runtime()
# On engines only what a container makes different: terminals.
suite = Suite(NONE)


def failing(server, tool, **arguments):
    """The error of a call that must fail."""
    return server.call_failing(tool, **arguments)["error"]


class Talk:
    """An execution, and all that it was heard to say: nothing may come twice or be missing."""

    def __init__(self, server, sandbox, code, **how):
        self.server = server
        how = how or {"stdin_open": True}
        self.now = server.call("execute_code", sandbox_id=sandbox, code=code, **how)
        self.id = self.now["execution_id"]
        self.sandbox = sandbox
        self.heard = self.now["stdout"]

    def say(self, data=None, **more):
        if data is not None:
            more["data"] = data
        self.now = self.server.call("write_stdin", execution_id=self.id, **more)
        self.heard += self.now["stdout"]
        return self.now

    def hear(self, words):
        """Waits for more output by writing nothing."""
        def look():
            if words not in self.heard and self.now["status"] == "running":
                self.say()
            return words in self.heard

        poll(f"{words!r} in {self.heard!r}", look)

    def end(self):
        def look():
            got = self.server.start_call("get_execution", execution_id=self.id).result()["structuredContent"]
            return got if got["status"] != "running" else None

        return poll("the end", look)

    def refused(self, **arguments):
        return failing(self.server, "write_stdin", execution_id=self.id, **arguments)


class One:
    """A server for all cases that end none."""

    server = None

    @classmethod
    def get(cls):
        if cls.server is None:
            cls.server = Server()
            cls.server.legacy()
        return cls.server, cls.server.call("create_sandbox")["sandbox_id"]


@suite.case("input() of live Python is answered, and its variables stay")
def python():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "name = input('name? ')\nage = int(input('age? '))\nprint(name, age + 1)")
    equal(talk.now["status"], "running")
    talk.hear("name? ")
    talk.say("Ada\n")
    talk.hear("age? ")
    talk.say("36\n")
    done = talk.end()
    equal((done["status"], done["stdout"]), ("ok", "name? age? Ada 37\n"))
    equal(server.run("name, age", sandbox_id=sandbox)["result"], "('Ada', 36)")
    # without an open stdin input() ends at once, and says what to do
    failed = server.start_call("execute_code", sandbox_id=sandbox, code="input()").result()
    contains(json.dumps(failed), "stdin_open")


@suite.case("one call is one turn: what is said in answer comes with it, once")
def turns():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "while read a; do echo \"<$a>\"; echo \"$a\" | tr a-z A-Z >&2; done; echo over", language="bash", stdin_open=True)
    for word in ("one", "two", "three"):
        talk.say(word + "\n")
        talk.hear(f"<{word}>\n")
    talk.say("last", eof=True)
    done = talk.end()
    equal((done["status"], done["stdout"], done["stderr"]), ("ok", "<one>\n<two>\n<three>\nover\n", "ONE\nTWO\nTHREE\n"))
    contains(done["stdout"], talk.heard)


@suite.case("bash reads, and so do the programs that it starts")
def bash():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "read a; python3 -c 'print(input() * 2)'; cat; kept=$a", language="bash", stdin_open=True)
    talk.say("first\n")
    talk.say("ab\n")
    talk.hear("abab\n")
    talk.say("to cat")
    talk.say(eof=True)
    equal(talk.end()["stdout"], "abab\nto cat")
    equal(server.stdout("echo $kept; cat", sandbox_id=sandbox, language="bash"), "first\n")


@suite.case("JavaScript reads process.stdin")
def javascript():
    server, sandbox = One.get()
    if "javascript" not in server.call("get_sandbox_status", sandbox_id=sandbox)["languages"]:
        raise Skip("no Node.js here")
    talk = Talk(server, sandbox, "for await (const line of require('readline').createInterface({input: process.stdin})) console.log('<' + line + '>')",
                language="javascript", stdin_open=True)
    talk.say("a\n")
    talk.hear("<a>\n")
    talk.say("b\n", eof=True)
    equal(talk.end()["stdout"], "<a>\n<b>\n")


@suite.case("a terminal: its size, its keys, python -i in it", engines=EACH)
def terminal():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "stty size; python3 -q", language="bash", tty=True)
    talk.hear("24 80")
    talk.hear(">>> ")
    talk.say("import sys, time; print('tty', sys.stdin.isatty(), sys.stdout.isatty())\n")
    talk.hear("tty True True")
    talk.say("import os; os.get_terminal_size()\n", rows=50, cols=132)
    talk.hear("columns=132, lines=50")
    talk.say("print('sleep' + 'ing', flush=True); time.sleep(1000)\n")
    talk.hear("sleeping")
    talk.say("\x03")
    talk.hear("KeyboardInterrupt")
    talk.say("x = 'still ' + 'there'; x\n")
    talk.hear("'still there'")
    talk.say("\x04")
    done = talk.end()
    equal(done["status"], "ok")
    assert "\x1b" not in json.dumps(done), done["stdout"]


@suite.case("less and vi work in a terminal")  # the image of the engines has neither
def full_screen():
    server, sandbox = One.get()
    there = server.stdout("for p in less vi; do command -v $p > /dev/null && echo $p; done; true", sandbox_id=sandbox, language="bash").split()
    if not there:
        raise Skip("neither less nor vi here")
    server.call("write_file", sandbox_id=sandbox, path="long", content="".join(f"row {i}\n" for i in range(100)))
    if "less" in there:
        talk = Talk(server, sandbox, "less long; echo le''ft", language="bash", tty=True)
        talk.hear("row 20")
        talk.say("G")
        talk.hear("row 99")
        talk.say("q")
        talk.hear("left")
        equal(talk.end()["status"], "ok")
    if "vi" in there:
        talk = Talk(server, sandbox, "vi long", language="bash", tty=True)
        talk.hear("row 20")
        talk.say("dd:wq\r")
        equal(talk.end()["status"], "ok")
        equal(server.read_text("long", sandbox).splitlines()[0], "row 1")


@suite.case("what cannot be written says why: ended, closed, no terminal, a size of 0, nothing there")
def refusals():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "read a", language="bash", stdin_open=True)
    contains(talk.refused(rows=10)["message"], "terminal")
    for size in ({"rows": 0}, {"cols": 0}):
        equal(talk.refused(**size)["code"], "invalid_argument")
    equal(talk.refused(data="x", stdin_offset=7)["code"], "invalid_argument")
    talk.say("a\n")
    talk.end()
    ended = talk.refused(data="more\n")
    equal(ended["code"], "invalid_argument")
    contains(ended["message"], "ended")
    closed = server.call("execute_code", sandbox_id=sandbox, language="bash", code="cat; echo went on", timeout_seconds=60)
    equal(closed["stdout"], "went on\n")  # no stdin, as ever: it did not wait
    unknown = failing(server, "write_stdin", execution_id="0123456789abcdef", data="x")
    equal(unknown["code"], "execution_not_found")
    equal(unknown["message"], failing(server, "get_execution", execution_id="0123456789abcdef")["message"])


@suite.case("what the code does not read is refused as a whole, and nothing hangs or is lost")
def much():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "echo up; until [ -e go ]; do sleep 0.02; done; wc -c", language="bash", stdin_open=True)
    talk.hear("up\n")
    equal(talk.refused(data="x" * (256 << 10) + "x")["code"], "too_large")
    equal(talk.refused(data="x" * (12 << 20))["code"], "too_large")
    piece, taken = "x" * (64 << 10), 0
    while True:
        answer = server.start_call("write_stdin", execution_id=talk.id, data=piece, wait_seconds=0).result()
        if answer.get("isError"):
            break
        taken += len(piece)
        equal(answer["structuredContent"]["stdin_bytes"], taken)
        assert taken < 8 << 20
    contains(json.dumps(answer), "too_large")
    server.call("write_file", sandbox_id=sandbox, path="go", content="")
    poll("it reads", lambda: not server.start_call("write_stdin", execution_id=talk.id, eof=True, wait_seconds=0).result().get("isError"))
    equal(talk.end()["stdout"], f"up\n{taken}\n")


@suite.case("a worker killed between two writes, and before the answer to one: each arrives once", engines=ONE)
def worker_killed():
    server, sandbox = One.get()
    talk = Talk(server, sandbox, "while read a; do echo \"<$a>\"; done", language="bash", stdin_open=True)
    killed = set()
    for i in range(4):
        if i % 2 == 0:
            killed.add(server.kill_worker(sandbox, killed))
            talk.say(f"{i}\n")
        else:
            call = server.start_call("write_stdin", execution_id=talk.id, data=f"{i}\n")
            killed.add(server.kill_worker(sandbox, killed))
            talk.heard += call.structured()["stdout"]
        talk.hear(f"<{i}>\n")
    # what a client repeats with the place of the first time is not written again
    talk.say("0\n", stdin_offset=0)
    talk.say(eof=True)
    equal(talk.end()["stdout"], "".join(f"<{i}>\n" for i in range(4)))


@suite.case("the next server goes on with the dialogue")
def next_server():
    directory = mcp.temporary_directory()
    first = Server("--instance", "main", runtime_dir=directory)
    first.legacy()
    sandbox = first.call("create_sandbox")["sandbox_id"]
    talk = Talk(first, sandbox, "while read a; do echo \"<$a>\"; done", language="bash", stdin_open=True)
    talk.say("one\n")
    talk.hear("<one>\n")
    first.kill()
    second = Server("--instance", "main", runtime_dir=directory)
    second.legacy()
    talk.server = second
    equal(talk.say("one\n", stdin_offset=0)["stdin_bytes"], 4)  # repeated, since the answer may have been lost
    talk.say("two\n")
    talk.hear("<two>\n")
    talk.say(eof=True)
    equal(talk.end()["stdout"], "<one>\n<two>\n")
    second.process.send_signal(signal.SIGINT)
    equal(second.wait_exit(), 0)


@suite.case("nobody writes to another principal's code", engines=NONE)
def other_principal():
    with Tenants(("alice", "bob")) as tenants:
        alice, bob = tenants.client("alice"), tenants.client("bob")
        sandbox = alice.call("create_sandbox")["sandbox_id"]
        talk = Talk(alice, sandbox, "read a; echo \"<$a>\"", language="bash", stdin_open=True)
        stolen = failing(bob, "write_stdin", execution_id=talk.id, data="mine\n")
        equal(stolen, failing(bob, "get_execution", execution_id=talk.id))
        equal(stolen["code"], "execution_not_found")
        talk.say("hers\n")
        equal(talk.end()["stdout"], "<hers>\n")


@suite.finish
def end():
    """the server ends and leaves nothing behind"""
    if One.server:
        One.server.close()


suite.run()
