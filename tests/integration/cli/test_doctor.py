"""What `cloister doctor` predicts and prescribes on hosts that lack something, and which backend is chosen where an
engine has no image. In test_faults.py are the cases about broken runtimes."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import ON_OCI, Server, Skip, Suite, contains, doctor, equal, mcp, needs_runtime, skip_all
from fake_engine import FakeEngine
from reports import joined

needs_runtime()
if not ON_OCI:
    skip_all("is about this host, not an engine")
suite = Suite()
NOBODY = 61977  # nobody's number
PROGRAM = os.environ["CLOISTER"]


def as_nobody():
    """Words in front of a command that make it that of an ordinary user, who has no ids of his own to give away."""
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        raise Skip("needs root and setpriv")
    if subprocess.run([*prefix, PROGRAM, "--version"], capture_output=True, check=False).returncode != 0:
        raise Skip("the built program cannot be run by another user")
    return prefix


def own_place():
    place = os.path.join(mcp.temporary_directory(), "rt")
    os.mkdir(place, 0o700)
    os.chown(place, NOBODY, NOBODY)
    return place


def run(*words, script=None, **env):
    """The CompletedProcess of a command; with a script, which ends by exec "$@", as root of mounts of its own."""
    command = ["unshare", "--mount", "sh", "-ec", script, "sh", *words] if script else list(words)
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False)
    if script and done.returncode == 77:
        raise Skip(f"this host cannot be prepared: {done.stderr[-200:]}")
    return joined(done)


def listed(text):
    """The names of what a report says is not enforced for the one that is used."""
    report = text.split("and the one that is used")[1].split("\n\n")[0].split("\nbackend ")[0]
    lines = report.split("not enforced here", 1)[1].split("\n") if "not enforced here" in report else []
    return [re.match(r" *([a-z ]+?):", line).group(1) for line in lines if re.match(r" *[a-z ]+?: ", line) and "what to do" not in line]


@suite.case("with --strict the doctor fails where a creation does, with the same list, and a remedy for each")
def strict():
    prefix = as_nobody()
    done = run(*prefix, PROGRAM, "doctor", "--strict", "--runtime-dir", own_place())
    equal(done.returncode, 1, done.stdout + done.stderr)
    names = listed(done.stdout)
    assert "private devices" in names, done.stdout
    equal(len(names), len(set(names)), done.stdout)
    with Server("--strict", runtime_dir=own_place(), prefix=prefix) as server:
        server.legacy()
        said = server.call_failing("create_sandbox")["error"]
    told = said["message"].split("cannot apply ")[1]
    equal([name for name in names if name not in told], [], told)
    contains(said["hint"], "cloister doctor")
    contains(done.stdout, said["message"].split(": ", 1)[-1])
    contains(done.stdout, "With --strict no sandbox is created on this host")
    contains(done.stdout, "start cloister as root, or use a container engine")
    done = run(*prefix, PROGRAM, "doctor", "--runtime-dir", own_place())
    equal(done.returncode, 0, done.stdout + done.stderr)
    equal(listed(done.stdout), names)
    contains(done.stdout, "Sandboxes can be created on this host.")


@suite.case("where newuidmap is missing, the doctor of an ordinary user names it and its package")
def without_newuidmap():
    prefix = as_nobody()
    hide = 'for f in $(command -v newuidmap newgidmap); do mount --bind /dev/null "$f" || exit 77; done; exec "$@"'
    done = run(*prefix, PROGRAM, "doctor", "--runtime-dir", own_place(), script=hide)
    contains(done.stdout, "uid: no subordinate ids can be mapped")
    contains(done.stdout, "install newuidmap and newgidmap (apt install uidmap")
    contains(done.stdout, "usermod --add-subuids")


@suite.case("the doctor lists the languages of a sandbox, and says nothing twice")
def languages():
    done = doctor()
    equal(done.returncode, 0, done.stdout)
    (line,) = [line for line in done.stdout.splitlines() if line.split()[:1] == ["languages"]]
    contains(line, "python")
    contains(line, "bash")
    sentences = [part for line in done.stdout.splitlines() for part in [line[20:].strip()] if len(part) > 40]
    equal(len(sentences), len(set(sentences)), done.stdout)


def at_terminal(columns):
    """What the doctor prints at a terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([PROGRAM, "doctor", "--runtime-dir", mcp.temporary_directory()], stdout=its, stdin=its, stderr=subprocess.DEVNULL) as process:
        os.close(its)
        text = b""
        try:
            while data := os.read(ours, 4096):
                text += data
        except OSError:  # this is how the end of a terminal reads
            pass
        os.close(ours)
        equal(process.wait(), 0, text)
    return text.decode().replace("\r\n", "\n")


