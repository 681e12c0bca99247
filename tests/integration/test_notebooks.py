"""Code as in notebooks: magics, commands, help, tasks, and objects that display as HTML."""

from common import Shared, Skip, Suite, contains, equal, needs_runtime, poll

suite = Suite()
needs_runtime()
shared = Shared()
run = shared.run


def good(code, **arguments):
    done = run(code, **arguments)
    equal((done["status"], done["stderr"]), ("ok", ""))
    return done


def error_of(code):
    done = run(code)
    equal(done["status"], "error")
    return done["error"]


@suite.case("%matplotlib and the like do nothing, wherever they stand")
def nothing():
    equal(good("%matplotlib inline\n%load_ext autoreload\n%autoreload 2\nx = 6\nx")["result"], "6")
    equal(good("if x:\n    %config InlineBackend.figure_format = 'retina'\n    y = 7\ny")["result"], "7")


@suite.case("!command writes its output, with {expressions} and $names of Python's")
def commands():
    done = good("name = 'b c'\n!echo {x + 1} $name $HOME '{a,b}'")
    equal(done["stdout"], "7 b c /home/user {a,b}\n")
    equal(run("!cd / && pwd >&2")["stderr"], "/\n")
    equal(good("for n in range(3):\n    !echo {n}")["stdout"], "0\n1\n2\n")
    equal(good("def f():\n    own = 'mine'\n    !echo {own}\nf()")["stdout"], "mine\n")
    equal(good("!exit 3\n_exit_code")["result"], "3")
    equal(good("!cat", stdin="given")["stdout"], "given")
    equal(good("!echo one \\\n  two")["stdout"], "one two\n")


@suite.case("x = !command is a list of lines, and %%capture keeps output")
def captured():
    equal(good("lines = !printf 'a\\nb\\n'\nlines, lines.n, lines.s")["result"], "(['a', 'b'], 'a\\nb', 'a b')")
    equal(good("%%capture kept\nprint('hidden')\n!echo too")["stdout"], "")
    equal(good("kept.stdout")["result"], "'hidden\\ntoo\\n'")


@suite.case("%%bash runs a script, whose failure is an error")
def scripts():
    equal(good("%%bash\nfor i in 1 2; do\n  echo $i\ndone")["stdout"], "1\n2\n")
    done = run("\n%%bash\necho before\nexit 3")
    equal((done["status"], done["stdout"], done["error"]["name"]), ("error", "before\n", "CalledProcessError"))
    contains(done["error"]["message"], "exit status 3")


@suite.case("%%writefile writes the rest of its cell, %run runs a file and %cat shows it")
def files():
    equal(good("%%writefile part.py\n%not_a_magic = 0 if False else 1\n")["stdout"], "Writing part.py\n")
    equal(good("%cat part.py")["stdout"], "%not_a_magic = 0 if False else 1\n")
    equal(good("%%writefile part.py\nimport sys\nmade = sys.argv[1:]\n")["stdout"], "Overwriting part.py\n")
    equal(good("%run part.py one 'two three'\nmade")["result"], "['one', 'two three']")


@suite.case("%%time and %timeit measure, and what they run is the cell's")
def measured():
    done = good("%%time\ntotal = sum(range(10))\ntotal")
    equal(done["result"], "45")
    contains(done["stdout"], "Wall time: ")
    contains(good("%time total + 1")["stdout"], "CPU times: ")
    contains(good("%timeit -n 10 -r 3 total + 1")["stdout"], "mean +- std. dev. of 3 runs, 10 loops each")
    contains(good("%%timeit -n 2 -r 2\ntotal + 1\n")["stdout"], "of 2 runs")


@suite.case("obj? tells what it is, obj?? shows its source")
def helped():
    contains(good("len?")["stdout"], "Return the number of items")
    done = good('def twice(n=2):\n    """Doubles."""\n    return n + n\ntwice??')
    for words in ("Signature: twice(n=2)", "Doubles.", "return n + n"):
        contains(done["stdout"], words)
    contains(error_of("nobody?")["message"], "no object nobody")


@suite.case("what is Python is never read in another way")
def python():
    text = 's = """\n%matplotlib\n!ls\nwhat?\n"""\nrest = (10\n  % 4)\nd = {\n"a": "x = !ls"}\nlen(s), rest, d'
    equal(good(text)["result"], "(23, 2, {'a': 'x = !ls'})")
    text = text.replace("len(s)", "!echo beside\nlen(s)", 1)  # next to another statement
    done = good(text)
    equal((done["stdout"], done["result"]), ("beside\n", "(23, 2, {'a': 'x = !ls'})"))


@suite.case("errors stay where they are, and what there is not is told with what there is")
def errors():
    done = error_of("%matplotlib inline\n!true\n\n1 / 0")
    contains(done["traceback"], "line 4")
    contains(done["traceback"], "1 / 0")
    assert "cloister" not in done["traceback"], done["traceback"]
    equal(error_of("x = = 2")["name"], "SyntaxError")
    contains(error_of("!true\nx = = 2")["traceback"], "line 2")
    for code in ("%nosuch", "%%nosuch\nx"):
        done = error_of(code)
        equal(done["name"], "UsageError")
        contains(done["message"], "timeit")


