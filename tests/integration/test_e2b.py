"""Sandboxes of E2B's cloud: on the tests' own (lib/e2b_standin.mjs), which really runs them and misbehaves on order, or on the hosted service
if CLOISTER_E2B_REAL is set beside E2B_API_KEY; cases that order faults are left out there.
"""

import json
import os
import socket
import threading
import urllib.error

os.environ["CLOISTER_BACKEND"] = "e2b"  # before anything looks for the backend under test

from common import NONE, Suite, clear, contains, equal, needs_backend, poll, works  # pylint: disable=wrong-import-position
from common_remote import (
    ENDLESS, STREAM, WANTED, add_cases, begun, cannot_create, ends, fails, faulty,
    keeps_apart, left, living, nothing_left, opened, removed_in_a_call, sweeps,
)
import e2b
import mcp

needs_backend("e2b")
cloud = e2b.started()
suite = Suite(NONE)
FAKED = not cloud.is_real

COUNT = "n = globals().get('n', 0) + 1\nprint(n)"
MAKE = r"^/v2/sandboxes$"
LIST = r"^/v2/sandboxes\?"
BOX = r"^/sandboxes/[^/]+$"
KEEP = r"^/sandboxes/[^/]+/timeout$"
INPUT = r"/SendInput$"
START = r"/Start$"
STAT = r"/Stat$"
FILES = r"^/files\?"


# ---- what works everywhere ----


@suite.case("the official SDK works on the service that these tests use")
def gate():
    cloud.script("e2b_sdk.mjs", "life")


@suite.case("a sandbox is made, runs code, keeps its state, and is one of the service with labels until it is closed")
def whole_life():
    with living(cloud) as (status, _):
        equal((status["backend"], status["image"]), ("e2b", "code-interpreter-v1"))
        names = [note.split(":")[0] for note in status["limits"]["unapplied"]]
        equal(names, ["memory", "cpus", "pids"], "what the service does not apply")


@suite.case("a server that is gone with all its processes: the next one removes its sandboxes")
def swept():
    sweeps(cloud)


@suite.case("a server that ends takes its sandboxes with it")
def ended():
    ends(cloud)


@suite.case("sandboxes side by side do not share state or files")
def side_by_side():
    keeps_apart(cloud)


@suite.case("a sandbox removed from outside in the middle of a call: both the call and the next one say it, others live on")
def removed():
    error = removed_in_a_call(cloud)
    contains(error["message"], "the service has it no more")


add_cases(suite, cloud)


@suite.case("code has a user of its own, without privileges, and cannot reach the agent")
def confined():
    server, sandbox = opened(cloud)
    with server:
        status = server.run("print(open('/proc/self/status').read())", sandbox_id=sandbox)["stdout"]
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        equal((int(fields["CapEff"], 16), fields["NoNewPrivs"]), (0, "1"))
        assert int(fields["Uid"].split()[0]) >= 1000, fields["Uid"]
        code = "import os\ntry:\n    os.listdir('/run/cloister')\nexcept OSError as e:\n    print(e.errno)"
        equal(server.stdout(code, sandbox_id=sandbox), "13\n")


@suite.case("the SDK and this server share a sandbox: each sees the other's files and processes")
def shared():
    server, sandbox = opened(cloud)
    with server:
        server.call("write_file", sandbox_id=sandbox, path="ours.txt", content="ours\n")
        ident = cloud.box_of(sandbox)["sandboxID"]
        equal(cloud.script("e2b_sdk.mjs", ident, "cat /workspace/ours.txt; echo theirs >/workspace/theirs.txt"), "ours\n")
        equal(server.run("open('theirs.txt').read()", sandbox_id=sandbox)["result"], "'theirs\\n'")


@suite.case("a sandbox that is paused in the middle of a call is woken, and the call goes on")
def paused():
    server, sandbox = opened(cloud)
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
    server, sandbox = opened(cloud, "--log-level", "debug")
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
    cannot_create(cloud.server(env={"E2B_API_KEY": ""}), "E2B_API_KEY")


