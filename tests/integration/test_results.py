"""Results of code: head and tail of any amount of output, plots, files, and a size that stays small."""

import json
import os
import signal
import struct
import zlib

# The memory that the sanitizer quarantines is kept far below the limits that are checked.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"

from base64 import b64decode

from common import LEGACY, MODERN, NONE, ONE, Server, Shared, Suite, contains, equal, needs_modules, needs_runtime, poll
from mcp import agents_of, status_of, temporary_directory

needs_runtime()
# Agent and server make results: on engines only cases run that depend on a container's streams, and on what
# outlives them.
suite = Suite(NONE)
shared = Shared()

MIB = 1 << 20
KEPT = 256 << 10  # of the head and of the tail of a stream
NUMBERS = """
import sys
def numbers(begin, end, out=sys.stdout):
    for at in range(begin, end, 100000):
        out.write("".join(f"{i:09d}\\n" for i in range(at, min(at + 100000, end))))
    out.flush()
"""


def numbered(offset, text):
    """True if the text is the output of NUMBERS from this offset on."""
    first = offset // 10
    whole = "".join(f"{i:09d}\n" for i in range(first, first + len(text) // 10 + 2))
    return whole[offset % 10 :].startswith(text)


def peak_kb(pid):
    return int(status_of(pid)["VmHWM"].split()[0])


def peaks(server, sandbox):
    """Peak memory of the three processes, by name."""
    return {
        "supervisor": peak_kb(server.process.pid),
        "worker": peak_kb(server.worker_pid(sandbox)),
        "agent": peak_kb(agents_of(sandbox)[0]),
    }


def split(text):
    """Head and tail of a cut text, and the line between."""
    head, _, rest = text.partition("[... ")
    line, _, tail = rest.partition(" ...]\n")
    return head, line, tail


def get(server, execution, **arguments):
    return server.start_call("get_execution", execution_id=execution, **arguments).result()["structuredContent"]


# ---- streams ----


# The sanitizer's fake stacks keep every page that any function has touched, up to 7 MB of the 8 that are
# allowed here.
@suite.case("200 MB of output cost no more memory than 20, and both ends are shown", engines=ONE)
def constant_memory():
    with Server(env={"ASAN_OPTIONS": os.environ["ASAN_OPTIONS"] + ":detect_stack_use_after_return=0"}) as server:
        server.legacy()
        constant_memory_of(server, server.call("create_sandbox")["sandbox_id"])


def constant_memory_of(server, sandbox):
    server.run(NUMBERS, sandbox_id=sandbox)
    server.run("numbers(0, 2_000_000)", sandbox_id=sandbox)
    before = peaks(server, sandbox)
    done = server.run("numbers(0, 20_000_000)", sandbox_id=sandbox, timeout_seconds=300)
    while done["status"] == "running":
        done = get(server, done["execution_id"])
    after = peaks(server, sandbox)
    equal((done["status"], done["stdout_bytes"], done["truncated"]), ("ok", 200_000_000, True))
    head, line, tail = split(done["stdout"])
    assert len(head) > 80_000 and numbered(0, head), head[-100:]
    assert len(tail) > 40_000 and numbered(200_000_000 - len(tail), tail), tail[:100]
    contains(line, f"{200_000_000 - len(head) - len(tail)} bytes left out")
    contains(line, f"get_execution with execution_id {done['execution_id']} and offset {done['next_offset']}")
    equal(done["next_offset"], len(head))
    for name, kb in after.items():
        assert kb - before[name] < 8_000, (name, before, after)


@suite.case("what is kept is fetched in parts: the beginning, then the end")
def parts():
    server, sandbox = shared.get()
    server.run(NUMBERS, sandbox_id=sandbox)
    done = server.run("numbers(0, 500_000)", sandbox_id=sandbox)
    execution = done["execution_id"]
    part = get(server, execution, offset=0)
    got = []
    while True:
        assert numbered(part["offset"], part["stdout"]), part["stdout"][:50]
        got.append((part["offset"], part["next_offset"]))
        if not part["truncated"]:
            break
        part = get(server, execution, offset=part["next_offset"])
    equal(got[-1][1], 5_000_000)
    shown = sum(end - begin for begin, end in got)
    equal(shown, 2 * KEPT)
    gaps = [after[0] - before[1] for before, after in zip(got, got[1:]) if after[0] != before[1]]
    equal(gaps, [5_000_000 - 2 * KEPT])
    inside = get(server, execution, offset=1_000_000)  # an offset in the gap: answered from the next kept byte
    equal(inside["offset"], 5_000_000 - KEPT)
    again = get(server, execution)  # as in the answer of the call
    equal(again["stdout"], done["stdout"])


@suite.case("the resource of a stream has both its ends, and says what is missing")
def resource():
    server, sandbox = shared.get()
    server.run(NUMBERS, sandbox_id=sandbox)
    result = server.start_call(
        "execute_code", code="numbers(0, 500_000); numbers(0, 300_000, sys.stderr)", sandbox_id=sandbox
    ).result()
    links = {block["name"]: block for block in result["content"] if block["type"] == "resource_link"}
    for name, total in (("stdout", 5_000_000), ("stderr", 3_000_000)):
        equal(links[name]["size"], 2 * KEPT)
        text = server.request("resources/read", {"uri": links[name]["uri"]})["contents"][0]["text"]
        head, line, tail = split(text)
        equal((len(head), len(tail)), (KEPT + 1, KEPT))  # the head ends with a whole line
        assert numbered(0, head[:-1]) and numbered(total - KEPT, tail), name
        equal(line, f"{total - 2 * KEPT} bytes are not kept")


@suite.case("output of any bytes is shown and counted exactly")
def any_bytes():
    server, sandbox = shared.get()
    done = server.run(
        "import os\n"
        "os.write(1, bytes(range(256)) * 3 + 'ä€😀'.encode()[:-1])\n"
        "os.write(2, b'\\xff' * 100_000)\n"
        "'\\udcff\\x00'",
        sandbox_id=sandbox,
    )
    equal((done["status"], done["stdout_bytes"], done["stderr_bytes"]), ("ok", 256 * 3 + 8, 100_000))
    contains(done["stdout"], "abcdefghijklmnopqrstuvwxyz")
    contains(done["stdout"], "ä€")
    assert "\0" not in done["stdout"] and "\ufffd" in done["stdout"], done["stdout"]
    failed = server.run("raise ValueError(b'\\xff'.decode('latin1') + '\\udc80\\x00')", sandbox_id=sandbox)
    equal((failed["status"], failed["error"]["name"]), ("error", "ValueError"))


@suite.case("no output makes a result of a mebibyte")
def small():
    server, sandbox = shared.get()
    for stuff in (b"\x01", b"\xff", b'"', b"\\", b"\n", b"x", "€".encode()):
        result = server.start_call(
            "execute_code",
            code=f"import os\nfor i in range(40):\n    os.write(1, {stuff!r} * 30000); os.write(2, {stuff!r} * 30000)\n"
            f"raise ValueError({stuff!r}.decode('latin1') * 300000)",
            sandbox_id=sandbox,
        ).result()
        size = len(json.dumps(result, ensure_ascii=False).encode())
        assert size < MIB, (stuff, size)
        equal(result["structuredContent"]["stdout_bytes"], 40 * 30000 * len(stuff))


@suite.case("the server that takes over has both ends of what was written", engines=ONE)
def taken_over():
    place = temporary_directory()
    first = Server("--instance", "results", runtime_dir=place)
    first.legacy()
    sandbox = first.call("create_sandbox")["sandbox_id"]
    first.run(NUMBERS, sandbox_id=sandbox)
    first.start_call(
        "execute_code",
        sandbox_id=sandbox,
        code="import time, os\nnumbers(0, 300_000)\nopen('half', 'w')\n"
        "while not os.path.exists('go'): time.sleep(0.01)\nnumbers(300_000, 400_000)\nprint('the end')",
    )
    poll("half of the output", lambda: first.read_text("half", sandbox) is not None)
    execution = first.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"][0]["execution_id"]
    first.kill()
    second = Server("--instance", "results", runtime_dir=place)
    second.legacy()
    second.call("write_file", sandbox_id=sandbox, path="go", content="")
    done = get(second, execution)
    equal((done["status"], done["stdout_bytes"]), ("ok", 4_000_008))
    head, _, tail = split(done["stdout"])
    assert numbered(0, head) and numbered(4_000_000 - len(tail) + 8, tail[:-8]), tail[:100]
    equal(tail[-8:], "the end\n")
    second.call("close_sandbox", sandbox_id=sandbox)
    second.process.send_signal(signal.SIGINT)
    equal(second.wait_exit(), 0)


# ---- displays ----


def pixels(data):
    """Width, height and rows of (r, g, b) of a PNG of 8 bits per channel."""
    equal(data[:8], b"\x89PNG\r\n\x1a\n")
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        equal(zlib.crc32(kind + body), struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0])
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            equal((depth, interlaced), (8, 0))
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    size = {2: 3, 6: 4}[colour]
    raw, stride, rows, before = zlib.decompress(packed), width * size, [], bytearray(width * size)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            left = line[x - size] if x >= size else 0
            up, corner = before[x], before[x - size] if x >= size else 0
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda v, g=guess: abs(g - v))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
        rows.append([tuple(line[x : x + 3]) for x in range(0, stride, size)])
        before = line
    return width, height, rows


