"""The commands that look at running servers and steer them, as people type them."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, NONE, ON_OCI, Server, Suite, contains, equal, mcp, needs_runtime, poll, skip_all
from mcp_http import HttpServer

needs_runtime()
if not ON_OCI:
    skip_all("does not depend on the backend")
suite = Suite(NONE)
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1):
    signal.signal(each, signal.SIG_DFL)  # who runs this may ignore it (nohup, a job in the background), and what we start would as well
PROGRAM = os.environ["CLOISTER"]
USAGE, FAILED = 64, 1
PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("CLOISTER_")}
SLEEPER = "echo on; exec sleep 900"  # for a shell
_shared = []


def shared():
    """A server over HTTP with a sandbox, and a client of it."""
    if not _shared:
        server = HttpServer()
        client = server.client(LATEST_LEGACY)
        _shared.extend([server, client, client.call("create_sandbox", name="box")["sandbox_id"]])
    return _shared


def run(*words, top=None, data=None, status=0):
    """Runs a command against the shared server, or those below another runtime directory."""
    command = [PROGRAM, "--runtime-dir", top or shared()[0].runtime_dir, *words]
    given = {"input": data} if data is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(command, env=PLAIN, capture_output=True, timeout=300, check=False, **given)
    equal(done.returncode, status, f"{words}: {done.stderr.decode()}")
    return done


def text(*words, **how):
    return run(*words, **how).stdout.decode()


def objects(*words, **how):
    return [json.loads(line) for line in text(*words, "--format", "json", **how).splitlines()]


def begin(*words, **how):
    """A command that goes on, with its output as lines that a poll can look at."""
    return subprocess.Popen([PROGRAM, "--runtime-dir", shared()[0].runtime_dir, *words], env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


@suite.case("ps shows sandboxes of all servers, on stdio too; --instance chooses; json and -q are for programs")
def ps():
    server, _, sandbox = shared()
    head, *rows = text("ps").splitlines()
    equal(head.split(), "SANDBOX ID NAME OWNER STATE IMAGE MEMORY RUNS CREATED SERVER".split())
    equal(len(rows), 1)
    equal(rows[0].split()[:4], [sandbox, "box", "local", "ready"])
    with Server(runtime_dir=server.runtime_dir) as other:
        other.legacy()
        second = other.call("create_sandbox")["sandbox_id"]
        equal(sorted(text("ps", "-q").split()), sorted([sandbox, second]))
        by_server = {s["sandbox_id"]: s["server"] for s in objects("ps")}
        equal(by_server[sandbox], "main")
        assert by_server[second].startswith("stdio-"), by_server
        equal(text("ps", "-q", "--instance", "main").split(), [sandbox])
        contains(run("events", "--no-stream", status=FAILED).stderr.decode(), "--instance")
        equal(text("stop", second).strip(), second)
    equal(text("ps", "-q").split(), [sandbox])
    equal(text("ps", "-q", top=mcp.temporary_directory()), "")
    equal([line.split() for line in text("version").splitlines()[2:]], [["server", "main", objects("version")[0]["version"], str(server.process.pid)]])


@suite.case("inspect shows sandboxes and executions, by id or name")
def inspect():
    _, client, sandbox = shared()
    done = client.call("execute_code", sandbox_id=sandbox, code="6 * 7")
    shown = json.loads(text("inspect", "box", done["execution_id"]))
    equal([shown[0]["sandbox_id"], shown[0]["server"], shown[1]["result"]], [sandbox, "main", "42"])
    refused = run("inspect", "box", "nobody", status=FAILED)
    equal(len(json.loads(refused.stdout)), 1)
    contains(refused.stderr.decode(), "nobody")


@suite.case("run takes a file or stdin, in a sandbox that goes with it; its status is the code's")
def run_code():
    equal(text("run", data=b"print('from', 'stdin')"), "from stdin\n")
    directory = mcp.temporary_directory()
    files = {"a.py": "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)\n", "b.sh": "echo \"$1 and $2\"\nexit 7\n", "c.py": "1 / 0\n"}
    for name, code in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(code)
    done = run("run", os.path.join(directory, "a.py"), status=3)
    equal((done.stdout, done.stderr), (b"out\n", b"err\n"))
    equal(text("run", os.path.join(directory, "b.sh"), "--one", "-2", status=7), "--one and -2\n")
    contains(run("run", os.path.join(directory, "c.py"), status=1).stderr.decode(), "ZeroDivisionError")
    contains(run("run", "--timeout", "1", data=b"while True: pass", status=124).stderr.decode(), "timeout")
    contains(run("run", "--timeout", "0", data=b"", status=FAILED).stderr.decode(), "--timeout")
    contains(run("run", os.path.join(directory, "none.py"), status=FAILED).stderr.decode(), "No such file")
    contains(run("run", "-l", "cobol", data=b"", status=FAILED).stderr.decode(), "cobol")
    poll("their sandboxes are gone", lambda: text("ps", "-q").split() == [shared()[2]])


def left_of(top):
    """Instances below a runtime directory, and processes of servers that were given it."""
    found = [name for name in os.listdir(top) if not name.startswith(".")]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if top.encode() in file.read().split(b"\0") else []
        except OSError:
            pass
    return found


def nothing_left(top):
    poll("the end of all that run has begun", lambda: left_of(top) == [])


def listen_and_die(directory):
    """A control socket that nobody listens on any more."""
    path = os.path.join(directory, "control.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o600)


@suite.case("run needs no server: one for the code alone gives its output as it comes, its status, and leaves nothing")
def run_alone():
    top = mcp.temporary_directory()
    code = os.path.join(mcp.temporary_directory(), "code.sh")
    with open(code, "w", encoding="utf-8") as file:
        file.write('echo "$1"; echo err >&2; exit 7')
    done = run("run", code, "--one", top=top, status=7)
    equal((done.stdout, done.stderr), (b"--one\n", b"err\n"))
    equal(text("run", "--memory-mb", "300", data=b"print(6 * 7)", top=top), "42\n")
    contains(run("run", "-l", "cobol", data=b"", top=top, status=FAILED).stderr.decode(), "cobol")
    contains(run("run", "--image", "/none", data=b"", top=top, status=FAILED).stderr.decode(), "/none")
    nothing_left(top)
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGKILL):
        process = subprocess.Popen([PROGRAM, "--runtime-dir", top, "run", "-l", "bash"], env=PLAIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdin.write(b"echo on; exec yes" if number == signal.SIGPIPE else SLEEPER.encode())
        process.stdin.close()
        equal(process.stdout.readline(), b"on\n")
        if number == signal.SIGPIPE:
            process.stdout.close()
        else:
            process.send_signal(number)
        equal(process.wait(120), -number)
        process.stdout.close()
        nothing_left(top)


@suite.case("run finds its own server beside what a dead one of the same pid has left")
def run_beside_dead():
    top = mcp.temporary_directory()
    process = subprocess.Popen([PROGRAM, "--runtime-dir", top, "run"], env=PLAIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"print(6 * 7)")
    process.stdin.close()
    own = []

    def begun():
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            own[:] = children.read().split()
        return own or process.poll() is not None  # before we have looked

    poll("its server", begun)
    process.send_signal(signal.SIGSTOP)  # before that has its sandbox
    for pid in own:
        directory = os.path.join(top, f"stdio-{pid}-!")  # which is looked at first
        os.mkdir(directory, 0o700)
        listen_and_die(directory)
    process.send_signal(signal.SIGCONT)
    equal((process.stdout.read(), process.stderr.read(), process.wait(120)), (b"42\n", b"", 0))
    process.stdout.close()
    process.stderr.close()


@suite.case("run takes a server with a name and no other; one that was named and does not run is an error")
def run_where():
    top = shared()[0].runtime_dir
    where = lambda: [s["server"] for s in objects("ps") if s["sandbox_id"] != shared()[2]]
    with Server(runtime_dir=top) as other:  # which is its client's
        other.legacy()
        other.call("create_sandbox")
        theirs = where()
        equal(len(theirs), 1)
        for words, is_ours in (((), False), (("--memory-mb", "300"), True)):
            process = begin("run", "-l", "bash", *words, stdin=subprocess.PIPE)
            process.stdin.write(SLEEPER.encode())
            process.stdin.close()
            equal(process.stdout.readline(), b"on\n")
            (server,) = [name for name in where() if name not in theirs]
            equal(server.startswith("stdio-"), is_ours, server)
            process.send_signal(signal.SIGTERM)
            equal(process.wait(120), -signal.SIGTERM)
            process.stdout.close()
            process.stderr.close()
    empty = mcp.temporary_directory()
    contains(run("run", "--instance", "none", data=b"1", top=empty, status=FAILED).stderr.decode(), 'no server "none"')
    done = subprocess.run([PROGRAM, "--runtime-dir", empty, "run"], env={**PLAIN, "CLOISTER_INSTANCE": "none"}, input=b"1", capture_output=True, timeout=120, check=False)
    equal(done.returncode, FAILED)
    contains(done.stderr.decode(), 'no server "none"')
    contains(run("run", "--instance", "main", "--memory-mb", "300", data=b"1", status=FAILED).stderr.decode(), "--memory-mb is for a server that is started")
    contains(run("run", "--http", "8080", data=b"1", status=FAILED).stderr.decode(), "--http means nothing")
    contains(run("run", "--network", data=b"1", status=FAILED).stderr.decode(), "no network")
    nothing_left(empty)


@suite.case("run is alone on stdio whatever a configuration file or the environment says of HTTP, and where a server has died")
def run_beside_configuration():
    top, path = mcp.temporary_directory(), os.path.join(mcp.temporary_directory(), "conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write("http: 127.0.0.1:1\ntokens: /none\nallow-hosts: a.example\ncompat: [code-sandbox]\nmemory-mb: 300\n")
    os.chmod(path, 0o600)
    code = b"print(6 * 7)"
    equal(text("run", "--config", path, data=code, top=top), "42\n")
    done = subprocess.run([PROGRAM, "--runtime-dir", top, "run"], env={**PLAIN, "CLOISTER_HTTP": "127.0.0.1:1"}, input=code, capture_output=True, timeout=120, check=False)
    equal((done.returncode, done.stdout, done.stderr), (0, b"42\n", b""))
    nothing_left(top)
    dead = HttpServer(runtime_dir=top)
    dead.process.kill()
    dead.process.wait(120)
    done = run("run", data=code, top=top)
    equal(done.stdout, b"42\n")
    contains(done.stderr.decode(), "main")
    run("run", "--instance", "main", data=code, top=top, status=FAILED)


@suite.case("exec runs a program with its arguments, stdin and status")
def execute():
    equal(text("exec", "box", "echo", "a b", "--help"), "a b --help\n")
    equal(run("exec", "box", "-i", "cat", data=b"behind the name").stdout, b"behind the name")
    done = run("exec", "box", "sh", "-c", "echo no >&2; exit 9", status=9)
    equal((done.stdout, done.stderr), (b"", b"no\n"))
    data = os.urandom(200000)
    equal(run("exec", "-i", "box", "cat", data=data).stdout, data, "bytes through stdin and stdout")
    equal(text("exec", "box", "cat"), "", "without -i there is no stdin")
    contains(run("exec", "nobody", "true", status=FAILED).stderr.decode(), "nobody")
    contains(run("exec", "box", "not-a-program", status=127).stderr.decode(), "not-a-program")


@suite.case("exec -it is a terminal: what is typed is echoed, Ctrl-C interrupts, its size is ours")
def terminal():
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "33", "cols", "101"], stdin=theirs, check=True)
    before = subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, check=True).stdout
    process = subprocess.Popen([PROGRAM, "--runtime-dir", shared()[0].runtime_dir, "exec", "-it", "box", "sh"], env={**PLAIN, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    seen = []
    os.set_blocking(ours, False)

    def shown():
        try:
            seen.append(os.read(ours, 65536))
        except BlockingIOError:
            pass
        return b"".join(seen).decode("utf-8", "replace")

    poll("the shell's prompt", lambda: re.search(r"[$#] ", shown()))
    os.write(ours, b"stty size; echo $TERM; test -t 0 && echo 'a'-tty\r")
    poll("size, kind, and that it is one", lambda: all(w in shown() for w in ("33 101", "xterm", "a-tty")))
    os.write(ours, b"sleep 900\r")
    os.write(ours, b"\x03")
    poll("the prompt again", lambda: "^C" in shown())
    for rows in range(20, 41):  # some of these changes come while what was typed is on its way
        os.write(ours, b"true\r")
        subprocess.run(["stty", "rows", str(rows)], stdin=theirs, check=True)
        process.send_signal(signal.SIGWINCH)
    os.write(ours, b"until stty size | grep -q '^40 '; do :; done; echo 'now'-40\r")
    poll("its last size", lambda: "now-40" in shown())
    os.write(ours, b"exit 5\r")
    poll("its end", lambda: (shown(), process.poll())[1] is not None)
    equal(process.returncode, 5)
    equal(subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, check=True).stdout, before, "the terminal's state")
    os.close(ours)
    os.close(theirs)


@suite.case("exec -t without -i has a terminal at its end, and leaves ours to others: nothing is read, Ctrl-C is for us")
def terminal_without_stdin():
    equal(text("exec", "-t", "box", "sh", "-c", "cat; echo over"), "over\r\n")
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "33", "cols", "101", "-echo"], stdin=theirs, check=True)
    before = subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, check=True).stdout
    os.write(ours, b"for others\n")
    command = [PROGRAM, "--runtime-dir", shared()[0].runtime_dir, "exec", "-t", "box", "sh", "-c", "until stty size | grep 33; do :; done; cat; echo over; exec sleep 900"]
    process = subprocess.Popen(command, env=PLAIN, stdin=theirs, stdout=subprocess.PIPE)
    equal([process.stdout.readline() for _ in range(2)], [b"33 101\r\n", b"over\r\n"])
    equal(subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, check=True).stdout, before, "the terminal's state")
    equal(os.read(theirs, 100), b"for others\n", "what was typed")
    process.send_signal(signal.SIGINT)
    equal(process.wait(120), -signal.SIGINT)
    process.communicate()
    os.close(ours)
    os.close(theirs)
    text("stop", "box")


def executions(name="box"):
    """The latest executions of a sandbox: id and status, the last one first."""
    return [(e["execution_id"], e["status"]) for e in json.loads(text("inspect", name))[0]["executions_recent"]]


def cancelled(count=1):
    """The latest are cancelled; a command that stops what it has begun waits for that only for a while, which a slow machine may exceed."""
    poll("that what exec has begun is cancelled", lambda: [status for _, status in executions()[:count]] == count * ["cancelled"])


def only_box_left():
    equal(text("ps", "-q").split(), [shared()[2]], "the sandbox of run is closed")


@suite.case("a signal that ends run or exec stops what they have begun first, and they die by it")
def interrupted():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        runner = begin("run", "-l", "bash", stdin=subprocess.PIPE)
        runner.stdin.write(SLEEPER.encode())
        runner.stdin.close()
        equal(runner.stdout.readline(), b"on\n")
        process = begin("exec", "box", "sh", "-c", SLEEPER)
        equal(process.stdout.readline(), b"on\n")
        for each in (process, runner):
            each.send_signal(number)
            equal(each.wait(120), -number)
            equal(each.stderr.read(), b"")
            each.stdout.close()
            each.stderr.close()
        cancelled()
        only_box_left()


@suite.case("run and exec stop what they have begun when nobody reads its output any more")
def unread():
    for words in (("exec", "box", "yes"), ("run", "-l", "bash")):
        process = begin(*words, stdin=subprocess.PIPE)
        process.stdin.write(b"exec yes")
        process.stdin.close()
        equal(process.stdout.readline(), b"y\n")
        process.stdout.close()
        equal(process.wait(120), -signal.SIGPIPE)
        process.stderr.close()
    cancelled()
    only_box_left()


@suite.case("one signal ends run and exec also while nobody takes what they print, and stops what they have begun")
def not_taken():
    for words in (("exec", "box", "yes"), ("exec", "box", "sh", "-c", "exec yes >&2"), ("run", "-l", "bash")):
        reader, writer = os.pipe()
        process = subprocess.Popen([PROGRAM, "--runtime-dir", shared()[0].runtime_dir, *words], env=PLAIN, stdin=subprocess.PIPE, stdout=writer, stderr=writer)
        process.stdin.write(b"exec yes")
        process.stdin.close()
        poll("a pipe that is full", lambda end=writer: select.select([], [end], [], 0)[1] == [])
        process.send_signal(signal.SIGTERM)
        equal(process.wait(120), -signal.SIGTERM)
        os.close(reader)
        os.close(writer)
    cancelled(2)
    only_box_left()


@suite.case("run closes its sandbox also when nobody has read its last lines")
def last_lines_unread():
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen([PROGRAM, "--runtime-dir", shared()[0].runtime_dir, "run", "-l", "bash"], env=PLAIN, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    process.stdin.write(b"echo on >&2; until test -e go; do sleep 0.1; done; for i in 1 2 3; do echo $i; sleep 0.3; done")
    process.stdin.close()
    equal(process.stderr.readline(), b"on\n")
    process.send_signal(signal.SIGSTOP)  # so that it finds all lines and the end at once
    equal(os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]), True)
    (sandbox,) = [each for each in text("ps", "-q").split() if each != shared()[2]]
    run("cp", "-", f"{sandbox}:go", data=b"")
    poll("the end of the code", lambda: executions(sandbox)[0][1] == "ok")
    process.send_signal(signal.SIGCONT)
    equal(process.wait(120), -signal.SIGPIPE)
    process.stderr.close()
    only_box_left()


class Terminal:
    """A shell with job control on a terminal, which leaves the terminal's mode alone. It has its prompt."""

    def __init__(self):
        self.seen = b""
        self.fd, self.theirs = pty.openpty()
        env = {**PLAIN, "PS1": "ready> ", "TERM": "xterm", "ENV": "", "CLOISTER": PROGRAM, "DIR": shared()[0].runtime_dir}
        self.shell = subprocess.Popen(["setsid", "--ctty", "sh", "-mi"], env=env, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs)
        os.set_blocking(self.fd, False)
        self.shows(b"ready> ")
        self.before = self.mode()

    def mode(self):
        return subprocess.run(["stty", "-g"], stdin=self.theirs, capture_output=True, check=True).stdout

    def shows(self, words):
        def found():
            try:
                self.seen += os.read(self.fd, 65536)
            except BlockingIOError:
                pass
            return words in self.seen

        poll(f"{words} on the terminal", found)
        self.seen = self.seen.partition(words)[2]

    def type(self, words):
        os.write(self.fd, words)

    def exec(self, script):
        """Types an exec -it, and returns its pid when it is raw and has begun."""
        self.type(f"$CLOISTER --runtime-dir $DIR exec -it box sh -c '{script}'\n".encode())
        self.shows(b"on\r\n")
        poll("a raw terminal", lambda: self.mode() != self.before)
        with open(f"/proc/{self.shell.pid}/task/{self.shell.pid}/children", encoding="ascii") as children:
            return int(children.read().split()[0])

    def close(self):
        self.type(b"exit\n")
        self.shell.wait(120)
        os.close(self.fd)
        os.close(self.theirs)


