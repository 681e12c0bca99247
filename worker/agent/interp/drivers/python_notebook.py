# Notebook syntax beside Python: %magics, !commands, obj? and get_ipython(). python.py compiles this
# under its name when code does not compile as Python or uses get_ipython(). So valid Python is
# never read in another way.
#
# Each such line becomes a call of get_ipython() on the same line, so that line numbers in
# tracebacks stay right. Strings, brackets and continued lines are tracked, because a "%" in them is
# an operator or text. The result is compiled as any code, and its errors are the user's.

import os
import re
import sys

LINE_MAGIC = re.compile(r"%(\w+)[ \t]*(.*)")
ASSIGNED = re.compile(r"([A-Za-z_][\w.,*\[\]'\" \t()]*?)[ \t]*=[ \t]*(!|%)(.*)")
HELP_BEHIND = re.compile(r"(%{0,2}[A-Za-z_][\w.\[\]'\"]*)(\?\??)[ \t]*(?:#.*)?$")
HELP_BEFORE = re.compile(r"(\?\??)[ \t]*(%{0,2}[A-Za-z_][\w.]*)[ \t]*$")
PIP = re.compile(r"pip3?[ \t]+(install|uninstall|list|show|freeze)\b(.*)")
INSTALLS = re.compile(r"\bpip3?\s+(?:-\S+\s+)*install\b")
FOREIGN = re.compile(r"(?:sudo\s+)?(conda|mamba|uv)\s+(?:pip\s+)?install\b")
SOME = re.compile(r"^[ \t]*[%!?]|[?][ \t]*(?:#.*)?$|=[ \t]*[!%]|^[ \t]*pip3?[ \t]", re.M)
SUBSTITUTED = re.compile(r"\$\$|\$([A-Za-z_]\w*)|\{\{|\}\}|\{([^{}]+)\}")

SHELL_COMMANDS = "ls ll cat mkdir rmdir rm cp mv less more man head tail grep find wc df du".split()
PROGRAMS = "bash sh python python2 python3 perl ruby node".split()
NOTHING = "matplotlib load_ext reload_ext unload_ext autoreload config precision colors xmode gui alias rehashx logstop".split()
SHOWN = {"html": "text/html", "HTML": "text/html", "markdown": "text/markdown", "latex": "text/latex", "svg": "image/svg+xml", "SVG": "image/svg+xml"}


class UsageError(Exception):
    """A magic that does not exist, or a wrong use of one."""

    __module__ = "builtins"  # for its name in tracebacks


class Lines(list):
    """Output of a command as a list of lines, with the attributes of IPython's SList."""

    @property
    def l(self):
        return list(self)

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)

    list, nlstr, spstr = l, n, s


class Captured:
    """The output that %%capture has kept."""

    def __init__(self):
        self.stdout = self.stderr = ""

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    __call__ = show

    def __str__(self):
        return self.stdout


# ---- reading -----------------------------------------------------------------------------------------


class Scanner:
    """Tells whether the next line begins a statement, so is not inside a string, brackets, or a
    continued line."""

    def __init__(self):
        self.quote = None
        self.depth = 0
        self.continued = False

    def begins_statement(self):
        return self.quote is None and self.depth == 0 and not self.continued

    def take(self, line):
        at, end = 0, len(line.rstrip("\r\n"))
        self.continued = False
        while at < end:
            char = line[at]
            if self.quote is not None:
                if char == "\\":
                    at += 1
                    self.continued = at >= end
                elif line.startswith(self.quote, at):
                    at += len(self.quote) - 1
                    self.quote = None
            elif char == "#":
                break
            elif char in "\"'":
                self.quote = char * 3 if line.startswith(char * 3, at) else char
                at += len(self.quote) - 1
            elif char in "([{":
                self.depth += 1
            elif char in ")]}":
                self.depth = max(0, self.depth - 1)
            elif char == "\\" and at == end - 1:
                self.continued = True
            at += 1
        if self.quote is not None and len(self.quote) == 1 and not self.continued:
            self.quote = None  # an error, which the compiler reports


def call(method, *texts):
    return "get_ipython().%s(%s)" % (method, ", ".join(map(repr, texts)))


