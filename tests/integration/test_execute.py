"""Running code: live interpreters, and the ends of runs."""

import json

from common import EACH, NONE, ONE, Shared, Suite, clear, contains, equal, needs_runtime, poll
import mcp

needs_runtime()
# Agent and server handle interpreters and results on every backend: on engines only cases run that depend on
# the image, on a container's streams and open descriptors, on its limits and its end.
suite = Suite(NONE)
shared = Shared()


def python(code, **arguments):
    return shared.run(code, **arguments)


def bash(code, **arguments):
    return shared.run(code, language="bash", **arguments)


def reset():
    """A new Python interpreter in the shared sandbox."""
    equal(python("import os; os._exit(0)")["status"], "crashed")
    equal(python("None")["interpreter"], "restarted")


# ---- Python ----


@suite.case("python: variables, imports and functions live across calls", engines=EACH)
def live_state():
    first = python("import math\nx = 20\ndef twice(n):\n    return 2 * n")
    equal((first["status"], first["interpreter"], first["exit_code"]), ("ok", "fresh", 0))
    assert first.get("result") in (None, ""), first
    second = python("twice(x) + math.floor(2.5)")
    equal((second["status"], second["interpreter"], second["result"]), ("ok", "kept", "42"))


@suite.case("python: the value of the last expression is the result, and None is none")
def last_expression():
    for code, wanted in [
        ("1 + 1", "2"),
        ("'text'", "'text'"),
        ("x = 5", None),
        ("None", None),
        ("for i in range(3): i", None),
        ("x = 1; x + 1", "2"),
        ("[1,\n 2]", "[1, 2]"),
        ("# only a comment", None),
    ]:
        done = python(code)
        equal(done["status"], "ok", code)
        equal(done.get("result") or None, wanted, code)


@suite.case("python: stdout and stderr are kept apart and whole")
def streams():
    done = python("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.stdout.write('no newline')")
    equal(done["stdout"], "out\nno newline")
    equal(done["stderr"], "err\n")
    equal((done["stdout_bytes"], done["stderr_bytes"]), (14, 4))
    equal(done["result"], "10")


@suite.case("python: output of children and of raw descriptors is there as well", engines=ONE)
def child_output():
    done = python("import os, subprocess\nos.write(1, b'raw\\n')\nsubprocess.run(['sh', '-c', 'echo child; echo oops >&2'])\nprint('after')")
    equal(sorted(done["stdout"].split()), ["after", "child", "raw"])
    equal(done["stderr"], "oops\n")


@suite.case("python: a traceback is what python itself would print, without our own frames")
def traceback_text():
    done = python("def inner(d):\n    return d['missing']\n\ndef outer():\n    return inner({})\n\nouter()")
    equal(done["status"], "error")
    equal(done["exit_code"], 1)
    error = done["error"]
    equal((error["name"], error["message"]), ("KeyError", "'missing'"))
    lines = error["traceback"].rstrip("\n").split("\n")
    equal(lines[0], "Traceback (most recent call last):")
    equal(lines[-1], "KeyError: 'missing'")
    frames = [line for line in lines if line.startswith("  File ")]
    equal([line.rsplit(", ", 2)[1:] for line in frames], [
        ["line 7", "in <module>"],
        ["line 5", "in outer"],
        ["line 2", "in inner"],
    ])
    for source in ("    outer()", "    return inner({})", "    return d['missing']"):
        contains(lines, source)


@suite.case("python: tracebacks show the right lines of earlier calls")
def traceback_across_calls():
    python("def fragile():\n    raise ValueError('from the first call')")
    trace = python("x = 1\nfragile()")["error"]["traceback"]
    contains(trace, "    raise ValueError('from the first call')")
    contains(trace, "    fragile()")


@suite.case("python: chained exceptions, syntax errors and exceptions that cannot be printed")
def odd_exceptions():
    chained = python("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('second') from e")
    contains(chained["error"]["traceback"], "The above exception was the direct cause")
    syntax = python("def f(:\n  pass")
    equal((syntax["status"], syntax["error"]["name"]), ("error", "SyntaxError"))
    contains(syntax["error"]["traceback"], "def f(:")
    indent = python("if True:\nx = 1")
    equal(indent["error"]["name"], "IndentationError")
    broken = python("class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E()")
    equal((broken["status"], broken["error"]["name"]), ("error", "E"))
    representation = python("class R:\n    def __repr__(self):\n        raise ValueError('no repr')\nR()")
    equal((representation["status"], representation["error"]["name"]), ("error", "ValueError"))
    deep = python("def f(): f()\nf()")
    equal((deep["status"], deep["error"]["name"]), ("error", "RecursionError"))
    surrogate = python("raise ValueError('\\ud800 \\x00 end')")
    equal((surrogate["status"], surrogate["error"]["name"]), ("error", "ValueError"))