@suite.case("a sandbox has no network unless it is asked for, is secured, and lives as long as it is kept alive", when=FAKED)
def asked():
    server, sandbox = opened(cloud, "--allow-network")
    with server:
        box = cloud.box_of(sandbox)
        equal(box["asked"]["allow_internet_access"], False)
        equal(box["asked"]["network"], {"allowPublicTraffic": False})
        equal((box["secured"], box["asked"]["autoPause"]), (True, False))
        assert box["asked"]["timeout"] <= 60, "one whose worker dies before it knows of it lives on"
        poll("it has its full time", lambda: cloud.box_of(sandbox)["ttl"] >= 300, found=lambda: cloud.box_of(sandbox)["ttl"])
        other = server.call("create_sandbox", network="full")["sandbox_id"]
        equal(cloud.box_of(other)["asked"]["allow_internet_access"], True)


@suite.case("a service of the first version: sandboxes are made and secured all the same", when=FAKED)
def old_service():
    cloud.order(release=1)
    with faulty(cloud) as server:
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
        equal(len(left(cloud, server)), 1, "sandboxes in the cloud")
    nothing_left(cloud, server)
    place = mcp.temporary_directory()
    with open(os.path.join(place, ".env"), "w", encoding="utf-8") as file:
        file.write(f"INTERPRETER_TYPE=e2b\nE2B_API_KEY={cloud.key}\n")
    env = {**{k: v for k, v in cloud.env.items() if k != "E2B_API_KEY"}, "CLOISTER_BACKEND": ""}
    with mcp.Server("--compat", "code-sandbox", env=env, program=os.path.abspath(os.environ["CLOISTER"]), preexec=lambda: os.chdir(place)) as server:
        server.legacy("2024-11-05")
        server.start_call("create_sandbox", session_id="s").result()
        equal(len(left(cloud, server)), 1, "sandboxes in the cloud")
    nothing_left(cloud, server)


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


@suite.case("a service that asks for patience gets it, at every step", when=FAKED)
def patience():
    with faulty(cloud) as server:
        works(server)
        for method, path in (("POST", MAKE), ("POST", STAT), ("POST", FILES), ("DELETE", BOX)):
            for code, headers in ((429, {"Retry-After": "1"}), (503, {})):
                cloud.fault(method, path, "status", code=code, headers=headers)
                works(server)
                equal(cloud.hits(), [1], f"{code} for {method} {path}")
                cloud.calm()


@suite.case("a limit of the service: its own words, at once, and what to do", when=FAKED)
def limit():
    with faulty(cloud) as server:
        works(server)
        cloud.order(most=0)
        error = clear(server.call_failing("create_sandbox")["error"])
        cloud.order(most=100)
        contains(json.dumps(error), "maximum number of concurrent E2B sandboxes")
        contains(error["hint"], "close sandboxes")
        works(server)


@suite.case("a template that does not exist: image_not_found", when=FAKED)
def no_template():
    with faulty(cloud, "--image", "nobody/nothing") as server:
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "image_not_found")
        contains(json.dumps(error), "nobody/nothing")


@suite.case("a daemon that is too old: its version, and nothing is left", when=FAKED)
def old_daemon():
    with faulty(cloud) as server:
        cloud.order(version="0.4.2")
        error = clear(server.call_failing("create_sandbox")["error"])
        cloud.order(version="0.9.1")
        contains(json.dumps(error), "0.4.2")
        nothing_left(cloud, server)


@suite.case("the answer to a creation is lost, or a proxy stumbles over it: one sandbox, or none and a clear error", when=FAKED)
def lost_creation():
    for do, more in (("unanswered", {}), ("reset", {}), ("status", {"code": 502}), ("status", {"code": 500}), ("belied", {"code": 502}), ("belied", {"code": 503})):
        with faulty(cloud) as server:
            cloud.fault("POST", MAKE, do, **more)
            sandbox = server.call("create_sandbox")["sandbox_id"]
            equal(cloud.hits(), [1], do)
            equal(len(left(cloud, server)), 1, "sandboxes")
            equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")