@suite.case("no line of the doctor is wider than the terminal, or 100 columns, but for a word that is")
def narrow():
    place = mcp.temporary_directory()
    plain = subprocess.run([PROGRAM, "doctor", "--allow-network", "--runtime-dir", place], capture_output=True, text=True, timeout=300, check=False).stdout
    for text, width in ((plain, 100), (at_terminal(60), 60)):
        wide = [line for line in text.splitlines() if len(line) > width and len(line[21:].split()) > 1]
        equal(wide, [], text)
    contains(at_terminal(60), "\n" + 23 * " ")


@suite.case("a host without python3: the doctor fails and says what to install, and so does the demonstration")
def without_python():
    if os.getuid() != 0:
        raise Skip("needs root")
    place = mcp.temporary_directory()
    hide = (
        f"mount -t tmpfs none {place} && mkdir {place}/up {place}/work && "
        f"mount -t overlay -o lowerdir=/usr,upperdir={place}/up,workdir={place}/work none /usr || exit 77; "
        "rm -f /usr/bin/python3* /usr/local/bin/python* || exit 77; "
        '"$CLOISTER" --version >/dev/null || exit 77; exec "$@"'
    )
    runtime = mcp.temporary_directory()
    done = run(PROGRAM, "doctor", "--runtime-dir", runtime, script=hide)
    if "runs no code" in done.stdout or "cannot be made" in done.stdout:
        raise Skip(f"no sandbox on an overlay of /usr here: {done.stdout[-300:]}")
    equal(done.returncode, 1, done.stdout + done.stderr)
    contains(done.stdout, "apt install python3")
    contains(done.stdout, "run no code that names no language")
    done = run(PROGRAM, "demo", "--runtime-dir", runtime, script=hide)
    assert done.returncode != 0, done.stdout
    contains(done.stdout + done.stderr, "apt install python3")


@suite.case("in a container where nothing can be isolated, the doctor says what would work, as far as it would help")
def plain_container():
    if os.getuid() != 0:
        raise Skip("needs root")
    hide = (
        'for f in $(command -v runc crun); do mount --bind /dev/null "$f" || exit 77; done; '
        'mount -t tmpfs none /run && touch /run/.containerenv || exit 77; exec "$@"'
    )
    place = mcp.temporary_directory()
    nothing = {"DOCKER_HOST": "", "HOME": place, "XDG_RUNTIME_DIR": place}
    done = run(PROGRAM, "doctor", "--backend", "auto", "--runtime-dir", place, script=hide, **nothing)
    equal(done.returncode, 1, done.stdout)
    contains(done.stdout, "This is a container (")
    contains(done.stdout, "-v /var/run/docker.sock:/var/run/docker.sock")
    contains(done.stdout, "--security-opt seccomp=unconfined --security-opt systempaths=unconfined")
    done = run(PROGRAM, "doctor", "--backend", "docker", "--engine", "tcp://127.0.0.1:1", "--runtime-dir", place, script=hide, **nothing)
    equal(done.returncode, 1, done.stdout)
    assert "This is a container" not in done.stdout, done.stdout


# ---- an engine without an image ----


def auto(engine):
    """Makes a sandbox where that engine is the one there is; returns the log."""
    with Server("--backend", "auto", env={"DOCKER_HOST": engine.host}) as server:
        server.legacy()
        equal(server.call("create_sandbox")["backend"], "oci")
        equal(server.run("6 * 7")["result"], "42")
    server.logger.join(30)
    return server.log


@suite.case("an engine that has no image and no registry: auto takes a runtime of this host, and says so in one line")
def no_registry():
    with FakeEngine() as engine:
        (line,) = [line for line in auto(engine) if "docker may have no sandbox" in line]
        contains(line, "sandboxes are kept by oci")
        contains(line, "cannot be fetched")
        assert engine.asked_of("/distribution/"), engine.asked
        done = doctor("--backend", "auto", DOCKER_HOST=engine.host)
        equal(done.returncode, 0, done.stdout)
        contains(done.stdout, "answers, but its image is in doubt")
        contains(done.stdout, "cannot be fetched")
        contains(done.stdout, "runc" if "runc" in done.stdout else "crun")


@suite.case("an engine whose registry never answers: auto gives up on it and takes a runtime of this host", beside=True)
def silent_registry():
    with FakeEngine(hangs=True) as engine:
        (line,) = [line for line in auto(engine) if "docker may have no sandbox" in line]
        contains(line, "cannot be fetched")


@suite.case("an engine that is asked for by name is asked for no image beforehand")
def named_engine():
    with FakeEngine() as engine:
        done = doctor("--backend", "docker", DOCKER_HOST=engine.host)
        equal(done.returncode, 1, done.stdout)
        contains(done.stdout, "usable, and the one that is used")
        equal(engine.asked_of("/distribution/"), [])


suite.run()