def statement_of(text):
    """Translates a line without its indentation; None if it is Python."""
    if text.startswith("!!"):
        return call("getoutput", text[2:].strip())
    if text.startswith("!"):
        return call("system", text[1:].strip())
    found = HELP_BEFORE.match(text) or HELP_BEHIND.match(text)
    if found:
        marks, name = sorted(found.groups(), key=lambda part: part.strip("?") != "")
        return call("run_line_magic", "pinfo2" if marks == "??" else "pinfo", name.lstrip("%"))
    found = LINE_MAGIC.match(text)
    if found:
        return call("run_line_magic", *found.groups())
    found = ASSIGNED.match(text)
    if found:
        names, kind, rest = found.groups()
        if kind == "!":
            return "%s = %s" % (names, call("getoutput", rest.strip()))
        magic = LINE_MAGIC.match("%" + rest)
        return "%s = %s" % (names, call("run_line_magic", *magic.groups())) if magic else None
    found = PIP.match(text)
    return call("run_line_magic", "pip", "".join(found.groups())) if found else None


def rewrite_lines(text):
    """Translates a cell to Python; None if it is Python already."""
    lines = text.splitlines(True) if "\r" not in text else text.replace("\r\n", "\n").split("\n")
    if "\r" in text:
        lines = [line + "\n" for line in lines]
    scanner, changed, made = Scanner(), False, []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        bare = line.strip()
        if bare and scanner.begins_statement() and not bare.startswith("%%"):
            whole, more = bare, 0
            while whole.endswith("\\") and at + more < len(lines):
                whole = whole[:-1] + lines[at + more].strip()
                more += 1
            statement = statement_of(whole)
            if statement is not None:
                indent = line[: len(line) - len(line.lstrip())]
                made.append(indent + statement + "\n" * (1 + more))
                at += more
                changed = True
                continue
        scanner.take(line)
        made.append(line)
    return "".join(made) if changed else None


# ---- running -----------------------------------------------------------------------------------------


def seconds(value):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1:
            return "%.3g %s" % (value * factor, unit)
    return "%.3g ns" % (value * 1e9)


class Timed:
    """Context manager around the code of %time and %%time."""

    def __enter__(self):
        import time

        self.clock = time.perf_counter
        self.cpu, self.wall = os.times(), self.clock()

    def __exit__(self, *_):
        wall, now = self.clock() - self.wall, os.times()
        user, system = now[0] - self.cpu[0], now[1] - self.cpu[1]
        print("CPU times: user %s, sys: %s, total: %s" % (seconds(user), seconds(system), seconds(user + system)))
        print("Wall time: %s" % seconds(wall))


class Capturing:
    """Context manager around the code of %%capture."""

    def __init__(self, shell, name):
        import io

        self.shell, self.name = shell, name
        self.out, self.err = io.StringIO(), io.StringIO()

    def __enter__(self):
        self.before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self.out, self.err

    def __exit__(self, *_):
        sys.stdout, sys.stderr = self.before
        if self.name:
            kept = Captured()
            kept.stdout, kept.stderr = self.out.getvalue(), self.err.getvalue()
            self.shell.user_ns[self.name] = kept


def options_of(line, letters):
    """Parses one-letter options at the beginning of a line. Returns {letter: value} and the
    rest."""
    found = {}
    while True:
        match = re.match(r"-([%s])[ \t]*(\d+)?[ \t]*" % letters, line)
        if not match:
            return found, line.strip()
        found[match.group(1)] = int(match.group(2) or 0)
        line = line[match.end() :]