@suite.case("exec -it gives the terminal back by whatever signal it ends, and stops what ran")
def terminal_given_back():
    terminal = Terminal()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        os.kill(terminal.exec("echo o''n; exec sleep 900"), number)
        terminal.shows(b"ready> ")
        equal(terminal.mode(), terminal.before, number)
        equal(os.get_blocking(terminal.theirs), True)
        terminal.type(b'echo "status $?"\n')
        terminal.shows(f"\r\nstatus {128 + number}\r\n".encode())
        terminal.shows(b"ready> ")
        cancelled()
    terminal.close()


@suite.case("exec -it that is suspended gives the terminal back, and takes it when it goes on")
def suspended():
    terminal = Terminal()
    pid = terminal.exec("echo o''n; while read word; do echo got-$word; done")
    for number in (signal.SIGTSTP, signal.SIGSTOP):
        os.kill(pid, number)
        terminal.shows(b"ready> ")
        if number == signal.SIGTSTP:  # nobody can give anything back at the other
            equal(terminal.mode(), terminal.before)
        else:
            subprocess.run(["stty", terminal.before.decode().strip()], stdin=terminal.theirs, check=True)
        terminal.type(b"fg\n")
        poll("a raw terminal again", lambda: terminal.mode() != terminal.before)
        terminal.type(b"it\r")
        terminal.shows(b"got-it")
    terminal.type(b"\x04")
    terminal.shows(b"ready> ")
    equal(terminal.mode(), terminal.before)
    terminal.close()


