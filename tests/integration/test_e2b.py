"""Sandboxes of E2B's cloud: on the tests' own (lib/e2b_standin.mjs), which really runs them and misbehaves on order, or on the hosted service
if CLOISTER_E2B_REAL is set beside E2B_API_KEY; cases that order faults are left out there.
"""

import json
import os
import socket
import subprocess
import threading

os.environ["CLOISTER_BACKEND"] = "e2b"  # before anything looks for the backend under test

from common import NONE, Suite, clear, contains, equal, poll, skip_all  # pylint: disable=wrong-import-position
import e2b
import mcp

if "e2b" not in subprocess.run([os.environ["CLOISTER"], "--help"], capture_output=True, text=True, check=False).stdout:
    skip_all("this build has no backend e2b")
cloud = e2b.started()
suite = Suite(NONE)
FAKED = not cloud.is_real

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
COUNT = "n = globals().get('n', 0) + 1\nprint(n)"
MAKE = r"^/v2/sandboxes$"
LIST = r"^/v2/sandboxes\?"
BOX = r"^/sandboxes/[^/]+$"
INPUT = r"/SendInput$"
START = r"/Start$"
STAT = r"/Stat$"
FILES = r"^/files\?"


def opened(*options, **how):
    server = cloud.server(*options, **how)
    server.legacy()
    return server, server.call("create_sandbox")["sandbox_id"]


def begun(server, sandbox, code):
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=code)
    poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
    return pending


def left(server):
    return cloud.boxes_of(server.runtime_dir)


def nothing_left(server):
    poll("no sandbox of this server is left", lambda: not left(server), found=lambda: left(server))


# ---- what works everywhere ----


@suite.case("the official SDK works on the service that these tests use")
def gate():
    cloud.script("e2b_sdk.mjs", "life")


@suite.case("a sandbox is made, runs code, keeps its state, and is one of the service with labels until it is closed")
def whole_life():
    server, sandbox = opened()
    with server:
        equal(server.run("x = 6 * 7\nprint('hello')", sandbox_id=sandbox)["stdout"], "hello\n")
        equal(server.run("x", sandbox_id=sandbox)["result"], "42")
        status = server.call("get_sandbox_status", sandbox_id=sandbox)
        equal((status["backend"], status["image"]), ("e2b", "code-interpreter-v1"))
        names = [note.split(":")[0] for note in status["limits"]["unapplied"]]
        equal(names, ["memory", "cpus", "pids"], "what the service does not apply")
        box = cloud.box_of(sandbox)
        assert box, f"no sandbox {sandbox} among {cloud.boxes()}"
        server.call("close_sandbox", sandbox_id=sandbox)
        poll("it is gone", lambda: cloud.box_of(sandbox) is None)
    nothing_left(server)


@suite.case("several languages, standard input, and output in order")
def languages():
    server, sandbox = opened()
    with server:
        equal(server.stdout("echo $((6 * 7)); uname -s", language="bash", sandbox_id=sandbox), "42\nLinux\n")
        equal(server.stdout("print(input() * 2)", stdin="ab\n", sandbox_id=sandbox), "abab\n")
        done = server.run("import sys\nfor i in range(3000): print(i)\nprint('end', file=sys.stderr)", sandbox_id=sandbox)
        equal((done["stdout"], done["stderr"]), ("".join(f"{i}\n" for i in range(3000)), "end\n"))


@suite.case("files are written, listed and read, small ones and of some megabytes, and code sees them")
def files():
    server, sandbox = opened()
    with server:
        server.call("write_file", sandbox_id=sandbox, path="a/b.txt", content="text\n")
        equal(server.run("open('a/b.txt').read()", sandbox_id=sandbox)["result"], "'text\\n'")
        large = "0123456789abcdef" * (1 << 16)
        server.call("write_file", sandbox_id=sandbox, path="large", content=large)
        equal(server.run("import hashlib\nlen(open('large').read())", sandbox_id=sandbox)["result"], str(len(large)))
        server.run("open('big', 'wb').write(bytes(range(256)) * 8192)", sandbox_id=sandbox)
        entries = {e["path"]: e["size"] for e in server.call("list_files", sandbox_id=sandbox)["entries"]}
        equal(entries.get("big", entries.get("/workspace/big")), 2 << 20, f"size among {entries}")
        read = server.call("read_file", sandbox_id=sandbox, path="big", encoding="base64", offset=256, length=4)
        equal(read["content"], "AAECAw==")