@suite.case("a %pip line with options that cannot be honoured says so, as do %conda and uv")
def packages():
    for code in ("%pip install --index-url http://127.0.0.1/ colours", "!pip install --index-url=http://127.0.0.1/ colours", "pip install --index-url x colours"):
        contains(run(code + "\nprint('on')")["stderr"], "--index-url cannot be honoured")
    equal(good("!pip install -e . 2>/dev/null\n_exit_code")["result"], "1")
    contains(run("%conda install -y -e .")["stderr"], "-e cannot be honoured")
    if run("command -v uv", language="bash")["status"] != "ok":
        contains(error_of("!uv pip install colours")["message"], "there is no uv here: pip install installs packages")


@suite.case("the image's own pip and npm do not go on trying where there is no network, and the answer names the tool")
def no_retries():
    for program, command in (("pip", "python3 -I -m pip install --break-system-packages no-such-package"), ("npm", "PATH=${PATH#*:} npm install no-such-package")):
        if run(f"PATH=${{PATH#*:}} command -v {program}", language="bash")["status"] != "ok":
            raise Skip(f"no {program} in this sandbox")
        done = run(command, language="bash", timeout_seconds=40)
        equal(done["status"], "error")
        result = shared.get()[0].request("tools/call", {"name": "get_execution", "arguments": {"execution_id": done["execution_id"]}})
        contains(result["content"][0]["text"], "install_package installs packages")


@suite.case("get_ipython() is there, by itself and by import, and so is IPython")
def shell():
    equal(good("import IPython\nIPython.version_info")["result"], "(8, 0, 0)")
    equal(good("get_ipython().run_line_magic('pwd', '')")["result"], repr("/workspace"))
    equal(good("from IPython import get_ipython as shell\nshell().system('echo hi')\nshell().getoutput('echo a')")["result"], "['a']")
    equal(good("%cd /tmp\n%pwd")["result"], "'/tmp'")
    equal(good("%env PLACE=here\n!echo $PLACE\n%cd /workspace")["stdout"], "env: PLACE=here\nhere\n/workspace\n")


@suite.case("import IPython works in a fresh interpreter, before anything else")
def fresh_import():
    server, sandbox = shared.fresh()
    done = server.run("import IPython\nIPython.get_ipython() is get_ipython()", sandbox_id=sandbox)
    equal((done["result"], done["interpreter"]), ("True", "fresh"))
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("arguments and code are taken as they were meant: numbers as text, null, other names, a fence, prompts, an indented cell")
def meant():
    server, sandbox = shared.get()
    for arguments in (
        {"code": "6 * 7", "timeout": "10", "stdin": None},
        {"code": "6 * 7", "language": "Python", "env": None},
        {"code": "```python\n6 * 7\n```", "language": "py"},
        {"code": ">>> x = 6\n>>> x * 7\n42"},
        {"code": "    x = 6\n    x * 7"},
    ):
        text = server.request("tools/call", {"name": "execute_code", "arguments": {"sandbox_id": sandbox, **arguments}})["content"][0]["text"]
        equal(text.strip(), "42", str(arguments))
    text = server.request("tools/call", {"name": "execute_code", "arguments": {"session_id": sandbox, "cmd": "echo 42", "language": "sh"}})["content"][0]["text"]
    equal(text.strip(), "42")
    good("open('/home/user/x', 'w').write('home')")
    for path in ("~/x", f"sandbox://{sandbox}/home/user/x"):
        equal(server.call("read_file", file_path=path, sandbox_id=sandbox)["content"], "home", path)


@suite.case("what goes wrong for want of a module, a network or an input names what there is instead")
def hinted():
    server, sandbox = shared.get()
    for code, words in (
        ("import no_such_module", "install_package"),
        ("import urllib.request\nurllib.request.urlopen('http://example.org/')", "no network"),
        ("input()", "stdin"),
    ):
        text = server.request("tools/call", {"name": "execute_code", "arguments": {"sandbox_id": sandbox, "code": code}})["content"][0]["text"]
        contains(text, words)


@suite.case("a task that nobody awaits begins, and goes on between calls")
def tasks():
    begin = "import asyncio, os\nasync def work():\n    open('begun', 'w').close()\n    while not os.path.exists('go'):\n        await asyncio.sleep(0.01)\n    open('done', 'w').close()\n    return 'done'\n"
    equal(good(begin + "task = asyncio.create_task(work())\nos.path.exists('begun')")["result"], "False")
    client, sandbox = shared.get()
    equal(client.read_text("begun", sandbox), "")
    client.call("write_file", sandbox_id=sandbox, path="go", content="")
    poll("it is done", lambda: client.read_text("done", sandbox) is not None)
    equal(good("await task")["result"], "'done'")
    equal(good("asyncio.run(work())")["result"], "'done'")


@suite.case("a warning about whoever called the cell names no file of ours")
def warned():
    done = run("import warnings\nwarnings.warn('from the cell', stacklevel=2)\nwarnings.warn('here')")
    contains(done["stderr"], "UserWarning: from the cell")
    contains(done["stderr"], "UserWarning: here")
    assert "<cloister>" not in done["stderr"], done["stderr"]


@suite.case("what is shown as HTML has a text that can be read")
def html():
    page = "<style>p {}</style><h1>Title</h1><p>Some  <b>bold</b> text</p><ul><li>one<li>two</ul><table><tr><td>1</td><td>2</td></tr></table>"
    read = "Title\nSome bold text\n- one\n- two\n1  2"
    shown = good(f"from IPython.display import HTML, display\ndisplay(HTML('{page}'))")["displays"]
    equal(shown[0]["text/plain"], read)
    equal(good(f"HTML('{page}')")["result"], read)
    equal(good("%%html\n<b>hello</b>")["displays"][0]["text/plain"], "hello")


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