@suite.case("exec -it that ends in the background leaves the terminal to others, and is not stopped by it")
def ended_in_background():
    terminal = Terminal()
    pid = terminal.exec("echo o''n; exec sleep 900")
    os.kill(pid, signal.SIGTSTP)
    terminal.shows(b"ready> ")
    terminal.type(b"bg\n")
    terminal.shows(b"ready> ")
    os.kill(pid, signal.SIGTERM)
    poll("its end, before something is typed that it would read", lambda: not os.path.exists(f"/proc/{pid}/exe"))
    terminal.type(b'wait %1; echo "status $?"\n')
    terminal.shows(f"\r\nstatus {128 + signal.SIGTERM}\r\n".encode())
    equal(terminal.mode(), terminal.before)
    cancelled()
    terminal.close()


@suite.case("Ctrl-C at a terminal ends a run that has a server of its own, and all of it")
def interrupted_alone():
    terminal = Terminal()
    top = mcp.temporary_directory()
    terminal.type(f"echo \"echo o''n; exec sleep 900\" | $CLOISTER --runtime-dir {top} run -l bash\n".encode())
    terminal.shows(b"on\r\n")
    terminal.type(b"\x03")
    terminal.shows(b"ready> ")
    terminal.type(b'echo "status $?"\n')
    terminal.shows(b"\r\nstatus 130\r\n")
    nothing_left(top)
    terminal.close()


