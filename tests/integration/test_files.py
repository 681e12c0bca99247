"""Files: reading, writing and listing, and paths that lead elsewhere."""

import base64
import os

from common import EACH, NONE, ONE, Shared, Suite, contains, equal, needs_runtime

needs_runtime()
# The agent handles paths and contents: on engines only cases run that depend on the mounts of a container and
# on the capacity of its streams.
suite = Suite(NONE)
shared = Shared("--disk-mb", "64")


def call(tool, **arguments):
    server, sandbox = shared.get()
    return server.call(tool, sandbox_id=sandbox, **arguments)


def failing(tool, **arguments):
    server, sandbox = shared.get()
    return server.call_failing(tool, sandbox_id=sandbox, **arguments)["error"]


@suite.case("what is written is read back, by tools and by code", engines=EACH)
def round_trip():
    text = "line one\nzeile zwei ä漢😀\n"
    written = call("write_file", path="dir/sub/note.txt", content=text)
    equal(written["size"], len(text.encode()))
    read = call("read_file", path="dir/sub/note.txt")
    equal((read["content"], read["encoding"], read["size"], read["truncated"]), (text, "utf-8", len(text.encode()), False))
    equal(shared.run("open('/workspace/dir/sub/note.txt').read()")["result"], repr(text))
    equal(call("read_file", path="/workspace/dir/sub/note.txt")["content"], text)


@suite.case("bytes travel as base64 and are recognised when they are no text")
def binary():
    data = bytes(range(256)) * 20
    call("write_file", path="data.bin", content=base64.b64encode(data).decode(), encoding="base64")
    read = call("read_file", path="data.bin")
    equal((read["encoding"], base64.b64decode(read["content"])), ("base64", data))
    forced = call("read_file", path="dir/sub/note.txt", encoding="base64")
    contains(base64.b64decode(forced["content"]), "zeile zwei".encode())
    contains(call("read_file", path="data.bin", encoding="utf-8", length=200)["content"], "~\x7f\ufffd")
    bad = failing("write_file", path="data.bin", content="not base64!", encoding="base64")
    equal(bad["code"], "invalid_argument")


@suite.case("append adds, a plain write replaces, mode sets the permissions", engines=EACH)
def modes():
    call("write_file", path="a.txt", content="one\n")
    equal(call("write_file", path="a.txt", content="two\n", append=True)["size"], 8)
    equal(call("read_file", path="a.txt")["content"], "one\ntwo\n")
    call("write_file", path="a.txt", content="new")
    equal(call("read_file", path="a.txt")["content"], "new")
    call("write_file", path="run.sh", content="#!/bin/sh\necho ran\n", mode="0755")
    equal(shared.run("./run.sh", language="bash")["stdout"], "ran\n")
    for mode in ("0000", "000", "888", "4755"):
        contains(failing("write_file", path="run.sh", content="x", mode=mode)["message"], f'"{mode}"')


@suite.case("offset and length read a part")
def parts():
    call("write_file", path="digits", content="0123456789")
    part = call("read_file", path="digits", offset=3, length=4)
    equal((part["content"], part["size"], part["truncated"]), ("3456", 10, True))
    rest = call("read_file", path="digits", offset=7)
    equal((rest["content"], rest["truncated"]), ("789", False))
    equal(call("read_file", path="digits", offset=100)["content"], "")
    call("write_file", path="umlaut", content="ä")
    whole = b""
    for at in range(2):  # an incomplete character is not text
        part = call("read_file", path="umlaut", offset=at, length=1)
        equal(part["encoding"], "base64")
        whole += base64.b64decode(part["content"])
    equal(whole.decode(), "ä")


@suite.case("a file of /proc, which says that it is empty, is read in parts like any other", engines=ONE)
def lying_size():
    first = call("read_file", path="/proc/self/status", length=20)
    equal((first["length"], first["truncated"]), (20, True))
    assert first["size"] > 20, first["size"]
    equal(call("read_file", path="/proc/self/status")["truncated"], False)


@suite.case("a file that is too large for one answer comes in parts, each says so")
def large():
    shared.run("open('large', 'wb').write(b'0123456789abcdef' * 200_000)")
    first = call("read_file", path="large")
    equal((first["size"], first["truncated"]), (3_200_000, True))
    assert 0 < len(first["content"]) < 1 << 20
    collected, at = 0, 0
    while at < 3_200_000:
        part = call("read_file", path="large", offset=at)
        assert part["content"], at
        equal(part["content"][:16], ("0123456789abcdef" * 2)[at % 16 : at % 16 + 16])
        at += len(part["content"])
        collected += 1
    assert collected < 40, f"{collected} parts"


@suite.case("several megabytes can be written at once", engines=EACH)
def large_write():
    text = "x" * (8 << 20)
    equal(call("write_file", path="eight", content=text)["size"], 8 << 20)
    equal(shared.run("import os; os.path.getsize('eight')")["result"], str(8 << 20))
    for tool in ("write_file", "upload_file"):  # the documented maximum
        data = os.urandom(11 << 20)
        equal(call(tool, path="eight", content=base64.b64encode(data).decode(), encoding="base64")["size"], 11 << 20)
        equal(call(tool, path="eight", content="y" * (12 << 20))["size"], 12 << 20)
    shared.run("os.remove('eight')")