@suite.case("python: exceptions and exits of odd classes are described, and the interpreter stays")
def odd_classes():
    python("kept = 'still'")
    for name in ("1 / 0", "5"):
        done = python(f"class Meta(type):\n    __name__ = property(lambda cls: {name})\nclass Odd(Exception, metaclass=Meta): pass\nraise Odd('why')")
        equal((done["status"], done["error"]["name"], done["error"]["message"]), ("error", "Odd", "why"))
    for code in ("class Odd(SystemExit):\n    code = property(lambda self: 1 / 0)\nraise Odd()", "class Odd:\n    def __str__(self): raise SystemExit(4)\nraise SystemExit(Odd())"):
        done = python(code)
        equal((done["status"], done["exit_code"]), ("error", 1), code)
    equal(python("kept")["result"], "'still'")


@suite.case("python: if any part of a cell awaits, all of it runs in the loop")
def one_loop():
    done = python("import asyncio\nasync def late(n):\n    await asyncio.sleep(0.01)\n    return n\ntasks = [asyncio.create_task(late(n)) for n in range(3)]\nawait asyncio.gather(*tasks)")
    equal((done["status"], done["result"]), ("ok", "[0, 1, 2]"), json.dumps(done.get("error")))
    equal(python("await asyncio.sleep(0)\ntask = asyncio.create_task(late(7))\ntask.done()")["result"], "False")
    equal(python("await task")["result"], "7")
    done = python("x = 1\n\nawait asyncio.sleep(100)", timeout_seconds=1)
    equal((done["status"], done["interpreter"]), ("timeout", "kept"))
    contains(done["error"]["traceback"], "line 3, in <module>")


@suite.case("python: only what ends a line for the compiler does so in a traceback")
def traceback_lines():
    done = python("text = 'a\u2028b\x0cc\x85'\r\n\n1 / 0")
    contains(done["error"]["traceback"], 'line 3, in <module>\n    1 / 0\n')


@suite.case("python: input() reads the stdin argument, then comes the end of file")
def stdin():
    done = python("a = input('name? ')\nb = input()\nprint(a, b)", stdin="Ada\nLovelace\n")
    equal(done["status"], "ok")
    contains(done["stdout"], "Ada Lovelace")
    ended = python("input()", stdin="")
    equal(ended["error"]["name"], "EOFError")
    none = python("input()")
    equal(none["error"]["name"], "EOFError")
    equal(python("import sys; sys.stdin.read()", stdin="all\nof it")["result"], "'all\\nof it'")
    equal(python("sys.stdin.read()", stdin="a new one")["result"], "'a new one'")


@suite.case("python: sys.exit ends the run with its status and keeps the interpreter")
def sys_exit():
    python("kept = 'yes'")
    for code, status, exit_code in [
        ("sys.exit()", "ok", 0),
        ("sys.exit(0)", "ok", 0),
        ("sys.exit(3)", "error", 3),
    ]:
        done = python("import sys; " + code)
        equal((done["status"], done["exit_code"]), (status, exit_code), code)
    text = python("sys.exit('message')")
    equal((text["status"], text["exit_code"]), ("error", 1))
    contains(text["stderr"] + json.dumps(text.get("error")), "message")
    equal(python("kept")["result"], "'yes'")


@suite.case("python: unicode survives in code, output, results, arguments and names", engines=ONE)
def unicode():
    done = python("größe = 'ä漢😀'\nprint(größe)\ngröße")
    equal((done["stdout"], done["result"]), ("ä漢😀\n", "'ä漢😀'"))
    equal(python("import sys; sys.argv[1:]", args=["ä", "漢 字", "😀", ""])["result"], "['ä', '漢 字', '😀', '']")
    equal(python("import os; os.environ['NAME']", env={"NAME": "wört"})["result"], "'wört'")