@suite.case("cp moves files in and out, of any size and through pipes; what fails leaves nothing")
def copy():
    directory = mcp.temporary_directory()
    big = os.path.join(directory, "big.bin")
    data = os.urandom(17_000_000)  # several requests
    with open(big, "wb") as file:
        file.write(data)
    run("cp", big, "box:")
    run("cp", "box:big.bin", os.path.join(directory, "back"))
    with open(os.path.join(directory, "back"), "rb") as file:
        equal(file.read() == data, True, "the same bytes")
    run("cp", "-", "box:/tmp/small name", data=b"small\n")
    equal(run("cp", "box:/tmp/small name", "-").stdout, b"small\n")
    run("cp", "box:/tmp/small name", directory)
    assert os.path.exists(os.path.join(directory, "small name"))
    before = sorted(os.listdir(directory))
    contains(run("cp", "box:none", os.path.join(directory, "x"), status=FAILED).stderr.decode(), "none")
    equal(sorted(os.listdir(directory)), before)
    for wrong in (("a", "b"), ("box:a", "box:b"), ("/no/such", "box:x"), ("x", "nobody:y")):
        run("cp", *wrong, status=FAILED)
    run("exec", "box", "rm", "big.bin", "/tmp/small name")


def tree(directory):
    """What is below a directory: contents and modes of files."""
    found = {}
    for top, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = (file.read(), os.stat(path).st_mode & 0o777)
    return found


