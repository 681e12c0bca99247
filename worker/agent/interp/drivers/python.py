# The Python side of a live interpreter: compiled under the name <cloister> by worker/agent/interp/python.c, with
# the workspace as argument, requests on descriptor 3 and reports on 4; see README.md beside the agent's
# sources for both formats.
#
# Parts of the driver are compiled at their first use, so that code that only prints does not wait
# for them or their imports: python_rich.py shows values, python_dead.py reaps the children of
# stopped runs, and python_notebook.py handles cells that are not plain Python.
#
# The driver shares its process with user code. So it has one namespace that user code does not see,
# and takes its references before user code can replace anything. User code runs in its own
# `__main__`. Code that breaks the driver loses its interpreter, and the agent starts a new one.

def _cloister_driver(rich_source, dead_source, notebook_source):
    import builtins
    import io
    import linecache
    import os
    import signal
    import sys
    import traceback
    import types
    import warnings
    import _signal
    import __future__
    from _ast import Expr, Expression, Module, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
    from collections import deque
    from keyword import kwlist
    from _thread import RLock
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    HERE = _cloister_driver.__code__.co_filename
    RESULT_MAX = 256 << 10  # bytes of a result, message or traceback
    NAME_MAX = 4096
    STOPPED_BYTES = 16  # length of the request that reports a stopped run
    SOURCES_MAX = 8 << 20  # characters of code that are kept for tracebacks
    CELLS_MAX = 512
    EXPRESSION_MAX = 256  # characters of code that is tried as an expression first
    STATEMENTS = frozenset(kwlist) - {"None", "True", "False", "not", "lambda", "await"}  # begin no expression
    COROUTINE = 0x80  # inspect.CO_COROUTINE
    PIPE = object()  # stdin that stays open
    MODULES = object()  # in place of stdin: no code, but modules to import

    IN_LOOP = {"create_task", "ensure_future", "get_running_loop"}  # need a running loop,
    NOT_IN_LOOP = {"run", "run_until_complete", "run_forever", "Runner"}  # need that none runs

    FUTURE_FLAGS = 0
    for feature in __future__.all_feature_names:
        FUTURE_FLAGS |= getattr(__future__, feature).compiler_flag

    os_read, os_write, os_close, os_dup2, os_fstat = os.read, os.write, os.close, os.dup2, os.fstat
    os_stat, os_getpid, set_blocking = os.stat, os.getpid, os.set_blocking
    os_chdir, os_fsdecode = os.chdir, os.fsdecode
    # not those of the module signal, which make members of enumerations of numbers, and numbers of
    # them, and take as long for that as all else that a short run costs here
    setsignal, getsignal, default_int = _signal.signal, _signal.getsignal, signal.default_int_handler
    SIGINT = signal.SIGINT
    settrace, gettrace, setprofile, getprofile = sys.settrace, sys.gettrace, sys.setprofile, sys.getprofile
    compile_, eval_, exec_, repr_, str_, import_ = compile, eval, exec, repr, str, __import__
    type_, hasattr_, set_, modules = type, hasattr, set, sys.modules
    name_of = type.__dict__["__name__"].__get__  # reads the name in spite of metaclasses
    pid = os_getpid()

    def out_of_the_way(fd):
        high = fcntl(fd, F_DUPFD_CLOEXEC, 60)
        os_close(fd)
        return high

    requests, reports, inputs = out_of_the_way(3), out_of_the_way(4), out_of_the_way(6)
    spare_out, spare_err = fcntl(1, F_DUPFD_CLOEXEC, 60), fcntl(2, F_DUPFD_CLOEXEC, 60)
    devnull = os.open(os.devnull, os.O_RDWR)
    devnull = out_of_the_way(devnull) if devnull < 60 else devnull

    # ---- the wire --------------------------------------------------------------------------------

    def read_some(most):
        while True:
            try:
                return os_read(requests, most)
            except BaseException as exc:
                if isinstance(exc, OSError) and exc.__traceback__.tb_next is None:
                    raise
                # raised by a signal handler of user code, such as an alarm of an earlier run:
                # reported like an error in a thread
                complain(exc)

    def wait_in_loop():
        """Waits until a request can be read. Tasks that code has left go on meanwhile, as in a
        notebook."""
        loop = state.loop
        try:
            if loop is None or loop.is_closed() or not all_tasks(loop):
                return
            come = loop.create_future()
            loop.add_reader(requests, lambda: come.done() or come.set_result(None))
        except Exception:
            return  # a kind of loop that cannot wait for descriptors
        try:
            loop.run_until_complete(come)
        except BaseException as exc:
            complain(exc)  # raised in a task; the other tasks go on when the next code runs
        finally:
            loop.remove_reader(requests)

    def all_tasks(loop):
        import asyncio

        return asyncio.all_tasks(loop)

    def read_request():
        if not state.unread and state.loop is not None:
            wait_in_loop()
        data = state.unread or read_some(65536)
        state.unread = b""
        if not data:
            raise SystemExit(0)
        need = 4
        while True:
            if len(data) >= 4:
                need = 4 + int.from_bytes(data[:4], "big")
            if len(data) >= need:
                break
            parts, have = [data], len(data)
            while have < need:
                part = read_some(min(need - have, 1 << 20))
                if not part:
                    raise SystemExit(0)
                parts.append(part)
                have += len(part)
            data = b"".join(parts)
        state.unread = data[need:]
        if need == STOPPED_BYTES:
            take_off_dead(int.from_bytes(data[8:16], "big"))
            return None
        run = int.from_bytes(data[4:8], "big")
        how = data[8]  # 0: none, 1: in the request, 2: it comes through the pipe, 3: no code
        count_args = int.from_bytes(data[9:13], "big")
        count_env = int.from_bytes(data[13:17], "big")
        at = 17
        fields = []
        for _ in range(2 + count_args + count_env):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            fields.append(data[at + 4 : end])
            at = end
        stdin = (None, fields[1], PIPE, MODULES)[how]
        return run, fields[0], stdin, fields[2 : 2 + count_args], fields[2 + count_args :]

    def send(records):
        data = b"".join([b"%c%08x%b" % (kind, len(body), body) for kind, body in records])
        while data:
            data = data[os_write(reports, data) :]

    def take_off_dead(since):
        # the agent has killed the processes of the last run, which began at that clock tick
        try:
            if state.dead is None:
                names = {"__name__": "<cloister>"}
                exec_(compile_(dead_source, HERE, "exec"), names)
                state.dead = names["Dead"]()
            state.dead.take_off(since)
        except BaseException as exc:
            complain(exc)

    reporting = RLock()  # any thread may display at any time

    def encoded(text, most=RESULT_MAX):
        data = str_.encode(text, "utf-8", "backslashreplace")
        if len(data) > most:
            note = "\n... [cut: %d bytes in all]" % len(data)
            data = data[: most - len(note)].decode("utf-8", "ignore").encode() + note.encode()
        return data

    # ---- streams ---------------------------------------------------------------------------------

    def writer(fd):
        # line-buffered, so that output is seen at once; text that cannot be encoded does not fail
        raw = io.FileIO(fd, "w", closefd=False)
        return io.TextIOWrapper(
            io.BufferedWriter(raw, 65536), "utf-8", "backslashreplace", line_buffering=True
        )

    def reader():
        raw = io.FileIO(0, "r", closefd=False)
        return io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "surrogateescape")

    class Streams:
        out = err = None
        fed = True  # descriptor 0 from before the first run

    streams = Streams()

    def is_open(name):
        try:
            return not getattr(getattr(sys, name), "closed", True)
        except BaseException:
            return False  # deleted, detached, or replaced by something odd

    def open_stdin(data):
        if data is None:
            # reopens sys.stdin, which exit() and quit() close
            if not streams.fed and is_open("stdin"):
                return
            os_dup2(devnull, 0)
            streams.fed = False
        elif data is PIPE:
            set_blocking(inputs, True)
            os_dup2(inputs, 0)
            streams.fed = True
        else:
            try:
                fd = os.memfd_create("stdin")
            except OSError:
                import tempfile

                with tempfile.TemporaryFile(buffering=0) as file:
                    fd = os.dup(file.fileno())
            view = memoryview(data)
            while view:
                view = view[os_write(fd, view) :]
            os.lseek(fd, 0, 0)
            os_dup2(fd, 0)
            os_close(fd)
            streams.fed = True
        sys.stdin = sys.__stdin__ = reader()

    def identity(fd):
        try:
            found = os_fstat(fd)
        except OSError:
            return None  # closed
        return found.st_dev, found.st_ino

    def unblock():
        # all who have a pipe share the flag: a program that sets it for itself sets it for us
        for fd in (1, 2):
            try:
                set_blocking(fd, True)
            except OSError:
                pass

    def mend_streams():
        # restores descriptors that an earlier run has closed or put something else in place of
        if identity(0) is None:
            os_dup2(devnull, 0)
        for fd, spare, there in ((1, spare_out, pipe_out), (2, spare_err, pipe_err)):
            if identity(fd) != there:
                os_dup2(spare, fd)
        unblock()
        if not is_open("stdout"):
            sys.stdout = sys.__stdout__ = streams.out = writer(1)
        if not is_open("stderr"):
            sys.stderr = sys.__stderr__ = streams.err = writer(2)

    def flush(passed_over=Exception):
        for of, name in ((sys, "stdout"), (sys, "stderr"), (streams, "out"), (streams, "err")):
            try:
                getattr(of, name).flush()
            except passed_over:
                pass  # user code has closed or replaced the stream

    # ---- errors ----------------------------------------------------------------------------------

    def trim(tb):
        """The traceback from the first frame of a cell on; None if there is no such frame."""
        while tb is not None and not tb.tb_frame.f_code.co_filename.startswith("<cell "):
            tb = tb.tb_next
        return tb

    def forget_own_frames(te, seen):
        if te is None or id(te) in seen:
            return
        seen.add(id(te))
        if te.stack:
            te.stack[:] = [frame for frame in te.stack if frame.filename != HERE]
        forget_own_frames(te.__cause__, seen)
        forget_own_frames(te.__context__, seen)
        for inner in getattr(te, "exceptions", None) or ():
            forget_own_frames(inner, seen)

    def format_error(exc, frames):
        tb = trim(exc.__traceback__)
        te = traceback.TracebackException(type(exc), exc, tb)
        if tb is None and frames:
            te.stack = traceback.StackSummary.extract([(f, f.f_lineno) for f in frames])
            te.exc_traceback = True
        forget_own_frames(te, set())
        alone = te.__cause__ is None and te.__context__ is None
        if alone and not te.stack and not getattr(te, "exceptions", None):
            return "".join(te.format_exception_only())  # a syntax error has no heading
        return "".join(te.format())

    python_formatwarning = warnings.formatwarning

    def formatwarning(message, category, filename, lineno, line=None):
        """For warnings that name the caller of the cell: the driver is no file to show."""
        if filename == HERE:
            return "<cell %d>: %s: %s\n" % (state.number, name_of(category), message)
        return python_formatwarning(message, category, filename, lineno, line)

    def describe(exc, frames):
        name = name_of(type_(exc))
        try:
            message = str_(exc)
        except BaseException:
            message = "<no message: str() of the exception failed>"
        try:
            text = format_error(exc, frames)
        except BaseException:
            text = "".join((name, ": ", message, "\n"))
        return [
            (b"N", encoded(name, NAME_MAX)),
            (b"M", encoded(message)),
            (b"T", encoded(text)),
        ]

    def complain(exc):
        if isinstance(exc, SystemExit):
            return
        try:
            streams.err.write(describe(exc, ())[2][1].decode())
        except BaseException:
            pass

    def exit_code(exc):
        try:
            code = exc.code
            if code is None:
                return 0
            if isinstance(code, int):
                return int.__and__(code, 0xFF)
            sys.stderr.write(str_(code) + "\n")
        except BaseException:
            pass  # a subclass of SystemExit with an unusual code
        return 1

    # ---- running ---------------------------------------------------------------------------------

    main = type(sys)("__main__")
    main.__builtins__ = builtins
    space = main.__dict__
    space["__annotations__"] = {}
    cells = deque()

    class State:
        number = 0  # of the last cell
        held = 0  # characters in cells
        flags = 0  # __future__ features that cells have enabled
        handler = default_int  # SIGINT handler while user code runs
        missed = False  # an interrupt came while no user code ran
        loop = None
        hooks = None, None  # functions of sys.settrace() and sys.setprofile(), for the next code
        task = None
        coroutine = None  # the part of the cell that runs in the loop
        run = 0  # its number
        shown = 0  # number of things shown in this run
        number_shown = 0  # of the last thing
        packages_ns = 0  # last change of the package directory
        rich = None  # once it was needed
        dead = None  # python_dead.py, once a run was stopped
        notebook = None  # python_notebook.py, once code was not plain Python
        around = None  # context manager around this run, for %%time and the like
        unread = b""  # bytes that were read after the last request

    state = State()
    state.advance = set_()  # packages and modules of their own that were imported in advance

    def ignore_interrupt(signum, frame):
        state.missed = True

    def wake(signum, frame):
        pass  # the signal only makes a blocking call check for interrupts

    def remember(name, code):
        if type_(linecache.cache) is not dict:
            linecache.cache = {}  # user code has replaced it, and no code could run otherwise
        # not splitlines(), which splits at more characters than the compiler
        linecache.cache[name] = (len(code), None, io.StringIO(code, None).readlines(), name)
        cells.append((name, len(code)))
        state.held += len(code)
        while len(cells) > CELLS_MAX or (state.held > SOURCES_MAX and len(cells) > 1):
            old, size = cells.popleft()
            linecache.cache.pop(old, None)
            state.held -= size

    def short_expression(text, name, flags):
        """The compiled expression, if the code is one and short; None otherwise. Statements are
        taken apart as objects, which takes three times as long. What may warn of something is left
        to that, so that it is compiled, and warns, once."""
        if len(text) > EXPRESSION_MAX or text[:1].isspace():
            return None
        if text and text.split(None, 1)[0].rstrip(":") in STATEMENTS:
            return None
        for sign in ("=", ";", "\n", "\\"):
            if sign in text:
                return None
        try:
            return compile_(text, name, "eval", flags, True)
        except SyntaxError:
            return None

    def parse(code):
        """Returns the compiled statements and the compiled last expression; either may be None."""
        state.number += 1
        name = "<cell %d>" % state.number
        text = code.decode("utf-8")
        if text.startswith("\ufeff"):
            text = text[1:]
        remember(name, text)
        flags = state.flags | PyCF_ALLOW_TOP_LEVEL_AWAIT
        body = state.around = None
        last = short_expression(text, name, flags)
        if last is not None:
            return None, last
        try:
            body = compile_(text, name, "exec", flags | PyCF_ONLY_AST, True).body
        except SyntaxError:
            text, state.around = notebook().python_of(text)
            if text is None:
                raise
        if body is None:
            body = compile_(text, name, "exec", flags | PyCF_ONLY_AST, True).body
        last = body.pop() if body and isinstance(body[-1], Expr) else None
        first = None
        if body:
            first = compile_(Module(body, []), name, "exec", flags, True)
            state.flags |= first.co_flags & FUTURE_FLAGS
        if last is not None:
            flags = state.flags | PyCF_ALLOW_TOP_LEVEL_AWAIT
            last = compile_(Expression(last.value), name, "eval", flags, True)
        return first, last

    def finish_task(task):
        # an interrupt has left the loop: let the task clean up
        task.cancel()
        try:
            state.loop.run_until_complete(task)
        except BaseException:
            pass

    async def in_loop(parts):
        value = None
        for part in parts:
            value = eval_(part, space)
            if part.co_flags & COROUTINE:
                state.coroutine = value
                value = await value
        await turn()  # gives new tasks a turn
        return value

    @types.coroutine
    def turn():
        yield

    def begins_tasks(code):
        names = set_(code.co_names)
        return bool(names & IN_LOOP) and not names & NOT_IN_LOOP

    def evaluate(first, last):
        """Runs a cell and returns the value of its last expression. If any part of it awaits or
        begins a task, all of it runs in the loop."""
        parts = [part for part in (first, last) if part is not None]
        if not any(part.co_flags & COROUTINE or begins_tasks(part) for part in parts):
            if first is not None:
                eval_(first, space)
            return eval_(last, space) if last is not None else None
        import asyncio

        if state.loop is None or state.loop.is_closed():
            state.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(state.loop)
        state.task = task = state.loop.create_task(in_loop(parts))
        try:
            return state.loop.run_until_complete(task)
        finally:
            if task.done():
                state.task = state.coroutine = None

    # ---- showing ---------------------------------------------------------------------------------

    PLAIN = {int, float, complex, bool, str, bytes, list, tuple, dict, set, range, type}
    RICH = ["_repr_%s_" % name for name in "mimebundle html png svg jpeg markdown latex json".split()]
    TOOLS = ("pandas", "matplotlib.figure", "PIL.Image")  # their objects have further forms
    HOOKS = {
        "matplotlib.pyplot",
        "PIL.ImageShow",
        "plotly.basedatatypes",
        "IPython.display",
        "IPython.core.display_functions",
    }

    class Driver:
        """The interface of the driver for python_rich.py and python_notebook.py."""

    def notebook():
        if state.notebook is None:
            names = {"__name__": "<cloister>"}
            exec_(compile_(notebook_source, HERE, "exec"), names)
            Driver.state, Driver.space, Driver.streams, Driver.packages = state, space, streams, packages
            Driver.display, Driver.notebook = staticmethod(display), staticmethod(notebook)
            state.notebook = names["Notebook"](Driver)
        return state.notebook

    def get_ipython():
        """get_ipython(), for code written for notebooks."""
        return notebook().shell

    def rich():
        if state.rich is None:
            names = {"__name__": "IPython.display"}  # our classes replace IPython's
            exec_(compile_(rich_source, HERE, "exec"), names)
            Driver.pid, Driver.state, Driver.hooks = pid, state, Hooks
            Driver.reporting, Driver.send = reporting, staticmethod(send)
            Driver.display, Driver.workspace = staticmethod(display), workspace
            Driver.get_ipython = staticmethod(get_ipython)
            state.rich = names["Rich"](Driver)
        return state.rich

    def display(*objs, **options):
        """Shows objects in their richest forms: images, tables, formatted text."""
        return rich().display(*objs, **options)

    def has_forms(kind):
        try:
            for name in RICH:
                if hasattr_(kind, name):
                    return True
        except Exception:
            return True  # a metaclass that fails: showing the value reports that
        for name in TOOLS:
            if name in modules:
                return True
        return False

    class Hooks:
        """The first finder: patches the display functions of some modules when they are
        imported."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            return rich().find_hooked(name, path, target) if name in HOOKS else None

    class Standins:
        """The last finder: offers IPython.display if IPython is not installed."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "IPython" or name.startswith("IPython."):
                return rich().find_standin(name)
            return None

    def put_hooks_aside():
        # they would see our frames, and could raise in them; that removes them
        for _ in (1, 2, 3):
            try:
                state.hooks = gettrace(), getprofile()
                if state.hooks != (None, None):
                    setprofile(None)
                    settrace(None)
                break
            except Exception:
                state.hooks = None, None

    def import_modules(names, records):
        """Imports modules for code that comes later, as that would, but into no namespace."""
        before = set_(modules)
        try:
            for name in names:
                import_(os_fsdecode(name))
        except SystemExit as exc:
            raise ImportError("it has ended the program: SystemExit(%r)" % (exc.code,)) from None
        finally:
            state.advance.update(name.partition(".")[0] for name in set_(modules) - before)
            put_hooks_aside()
            try:
                os_chdir(workspace)
            except OSError:
                pass

    def run_user(code, records):
        first, last = parse(code)
        try:
            if state.hooks != (None, None):
                settrace(state.hooks[0])
                setprofile(state.hooks[1])
            if state.around is None:
                value = evaluate(first, last)
            else:
                with state.around:
                    value = evaluate(first, last)
        finally:
            put_hooks_aside()
        if value is not None:
            builtins._ = None
            kind = type_(value)
            if kind in PLAIN or not has_forms(kind):
                text = repr_(value)
            else:
                text = rich().show_value(value)
            builtins._ = value
            records.append((b"R", encoded(text)))
        if "matplotlib.pyplot" in modules:
            rich().show_figures()

    # ---- packages --------------------------------------------------------------------------------

    def look_for_packages():
        # packages may be installed while the interpreter runs; finders cache a directory's names
        # until its mtime changes
        try:
            now = os_stat(packages).st_mtime_ns
        except OSError:
            return
        if now != state.packages_ns:
            if state.packages_ns:
                rich().packages_changed(packages)
            state.packages_ns = now

    def run_guarded(step, what, records):
        """Does what a request is for and turns exceptions into records. Only in here SIGINT reaches
        user code."""
        caught = None
        try:
            try:
                setsignal(SIGINT, state.handler)
                if state.missed:
                    # it was for this run and too early, or for the last one: the agent decides
                    state.missed = False
                    send([(b"I", b"")])
                try:
                    step(what, records)
                except KeyboardInterrupt:
                    if "matplotlib.pyplot" in modules:
                        rich().close_figures()  # drawing them could use up the time that is left
                    raise
                except BaseException:
                    if "matplotlib.pyplot" in modules:
                        rich().show_figures()
                    raise
                flush()
            finally:
                state.handler = getsignal(SIGINT) or default_int
                setsignal(SIGINT, ignore_interrupt)
        except SystemExit as exc:
            records.append((b"X", b"%d" % exit_code(exc)))
        except BaseException as exc:
            caught = exc
        setsignal(SIGINT, ignore_interrupt)
        task, state.task = state.task, None
        frames = ()
        coroutine, state.coroutine = state.coroutine, None
        if task is not None and not task.done():
            if coroutine is not None and coroutine.cr_frame is not None:
                frames = (coroutine.cr_frame,)
            finish_task(task)
        if caught is not None:
            del records[:]
            records.extend(describe(caught, frames))
            caught = None  # its traceback holds this frame: a cycle that would keep user objects

    def enter_env(pairs):
        saved = []
        for pair in pairs:
            key, _, value = os.fsdecode(pair).partition("=")
            saved.append((key, os.environ.get(key)))
            os.environ[key] = value
        return saved

    def leave_env(saved):
        for key, value in reversed(saved):
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value

    def leave_child(records):
        # a forked child of user code has come to the end of the cell: end as a script would
        code = 0
        for kind, body in records:
            if kind == b"T":
                try:
                    sys.stderr.write(body.decode("utf-8", "replace"))
                except Exception:
                    pass
                code = 1
            elif kind == b"X":
                code = int(body)
        flush()
        raise SystemExit(code)

    def run_once():
        request = read_request()
        if request is None:
            return
        run, code, stdin, args, env = request
        records = []
        state.run = run
        if packages:
            look_for_packages()
        mend_streams()
        step, what = run_user, code
        if stdin is MODULES:
            step, what, args, stdin = import_modules, args, (), None
        open_stdin(stdin)
        sys.argv = [""] + [os.fsdecode(arg) for arg in args]
        saved = enter_env(env) if env else ()
        sys.modules["__main__"] = main
        run_guarded(step, what, records)
        if os_getpid() != pid:
            leave_child(records)
        if saved:
            leave_env(saved)
        unblock()
        flush(BaseException)
        if streams.fed:
            open_stdin(None)
        records.append((b"D", b"%d" % run))
        with reporting:
            send(records)
            if state.shown:
                state.shown = state.number_shown = 0

    def close_control():
        # a forked child must not send reports, nor keep the pipes open after the driver's end
        for fd in (requests, reports, inputs, spare_out, spare_err):
            try:
                os_close(fd)
            except OSError:
                pass

    os.register_at_fork(after_in_child=close_control)
    setsignal(SIGINT, ignore_interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [SIGINT])  # one that came during the start
    setsignal(signal.SIGURG, wake)
    pipe_out, pipe_err = identity(spare_out), identity(spare_err)
    sys.stdout = sys.__stdout__ = streams.out = writer(1)
    sys.stderr = sys.__stderr__ = streams.err = writer(2)
    open_stdin(None)
    workspace, packages = sys.argv[1:3]
    packages = packages and packages + "/python"
    sys.argv = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [sys.executable]
    try:
        os.chdir(workspace)
    except OSError:
        pass
    sys.modules["__main__"] = main
    builtins.display = display
    builtins.get_ipython = get_ipython
    warnings.formatwarning = formatwarning
    sys.meta_path.insert(0, Hooks)
    sys.meta_path.append(Standins)
    if packages:
        look_for_packages()
    while True:
        try:
            run_once()
        except OSError:
            # user code has closed the driver's descriptors, so only a new interpreter can get
            # requests
            os._exit(70)


_cloister_driver(globals().pop("rich"), globals().pop("dead"), globals().pop("notebook"))