@suite.case("python: bytes that are not UTF-8 are shown as replacement characters, counted as bytes")
def not_utf8():
    done = python("import os\n_ = os.write(1, b'a\\xff\\xfe\\x00b\\n')")
    equal(done["stdout"], "a\ufffd\ufffd\ufffdb\n")
    equal(done["stdout_bytes"], 6)


@suite.case("python: env and args are for one call only")
def env_is_not_kept():
    equal(python("import os; os.environ['ONCE']", env={"ONCE": "1"})["result"], "'1'")
    equal(python("os.environ.get('ONCE')").get("result") or None, None)
    equal(python("import sys; len(sys.argv)")["result"], "1")


@suite.case("python: at its deadline a run is interrupted and the state is kept")
def deadline():
    python("count = 0")
    done = python("while True:\n    count += 1", timeout_seconds=1)
    equal((done["status"], done["interpreter"]), ("timeout", "kept"))
    assert done["duration_ms"] >= 900, done["duration_ms"]
    after = python("count > 0")
    equal((after["result"], after["interpreter"]), ("True", "kept"))


@suite.case("python: a deadline also ends sleeping, and what was printed before is shown")
def deadline_output():
    done = python("import time\nprint('before')\ntime.sleep(60)", timeout_seconds=1)
    equal((done["status"], done["stdout"]), ("timeout", "before\n"))


@suite.case("python: code that ignores the interrupt is killed and the interpreter restarted", engines=ONE)
def deadline_ignored():
    python("state = 1")
    done = python("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", timeout_seconds=1)
    equal(done["status"], "timeout")
    assert done["duration_ms"] >= 2500, done["duration_ms"]  # nothing else ends it
    after = python("'state' in globals()")
    equal((after["interpreter"], after["result"]), ("restarted", "False"))


@suite.case("python: code that catches KeyboardInterrupt does not escape its deadline")
def deadline_caught():
    done = python("while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt:\n        pass", timeout_seconds=1)
    equal(done["status"], "timeout")
    equal(python("1")["status"], "ok")


@suite.case("python: os._exit and a segfault restart the interpreter and leave the sandbox usable", engines=ONE)
def crashes():
    python("open('kept.txt', 'w').write('on disk')\nx = 1")
    for code, exit_code in [("import os; os._exit(7)", 7), ("import ctypes; ctypes.string_at(0)", 139), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)]:
        done = python("print('last words', flush=True)\n" + code)
        equal((done["status"], done["exit_code"]), ("crashed", exit_code), code)
        equal(done["stdout"], "last words\n")
        after = python("('x' in globals(), open('kept.txt').read())")
        equal((after["status"], after["interpreter"], after["result"]), ("ok", "restarted", "(False, 'on disk')"))
        equal(python("1")["interpreter"], "kept")


@suite.case("python: closing or replacing the standard streams does not lose the interpreter for good")
def streams_closed():
    python("import sys, os\nsys.stdout.close()\nos.close(1)\nos.close(2)\nsys.stdin = None")
    for _ in range(2):
        done = python("print('again')")
        if done["status"] == "ok" and done["stdout"] == "again\n":
            return
    raise AssertionError(f"streams are gone: {done}")


@suite.case("python: streams that are deleted, detached or odd cost neither the run nor the next one")
def streams_odd():
    python("kept = 'still'")
    odd = "import sys\nclass Odd:\n    closed = property(lambda self: 1 / 0)\n    def write(self, text): pass\n"
    codes = [f"import sys\ndel sys.{name}" for name in ("stdin", "stdout", "stderr")]
    codes += ["import sys\nsys.stdout.detach()\nNone", odd + "    def flush(self): 1 / 0\nsys.stdout = Odd()"]
    codes += [odd + "    def flush(self): raise SystemExit(3)\nsys.stderr = Odd()"]
    for code in codes:
        assert python(code)["status"] != "crashed", code
        done = python("print(kept)")
        equal((done["status"], done["interpreter"], done["stdout"]), ("ok", "kept", "still\n"), code)


@suite.case("python: an error of a signal handler between two runs is reported with the next run, which is not disturbed")
def late_signals():
    for what in ("TimeoutError('late')", "ValueError('late')", "SystemExit(3)", "KeyboardInterrupt('late')"):
        code = "import os, signal\ndef handler(*_):\n    os.write(fired, b'x')\n    raise " + what
        code += "\nfired = os.open('fired', os.O_WRONLY | os.O_CREAT)\nsignal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)\nNone"
        equal(python(code)["status"], "ok")
        server, sandbox = shared.get()
        poll("the alarm", lambda: server.call("list_files", sandbox_id=sandbox)["entries"] and server.call("read_file", sandbox_id=sandbox, path="fired")["content"] == "x")
        done = python("import os\nos.remove('fired')\nfired > 0")
        equal((done["status"], done["interpreter"], done["result"]), ("ok", "kept", "True"), what)
        equal("late" in done["stderr"], "Exit" not in what, done["stderr"])


