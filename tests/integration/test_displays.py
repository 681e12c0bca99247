"""Displays and changed files of code, as a client receives them: plots are decoded and their pixels compared."""

import json
from base64 import b64decode

from common import NONE, ONE, Shared, Suite, contains, equal, needs_modules, needs_runtime
from png import Picture

needs_runtime()
# The agent makes pictures and tables: on engines only cases run that depend on the image's libraries and on
# the mounts of a container.
suite = Suite(NONE)
shared = Shared()

RED, LIME, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def execute(code, **arguments):
    """The whole result, and its pictures."""
    server, sandbox = shared.get()
    arguments.setdefault("sandbox_id", sandbox)
    result = server.start_call("execute_code", code=code, **arguments).result()
    assert len(json.dumps(result)) < 1 << 20
    pictures = [b64decode(block["data"]) for block in result["content"] if block["type"] == "image"]
    return result["structuredContent"], pictures, result


def needs(*libraries):
    needs_modules(execute("import " + ", ".join(libraries))[0], *libraries)


def types(done):
    return [sorted(display) for display in done["displays"]]


def text_of(result):
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


# ---- figures ----


@suite.case("plots are pictures in the result, all of them, in their order and each once", engines=ONE)
def figures():
    needs("matplotlib")
    done, pictures, result = execute(
        "import matplotlib.pyplot as plt\n"
        "plt.figure(figsize=(2, 1), dpi=100, facecolor='red'); plt.plot([1, 2])\n"
        "plt.figure(figsize=(1, 1), dpi=60, facecolor='lime'); plt.bar([1], [2])\n"
        "plt.show()\n"
        "print('between')\n"
        "fig, ax = plt.subplots(figsize=(3, 2), facecolor='blue')\n"
        "ax.fill_between([0, 1], [0, 0], [1, 1], color='red')\n"
        "fig"
    )
    equal((done["status"], done["stdout"], done["stderr"]), ("ok", "between\n", ""))
    equal(types(done), [["image/png"]] * 3)
    first, second, third = [Picture(data) for data in pictures]
    equal((first.size, second.size, third.size), ((200, 100), (60, 60), (300, 200)))
    equal((first.pixel(1, 1), second.pixel(1, 1), third.pixel(1, 1)), (RED, LIME, BLUE))
    assert third.count(RED) > 300 * 200 // 4, third.count(RED)  # the filled part
    contains(text_of(result), "<Figure size 300x200 with 1 Axes>")
    done, pictures, _ = execute("plt.get_fignums()")
    equal((done["result"], pictures), ("[]", []))


@suite.case("a plot is shown if the run fails after it; a stopped run leaves none to the next run")
def figures_of_failures():
    needs("matplotlib")
    done, pictures, _ = execute("import matplotlib.pyplot as plt\nplt.figure(facecolor='red'); plt.plot([1])\n1/0")
    equal((done["status"], done["error"]["name"], len(pictures)), ("error", "ZeroDivisionError", 1))
    equal(Picture(pictures[0]).pixel(1, 1), RED)
    done, pictures, _ = execute("plt.plot([1])\nimport time\ntime.sleep(60)", timeout_seconds=1)
    equal((done["status"], pictures), ("timeout", []))
    done, pictures, _ = execute("plt.get_fignums()")
    equal((done["result"], done["interpreter"], pictures), ("[]", "kept", []))


@suite.case("a plot that is shown can be fetched by its link, and saved plots are files of the run", engines=ONE)
def links():
    needs("matplotlib")
    server, _ = shared.get()
    done, pictures, result = execute(
        "import matplotlib.pyplot as plt, os\nos.makedirs('out', exist_ok=True)\n"
        "plt.figure(facecolor='red', figsize=(1, 1)); plt.plot([1]); plt.savefig('out/plot.png', facecolor='red')"
    )
    place = done["displays"][0]["image/png"]
    read = server.request("resources/read", {"uri": place["uri"]})["contents"][0]
    equal(b64decode(read["blob"]), pictures[0])
    equal(place["size"], len(pictures[0]))
    equal([(file["path"], file["mime"]) for file in done["files"]], [("out/plot.png", "image/png")])
    saved = next(block for block in result["content"] if block["type"] == "resource_link")
    read = server.request("resources/read", {"uri": saved["uri"]})["contents"][0]
    equal(Picture(b64decode(read["blob"])).pixel(1, 1), RED)