@suite.case("cp moves directories in and out as docker does; links and what is empty are left out and named")
def copy_trees():
    top = mcp.temporary_directory()
    source = os.path.join(top, "source")
    os.makedirs(os.path.join(source, "deep", "er"))
    for name, content, mode in (("a.txt", b"a", 0o644), ("deep/run.sh", b"#!/bin/sh\necho ran\n", 0o755), ("deep/er/ä b", b"\0" * 100000, 0o600)):
        with open(os.path.join(source, name), "wb") as file:
            file.write(content)
        os.chmod(os.path.join(source, name), mode)
    whole = tree(source)
    run("cp", source, "box:new")  # which is not there yet
    equal(text("exec", "box", "new/deep/run.sh"), "ran\n")
    run("cp", source, "box:new")  # which is
    run("cp", f"{source}/.", "box:content/")
    for inside in ("new/source", "content"):
        back = os.path.join(top, "back", inside.replace("/", "-"))
        os.makedirs(os.path.dirname(back), exist_ok=True)
        run("cp", f"box:{inside}", back)
        equal(tree(back), whole, inside)
    os.mkdir(os.path.join(top, "there"))
    run("cp", "box:content", os.path.join(top, "there"))
    run("cp", "box:content/.", os.path.join(top, "there"))
    equal(tree(os.path.join(top, "there")), {**whole, **{f"content/{name}": kept for name, kept in whole.items()}})
    os.symlink("/etc/passwd", os.path.join(source, "link"))
    os.mkdir(os.path.join(source, "empty"))
    said = run("cp", source, "box:left", status=FAILED).stderr.decode()
    for part in ("link is left out: it is a link", "empty is left out", "3 files copied, 2 left out"):
        contains(said, part)
    equal(text("exec", "box", "find", "left", "-type", "f").count("\n"), 3)
    text("exec", "box", "rm", "-r", "new", "content", "left")