@suite.case("python: closing every descriptor costs the interpreter, not the sandbox", engines=ONE)
def descriptors_closed():
    python("import os; os.closerange(3, 1024)")
    poll("a working interpreter", lambda: python("print('again')")["stdout"] == "again\n")
    reset()


@suite.case("python: garbage on every descriptor that user code can find costs only the interpreter", engines=EACH)
def garbage():
    python("import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\xff\\xff\\xff\\xffgarbage' * 100)\n    except OSError:\n        pass")
    poll("a working interpreter", lambda: python("1 + 1").get("result") == "2")
    server, sandbox = shared.get()
    equal(server.call("get_sandbox_status", sandbox_id=sandbox)["state"], "ready")


@suite.case("python: threads and background processes do not hold a call open")
def background():
    done = python("import threading, time, subprocess\nthread = threading.Thread(target=time.sleep, args=(600,), daemon=True)\nthread.start()\nchild = subprocess.Popen(['sleep', '600'])\n'returned'")
    equal((done["status"], done["result"]), ("ok", "'returned'"))
    equal(python("(thread.is_alive(), child.poll())")["result"], "(True, None)")
    python("child.kill()\nchild.wait()")


@suite.case("python: fork in user code, and a child that falls out of it, does not double anything", engines=ONE)
def forks():
    done = python("import os\npid = os.fork()\nif pid == 0:\n    print('child')\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('parent')")
    equal(done["status"], "ok")
    equal(sorted(done["stdout"].split()), ["child", "parent"])
    falling = python("import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(5)\nos.waitpid(pid, 0)[1]")
    equal(falling["status"], "ok")
    equal(python("2 + 2")["result"], "4")


@suite.case("python: a lot of output is counted, cut and does not stall", engines=EACH)
def much_output():
    done = python("for i in range(200000): print('line', i)")
    total = sum(len(f"line {i}\n") for i in range(200000))
    equal((done["status"], done["stdout_bytes"], done["truncated"]), ("ok", total, True))
    assert 50_000 < len(done["stdout"]) < 1 << 20
    contains(done["stdout"], "line 0\n")
    huge = python("'x' * 10_000_000")
    equal(huge["status"], "ok")
    assert len(huge["result"]) < 1 << 20


@suite.case("python: a whole result stays below 1 MiB on the wire", engines=ONE)
def result_budget():
    server, sandbox = shared.get()
    code = "import sys\nprint('\\x01\"' * 2_000_000)\nprint('é' * 2_000_000, file=sys.stderr)\nraise ValueError('q' * 3_000_000)"
    answer = server.start_call("execute_code", sandbox_id=sandbox, code=code).wait()
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < 1 << 20
    equal(answer["result"]["structuredContent"]["status"], "error")


@suite.case("results carry time, CPU and memory of the run", engines=ONE)
def figures():
    done = python("sum(i * i for i in range(3_000_000))")
    assert done["duration_ms"] > 20 and done["cpu_ms"] > 20, done
    assert 4_000 < done["max_rss_kb"] < 600_000, done


@suite.case("isError and the text content say how a run ended")
def text_content():
    server, sandbox = shared.get()

    def ask(code):
        return server.start_call("execute_code", sandbox_id=sandbox, code=code).result()

    good = ask("print('shown')\n6 * 7")
    assert not good.get("isError")
    text = "\n".join(block["text"] for block in good["content"])
    contains(text, "shown")
    contains(text, "42")
    bad = ask("1/0")
    equal(bad["isError"], True)
    contains("\n".join(block["text"] for block in bad["content"]), "ZeroDivisionError: division by zero")
    crashed = ask("import os; os._exit(1)")
    equal(crashed["isError"], True)
    assert crashed["content"][0]["text"].strip()


# ---- bash ----