class Shell:
    """The part of get_ipython() that code in cells uses."""

    __module__ = "cloister"
    config = {}

    def __init__(self, core):
        self.core = core
        self.user_ns = core.space
        self.user_global_ns = core.space

    @property
    def execution_count(self):
        return self.core.state.number

    # ---- commands ----

    def names(self):
        """The names that the code in the cell sees, local ones first."""
        frame = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith("<cell "):
            frame = frame.f_back
        own = frame.f_locals if frame is not None else {}
        return {**self.user_ns, **own}

    def var_expand(self, command):
        """Replaces {expressions} and $names that Python knows; others are left to the shell."""
        names = self.names()

        def value(match):
            text = match.group()
            if text in ("$$", "{{", "}}"):
                return text[0]
            if match.group(1):
                return str(names[match.group(1)]) if match.group(1) in names else text
            try:
                return str(eval(match.group(2), names))
            except Exception:
                return text  # braces of the shell's

        return SUBSTITUTED.sub(value, command)

    def packages_may_change(self, command):
        """Finders remember what a directory had; what was installed is to be seen in this run."""
        if INSTALLS.search(command):
            import importlib

            importlib.invalidate_caches()

    def start(self, command, **options):
        import shutil
        import subprocess

        foreign = FOREIGN.match(command.strip())
        if foreign and not shutil.which(foreign.group(1)):
            raise UsageError("there is no %s here: pip install installs packages" % foreign.group(1))
        sys.stdout.flush()
        sys.stderr.flush()
        shell = shutil.which("bash") or "/bin/sh"
        done = subprocess.run([shell, "-c", command], check=False, **options)
        self.packages_may_change(command)
        return done

    def system(self, command):
        command = self.var_expand(command)
        if sys.stdout is self.core.streams.out:
            done = self.start(command)
        else:  # the caller uses the output
            done = self.start(command, stdout=-1, stderr=-2, universal_newlines=True, errors="replace")
            sys.stdout.write(done.stdout)
        self.user_ns["_exit_code"] = done.returncode

    def getoutput(self, command, split=True):
        done = self.start(self.var_expand(command), stdout=-1, stderr=-2, universal_newlines=True, errors="replace")
        self.user_ns["_exit_code"] = done.returncode
        return Lines(done.stdout.splitlines()) if split else done.stdout

    getoutput_raw = getoutput

    # ---- magics ----

    def magic(self, text):
        name, _, rest = text.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    def run_line_magic(self, name, line, *_, **__):
        function = getattr(self, "line_" + name, None)
        if function is not None:
            return function(line)
        if name in NOTHING:
            return None
        if name in SHELL_COMMANDS:
            return self.system("%s %s" % ("ls -l" if name == "ll" else name, line))
        raise UsageError("there is no line magic %%%s here; there are: %s" % (name, self.all_of("line_")))

    def run_cell_magic(self, name, line, cell):
        function = getattr(self, "cell_" + name, None)
        if function is not None:
            return function(line, cell)
        if name in SHOWN:
            return self.core.display({SHOWN[name]: cell}, raw=True)
        if name in PROGRAMS:
            return self.cell_script("%s %s" % (name, line), cell)
        raise UsageError("there is no cell magic %%%%%s here; there are: %s" % (name, self.all_of("cell_")))

    def all_of(self, kind):
        names = [name[5:] for name in dir(self) if name.startswith(kind)]
        names += NOTHING + SHELL_COMMANDS if kind == "line_" else [*SHOWN, *PROGRAMS, "capture", "time"]
        return ", ".join(sorted(set(names)))

    def run_cell(self, text, *_, **__):
        text = self.core.notebook().python_of(text)[0] or text
        exec(compile(text, "<cell %d>" % self.core.state.number, "exec"), self.user_ns)

    def ex(self, text):
        exec(text, self.user_ns)

    def ev(self, text):
        return eval(text, self.user_ns)

    def push(self, names, *_, **__):
        self.user_ns.update(names)

    def line_lsmagic(self, line):
        print("Line magics: %s\nCell magics: %s" % (self.all_of("line_"), self.all_of("cell_")))

    def line_pip(self, line):
        self.system("%s -m pip %s" % (sys.executable, line))

    def line_conda(self, line):
        self.line_pip(" ".join(word for word in line.split() if word not in ("-y", "--yes")))

    line_mamba = line_conda

    def line_npm(self, line):
        self.system("npm " + line)

    def line_cd(self, line):
        os.chdir(os.path.expanduser(self.var_expand(line.strip().strip("\"'")) or "~"))
        print(os.getcwd())

    def line_pwd(self, line):
        return os.getcwd()

    def line_env(self, line):
        name, _, value = re.sub(r"[ \t]*=[ \t]*|[ \t]+", "=", line.strip(), count=1).partition("=")
        if not name:
            return dict(os.environ)
        if "=" not in line and " " not in line.strip():
            return os.environ.get(name)
        os.environ[name] = self.var_expand(value)
        print("env: %s=%s" % (name, os.environ[name]))
        return None

    line_set_env = line_env

    def variables(self):
        kept = (type(sys), type(lambda: 0), type)
        return {k: v for k, v in sorted(self.user_ns.items()) if not k.startswith("_") and not isinstance(v, kept)}

    def line_who(self, line):
        print("   ".join(self.variables()) or "There are no variables.")

    def line_whos(self, line):
        for name, value in self.variables().items():
            text = " ".join(repr(value).split())
            print("%-16s %-14s %s" % (name, type(value).__name__, text if len(text) <= 60 else text[:57] + "..."))

    def line_reset(self, line):
        for name in [name for name in self.user_ns if not name.startswith("__")]:
            del self.user_ns[name]

    def line_run(self, line):
        import shlex

        words = shlex.split(self.var_expand(line))
        own = "-i" in words[:1]
        words = words[1:] if own else words
        if not words:
            raise UsageError("%run needs the name of a file")
        with open(os.path.expanduser(words[0]), encoding="utf-8") as file:
            code = compile(file.read(), words[0], "exec")
        names = self.user_ns if own else {"__name__": "__main__", "__file__": words[0]}
        before, sys.argv = sys.argv, words
        try:
            exec(code, names)
        finally:
            sys.argv = before
            if not own:
                self.user_ns.update((k, v) for k, v in names.items() if not k.startswith("__"))

    def line_time(self, line):
        with Timed():
            try:
                code = compile(line, "<cell %d>" % self.core.state.number, "eval")
            except SyntaxError:
                return exec(compile(line, "<cell %d>" % self.core.state.number, "exec"), self.user_ns)
            return eval(code, self.user_ns)

    def timed(self, line, setup, statement):
        import timeit

        found, rest = options_of(line, "nroqptc")
        timer = timeit.Timer(statement or rest, rest if statement and rest else setup, globals=self.user_ns)
        loops = found.get("n") or timer.autorange()[0]
        each = [total / loops for total in timer.repeat(found.get("r") or 7, loops)]
        mean = sum(each) / len(each)
        deviation = (sum((one - mean) ** 2 for one in each) / len(each)) ** 0.5
        text = "%s +- %s per loop (mean +- std. dev. of %d runs, %s loops each)"
        if "q" not in found:
            print(text % (seconds(mean), seconds(deviation), len(each), format(loops, ",")))
        return each if "o" in found else None

    def line_timeit(self, line):
        return self.timed(line, "pass", None)

    def cell_timeit(self, line, cell):
        return self.timed(line, "pass", cell)

    def line_prun(self, line):
        import cProfile

        profile = cProfile.Profile()
        try:
            profile.runctx(line, self.user_ns, self.user_ns)
        finally:
            profile.print_stats("cumulative")

    def cell_prun(self, line, cell):
        self.line_prun(cell)

    def cell_script(self, line, cell):
        import shlex
        import subprocess

        words = [word for word in shlex.split(line) if not word.startswith("--")]
        if not words:
            raise UsageError("%%script needs the name of a program")
        sys.stdout.flush()
        sys.stderr.flush()
        how = {} if sys.stdout is self.core.streams.out else {"stdout": -1, "stderr": -2}
        done = subprocess.run(words, input=cell.encode(), check=False, **how)
        self.packages_may_change(cell)
        if done.stdout:
            sys.stdout.write(done.stdout.decode("utf-8", "replace"))
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, words)

    def cell_writefile(self, line, cell):
        append = line.startswith(("-a ", "--append "))
        name = os.path.expanduser((line.partition(" ")[2] if append else line).strip().strip("\"'"))
        if not name:
            raise UsageError("%%writefile needs the name of a file")
        there = os.path.exists(name)
        with open(name, "a" if append else "w", encoding="utf-8") as file:
            file.write(cell)
        print("%s %s" % ("Appending to" if append else "Overwriting" if there else "Writing", name))

    cell_file = cell_writefile

    # ---- help ----

    def line_pinfo(self, line, source=False):
        import inspect

        try:
            value = eval(line, self.names())
        except Exception:
            raise UsageError("there is no object %s" % line) from None
        told = [("Type", type(value).__name__)]
        try:
            told.append(("Signature", line + str(inspect.signature(value))))
        except (TypeError, ValueError):
            told.append(("Value", repr(value)[:2000]))
        try:
            if source:
                told.append(("Source", "\n" + inspect.getsource(value)))
        except (TypeError, OSError):
            pass
        told.append(("Docstring", inspect.getdoc(value) or "<none>"))
        print("\n".join("%s: %s" % pair for pair in told))

    def line_pinfo2(self, line):
        self.line_pinfo(line, True)

    line_pdoc, line_psource = line_pinfo, line_pinfo2


class Notebook:
    def __init__(self, core):
        self.shell = Shell(core)

    def python_of(self, text):
        """Returns (Python code, context manager); the code is None if the cell is Python
        already."""
        if not SOME.search(text):
            return None, None
        head = text.lstrip()
        if not head.startswith("%%"):
            return rewrite_lines(text), None
        blank = "\n" * text[: len(text) - len(head)].count("\n")
        first, _, body = head.partition("\n")
        name, _, line = first[2:].strip().partition(" ")
        line = line.strip()
        around = None
        if name == "time":
            around = Timed()
            body = line + "\n" + body if line else "\n" + body
        elif name == "capture":
            words = [word for word in line.split() if not word.startswith("-")]
            around = Capturing(self.shell, words[0] if words else "")
            body = "\n" + body
        else:
            return blank + call("run_cell_magic", name, line, body) + "\n", None
        return blank + (rewrite_lines(body) or body), around