@suite.case("cp of a directory out of a sandbox writes nothing but below the place that was named")
def copy_hostile_tree():
    top = mcp.temporary_directory()
    for name in ("to", "outside"):
        os.mkdir(os.path.join(top, name))
    text("exec", "box", "sh", "-c", "mkdir -p h/sub && echo evil >h/sub/file && ln -s /etc/passwd h/passwd && mkfifo h/pipe && echo ok >'h/..ok' && touch \"$(printf 'h/\\377')\"")
    hostile = "h/n\x1b]0;title\x07\n\x9b2J\x7f"  # a title, a line, and a screen that is wiped
    text("exec", "box", "ln", "-s", "elsewhere", hostile)
    text("exec", "box", "sh", "-c", "mkdir h/empty h/shut && chmod 0 h/shut")
    os.symlink(os.path.join(top, "outside"), os.path.join(top, "to", "sub"))  # as if somebody had put it there before
    said = run("cp", "box:h/.", os.path.join(top, "to"), status=FAILED).stderr.decode()
    contains(said, "sub")
    equal(os.listdir(os.path.join(top, "outside")), [])
    os.unlink(os.path.join(top, "to", "sub"))
    said = run("cp", "box:h/.", os.path.join(top, "to"), status=FAILED).stderr.decode()
    for part in ("passwd is left out: it is a link", "pipe is left out: it is no file", "no UTF-8", "n?]0;title???2J? is left out: it is a link", "shut is left out: it cannot be read", "2 files copied, 5 left out"):
        contains(said, part)
    contains(run("cp", f"/none/{hostile}", "box:x", status=FAILED).stderr.decode(), "/none/h/n ]0;title  ?2J : ")
    equal({name: content for name, (content, _) in tree(os.path.join(top, "to")).items()}, {"sub/file": b"evil\n", "..ok": b"ok\n"})
    equal(sorted(os.listdir(os.path.join(top, "to"))), ["..ok", "empty", "sub"])
    text("exec", "box", "rm", "-r", "h")


@suite.case("logs prints what an execution wrote, or all of a sandbox, and with -f what comes, till it is closed")
def logs():
    _, client, _ = shared()
    sandbox = client.call("create_sandbox", name="logged")["sandbox_id"]
    first = client.call("execute_code", sandbox_id=sandbox, code="import sys\nprint('one')\nprint('bad', file=sys.stderr)")
    client.call("execute_code", sandbox_id=sandbox, code="print('two')")
    done = run("logs", first["execution_id"])
    equal((done.stdout, done.stderr), (b"one\n", b"bad\n"))
    equal(text("logs", "logged"), "one\ntwo\n")
    follower = begin("logs", "-f", "logged")
    equal([follower.stdout.readline() for _ in range(2)], [b"one\n", b"two\n"])
    client.call("execute_code", sandbox_id=sandbox, code="print('three')")
    equal(follower.stdout.readline(), b"three\n")
    equal(text("rm", "logged"), "logged\n")
    equal(follower.wait(120), 0)
    follower.communicate()


