"""A wall clock that steps by two days, back and forth, five times a second, for the server and its workers:
no timeout is affected. The agent is statically linked, so it has the true clock; user code is not tested
here."""

import datetime
import os
import signal
import time

from common import Server, Suite, alive, contains, equal, needs_runtime, poll, skip_all
import mcp

LIBRARY = os.environ.get("CLOCK_STEP")
if LIBRARY is None:
    skip_all("CLOCK_STEP does not name the library with the clock that steps")
needs_runtime()
suite = Suite()

HOUR = 3600  # the clock steps by many: a timeout that used it would come at once, or in no test's time
STEPPING = {"LD_PRELOAD": LIBRARY, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def started(*options):
    server = Server(*options, env=STEPPING)
    server.legacy()
    return server


def sandboxes(server):
    return [s["sandbox_id"] for s in server.call("get_sandbox_status")["sandboxes"]]


def expiry(server, sandbox):
    said = server.call("get_sandbox_status", sandbox_id=sandbox)["expires_at"]
    return datetime.datetime.fromisoformat(said.replace("Z", "+00:00")).timestamp()


def timed(function):
    begun = time.monotonic()
    return function(), time.monotonic() - begun


@suite.case("the wall clock of server and worker does step")
def steps():
    with started() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        poll("an expiry that is too late by nearly a day", lambda: expiry(server, sandbox) > time.time() + 20 * HOUR)
        poll("an expiry that is past", lambda: expiry(server, sandbox) < time.time() - 20 * HOUR)
        with open(f"/proc/{server.worker_pid(sandbox)}/maps", encoding="utf-8") as file:
            contains(file.read(), LIBRARY)


@suite.case("deadlines are kept, and calls with time left are not disturbed")
def deadlines():
    with started() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        done, seconds = timed(lambda: server.run("import time; time.sleep(2.5); 'slept'", sandbox_id=sandbox, timeout_seconds=15))
        equal((done["status"], done.get("result")), ("ok", "'slept'"))
        assert 2.4 < done["duration_ms"] / 1000 <= seconds, (done, seconds)
        for code, wanted in (("while True: pass", 1), ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", 3)):
            done, seconds = timed(lambda c=code: server.run(c, sandbox_id=sandbox, timeout_seconds=1))
            equal(done["status"], "timeout")
            assert seconds > wanted - 0.1, f"{seconds:.2f} s"
        equal(server.call("get_sandbox_status", sandbox_id=sandbox)["worker"]["restarts"], 0)


@suite.case("a cancellation ends code, by the kill if needed")
def cancelled():
    with started() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for prologue, wanted in (("", 0), ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n", 2)):
            pending = server.start_call("execute_code", sandbox_id=sandbox, code=prologue + f"open('begun{wanted}', 'w').close()\nwhile True: pass")
            poll("it runs", lambda w=wanted: server.read_text(f"begun{w}", sandbox) is not None)
            server.notify("notifications/cancelled", {"requestId": pending.ident})
            done, seconds = timed(lambda: server.run("1", sandbox_id=sandbox))
            equal(done["status"], "ok")
            assert seconds > wanted - 0.1, f"{seconds:.2f} s"
            assert not pending.answered()


@suite.case("sandboxes close when they are idle for long enough, and at the end of their life, not before")
def closing():
    with started("--max-lifetime-seconds", "12") as server:
        begun = time.monotonic()
        long_lived = server.call("create_sandbox")["sandbox_id"]
        short = server.call("create_sandbox", ttl_seconds=2)["sandbox_id"]
        server.run("import time; time.sleep(1)", sandbox_id=short)
        used = time.monotonic()
        poll("the idle one is gone", lambda: short not in sandboxes(server))
        idle = time.monotonic() - used
        assert idle > 1.9, f"idle for {idle:.2f} s"
        poll("the other one is gone", lambda: sandboxes(server) == [])
        life = time.monotonic() - begun
        assert life > 11.9, f"it lived for {life:.2f} s"


@suite.case("workers that die or hang are found and replaced")
def workers():
    with started() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.run("state = 'kept'", sandbox_id=sandbox)
        os.kill(server.worker_pid(sandbox), signal.SIGKILL)
        equal(server.run("state", sandbox_id=sandbox)["result"], "'kept'")
        pid = server.worker_pid(sandbox)
        mcp.send_signal(pid, signal.SIGSTOP)
        equal(server.run("state", sandbox_id=sandbox)["result"], "'kept'")
        poll("the stopped one is killed", lambda: not alive(pid))


suite.run()