@suite.case("a picture that would not fit is shown smaller, as are many that would not fit together, and is whole at its link")
def smaller():
    needs("PIL")
    server, _ = shared.get()
    noise = "import os\nfrom PIL import Image\ndef noise(side):\n    return Image.frombytes('RGB', (side, side), os.urandom(3 * side * side))\n"
    done, pictures, _ = execute(noise + "noise(580)")
    equal(types(done), [["image/jpeg", "image/png"]])
    contains(done["stderr"], "a picture of 580x580 pixels is shown as ")
    equal(len(pictures), 1)
    assert pictures[0].startswith(b"\xff\xd8") and len(pictures[0]) < 300000, len(pictures[0])
    whole = b64decode(server.request("resources/read", {"uri": done["displays"][0]["image/png"]["uri"]})["contents"][0]["blob"])
    equal(Picture(whole).size, (580, 580))
    done, pictures, _ = execute("for n in range(12): display(noise(300))")
    equal(len(pictures), 12)
    assert "image/jpeg" not in types(done)[0], "there was room for the first"


# ---- values ----


@suite.case("a table is text that can be read, and HTML beside it")
def tables():
    needs("pandas")
    done, _, result = execute(
        "import pandas as pd\n"
        "pd.DataFrame({'city': ['Rome', 'Oslo'], 'people': [2748109, 709037], **{f'c{i}': [i, i] for i in range(12)}})"
    )
    lines = done["result"].split("\n")
    equal(len(lines), 3)
    equal(lines[1].split()[:3], ["0", "Rome", "2748109"])
    contains(text_of(result), "Oslo")
    equal(types(done), [["text/html"]])
    contains(done["displays"][0]["text/html"], "<td>Rome</td>")
    done, _, result = execute("display(pd.Series([1.5, 2.5], name='x'))")
    equal(types(done), [["text/html", "text/plain"]])
    contains(done["displays"][0]["text/plain"], "1    2.5\nName: x")
    contains(text_of(result), "1    2.5")
    done, _, _ = execute("pd.DataFrame([[i] * 100 for i in range(5000)])")
    contains(done["result"], "[5000 rows x 100 columns]")


@suite.case("images are pictures; one that is huge is shown smaller, and a note says so")
def images():
    needs("PIL")
    done, pictures, _ = execute("from PIL import Image\nImage.new('RGB', (30, 20), (255, 0, 0))")
    equal(types(done), [["image/png"]])
    picture = Picture(pictures[0])
    equal((picture.size, picture.pixel(29, 19)), ((30, 20), RED))
    done, pictures, _ = execute("Image.new('RGB', (12000, 500), 'blue').show()")
    picture = Picture(pictures[0])
    contains(done["stderr"], f"an image of 12000x500 pixels is shown as {picture.width}x{picture.height}")
    equal(picture.pixel(5, 5), BLUE)


@suite.case("what notebooks import is there, and every form arrives", engines=ONE)
def forms():
    done, _, _ = execute(
        "from IPython.display import HTML, Image, JSON, Latex, Markdown, SVG, clear_output, display\n"
        "display(HTML('<b>bold</b>'))\ndisplay(Markdown('# title'))\ndisplay(JSON({'a': [1]}))\n"
        "display(Latex('$x$'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))\nclear_output()"
    )
    equal((done["status"], done["stderr"]), ("ok", ""))
    equal(
        types(done),
        [["text/html", "text/plain"], ["text/markdown"], ["application/json"], ["text/latex"], ["image/svg+xml"]],
    )
    equal(done["displays"][0]["text/html"], "<b>bold</b>")
    equal(json.loads(done["displays"][2]["application/json"]), {"a": [1]})


@suite.case("a form that fails costs a line on stderr, not the run; its text is the result")
def failing_forms():
    done, _, _ = execute(
        "class Odd:\n"
        "    def __repr__(self): return 'odd'\n"
        "    def _repr_html_(self): raise ValueError('no html today')\n"
        "    def _repr_markdown_(self): return '*odd*'\n"
        "Odd()"
    )
    equal((done["status"], done["result"]), ("ok", "odd"))
    equal(done["displays"], [{"text/markdown": "*odd*"}])
    contains(done["stderr"], "_repr_html_ of Odd failed: ValueError: no html today")