@suite.case("logs -f, run and exec say so, and fail, when the server ends before what they follow")
def cut_off():
    server = HttpServer()
    sandbox = server.client(LATEST_LEGACY).call("create_sandbox", name="cut")["sandbox_id"]
    command = [PROGRAM, "--runtime-dir", server.runtime_dir]
    pipes = {"env": PLAIN, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    runner = subprocess.Popen([*command, "exec", "cut", "sh", "-c", "echo on; exec sleep 900"], **pipes)
    equal(runner.stdout.readline(), b"on\n")
    (row,) = json.loads(subprocess.run([*command, "inspect", "cut"], env=PLAIN, capture_output=True, timeout=120, check=True).stdout)[0]["executions_recent"]
    followers = [subprocess.Popen([*command, "logs", "-f", name], **pipes) for name in (row["execution_id"], sandbox)]
    for follower in followers:
        equal(follower.stdout.readline(), b"on\n")
    server.process.terminate()
    for process in (runner, *followers):
        said = process.communicate(timeout=120)[1].decode()
        equal(process.returncode, FAILED, said)
        contains(said, "cloister: the server")
    server.wait_exit()
    with HttpServer(runtime_dir=server.runtime_dir) as following:  # which has the sandbox now
        poll("it is taken over", lambda: text("ps", "-q", top=following.runtime_dir).split() == [sandbox])
        equal(text("rm", "cut", top=following.runtime_dir), "cut\n")


@suite.case("stop ends what runs, rm closes, and what cannot be done is said while the rest is")
def ends():
    _, client, _ = shared()
    sandbox = client.call("create_sandbox", name="ended")["sandbox_id"]
    call = client.start_call("execute_code", sandbox_id=sandbox, code="import time\ntime.sleep(900)", timeout_seconds=1000)
    poll("it runs", lambda: [e for e in json.loads(text("inspect", "ended"))[0]["executions_recent"] if e["status"] == "running"])
    equal(text("stop", "ended"), "ended\n")
    equal(call.failed()["status"], "cancelled")
    done = run("rm", "nobody", "ended", status=FAILED)
    equal(done.stdout, b"ended\n")
    contains(done.stderr.decode(), "nobody")
    equal(client.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"]["code"], "sandbox_not_found")
    execution = client.call("execute_code", sandbox_id=shared()[2], code="1")["execution_id"]
    contains(run("rm", execution, status=FAILED).stderr.decode(), "cloister stop")


@suite.case("events tells what happens, from where one says")
def events():
    _, client, _ = shared()
    watcher = begin("events", "--since", "0")
    sandbox = client.call("create_sandbox")["sandbox_id"]
    poll("that it is ready", lambda: sandbox.encode() in watcher.stdout.readline())
    watcher.terminate()
    watcher.communicate(timeout=120)
    rows = [e for e in objects("events", "--no-stream", "--since", "0") if e["sandbox_id"] == sandbox]
    equal(rows[0]["event"], "sandbox.ready")
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("top shows what sandboxes use")
def top():
    head, *rows = text("top", "--no-stream").splitlines()
    equal(head.split()[:6], "SANDBOX ID NAME OWNER STATE CPU".split())
    contains(rows[0], "MiB")
    (row,) = [r for r in objects("top") if r["sandbox_id"] == shared()[2]]
    assert row["usage"]["memory_bytes"] > 0 and row["cpu_percent"] >= 0, row


@suite.case("prune closes what nobody needs: sandboxes that have failed, with -a those in which nothing runs")
def prune():
    _, client, box = shared()
    idle, busy = (client.call("create_sandbox", name=name)["sandbox_id"] for name in ("idle", "busy"))
    call = client.start_call("execute_code", sandbox_id=busy, code="import time\ntime.sleep(900)", timeout_seconds=1000)
    poll("it runs", lambda: [e for e in json.loads(text("inspect", "busy"))[0]["executions_recent"] if e["status"] == "running"])
    equal(text("prune"), "")
    equal(sorted(text("prune", "-a").split()), sorted([idle, box]))
    equal(text("ps", "-q").split(), [busy])
    text("rm", "busy")
    call.wait()
    _shared[2] = client.call("create_sandbox", name="box")["sandbox_id"]


@suite.case("tokens are added, listed and revoked in their file, and a reload makes a server take that")
def tokens():
    path = os.path.join(mcp.temporary_directory(), "tokens")

    def token(*words, status=0):
        done = subprocess.run([PROGRAM, "--tokens", path, "token", *words], env=PLAIN, capture_output=True, text=True, timeout=120, check=False)
        equal(done.returncode, status, done.stderr)
        return done

    alice = token("add", "alice", "admin=yes", "sandboxes=2").stdout.strip()
    equal(os.stat(path).st_mode & 0o777, 0o600)
    with open(path, "a", encoding="utf-8") as file:
        file.write("# a comment stays\n")
    with HttpServer("--tokens", path) as server:
        ask = lambda who: server.ask("GET", "/api/v1/version", [("Authorization", f"Bearer {who}")]).head.status
        equal(ask(alice), 200)
        bob = token("add", "bob").stdout.strip()
        equal(ask(bob), 401)
        equal(text("reload", top=server.runtime_dir), "main\n")
        equal(ask(bob), 403, "known, but no admin")
        equal(token("list").stdout, "alice admin=yes sandboxes=2\nbob\n")
        before = open(path, encoding="utf-8").read()
        contains(token("add", "carol", "sandboxes=many", status=65).stderr, "sandboxes=")
        contains(token("revoke", "carol", status=65).stderr, "carol")
        equal(open(path, encoding="utf-8").read(), before)
        token("revoke", "alice")
        contains(open(path, encoding="utf-8").read(), "# a comment stays\n")
        equal(ask(alice), 200)
        text("reload", top=server.runtime_dir)
        equal(ask(alice), 401)
        with open(path, "a", encoding="utf-8") as file:
            file.write("no good line\n")
        contains(run("reload", top=server.runtime_dir, status=FAILED).stderr.decode(), "line 3")
        equal(ask(bob), 403, "what was good stays")
        for word in (alice, bob):
            assert word not in before, "a token is in the file"


@suite.case("a file of tokens keeps its mode, owner and group when tokens change, and a link to it stays a link")
def token_file_kept():
    directory = mcp.temporary_directory()
    path, link = os.path.join(directory, "tokens"), os.path.join(directory, "link")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# ours\n")
    os.chmod(path, 0o640)
    group = next((g for g in (4, *os.getgroups()) if os.geteuid() == 0 or g in os.getgroups()), os.getegid())
    os.chown(path, -1, group)
    os.symlink("tokens", link)
    for words in (("add", "alice"), ("add", "bob"), ("revoke", "alice")):
        subprocess.run([PROGRAM, "--tokens", link, "token", *words], env=PLAIN, capture_output=True, timeout=120, check=True)
        found = os.stat(path)
        equal((found.st_mode & 0o7777, found.st_uid, found.st_gid), (0o640, os.geteuid(), group))
    equal(os.readlink(link), "tokens")
    with open(path, encoding="utf-8") as file:
        equal([line.split()[0] for line in file], ["#", "bob"])
    equal(sorted(os.listdir(directory)), ["link", "tokens"])
    os.symlink("nothing", os.path.join(directory, "dangling"))
    done = subprocess.run([PROGRAM, "--tokens", os.path.join(directory, "dangling"), "token", "add", "eve"], env=PLAIN, capture_output=True, timeout=120, check=False)
    equal(done.returncode, 65)
    contains(done.stderr.decode(), "dangling")


@suite.case("commands that change a file of tokens at once lose nothing of each other")
def tokens_at_once():
    path = os.path.join(mcp.temporary_directory(), "tokens")
    pipes = {"env": PLAIN, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [PROGRAM, "--tokens", path, "token"]
    running = [subprocess.Popen([*command, "add", f"p{number}"], **pipes) for number in range(8)]
    for process in running:
        equal((process.communicate(timeout=120)[1].count(b"shown only now"), process.returncode), (1, 0))
    with open(path, encoding="utf-8") as file:
        equal(sorted(line.split()[0] for line in file), [f"p{number}" for number in range(8)])
    equal(os.listdir(os.path.dirname(path)), ["tokens"])


@suite.case("words that are wrong are refused with what was meant")
def wrong():
    for words, meant in (
        (("pss",), "ps"),
        (("ps", "--fromat", "json"), "--format"),
        (("ps", "--format", "yaml"), "json"),
        (("ps", "-x"), "-x"),
        (("ps", "box"), "box"),
        (("logs",), "NAME"),
        (("logs", "--folow", "box"), "--follow"),
        (("exec", "box"), "COMMAND"),
        (("run", "--language"), "value"),
        (("ps", "--instnace", "main"), "--instance"),
        (("--allow-network", "ps"), "--allow-network"),
        (("rm", "box", "--memory-mb=5"), "--memory-mb"),
    ):
        contains(run(*words, status=USAGE).stderr.decode(), meant)
    done = subprocess.run([PROGRAM, "--runtime-dir", shared()[0].runtime_dir, "ps"], env={**PLAIN, "CLOISTER_MEMORY_MB": "64"}, capture_output=True, timeout=300, check=False)
    equal((done.returncode, done.stderr), (0, b""), "a variable is for servers, and no mistake")


@suite.case("a socket that is not this user's own is not spoken to, nor one that nobody listens on waited for")
def untrusted():
    top_dir = mcp.temporary_directory()
    for name, mode in (("open", 0o777), ("dead", 0o700)):
        directory = os.path.join(top_dir, name)
        os.mkdir(directory)
        os.chmod(directory, mode)
        listen_and_die(directory)
    said = run("ps", top=top_dir, status=FAILED).stderr.decode()
    contains(said, "dead")
    assert "open" not in said, said


@suite.case("nothing is left at the end")
def end():
    shared()[0].close_sandboxes()
    shared()[0].close()


suite.run()