def library(name):
    needs_modules(shared.run(f"import {name}"), name)


def execute(code, **arguments):
    server, sandbox = shared.get()
    return server.start_call("execute_code", code=code, sandbox_id=sandbox, **arguments).result()


def blocks(result, kind):
    return [block for block in result["content"] if block["type"] == kind]


PLOTS = """
import matplotlib.pyplot as plt
for colour in ("#ff0000", "#00ff00", "#0000ff"):
    figure = plt.figure(figsize=(1, 1), dpi=50, facecolor=colour)
    figure.add_axes([0, 0, 1, 1]).set_axis_off()
print("three")
"""


@suite.case("all figures are shown, in their order, without show()", engines=ONE)
def figures():
    library("matplotlib")
    result = execute(PLOTS)
    equal(result["content"][0]["text"], "three")
    shown = blocks(result, "image")
    equal([block["mimeType"] for block in shown], ["image/png"] * 3)
    for block, colour in zip(shown, ((255, 0, 0), (0, 255, 0), (0, 0, 255))):
        width, height, rows = pixels(b64decode(block["data"]))
        equal({pixel for row in rows for pixel in row}, {colour})
        assert width == height, (width, height)
    done = result["structuredContent"]
    equal([list(display) for display in done["displays"]], [["image/png"]] * 3)
    server, _ = shared.get()
    for block, display in zip(shown, done["displays"]):  # the same bytes by its link
        content = server.request("resources/read", {"uri": display["image/png"]["uri"]})["contents"][0]
        equal(content["blob"], block["data"])
    equal(done["files"], [])


