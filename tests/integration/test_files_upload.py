"""upload_file: files from the call and from this host, written whole or not at all; and special files."""

import base64
import hashlib
import os
import socket

from common import EACH, NONE, ONE, Server, Suite, contains, equal, mcp, needs_runtime, poll

needs_runtime()
# Which host files may be read does not depend on the backend: on engines only cases run that write pieces
# into a container.
suite = Suite(NONE)

PLACE = mcp.temporary_directory()
MIB = 1 << 20
_shared = []


def path_of(name):
    return os.path.join(PLACE, name)


def local(name, data):
    with open(path_of(name), "wb") as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def shared():
    if not _shared:
        server = Server("--disk-mb", "160", "--local-files", f"/nowhere-at-all,{PLACE}")
        server.legacy()
        _shared.extend([server, server.call("create_sandbox")["sandbox_id"]])
    return _shared


def call(tool, **arguments):
    server, sandbox = shared()
    return server.call(tool, sandbox_id=sandbox, **arguments)


def failing(tool, **arguments):
    server, sandbox = shared()
    return server.call_failing(tool, sandbox_id=sandbox, **arguments)["error"]


def run(code, **arguments):
    server, sandbox = shared()
    return server.stdout(code, sandbox_id=sandbox, **arguments)


def sums(*paths):
    return run(f"import hashlib\nfor p in {paths!r}: print(hashlib.sha256(open(p, 'rb').read()).hexdigest())").split()


@suite.case("content becomes a file, with its directories, and the result has its digest", engines=ONE)
def content():
    text = "zeile ä\n"
    done = call("upload_file", path="new/dir/a.txt", content=text)
    equal((done["path"], done["size"], done["sha256"]), ("new/dir/a.txt", len(text.encode()), hashlib.sha256(text.encode()).hexdigest()))
    data = bytes(range(256)) * 4000
    done = call("upload_file", path="new/b.bin", content=base64.b64encode(data).decode(), encoding="base64")
    equal(done["size"], len(data))
    equal(sums("new/dir/a.txt", "new/b.bin"), [hashlib.sha256(d).hexdigest() for d in (text.encode(), data)])
    equal(call("upload_file", path="new/empty", content="")["size"], 0)


@suite.case("64 MB of this host arrive as they are, in pieces, and replace what was there in one step", engines=EACH)
def large():
    data = os.urandom(64 * MIB)
    digest = local("large", data)
    call("write_file", path="large", content="old")
    server, sandbox = shared()
    watch = """
import os, time
sizes = set()
end = time.monotonic() + 120
open('watching', 'w').close()
while time.monotonic() < end and os.path.getsize('large') == 3:
    pass
print(os.path.getsize('large'), sorted(n for n in os.listdir('.') if 'large' in n or '.cloister' in n))
"""
    running = server.start_call("execute_code", sandbox_id=sandbox, code=watch, language="python")
    poll("the code watches", lambda: server.read_text("watching", sandbox) is not None)
    done = call("upload_file", path="large", local_path=path_of("large"))
    equal((done["size"], done["sha256"]), (len(data), digest))
    equal(running.structured()["stdout"], f"{len(data)} ['large']\n")
    equal(sums("large"), [digest])
    run("import os; os.remove('large')")


@suite.case("files of exactly one piece, of none, and just beside")
def sizes():
    for size in (0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB):
        digest = local("piece", b"p" * size)
        done = call("upload_file", path="piece", local_path="piece")
        equal((done["size"], done["sha256"]), (size, digest))
        equal(sums("piece"), [digest])


@suite.case("a worker that is killed in the middle costs nothing of the file", engines=EACH)
def killed_worker():
    server, sandbox = shared()
    digest = local("long", os.urandom(48 * MIB))
    upload = server.start_call("upload_file", sandbox_id=sandbox, path="long", local_path="long")
    poll("pieces have come", lambda: ".cloister" in str(call("list_files")["entries"]) or upload.answered())
    server.kill_worker(sandbox)
    equal(upload.structured()["sha256"], digest)
    equal(sums("long"), [digest])
    equal([e["name"] for e in call("list_files")["entries"] if "cloister" in e["name"]], [])
    run("import os; os.remove('long')")


@suite.case("what does not fit leaves nothing, and the old file stays", engines=EACH)
def disk_full():
    local("huge", b"h" * (200 * MIB))
    call("write_file", path="huge", content="old")
    error = failing("upload_file", path="huge", local_path="huge")
    equal(error["code"], "too_large")
    contains(error["message"].lower(), "space")
    equal(call("read_file", path="huge")["content"], "old")
    equal([e["name"] for e in call("list_files")["entries"] if "cloister" in e["name"]], [])
    os.remove(path_of("huge"))


@suite.case("an upload that is cancelled leaves nothing", engines=ONE)
def cancelled():
    server, sandbox = shared()
    local("long", os.urandom(100 * MIB))
    upload = server.start_call("upload_file", sandbox_id=sandbox, path="never", local_path="long")
    poll("pieces have come", lambda: ".cloister" in str(call("list_files")["entries"]))
    server.notify("notifications/cancelled", {"requestId": upload.ident})
    poll("nothing is left", lambda: ".cloister" not in str(call("list_files")["entries"]))
    equal([e["name"] for e in call("list_files")["entries"] if e["name"] == "never"], [])
    server.unmatched.clear()