@suite.case("code has a user of its own, without privileges, and cannot reach the agent")
def confined():
    server, sandbox = opened()
    with server:
        status = server.run("print(open('/proc/self/status').read())", sandbox_id=sandbox)["stdout"]
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        equal((int(fields["CapEff"], 16), fields["NoNewPrivs"]), (0, "1"))
        assert int(fields["Uid"].split()[0]) >= 1000, fields["Uid"]
        code = "import os\ntry:\n    os.listdir('/run/cloister')\nexcept OSError as e:\n    print(e.errno)"
        equal(server.stdout(code, sandbox_id=sandbox), "13\n")


@suite.case("the SDK and this server share a sandbox: each sees the other's files and processes")
def shared():
    server, sandbox = opened()
    with server:
        server.call("write_file", sandbox_id=sandbox, path="ours.txt", content="ours\n")
        ident = cloud.box_of(sandbox)["sandboxID"]
        equal(cloud.script("e2b_sdk.mjs", ident, "cat /workspace/ours.txt; echo theirs >/workspace/theirs.txt"), "ours\n")
        equal(server.run("open('theirs.txt').read()", sandbox_id=sandbox)["result"], "'theirs\\n'")


@suite.case("a worker killed in the middle of a call: its full result comes, once")
def worker_killed():
    server, sandbox = opened()
    with server:
        server.run("before = 'state'", sandbox_id=sandbox)
        pending = begun(server, sandbox, STREAM)
        server.kill_worker(sandbox)
        done = pending.structured()
        equal((done["status"], done["stdout"], done["interpreter"]), ("ok", WANTED, "kept"))
        equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")


@suite.case("a server killed and started again under its name finds its sandboxes and their state")
def adopted():
    directory = mcp.temporary_directory()
    server = cloud.server("--instance", "main", runtime_dir=directory)
    server.legacy()
    sandbox = server.call("create_sandbox", name="mine")["sandbox_id"]
    server.run("before = 'state'", sandbox_id=sandbox)
    ident = cloud.box_of(sandbox)["sandboxID"]
    server.kill()
    with cloud.server("--instance", "main", runtime_dir=directory) as successor:
        successor.legacy()
        boxes = {box["sandbox_id"]: box["name"] for box in successor.call("get_sandbox_status")["sandboxes"]}
        equal(boxes, {sandbox: "mine"})
        equal(successor.run("before", sandbox_id=sandbox)["result"], "'state'")
        equal(cloud.box_of(sandbox)["sandboxID"], ident, "the same sandbox")
        successor.call("close_sandbox", sandbox_id=sandbox)
    poll("it is gone", lambda: cloud.box_of(sandbox) is None)


@suite.case("a server that is gone with all its processes: the next one removes its sandboxes")
def swept():
    directory = mcp.temporary_directory()
    server, sandbox = opened(runtime_dir=directory)
    equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.kill_with_sweeper()
    assert cloud.box_of(sandbox), "the sandbox has gone by itself"
    successor, other = opened(runtime_dir=directory)
    with successor:
        poll("the dead server's is gone", lambda: cloud.box_of(sandbox) is None)
        assert cloud.box_of(other), "the living server's is gone"
    nothing_left(successor)


@suite.case("a server that ends takes its sandboxes with it")
def ended():
    server, _ = opened()
    with server:
        server.call("create_sandbox")
        equal(len(left(server)), 2, "sandboxes")
    nothing_left(server)


@suite.case("sandboxes side by side do not share state or files")
def side_by_side():
    server, _ = opened()
    with server:
        pending = [server.start_call("create_sandbox") for _ in range(4)]
        boxes = [p.structured()["sandbox_id"] for p in pending]
        for box in boxes:
            server.run(f"x = {box!r}\nopen('own', 'w').write(x)", sandbox_id=box)
        for box in boxes:
            equal(server.run("(x, open('own').read())", sandbox_id=box)["result"], repr((box, box)))
    nothing_left(server)


@suite.case("a sandbox removed from outside in the middle of a call: both the call and the next one say it, others live on")
def removed():
    server, sandbox = opened()
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS)
        cloud.remove(cloud.box_of(sandbox))
        answer = pending.result()
        assert answer["isError"], answer
        error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
        contains(error["message"], "the service has it no more")
        equal(server.run("1 + 1", sandbox_id=other)["result"], "2")


@suite.case("a sandbox that is paused in the middle of a call is woken, and the call goes on")
def paused():
    server, sandbox = opened()
    with server:
        pending = begun(server, sandbox, STREAM)
        cloud.request("POST", f"/sandboxes/{cloud.box_of(sandbox)['sandboxID']}/pause", {"memory": True})
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        equal(cloud.box_of(sandbox)["state"], "running")


# ---- doctor and configuration ----


