"""The traces of cloister on this host: processes, directories, control groups, mounts, containers."""

import hashlib
import json
import os
import subprocess
import time

from engine import Engine, is_waiting_monitor
from gvisor import OWN_KERNEL, processes_inside

# Set explicitly, so that an engine which this machine runs is not used. with_engine.py sets another value.
BACKEND = os.environ.setdefault("CLOISTER_BACKEND", "oci")
os.environ.setdefault("CLOISTER_POOL", "0")  # tests count what there is; those of the pool ask for it
ENGINE = Engine.attached()  # the tests' own engine, or None


def processes():
    """(pid, argv joined by blanks) of every process that can be read."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            yield int(entry), b" ".join(words).decode("utf-8", "replace").strip()


def status_of(pid):
    """The fields of /proc/<pid>/status."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        fields = [line.partition(":") for line in file]
    return {name: value.strip() for name, _, value in fields}


def processes_of(text):
    """Command lines that contain `text`, e.g. a runtime directory; the test itself excluded."""
    mine = {os.getpid(), os.getppid()}
    found = [(pid, line) for pid, line in processes() if text in line and pid not in mine]
    return [f"{pid} {line}" for pid, line in found if not is_waiting_monitor(line)]


def processes_left(text):
    """The same after a moment in which the engine's monitors notice that their container is gone."""
    deadline = time.monotonic() + 2
    while True:
        found = processes_of(text)
        if not any("/conmon " in line or "containerd-shim" in line for line in found) or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def is_of_trial(name):
    """Whether a file of a runtime directory is what a trial has found, which stays for the next servers."""
    return name.startswith(".trial-")


def sandbox_dirs(runtime_dir):
    """Directories of sandboxes below a runtime directory."""
    found = []
    for directory, names, _ in os.walk(runtime_dir):
        if os.path.basename(directory) == "sandboxes":
            found += [os.path.join(directory, n) for n in names]
            names[:] = []
    return found


def cgroups_of(text):
    """Control group directories, of any hierarchy, whose name contains `text`."""
    found = []
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(directory, n) for n in names if text in n]
    return found


def mounts_of(text):
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line.strip() for line in file if text in line]


def containers_of(text):
    """Containers (running or not) and volumes of the tests' engine with `text` in their names or labels; none
    without an engine."""
    if ENGINE is None:
        return []
    found = [f"{c['Id'][:12]} {c['Name']} ({c['State']['Status']})" for c in ENGINE.containers(text)]
    return found + [f"volume {v['Name']}" for v in ENGINE.volumes(text)]


def traces_of(sandbox):
    """All traces of a sandbox on this host: empty when it is gone."""
    return cgroups_of(sandbox) + processes_of(sandbox) + mounts_of(sandbox) + containers_of(sandbox)


def pid_namespace(pid):
    """The identity of a process's pid namespace; None if the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def is_kernel_of(line, sandbox):
    return line.startswith("runsc-sandbox ") and sandbox in line


def inside_kernel(sandbox):
    """{pid: parent} of the processes in a sandbox with a kernel of its own, by its pids; its agent is 1."""
    lines = [line for _, line in processes() if is_kernel_of(line, sandbox)]
    return processes_inside(lines[0], sandbox) if lines else {}


def agents_of(sandbox):
    """Pids, on the host, of the first processes of the sandbox, of its agent where that is not the first, or of its kernel."""
    if ENGINE is not None:
        states = [c["State"] for c in ENGINE.containers(sandbox)]
        return [s["Pid"] for s in states if s["Running"] and s["Pid"] > 0]
    found = []
    for pid, line in processes():
        if OWN_KERNEL:
            found += [pid] if is_kernel_of(line, sandbox) else []
            continue
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
                inside = sandbox in file.read()
            nested = status_of(pid).get("NSpid", "").split()
        except OSError:
            continue
        if (inside or sandbox in line) and len(nested) > 1 and (nested[-1] == "1" or " serve --listen " in line):
            found.append(pid)
    return found


def circumstances():
    """All that decides, within one run of the tests, whether the backend can be used: a name for it."""
    environment = {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"}  # meson gives each test another one
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid", "net", "cgroup")]
    return hashlib.sha256(json.dumps([os.geteuid(), spaces, sorted(environment.items())]).encode()).hexdigest()


def unusable_backend():
    """None if the backend under test can make sandboxes here, else the reason why not. The doctor makes several to find out, so
    that they can be made is noted for the other files of one run of contrib/test; that they cannot is found out by each."""
    notes = os.environ.get("CLOISTER_TEST_NOTES")
    note = os.path.join(notes, circumstances()) if notes else None
    if note and os.path.exists(note):
        return None
    done = subprocess.run(
        [os.environ["CLOISTER"], "doctor"], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        return " ".join(done.stdout.split())[:300] or f"doctor exited with {done.returncode}"
    if note:
        with open(note, "w", encoding="utf-8"):
            pass
    return None