@suite.case("listing shows names, types, sizes and walks when asked")
def listing():
    shared.run("import os\nos.makedirs('tree/b/c')\nopen('tree/a', 'w').write('12345')\nopen('tree/b/c/d', 'w').close()\nos.symlink('/etc', 'tree/link')\nos.mkfifo('tree/pipe')")
    flat = call("list_files", path="tree")
    entries = {e["name"]: e for e in flat["entries"]}
    equal({n: e["type"] for n, e in entries.items()}, {"a": "file", "b": "directory", "link": "symlink", "pipe": "other"})
    equal(entries["a"]["size"], 5)
    contains(entries["a"]["modified_at"], "T")
    equal(flat["truncated"], False)
    deep = call("list_files", path="tree", recursive=True)
    paths = sorted(e["path"] for e in deep["entries"])
    equal(len(paths), 6)
    assert any(p.endswith("b/c/d") for p in paths), paths
    assert not any("passwd" in p for p in paths), "symbolic links are not followed"
    workspace = call("list_files")
    contains([e["name"] for e in workspace["entries"]], "tree")


@suite.case("names of any bytes can be listed")
def odd_names():
    shared.run("import os\nos.mkdir('odd')\nfor n in (b'new\\nline', b'\\xff\\xfe', 'ä漢'.encode(), b'-rf', b' '):\n    open(b'odd/' + n, 'w').close()")
    names = [e["name"] for e in call("list_files", path="odd")["entries"]]
    equal(len(names), 5)
    contains(names, "ä漢")


@suite.case("a large directory is listed up to a limit and says so")
def many_entries():
    shared.run("import os\nos.makedirs('many')\nfor i in range(12000):\n    open(f'many/{i}', 'w').close()")
    listed = call("list_files", path="many")
    equal(listed["truncated"], True)
    assert 1000 <= len(listed["entries"]) <= 12000
    shared.run("import shutil; shutil.rmtree('many')")


@suite.case("what is missing, no file or not allowed is said as such", engines=EACH)
def refusals():
    shared.run("import os\nos.makedirs('plain/dir', exist_ok=True)\nif not os.path.exists('plain/fifo'): os.mkfifo('plain/fifo')\nopen('plain/file', 'w').close()")
    equal(failing("read_file", path="nowhere.txt")["code"], "file_not_found")
    equal(failing("list_files", path="nowhere")["code"], "file_not_found")
    equal(failing("read_file", path="plain/dir")["code"], "path_invalid")
    equal(failing("read_file", path="plain/fifo")["code"], "path_invalid")
    equal(failing("read_file", path="/dev/zero")["code"], "path_invalid")
    equal(failing("list_files", path="plain/file")["code"], "path_invalid")
    equal(failing("write_file", path="plain/dir", content="x")["code"], "path_invalid")
    for path in ("/usr/bin/new", "/etc/passwd", "/new"):
        equal(failing("write_file", path=path, content="x")["code"], "path_invalid", path)
    contains(["path_invalid", "file_not_found"], failing("read_file", path="/proc/1/environ")["code"])


@suite.case("paths that lead out of the sandbox, have control characters or are too long are refused")
def bad_paths():
    for path in ("../../up", "a/../../../up", "/../etc/passwd", "/workspace/../../etc/passwd", "bell\x07", "line\nbreak", "x" * 5000, ""):
        for tool, more in (("read_file", {}), ("write_file", {"content": "x"}), ("list_files", {})):
            if path == "" and tool == "list_files":  # it may be left out, so an empty one has been
                equal(call(tool, path=path)["path"], call(tool)["path"])
                continue
            code = failing(tool, path=path, **more)["code"]
            assert code in ("path_invalid", "invalid_argument"), f"{tool} {path!r}: {code}"


@suite.case("symbolic links lead no further than the sandbox", engines=EACH)
def symbolic_links():
    shared.run("import os\nfor n, t in (('etc', '/etc/passwd'), ('root', '/'), ('host', '/proc/1/root/etc/shadow')):\n    os.path.lexists(n) or os.symlink(t, n)")
    inside = call("read_file", path="etc")["content"]
    equal(inside, call("read_file", path="/etc/passwd")["content"])
    assert failing("read_file", path="host")["code"] in ("path_invalid", "file_not_found")


@suite.case("the disk cap holds for write_file too, and the sandbox goes on", engines=EACH)
def disk_full():
    shared.run("f = open('filler', 'wb')\ntry:\n    while True: f.write(b'x' * 65536)\nexcept OSError as e:\n    print(e.errno)\nf = None")
    error = failing("write_file", path="one_more", content="y" * 1_000_000)
    equal(error["code"], "too_large")
    contains(error["message"].lower(), "space")
    shared.run("import os; os.remove('filler')")
    equal(call("write_file", path="one_more", content="y")["size"], 1)


@suite.case("write_file goes on while code runs, and sees what the code wrote")
def beside_code():
    server, sandbox = shared.get()
    running = server.start_call("execute_code", sandbox_id=sandbox, code="import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nopen('go').read()")
    call("write_file", path="go", content="now")
    equal(running.structured()["result"], "'now'")


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