@suite.case("a curve is where it was drawn")
def curve():
    library("matplotlib")
    (block,) = blocks(
        execute(
            "import matplotlib.pyplot as plt\n"
            "axes = plt.figure(figsize=(2, 2), dpi=50).add_axes([0, 0, 1, 1])\n"
            "axes.set_axis_off()\naxes.set_xlim(0, 1)\naxes.set_ylim(0, 1)\n"
            "axes.fill_between([0, 1], [0.5, 0.5], color='#ff0000')\nplt.show()"
        ),
        "image",
    )
    width, height, rows = pixels(b64decode(block["data"]))
    equal(rows[height * 3 // 4][width // 2], (255, 0, 0))
    equal(rows[height // 4][width // 2], (255, 255, 255))


@suite.case("a saved picture is linked with its type, and not shown unasked")
def saved():
    library("PIL")
    result = execute("from PIL import Image\nImage.new('RGB', (3, 2), (9, 8, 7)).save('out.png')\nopen('a b.csv', 'w').write('1')\nNone")
    equal(blocks(result, "image"), [])
    links = {link["name"]: link for link in blocks(result, "resource_link")}
    equal({name: link["mimeType"] for name, link in links.items()}, {"out.png": "image/png", "a b.csv": "text/csv"})
    server, _ = shared.get()
    content = server.request("resources/read", {"uri": links["out.png"]["uri"]})["contents"][0]
    equal(pixels(b64decode(content["blob"])), (3, 2, [[(9, 8, 7)] * 3] * 2))
    files = {file["path"]: file for file in result["structuredContent"]["files"]}
    equal((files["a b.csv"]["size"], files["a b.csv"]["uri"]), (1, links["a b.csv"]["uri"]))
    equal(result["structuredContent"]["files_truncated"], False)


@suite.case("a picture as the value is shown, and so is its text")
def value():
    library("PIL")
    result = execute("from PIL import Image\nImage.new('RGB', (2, 1), (1, 2, 3))")
    (block,) = blocks(result, "image")
    equal(pixels(b64decode(block["data"])), (2, 1, [[(1, 2, 3)] * 2]))
    contains(result["structuredContent"]["result"], "size=2x1")


@suite.case("a table is text to read, and HTML in the structured result")
def table():
    library("pandas")
    result = execute("import pandas\npandas.DataFrame({'name': ['x', 'y'], 'n': [1, 2]})")
    text = result["content"][0]["text"]
    equal(text.split(), ["name", "n", "0", "x", "1", "1", "y", "2"])
    assert "<" not in text, text
    (display,) = result["structuredContent"]["displays"]
    contains(display["text/html"], "<td>x</td>")
    equal(len(result["content"]), 1)


@suite.case("rich forms of any object: Markdown as text, SVG as a link, whatever fails left out")
def objects():
    result = execute("class M:\n    def _repr_markdown_(self): return '# Title'\n    def _repr_html_(self): return '<h1>T</h1>'\nM()")
    contains(result["content"][0]["text"], "# Title")
    assert "<h1>" not in result["content"][0]["text"]
    equal(result["structuredContent"]["displays"], [{"text/markdown": "# Title", "text/html": "<h1>T</h1>"}])
    result = execute("class S:\n    def _repr_svg_(self): return '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'\nS()")
    (link,) = blocks(result, "resource_link")
    equal(link["mimeType"], "image/svg+xml")
    result = execute("class B:\n    def _repr_png_(self): raise OSError\n    def __repr__(self): return 'plain'\nB()")
    equal((result["structuredContent"]["result"], result["structuredContent"]["status"]), ("plain", "ok"))
    equal(len(result["content"]), 1)


@suite.case("a picture that is none is not shown as one")
def forged():
    result = execute("class F:\n    def _repr_png_(self): return b'no picture at all'\nF()")
    equal(blocks(result, "image"), [])


NOISE = """
import os
from PIL import Image
def noise(side):
    display(Image.frombytes("RGB", (side, side), os.urandom(3 * side * side)))
"""


@suite.case("many plots and much output make no result of a mebibyte, and each of them is there or linked")
def many():
    library("PIL")
    for code in ("for i in range(100): noise(100)", "noise(400)\nnoise(450)\nnoise(470)\nnoise(600)", "noise(300)"):
        result = execute(NOISE + code + "\nprint('\\x01' * 2_000_000)\nraise ValueError('\\x02' * 200_000)")
        size = len(json.dumps(result, ensure_ascii=False).encode())
        assert size < MIB, (code, size)
        assert len(blocks(result, "image")) >= 1, [block["type"] for block in result["content"]]
        assert len(blocks(result, "resource_link")) <= 21, len(blocks(result, "resource_link"))
        equal(result["structuredContent"]["stdout_bytes"], 2_000_001)


@suite.case("plots outlive the worker that dies, and their sandbox", engines=ONE)
def outlive():
    library("PIL")
    server, sandbox = shared.fresh()
    done = server.start_call(
        "execute_code",
        sandbox_id=sandbox,
        code="from PIL import Image\nimport time\nopen('begun', 'w').close()\ntime.sleep(1)\n"
        "for i in range(3): display(Image.new('RGB', (1, 1), (i, 0, 0)))",
    )
    poll("the code runs", lambda: server.read_text("begun", sandbox) is not None)
    server.kill_worker(sandbox)
    result = done.result()
    shown = [pixels(b64decode(block["data"]))[2] for block in blocks(result, "image")]
    equal(shown, [[[(i, 0, 0)]] for i in range(3)])
    server.call("close_sandbox", sandbox_id=sandbox)
    execution = result["structuredContent"]["execution_id"]
    later = server.start_call("get_execution", execution_id=execution).result()
    equal(blocks(later, "image"), blocks(result, "image"))
    equal(blocks(later, "resource_link"), [])
    equal([list(d["image/png"]) for d in later["structuredContent"]["displays"]], [["size"]] * 3)


@suite.case("a throw-away sandbox shows its plots as well", engines=ONE)
def throw_away():
    library("PIL")
    server, _ = shared.get()
    result = server.start_call(
        "create_run_close", code="from PIL import Image\nopen('f', 'w').close()\nImage.new('RGB', (1, 1), (5, 6, 7))"
    ).result()
    (block,) = blocks(result, "image")
    equal(pixels(b64decode(block["data"]))[2], [[(5, 6, 7)]])
    equal(blocks(result, "resource_link"), [])
    equal((result["structuredContent"]["sandbox_closed"], result["structuredContent"]["files"]), (True, [{"path": "f", "size": 0}]))


@suite.case("every revision gets what it knows of plots and files")
def revisions():
    library("PIL")
    for version in (*LEGACY, MODERN):
        with Server() as server:
            server.open(version)
            server.call("create_sandbox", name="box")
            result = server.start_call(
                "execute_code",
                sandbox_id="box",
                code="from PIL import Image\nopen('f.txt', 'w').close()\nImage.new('RGB', (1, 1), (5, 6, 7))",
            ).result()
            kinds = [block["type"] for block in result["content"]]
            link = "text" if version < "2025-06-18" else "resource_link"
            equal(kinds, ["text", "image", link], version)
            contains(json.dumps(result["content"][2]), "/workspace/f.txt")
            server.call("close_sandbox", sandbox_id="box")


@suite.finish
def end():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