@suite.case("a creation whose answer is lost, and that is refused when it is repeated: what the first one made is removed", when=FAKED)
def lost_then_refused():
    with faulty(cloud) as server:
        works(server)
        cloud.fault("POST", MAKE, "unanswered")
        cloud.fault("GET", LIST, "status", code=200, body=[])
        cloud.fault("POST", MAKE, "status", code=429)
        clear(server.call_failing("create_sandbox")["error"])
        equal(cloud.hits(), [1, 1, 1])
        equal(left(cloud, server), [], "sandboxes")
        works(server)


@suite.case("answers that are no JSON, too large or without an end: a clear error, and nothing left", when=FAKED)
def garbage():
    for do in ("garbage", "huge", "endless"):
        with faulty(cloud) as server:
            cloud.fault("POST", MAKE, do)
            cloud.fault("POST", MAKE, do)
            fails(cloud, server)


@suite.case("a daemon that is not up yet, or stumbles, is asked again", when=FAKED)
def not_up():
    with faulty(cloud) as server:
        for code, message in ((502, "The sandbox was not found"), (409, "The sandbox is still transitioning. Try again in a moment.")):
            cloud.fault("POST", STAT, "status", code=code, message=message, times=3)
            works(server)
            equal(cloud.hits(), [3])
            cloud.calm()


@suite.case("an agent that cannot be started: the words of what refused it", when=FAKED)
def no_agent():
    with faulty(cloud) as server:
        cloud.fault("POST", START, "status", code=400, message="cwd '/' does not exist")
        fails(cloud, server, "cwd '/' does not exist")


def relays(sandbox):
    return sum(words[1:2] == ["relay"] for words in cloud.processes(cloud.box_of(sandbox)))


@suite.case("a daemon that repeats the token in what it says on a stream: it is told, without the token", when=FAKED)
def no_token_told():
    with faulty(cloud) as server:
        cloud.fault("POST", START, "ended", message="TOKEN is not welcome")
        fails(cloud, server, "(key) is not welcome")


@suite.case("the stream is cut in the middle of a message: another one, and nothing is lost or doubled", when=FAKED)
def stream_cut():
    with faulty(cloud) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, STREAM)
        cloud.cut_streams()
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        equal(server.stdout("print('y' * 100000)", sandbox_id=sandbox), "y" * 100000 + "\n")
        cloud.fault("POST", START, "status", code=502, times=1000)
        cloud.cut_streams()
        poll("the relay of the stream that was cut is gone before there is another", lambda: relays(sandbox) == 0, found=lambda: relays(sandbox))
        cloud.calm()
        equal(server.stdout("print('again')", sandbox_id=sandbox), "again\n")


@suite.case("input whose answer is lost, refused or garbled: code runs once, whatever has arrived", when=FAKED)
def lost_input():
    with faulty(cloud) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        count = 0
        faults = (("unanswered", {}), ("reset", {}), ("garbage", {}), ("belied", {"code": 503}), *(("status", {"code": code}) for code in (502, 503, 500)), ("status", {"code": 429, "headers": {"Retry-After": "1"}}))
        for do, more in faults:
            cloud.fault("POST", INPUT, do, **more)
            count += 1
            equal(server.stdout(COUNT, sandbox_id=sandbox), f"{count}\n", f"runs after {do} {more}")
            equal(cloud.hits(), [1], do)
            cloud.calm()


@suite.case("a stream that is refused a few times opens in the end", when=FAKED)
def start_refused():
    with faulty(cloud) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for do, more in (("reset", {}), ("garbage", {}), ("status", {"code": 502}), ("status", {"code": 429}), ("status", {"code": 503})):
            cloud.fault("POST", START, do, **more)
            cloud.cut_streams()
            equal(server.stdout("print('again')", sandbox_id=sandbox), "again\n")
            equal(cloud.hits(), [1], do)
            cloud.calm()


@suite.case("another token: it is asked for, and the call goes on", when=FAKED)
def token_changed():
    with faulty(cloud) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, STREAM)
        cloud.order(token=cloud.box_of(sandbox)["sandboxID"])
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))