@suite.case("only regular files below the allowed directories, by no link, are taken")
def refusals():
    outside = mcp.temporary_directory()
    with open(os.path.join(outside, "secret"), "w", encoding="utf-8") as file:
        file.write("secret")
    os.makedirs(path_of("sub"), exist_ok=True)
    local("sub/inside", b"inside")
    for name, target in (("link", "sub/inside"), ("out", outside + "/secret"), ("outdir", outside), ("loop", "loop"), ("subdir", "sub")):
        os.symlink(target, path_of(name))
    os.mkfifo(path_of("fifo"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path_of("socket"))
    equal(call("upload_file", path="x", local_path="sub/inside")["size"], 6)
    equal(call("upload_file", path="x", local_path=path_of("./sub//inside"))["size"], 6)
    for wrong in (
        "/etc/passwd", outside + "/secret", f"../{os.path.basename(outside)}/secret", path_of(f"../{os.path.basename(outside)}/secret"),
        "link", "out", "outdir/secret", "subdir/inside", "loop", "fifo", "socket", "sub", PLACE, "/", "sub/../sub/inside", "/dev/zero",
    ):
        error = failing("upload_file", path="y", local_path=wrong)
        equal(error["code"], "path_invalid", wrong)
        contains(error["message"], "local_path")
        assert "secret\n" not in error["message"]
    equal(failing("upload_file", path="y", local_path="sub/absent")["code"], "file_not_found")
    equal(failing("upload_file", path="y", local_path=path_of("absent/inside"))["code"], "file_not_found")
    for arguments in ({}, {"content": "x", "local_path": "sub/inside"}):
        equal(failing("upload_file", path="y", **arguments)["code"], "invalid_argument")
    equal(failing("upload_file", path="y", content="not base64", encoding="base64")["code"], "invalid_argument")
    equal(failing("upload_file", path="../../y", content="x")["code"], "path_invalid")
    equal(failing("upload_file", path="sub/", local_path="sub/inside")["code"], "path_invalid")
    listener.close()


@suite.case("without --local-files the server takes no file of its host")
def not_configured():
    with Server() as server:
        server.legacy()
        error = server.call_failing("upload_file", path="passwd", local_path="/etc/passwd")["error"]
        equal(error["code"], "path_invalid")
        contains(error["hint"], "--local-files")


@suite.case("any part of a file of 1 GB can be read", engines=ONE)
def gigabyte():
    run("f = open('giga', 'wb'); f.truncate(1 << 30); f.seek((1 << 30) - 4); f.write(b'tail'); f.seek(700_000_000); f.write(b'middle'); f.close()")
    first = call("read_file", path="giga")
    equal((first["size"], first["truncated"]), (1 << 30, True))
    middle = call("read_file", path="giga", offset=700_000_000, length=6)
    equal((middle["content"], middle["truncated"]), ("middle", True))
    last = call("read_file", path="giga", offset=(1 << 30) - 4)
    equal((last["content"], last["truncated"]), ("tail", False))
    run("import os; os.remove('giga')")


@suite.case("FIFOs, sockets, devices and loops of links are refused, and nobody waits for what they never give", engines=ONE)
def odd_files():
    run(
        "import os, socket\nos.makedirs('odd', exist_ok=True)\nos.chdir('odd')\nos.mkfifo('fifo')\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('socket')\nos.symlink('loop2', 'loop'); os.symlink('loop', 'loop2')\nos.symlink('/dev/zero', 'zero')\nos.chdir('..')"
    )
    for name in ("fifo", "socket", "loop", "zero"):
        for tool, more in (("read_file", {}), ("write_file", {"content": "x"}), ("upload_file", {"content": "x"}), ("list_files", {})):
            error = failing(tool, path=f"odd/{name}", **more)
            equal(error["code"], "path_invalid", f"{tool} {name}")
            assert error["hint"]
    names = {e["name"]: e["type"] for e in call("list_files", path="odd")["entries"]}
    equal(names, {"fifo": "other", "socket": "other", "loop": "symlink", "loop2": "symlink", "zero": "symlink"})


@suite.case("a directory of a great many entries is listed up to a limit, and says so")
def many():
    made = run("import os\nos.makedirs('many/deep')\nn = 0\ntry:\n    for n in range(60000): open(f'many/{n:06}', 'w').close()\nexcept OSError: pass\nprint(n)")
    assert int(made) > 20000, made
    for recursive in (False, True):
        listed = call("list_files", path="many", recursive=recursive)
        equal((listed["truncated"], listed["entries"][0]["name"]), (True, "000000"))
        assert 1000 <= len(listed["entries"]) <= 10000
    run("import shutil; shutil.rmtree('many')")


@suite.finish
def finish():
    """the server ends and leaves nothing behind"""
    if _shared:
        _shared[0].close()


suite.run()