@suite.case("bash: directory, variables and functions live across calls", engines=EACH)
def bash_state():
    first = bash("mkdir -p here && cd here\nname=value\ngreet() { echo \"hello $1\"; }")
    equal((first["status"], first["interpreter"], first["exit_code"]), ("ok", "fresh", 0))
    second = bash("pwd; echo $name; greet you")
    equal(second["stdout"], "/workspace/here\nvalue\nhello you\n")
    equal(second["interpreter"], "kept")
    bash("cd")


@suite.case("bash: exit status, exit and failing commands")
def bash_status():
    for code, status, exit_code in [("true", "ok", 0), ("false", "error", 1), ("nosuchcommand", "error", 127), ("(exit 3)", "error", 3)]:
        done = bash(code)
        equal((done["status"], done["exit_code"]), (status, exit_code), code)
    bash("kept=1")
    left = bash("echo bye; exit 4")
    equal((left["stdout"], left["exit_code"]), ("bye\n", 4))
    assert bash("echo alive")["stdout"] == "alive\n"


@suite.case("bash: syntax errors, here documents and stdin")
def bash_input():
    equal(bash("if then")["status"], "error")
    equal(bash("echo still here")["stdout"], "still here\n")
    equal(bash("cat <<END\nin\nthe document\nEND")["stdout"], "in\nthe document\n")
    equal(bash("read line; echo \"got $line\"", stdin="a line\n")["stdout"], "got a line\n")
    equal(bash("cat")["stdout"], "")
    equal(bash("echo $1-$2", args=["a", "b c"])["stdout"], "a-b c\n")
    equal(bash("echo $ONCE", env={"ONCE": "x"})["stdout"], "x\n")
    equal(bash("echo ${ONCE:-gone}")["stdout"], "gone\n")


@suite.case("bash: redirections of exec last for their run, and code may set PROMPT_COMMAND")
def shell_redirected():
    bash("kept=still")
    for code in ("exec >/dev/null", "exec >log 2>&1; echo logged", "exec >&- 2>&- <&-", "PROMPT_COMMAND='echo prompt'", "PROMPT_COMMAND=true; return 6"):
        done = bash(code, timeout_seconds=20)
        equal((done["status"], done["exit_code"]), ("error", 6) if "return" in code else ("ok", 0), code)
        done = bash("echo $kept; echo err >&2; return 3", timeout_seconds=20)
        equal((done["exit_code"], done["stdout"], done["stderr"], done["interpreter"]), (3, "still\n", "err\n", "kept"), code)
    equal(bash("cat log")["stdout"], "logged\n")


@suite.case("bash: a deadline interrupts the command and keeps the shell")
def bash_deadline():
    bash("kept=yes")
    done = bash("echo begun; sleep 60", timeout_seconds=1)
    equal((done["status"], done["stdout"]), ("timeout", "begun\n"))
    equal(bash("echo $kept")["stdout"], "yes\n")


@suite.case("an unknown language is named together with those that there are")
def language():
    server, sandbox = shared.get()
    failed = server.call_failing("execute_code", sandbox_id=sandbox, code="1", language="cobol")
    assert failed["error"]["code"] in ("language_unavailable", "invalid_argument"), failed
    assert failed["error"]["hint"] or failed["error"]["message"]
    equal(python("1")["status"], "ok")


@suite.case("code of 10 MB runs or fails like any other, empty code is refused, and blanks do nothing", engines=EACH)
def sizes_of_code():
    server, sandbox = shared.get()
    stuff = "a" * (10 << 20)
    equal(python(f"len('{stuff}')")["result"], str(len(stuff)))
    equal(bash(f": {stuff}\necho done")["stdout"], "done\n")
    broken = python(f"x = '{stuff}\nx")
    equal((broken["status"], broken["error"]["name"], broken["interpreter"]), ("error", "SyntaxError", "kept"))
    assert len(json.dumps(broken)) < 1 << 20
    for language in ("python", "bash"):
        error = clear(server.call_failing("execute_code", code="", language=language, sandbox_id=sandbox)["error"])
        equal(error["code"], "invalid_argument")
        contains(error["message"], "code: ")
        blank = shared.run(" \n\t\n", language=language)
        equal((blank["status"], blank["stdout_bytes"], blank.get("result")), ("ok", 0, None))


# ---- sandboxes of a call ----