def explained(said, *words):
    said = " ".join(said.split())
    for word in words:
        contains(said, word, "what the doctor says")
    assert cloud.key not in said, "the key is in what the doctor says"


@suite.case("the doctor names the service and is content; it tells no secret")
def doctor_content():
    done = cloud.doctor()
    equal(done.returncode, 0, f"exit status; {done.stdout}{done.stderr}")
    explained(done.stdout + done.stderr, "e2b", cloud.url)
    poll("its trial is gone", lambda: not cloud.boxes())


@suite.case("without a key, or with one that the service does not take: which variable, and no word of the key")
def bad_keys():
    for key, words in (("", ["E2B_API_KEY is not set"]), ("e2b 12\t3", ["E2B_API_KEY", "a character that none can have"]), ("e2b_" + "0" * 40, ["401", "E2B_API_KEY"])):
        done = cloud.doctor(E2B_API_KEY=key)
        assert done.returncode != 0, done.stdout
        explained(done.stdout + done.stderr, *words)
        assert not key or key not in done.stdout + done.stderr, "the key is told"


@suite.case("a service that is not there, or an address that is none: where it was looked for")
def bad_places():
    for variable, value, word in (("E2B_API_URL", "http://127.0.0.1:1", "127.0.0.1:1"), ("E2B_API_URL", "nowhere at all", "E2B_API_URL"), ("E2B_API_URL", "ftp://x", "E2B_API_URL"), ("E2B_SANDBOX_URL", "x y", "E2B_SANDBOX_URL")):
        done = cloud.doctor(**{variable: value})
        assert done.returncode != 0, done.stdout
        explained(done.stdout + done.stderr, word)
    done = cloud.doctor("--engine", "http://127.0.0.1:1/")
    explained(done.stdout + done.stderr, "127.0.0.1:1")