@suite.case("a sandbox whose time is over in the middle of a call: its owner is told", when=FAKED)
def expired():
    with faulty(cloud) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        pending = begun(server, sandbox, ENDLESS)
        cloud.order(expire=cloud.box_of(sandbox)["sandboxID"])
        answer = pending.result()
        assert answer["isError"], answer
        contains(json.dumps(answer), "its time was over")


def keeps(ident):
    """How often the life of this one was to be extended."""
    return sum(request["path"] == f"/sandboxes/{ident}/timeout" for request in cloud.requests())


def ident_of(sandbox):
    return cloud.id_of(cloud.box_of(sandbox))


@suite.case("a sandbox that the service has no more is not kept alive, until it is found again", when=FAKED)
def kept_alive():
    with faulty(cloud) as server:
        cloud.fault("POST", KEEP, "status", code=404, times=2)
        sandbox = server.call("create_sandbox")["sandbox_id"]
        gone = ident_of(sandbox)
        poll("the service has said so", lambda: cloud.hits() == [2], found=cloud.hits)
        cloud.request("POST", f"/sandboxes/{gone}/timeout", {"timeout": 600})
        cloud.fault("POST", KEEP, "status", code=500, times=9)
        other = ident_of(server.call("create_sandbox")["sandbox_id"])
        poll("another one's life was to be extended for some time", lambda: keeps(other) >= 3, found=cloud.requests)
        equal(keeps(gone), 3, "requests for the first, with that of the test")
        cloud.calm()
        cloud.order(pause=gone)
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
        poll("its life is extended again", lambda: keeps(gone) > 3, found=cloud.requests)


@suite.case("a warm call takes one round trip of the service: less than 1.3 of its bare one", when=FAKED)
def one_round_trip():
    with faulty(cloud) as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        ratio = cloud.warm_ratio(server, sandbox)
        assert ratio < 1.3, f"a warm call takes {ratio:.2f} round trips"


# ---- the contract ----

MISFITS = (
    ("POST", "/v2/sandboxes", {"templateID": "base", "timeout": "60"}, "/timeout must be integer"),
    ("POST", "/v2/sandboxes", {"timeout": 60}, "required property 'templateID'"),
    ("POST", "/v2/sandboxes", {"templateID": "base", "secure": True}, "additional properties secure"),
    ("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": 1}}, "/network/allowPublicTraffic must be boolean"),
    ("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"a": 1}}, "/metadata/a must be string"),
    ("POST", "/v2/sandboxes", None, "has no body"),
    ("GET", "/v2/sandboxes?limit=all", None, 'query parameter "limit": must be number'),
    ("GET", "/v2/sandboxes?state=asleep", None, 'query parameter "state"'),
    ("GET", "/v2/sandboxes?owner=me", None, 'no query parameter "owner"'),
    ("DELETE", "/sandboxes/i0", {"force": True}, "has a body"),
    ("POST", "/sandboxes/i0/timeout", {"timeout": 1.5}, "/timeout must be integer"),
    ("POST", "/sandboxes/i0/sleep", {}, "no such operation"),
)


@suite.case("a request that is not as the service's OpenAPI file has it is refused and noticed", when=FAKED)
def misfits():
    equal(cloud.misfits(), [], "requests of the cases before this one that do not fit")
    for method, path, body, words in MISFITS:
        try:
            cloud.request(method, path, body)
            raise AssertionError(f"{method} {path} was taken")
        except urllib.error.HTTPError as problem:
            equal(problem.code, 400)
        found = cloud.misfits()
        equal(len(found), 1, f"{method} {path} {body}: {found}")
        contains(found[0], words)


@suite.finish
def nothing_at_all():
    """no sandbox is left in the cloud, and all requests were as the service's OpenAPI files have them"""
    poll("no sandbox is left", lambda: not cloud.boxes(), found=cloud.boxes)
    if FAKED:
        found = cloud.misfits()
        cloud.close()
        equal(found, [], "requests and answers that do not fit")


suite.run()