@suite.case("create_run_close runs in a sandbox of its own and leaves none", engines=EACH)
def one_shot():
    server, _ = shared.get()
    before = server.call("get_sandbox_status")["count"]
    done = server.call("create_run_close", code="print('once')\n1 + 1")
    equal((done["stdout"], done["result"], done["sandbox_closed"]), ("once\n", "2", True))
    failing = server.start_call("create_run_close", code="1/0").failed()
    equal((failing["status"], failing["sandbox_closed"]), ("error", True))
    shell = server.call("create_run_close", code="echo $((6*7))", language="bash")
    equal(shell["stdout"], "42\n")
    equal(server.call("get_sandbox_status")["count"], before)


@suite.case("without sandbox_id the session's own sandbox is used, created on first use")
def default_sandbox():
    server, named = shared.get()
    first = server.run("mine = 1")
    assert first["sandbox_id"] != named
    second = server.run("mine")
    equal((second["sandbox_id"], second["result"]), (first["sandbox_id"], "1"))
    server.call("close_sandbox", sandbox_id=first["sandbox_id"])


@suite.case("a sandbox answers to the name it was given, names are unique while they live")
def names():
    server, _ = shared.get()
    made = server.call("create_sandbox", name="reports")
    equal(server.run("1", sandbox_id="reports")["sandbox_id"], made["sandbox_id"])
    again = server.call_failing("create_sandbox", name="reports")
    assert again["error"]["message"], again
    equal(server.call("close_sandbox", sandbox_id="reports"), {"sandbox_id": made["sandbox_id"], "state": "closed"})
    gone = server.call_failing("execute_code", sandbox_id="reports", code="1")
    equal(gone["error"]["code"], "sandbox_not_found")
    for bad in ("../up", "a/b", "tab\there", "..", "x" * 300, " "):
        failed = server.call_failing("create_sandbox", name=bad)
        equal(failed["error"]["code"], "invalid_argument", bad)


@suite.case("limits and settings of create_sandbox come back in its result and in its status", engines=EACH)
def settings():
    server, sandbox = shared.fresh(memory_mb=256, cpus=0.5, pids=40, disk_mb=32, env={"GREETING": "hi"}, timeout_seconds=1, ttl_seconds=600)
    status = server.call("get_sandbox_status", sandbox_id=sandbox)
    limits = status["limits"]
    equal((limits["memory_mb"], limits["cpus"], limits["pids"], limits["disk_mb"]), (256, 0.5, 40, 32))
    equal((status["state"], status["backend"], status["network"], status["workspace"]), ("ready", mcp.BACKEND, "none", "/workspace"))
    contains(status["languages"], "python")
    contains(status["languages"], "bash")
    equal(server.run("import os; os.environ['GREETING']", sandbox_id=sandbox)["result"], "'hi'")
    equal(server.run("while True: pass", sandbox_id=sandbox)["status"], "timeout")
    assert server.call("get_sandbox_status", sandbox_id=sandbox)["executions"] == 2
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("a sandbox that nobody calls closes after its ttl", engines=ONE)
def ttl():
    server, sandbox = shared.fresh(ttl_seconds=1)
    listed = lambda: [s["sandbox_id"] for s in server.call("get_sandbox_status")["sandboxes"]]
    poll("the sandbox is gone", lambda: sandbox not in listed())
    equal(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"]["code"], "sandbox_not_found")


@suite.case("what the tools return fits the schemas that they declare", engines=ONE)
def declared_schemas():
    from schema import check_value

    server, sandbox = shared.get()
    declared = {t["name"]: t["outputSchema"] for t in server.request("tools/list")["tools"]}
    calls = [
        ("create_sandbox", {"name": "declared"}),
        ("get_sandbox_status", {}),
        ("get_sandbox_status", {"sandbox_id": "declared"}),
        ("execute_code", {"code": "print(1)\n2", "sandbox_id": "declared"}),
        ("execute_code", {"code": "1/0", "sandbox_id": "declared"}),
        ("execute_code", {"code": "1", "sandbox_id": "nosuch"}),
        ("write_file", {"path": "a.txt", "content": "a", "sandbox_id": "declared"}),
        ("read_file", {"path": "a.txt", "sandbox_id": "declared"}),
        ("read_file", {"path": "b.txt", "sandbox_id": "declared"}),
        ("list_files", {"sandbox_id": "declared"}),
        ("create_run_close", {"code": "1"}),
        ("close_sandbox", {"sandbox_id": "declared"}),
    ]
    for tool, arguments in calls:
        result = server.start_call(tool, **arguments).result()
        check_value(declared[tool], result["structuredContent"], f"{tool} {arguments}")


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