class Closing:
    """A server, or a proxy, that takes a connection and closes it."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return self.socket.getsockname()[1]

    def _serve(self):
        while True:
            try:
                link, _ = self.socket.accept()
            except OSError:
                return
            link.recv(65536)
            link.close()

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@suite.case("a service or a proxy that closes: which one")
def closing():
    with Closing() as port:
        done = cloud.doctor(E2B_API_URL=f"http://127.0.0.1:{port}")
        explained(done.stdout + done.stderr, f"127.0.0.1:{port}")
        assert done.returncode != 0, done.stdout
        done = cloud.doctor(E2B_API_URL="", E2B_DOMAIN="service.invalid", https_proxy=f"http://127.0.0.1:{port}")
        explained(done.stdout + done.stderr, "api.service.invalid", "roxy")
        assert done.returncode != 0, done.stdout


@suite.case("a service that answers garbage, 200 MB or nothing: what was asked, within the deadline", when=FAKED)
def bad_service():
    for do in ("garbage", "huge", "endless", "hang", "reset"):
        cloud.fault("GET", LIST, do, times=9)
        done = cloud.doctor()
        cloud.calm()
        assert done.returncode != 0, f"{do}: {done.stdout}"
        explained(done.stdout + done.stderr, cloud.url)


@suite.case("no key and no token gets into the log, not even with all there is to log, nor into a sandbox")
def no_secret_in_log():
    server, sandbox = opened("--log-level", "debug")
    with server:
        equal(server.run("import os\nsorted(n for n in os.environ if 'E2B' in n)", sandbox_id=sandbox)["result"], "[]")
        server.call("close_sandbox", sandbox_id=sandbox)
    assert cloud.key not in "\n".join(server.log), "the key is in the log"


@suite.case("the key is in the environment of this backend's workers, and of no other's")
def key_of_others():
    for backend, there in (("e2b", True), ("fake", False)):
        with mcp.Server("--backend", backend, env=cloud.env) as server:
            server.legacy()
            sandbox = server.call("create_sandbox")["sandbox_id"]
            with open(f"/proc/{server.worker_pid(sandbox)}/environ", "rb") as file:
                equal(cloud.key.encode() in file.read(), there, backend)


@suite.case("create_sandbox without a key is a clear error, and the server lives on")
def bad_create():
    with cloud.server(env={"E2B_API_KEY": ""}) as server:
        server.legacy()
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "engine_unavailable")
        contains(json.dumps(error), "E2B_API_KEY")
        equal(server.request("ping"), {})


@suite.case("a sandbox has no network unless it is asked for, is secured, and lives as long as it is kept alive", when=FAKED)
def asked():
    server, sandbox = opened("--allow-network")
    with server:
        box = cloud.box_of(sandbox)
        equal(box["asked"]["allow_internet_access"], False)
        equal(box["asked"]["network"], {"allowPublicTraffic": False})
        equal((box["secured"], box["asked"]["autoPause"]), (True, False))
        assert box["ttl"] >= 300, box["ttl"]
        other = server.call("create_sandbox", network="full")["sandbox_id"]
        equal(cloud.box_of(other)["asked"]["allow_internet_access"], True)


@suite.case("a service of the first version: sandboxes are made and secured all the same", when=FAKED)
def old_service():
    cloud.order(release=1)
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
        equal(cloud.box_of(sandbox)["secured"], True)
        server.call("close_sandbox", sandbox_id=sandbox)
    cloud.order(release=2)


# ---- as in code-sandbox-mcp ----


def like_code_sandbox(**env):
    """A server with that profile, for which nobody has said a backend in our words."""
    server = mcp.Server("--compat", "code-sandbox", env={**cloud.env, "CLOISTER_BACKEND": "", **env})
    server.legacy("2024-11-05")
    return server


def status_of(server):
    return json.loads(server.start_call("get_sandbox_status").result()["content"][0]["text"])


@suite.case("with --compat code-sandbox INTERPRETER_TYPE=e2b and a key mean this backend, in the environment or in .env")
def profile():
    with like_code_sandbox(INTERPRETER_TYPE="e2b") as server:
        said = server.start_call("create_sandbox", session_id="s").result()
        assert not said.get("isError"), said
        equal(len(left(server)), 1, "sandboxes in the cloud")
    nothing_left(server)
    place = mcp.temporary_directory()
    with open(os.path.join(place, ".env"), "w", encoding="utf-8") as file:
        file.write(f"INTERPRETER_TYPE=e2b\nE2B_API_KEY={cloud.key}\n")
    env = {**{k: v for k, v in cloud.env.items() if k != "E2B_API_KEY"}, "CLOISTER_BACKEND": ""}
    with mcp.Server("--compat", "code-sandbox", env=env, program=os.path.abspath(os.environ["CLOISTER"]), preexec=lambda: os.chdir(place)) as server:
        server.legacy("2024-11-05")
        server.start_call("create_sandbox", session_id="s").result()
        equal(len(left(server)), 1, "sandboxes in the cloud")
    nothing_left(server)


@suite.case("without a key it is said where sandboxes are made; firecracker names what stands in for it")
def profile_without_key():
    for kind, env, words in (("e2b", {"E2B_API_KEY": ""}, ["E2B_API_KEY is not set", "--backend auto"]), ("firecracker", {}, ["--runtime kata", "--runtime runsc", "--backend e2b"])):
        with like_code_sandbox(INTERPRETER_TYPE=kind, **env) as server:
            equal(status_of(server)["interpreter_type"], kind)
            said = [line for line in server.log if f"INTERPRETER_TYPE={kind}" in line]
            equal(len(said), 1, "lines of the log")
            for word in words:
                contains(said[0], word)
        equal(cloud.boxes(), [], "sandboxes in the cloud")


# ---- faults ----


class Faulty:
    """A server for a case of faults, after which nothing may be left in the cloud."""

    def __init__(self, *options, **how):
        self.server = cloud.server(*options, **how)

    def __enter__(self):
        self.server.legacy()
        return self.server

    def __exit__(self, kind, problem, trace):
        cloud.calm()
        self.server.__exit__(kind, problem, trace)
        if kind is None:
            nothing_left(self.server)


def works(server):
    sandbox = server.call("create_sandbox")["sandbox_id"]
    equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.call("close_sandbox", sandbox_id=sandbox)


def fails(server, *words):
    """A creation fails with these words, leaves nothing, and the next one works."""
    error = clear(server.call_failing("create_sandbox")["error"])
    for word in words:
        contains(json.dumps(error), word, "the error")
    cloud.calm()
    nothing_left(server)
    works(server)
    return error


@suite.case("a service that asks for patience gets it, at every step", when=FAKED)
def patience():
    with Faulty() as server:
        works(server)
        for method, path in (("POST", MAKE), ("POST", STAT), ("POST", FILES), ("DELETE", BOX)):
            for code, headers in ((429, {"Retry-After": "1"}), (503, {})):
                cloud.fault(method, path, "status", code=code, headers=headers)
                works(server)
                equal(cloud.hits(), [1], f"{code} for {method} {path}")
                cloud.calm()


@suite.case("a limit of the service: its own words, at once, and what to do", when=FAKED)
def limit():
    with Faulty() as server:
        works(server)
        cloud.order(most=0)
        error = clear(server.call_failing("create_sandbox")["error"])
        cloud.order(most=100)
        contains(json.dumps(error), "maximum number of concurrent E2B sandboxes")
        contains(error["hint"], "close sandboxes")
        works(server)


@suite.case("a template that does not exist: image_not_found", when=FAKED)
def no_template():
    with Faulty("--image", "nobody/nothing") as server:
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "image_not_found")
        contains(json.dumps(error), "nobody/nothing")


@suite.case("a daemon that is too old: its version, and nothing is left", when=FAKED)
def old_daemon():
    with Faulty() as server:
        cloud.order(version="0.4.2")
        error = clear(server.call_failing("create_sandbox")["error"])
        cloud.order(version="0.9.1")
        contains(json.dumps(error), "0.4.2")
        nothing_left(server)


@suite.case("the answer to a creation is lost, or a proxy stumbles over it: one sandbox, or none and a clear error", when=FAKED)
def lost_creation():
    for do, more in (("unanswered", {}), ("reset", {}), ("status", {"code": 502}), ("status", {"code": 500})):
        with Faulty() as server:
            cloud.fault("POST", MAKE, do, **more)
            sandbox = server.call("create_sandbox")["sandbox_id"]
            equal(cloud.hits(), [1], do)
            equal(len(left(server)), 1, "sandboxes")
            equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")


@suite.case("answers that are no JSON, too large or without an end: a clear error, and nothing left", when=FAKED)
def garbage():
    for do in ("garbage", "huge", "endless"):
        with Faulty() as server:
            cloud.fault("POST", MAKE, do)
            cloud.fault("POST", MAKE, do)
            fails(server)


@suite.case("a daemon that is not up yet, or stumbles, is asked again", when=FAKED)
def not_up():
    with Faulty() as server:
        for code, message in ((502, "The sandbox was not found"), (409, "The sandbox is still transitioning. Try again in a moment.")):
            cloud.fault("POST", STAT, "status", code=code, message=message, times=3)
            works(server)
            equal(cloud.hits(), [3])
            cloud.calm()


@suite.case("an agent that cannot be started: the words of what refused it", when=FAKED)
def no_agent():
    with Faulty() as server:
        cloud.fault("POST", START, "status", code=400, message="cwd '/' does not exist")
        fails(server, "cwd '/' does not exist")


@suite.case("the stream is cut in the middle of a message: another one, and nothing is lost or doubled", when=FAKED)
def stream_cut():
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, STREAM)
        cloud.cut_streams()
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        equal(server.stdout("print('y' * 100000)", sandbox_id=sandbox), "y" * 100000 + "\n")


@suite.case("input whose answer is lost, refused or garbled: code runs once, whatever has arrived", when=FAKED)
def lost_input():
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        count = 0
        faults = (("unanswered", {}), ("reset", {}), ("garbage", {}), *(("status", {"code": code}) for code in (502, 503, 500)), ("status", {"code": 429, "headers": {"Retry-After": "1"}}))
        for do, more in faults:
            cloud.fault("POST", INPUT, do, **more)
            count += 1
            equal(server.stdout(COUNT, sandbox_id=sandbox), f"{count}\n", f"runs after {do} {more}")
            equal(cloud.hits(), [1], do)
            cloud.calm()


@suite.case("a stream that is refused a few times opens in the end", when=FAKED)
def start_refused():
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for do, more in (("reset", {}), ("garbage", {}), ("status", {"code": 502}), ("status", {"code": 429}), ("status", {"code": 503})):
            cloud.fault("POST", START, do, **more)
            cloud.cut_streams()
            equal(server.stdout("print('again')", sandbox_id=sandbox), "again\n")
            equal(cloud.hits(), [1], do)
            cloud.calm()


@suite.case("another token: it is asked for, and the call goes on", when=FAKED)
def token_changed():
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, STREAM)
        cloud.order(token=cloud.box_of(sandbox)["sandboxID"])
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))


@suite.case("a sandbox whose time is over in the middle of a call: its owner is told", when=FAKED)
def expired():
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS)
        cloud.order(expire=cloud.box_of(sandbox)["sandboxID"])
        answer = pending.result()
        assert answer["isError"], answer
        contains(json.dumps(answer), "its time was over")


@suite.case("a warm call takes one round trip of the service: less than 1.3 of its bare one", when=FAKED)
def one_round_trip():
    with Faulty() as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        ratio = cloud.warm_ratio(server, sandbox)
        assert ratio < 1.3, f"a warm call takes {ratio:.2f} round trips"


@suite.finish
def nothing_at_all():
    """no sandbox is left in the cloud"""
    poll("no sandbox is left", lambda: not cloud.boxes(), found=cloud.boxes)
    if FAKED:
        cloud.close()


suite.run()