@suite.case("modules that are stand-ins, proxies and classes that fail when looked at cost no run")
def stand_ins():
    names = "('pandas', 'matplotlib.figure', 'matplotlib.pyplot', 'matplotlib._pylab_helpers', 'PIL.Image')"
    execute(f"import sys\nfrom unittest.mock import MagicMock\nbefore = {{name: sys.modules.get(name) for name in {names}}}\nfor name in before: sys.modules[name] = MagicMock()")
    done, _, _ = execute("class Named:\n    def __repr__(self): return 'named'\n    def _repr_html_(self): return '<b>'\nNamed()")
    equal((done["status"], done["result"], done["displays"]), ("ok", "named", [{"text/html": "<b>"}]))
    execute("for name, module in before.items():\n    if module is None: del sys.modules[name]\n    else: sys.modules[name] = module")
    execute("import pandas")  # skips without it
    proxy = "class Proxy:\n    __class__ = property(lambda self: 1 / 0)\n    def __repr__(self): return 'named'\nProxy()"
    meta = "class Meta(type):\n    def __getattr__(cls, name): raise ValueError(name)\nclass Odd(metaclass=Meta):\n    def __repr__(self): return 'named'\nOdd()"
    for code in (proxy, meta):
        done, _, _ = execute(code)
        equal((done["status"], done["result"]), ("ok", "named"), code)


@suite.case("hundreds of displays with many MiB are limited, and the result says so")
def many():
    done, _, _ = execute("from IPython.display import HTML\nfor i in range(300): display(HTML(f'<p>{i}</p>'))\nprint('end')")
    equal((done["status"], done["stdout"]), ("ok", "end\n"))
    assert 20 <= len(done["displays"]) <= 128, len(done["displays"])
    contains(done["stderr"], "128 representations are all that one run may show")
    done, _, _ = execute("for i in range(6): display(HTML('x' * (6 << 20)))")
    equal(done["status"], "ok")
    contains(done["stderr"], "24 MiB of files are all that is kept")
    server, sandbox = shared.get()
    used = server.run("du -sm /tmp/.cloister-display-python-* | cut -f1", sandbox_id=sandbox, language="bash")
    assert int(used["stdout"]) <= 25, used


@suite.case("on a full disk nothing is shown, and the run goes on", engines=ONE)
def full_disk():
    shared.enforced("disk_mb")
    server, sandbox = shared.fresh(disk_mb=16)
    done, _, _ = execute(
        "from IPython.display import HTML\n"
        "try:\n"
        "    with open('/tmp/fill', 'wb', 0) as f:\n"
        "        for size in (1 << 20, 4096, 1):\n"
        "            try:\n"
        "                while f.write(b'x' * size): pass\n"
        "            except OSError: pass\n"
        "finally:\n"
        "    display(HTML('x' * 100000))\n"
        "print('on')",
        sandbox_id=sandbox,
    )
    equal((done["status"], done["stdout"], done["displays"]), ("ok", "on\n", []))
    contains(done["stderr"], "cannot keep what is shown: OSError")
    done, _, _ = execute("import os; os.unlink('/tmp/fill'); display(HTML('<i>'))", sandbox_id=sandbox)
    equal(done["displays"], [{"text/html": "<i>"}])
    server.call("close_sandbox", sandbox_id=sandbox)


# ---- files ----


@suite.case("files that a run created or changed are listed, whatever wrote them, and no others", engines=ONE)
def changed():
    def files(code, **arguments):
        done, _, _ = execute(code, **arguments)
        equal(done["status"], "ok", done)
        return sorted(file["path"] for file in done["files"])

    equal(files("import os\nos.makedirs('a/b')\nopen('a/b/new.csv', 'w').write('1,2')"), ["a/b/new.csv"])
    equal(files("open('a/b/new.csv').read()"), [])
    equal(files("echo more >> a/b/new.csv; echo x > top.txt; mkdir e", language="bash"), ["a/b/new.csv", "top.txt"])
    equal(files("echo x > e/inside", language="bash"), ["e/inside"])
    equal(files("open('.hidden', 'w'); os.makedirs('node_modules'); open('node_modules/x', 'w')"), [])
    equal(files("mv top.txt moved.txt; rm a/b/new.csv", language="bash"), ["moved.txt"])
    done, _, _ = execute("open('early', 'w').close()\nraise SystemExit(3)")
    equal([file["path"] for file in done["files"]], ["early"])
    done, _, _ = execute("for i in range(150): open(f'many{i}', 'w').close()")
    equal((len(done["files"]), done["files_truncated"]), (100, True))
    equal(files("rm many*", language="bash"), [])


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
