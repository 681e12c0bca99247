"""Installs Python packages into the package directory of a sandbox. Runs in an installer, by `python3 -I - TASK`.

TASK is JSON: root, id, requirements, index ("" = pip's own), wheels (a directory or ""), limit_mb, build.

The only way out is a proxy that leads to the sources of packages (worker/door); what it refuses it says in the line that pip shows.

Unless `build` says so, no code of a package runs here: it would share the package directory with code that has no way out at all. pip
takes wheels only then, and may start no program, since it builds what a wheel needs by URL without asking what formats are wanted.

pip installs into a staging directory inside the package directory; when it has ended well, each package is moved
to its place by a rename, and its dist-info, by which others know that it is there, comes last. So whoever looks
sees a package whole or not at all, and being killed at any moment leaves at worst the staging directory, which the
next installation removes.

What is there already, in the image or from earlier, is left alone if it is good enough. Packages of earlier
installations keep their versions if that is possible.

On stdout: "+ NAME VERSION" for what is there now, or "! KIND TEXT" if it failed. What pip says goes to stderr.
"""

import collections
import csv
import ctypes
import errno
import fcntl
import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request

AT_FDCWD, RENAME_EXCHANGE = -100, 2
LINES_KEPT = 400
BLOCK = 4096
WATCH_SECONDS = 1.0
INDEX_SECONDS = 15
PIP_INDEX = "https://pypi.org/simple"
UNBUILT = "packages are not built here"
KINDS = [  # the first that fits; what pip says when it cannot reach an index includes the last one
    ("source", UNBUILT),
    ("certificate", r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"),
    ("network", r"NewConnectionError|ConnectTimeout|ReadTimeout|Temporary failure in name resolution|Connection refused"
     r"|ProxyError|SSLError|Name or service not known|Network is unreachable|Connection reset|ConnectionError"),
    ("space", r"No space left on device|Errno 28|Disk quota exceeded|File too large|Errno 27"),
    ("memory", r"MemoryError|Cannot allocate memory"),
    ("conflict", r"ResolutionImpossible|conflicting dependencies"),
    ("build", r"metadata-generation-failed|subprocess-exited-with-error|Failed building wheel|Could not build wheels"
     r"|Failed to build|setup\.py .*did not run successfully|non-zero exit status"),
    ("not_found", r"No matching distribution found|Could not find a version|404 Client Error|403 Client Error"),
]  # fmt: skip


WHEELS_ONLY = f"""
import runpy, sys
def refuse(event, _):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"):
        raise PermissionError({UNBUILT!r})
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
SOURCE_LEFT_OUT = re.compile(r"No sources permitted for \S+: (\S+)")  # in pip's log
SOURCE_NAME = re.compile(r"(.+)-([^-]+)\.(?:tar\.\w+|tgz|zip)")


# What the way out says, in the reason of an answer.
DOOR = re.compile(r"cloister: (not let out: [^'\"()\n]+|[^ '\"()]+ cannot be reached: [^'\"()\n]+)")
REASON = re.compile(r"\[Errno -?\d+\] [^'\")]+|certificate verify failed[^'\"(]*|Cannot connect to proxy[^'\"]*|[Rr]ead timed out|Connection to \S+ timed out")


class Failure(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def say(*words):
    print(*words, flush=True)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def size_of(top):
    """What it takes, in blocks: a file or directory takes one at least, so that very many empty ones are no way around the limit."""
    total = 0
    for place, inner, names in os.walk(top):
        total += BLOCK * len(inner)
        for name in names:
            try:
                total += max(1, -(-os.lstat(os.path.join(place, name)).st_size // BLOCK)) * BLOCK
            except OSError:
                pass  # it went while we looked
    return total


# ---- what is there ----


class Dist:
    """An installed distribution: its dist-info (or egg-info) directory in `root`."""

    def __init__(self, root, entry):
        self.root, self.entry = root, entry
        self.name, _, self.version = entry.rsplit(".", 1)[0].partition("-")
        for line in self.text("METADATA") or self.text("PKG-INFO"):
            key, _, value = line.partition(":")
            if not line.strip():
                break
            if key == "Name":
                self.name = value.strip()
            elif key == "Version":
                self.version = value.strip()
        self.key = normal(self.name)

    def text(self, name):
        try:
            with open(os.path.join(self.root, self.entry, name), encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def files(self):
        """Paths relative to the root, as it recorded them."""
        rows = [row[0] for row in csv.reader(self.text("RECORD")) if row]
        return {p for p in map(os.path.normpath, rows) if not p.startswith(("/", ".."))}


def dists(root):
    return [Dist(root, e) for e in sorted(os.listdir(root)) if e.endswith((".dist-info", ".egg-info"))]


def still_needed(requirements, root):
    """Those that nothing in the package directory or in the image satisfies, with all that it depends on."""
    try:
        from importlib import metadata
        from pip._vendor.packaging.requirements import Requirement
    except ImportError:
        return requirements
    found = {}
    for dist in metadata.distributions(path=[root] + sys.path):
        name = dist.metadata["Name"]
        if name:
            found.setdefault(normal(name), dist)
    seen = {}

    def satisfied(requirement):
        key = (normal(requirement.name), frozenset(requirement.extras))
        dist = found.get(key[0])
        if dist is None or not requirement.specifier.contains(dist.version, prereleases=True):
            return False
        if key not in seen:
            seen[key] = True  # circles end here
            seen[key] = all(
                satisfied(wanted)
                for wanted in map(Requirement, dist.requires or [])
                if wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in requirement.extras or {""})
            )
        return seen[key]

    needed = []
    for text in requirements:
        try:
            requirement = Requirement(text)
            good = satisfied(requirement)
        except Exception:  # metadata that pip is to judge
            good = False
        if good:
            say("+", requirement.name, found[normal(requirement.name)].version)
        else:
            needed.append(text)
    return needed


# ---- pip ----


def environment(staging):
    keep = r"(?i)(https?_proxy|no_proxy|PIP_CERT|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|PATH|LANG)$"
    kept = {k: v for k, v in os.environ.items() if re.match(keep, k)}
    places = {key: os.path.join(staging, key.lower()) for key in ("HOME", "TMPDIR")}
    for place in places.values():
        os.makedirs(place, exist_ok=True)
    return dict(kept, LC_ALL="C.UTF-8", PIP_CONFIG_FILE=os.devnull, PIP_ROOT_USER_ACTION="ignore", **places)


def log_of(staging):
    return os.path.join(staging, "pip.log")


def left_out(staging, lines):
    """Of what pip did not find, the source from which it could be built; "" if there is none."""
    try:
        from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
        from pip._vendor.packaging.version import Version
    except ImportError:
        return ""  # nothing tells which versions were wanted
    try:
        texts = [text for line in lines for text in re.findall(r"No matching distribution found for ([^ ]+)", line)]
        wanted = {normal(found.name): found.specifier for found in map(Requirement, texts)}
        with open(log_of(staging), encoding="utf-8", errors="replace") as file:
            places = [match.group(1) for match in map(SOURCE_LEFT_OUT.search, file) if match]
    except (OSError, InvalidRequirement):
        return ""  # pip builds, or says it in another way
    for place in places:
        name = place.partition("#")[0].rpartition("/")[2]
        parts = SOURCE_NAME.fullmatch(name)
        package = normal(parts.group(1)) if parts else ""
        try:
            if package in wanted and wanted[package].contains(Version(parts.group(2)), prereleases=True):
                return f"{package} comes as source: {name}"
        except ValueError:
            pass  # no version: a file for one platform, or a name from before there were rules
    return ""


def command(task, staging, target, requirements, constraints):
    words = [sys.executable, "-I"] + (["-m", "pip"] if task["build"] else ["-c", WHEELS_ONLY])
    words += ["install", "--no-input", "--disable-pip-version-check"]
    if not task["build"]:
        words += ["--only-binary", ":all:", "--log", log_of(staging)]
    words += ["--no-cache-dir", "--progress-bar", "off", "--retries", "2", "--timeout", "15", "--target", target]
    index = task["index"]
    if index:
        words += ["--index-url", index]
        if index.startswith("http://"):  # the operator's choice
            words += ["--trusted-host", index.split("/")[2].rsplit("@")[-1]]
    elif task["wheels"]:
        words += ["--no-index"]
    if task["wheels"]:
        words += ["--find-links", task["wheels"]]
    if constraints:
        path = os.path.join(staging, "constraints.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in constraints)
        words += ["--constraint", path]
    return words + ["--"] + requirements


def living():
    """Which processes there are that have not ended, and the parent of each."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended
        if state not in "ZX":
            found[int(name)] = int(parent)
    return found


def ancestry(parents, pid):
    """It, its parent, and so on."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def pipes(pid):
    place = f"/proc/{pid}/fd"
    try:
        return {link for link in (os.readlink(os.path.join(place, fd)) for fd in os.listdir(place)) if link.startswith("pipe:")}
    except OSError:
        return set()


def end_daemons(manager):
    """A build may leave a process behind that holds the pipe on which the build is listened to: then its end is never seen. It is ended when pip
    has nothing running any more."""
    parents = living()
    if manager in parents.values():
        return
    listened = pipes(manager) | pipes(os.getpid())
    ours = set(ancestry(parents, os.getpid()))
    for pid in set(parents) - ours - {manager}:
        if manager not in ancestry(parents, pid) and pipes(pid) & listened:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
            print(f"process {pid}, which a build left behind, is ended", file=sys.stderr, flush=True)


def watch(child, over, root, limit, too_large):
    """Ends pip when what it has written so far can never fit, also where builds wrote beside the staging directory; and what builds left."""
    while not over.wait(WATCH_SECONDS):
        end_daemons(child.pid)
        if size_of(root) > limit:
            too_large.append(True)
            child.kill()
            return


def reason(lines):
    """Why an index could not be asked: pip goes on after that, and its last word is that it has found nothing."""
    found = [match.group(0).strip() for match in map(REASON.search, lines) if match]
    return found[-1] if found else ""


def door_words(lines):
    """What the way out has refused, or else not reached."""
    found = [match.group(1) for match in map(DOOR.search, lines) if match]
    refused = [text for text in found if text.startswith("not let out")]
    return re.sub(r" for url: .*", "", (refused or found or [""])[-1]).strip()


def index_words(index, lines):
    """The same of an index, where pip says no more than that it has found nothing: it is asked once more."""
    for name in {name for line in lines for name in re.findall(r"No matching distribution found for ([A-Za-z0-9._-]+)", line)}:
        scheme, _, rest = index.partition("://")
        place, slash, path = rest.partition("/")
        url = f"{scheme}://{place.rpartition('@')[2]}{slash}{path}".rstrip("/") + f"/{normal(name)}/"
        try:
            urllib.request.urlopen(url, timeout=INDEX_SECONDS).close()
        except (OSError, http.client.HTTPException) as problem:
            words = door_words([str(problem)])
            if words:
                return words
    return ""


def words_of_build(lines):
    """What a build said last: pip shows it indented between two lines of its own, and ends with advice."""
    said = []
    for line in map(str.strip, lines):
        if line == "[end of output]":
            break
        said = [] if line.endswith("lines of output]") else said + [line] * bool(line)
    else:
        return []
    return said


def run_pip(words, root, staging, limit, index):
    """None, or the Failure. `index` is the one that is asked, "" if none is."""
    lines = collections.deque(maxlen=LINES_KEPT)
    over, too_large = threading.Event(), []
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=staging, env=environment(staging)
    ) as child:
        watcher = threading.Thread(target=watch, args=(child, over, root, limit, too_large))
        watcher.start()
        for line in child.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            lines.append(text)
            print(text, file=sys.stderr, flush=True)
        status = child.wait()
        over.set()
        watcher.join()
    if status == 0:
        return None
    if too_large:
        return Failure("space", "it is larger than the limit of packages")
    if status == -9:
        return Failure("memory", "pip was killed, most likely for memory")
    for kind, pattern in KINDS:
        if any(re.search(pattern, line) for line in lines):
            source = left_out(staging, lines) if kind == "not_found" else ""
            if source:
                return Failure("source", source)
            if kind == "source":
                begun = [line.strip() for line in lines if line.strip().startswith("Collecting ")]
                return Failure(kind, begun[-1].replace("Collecting ", "") if begun else "")
            door = door_words(lines) if kind in ("network", "not_found") else ""
            if kind == "not_found" and not door and index:
                door = index_words(index, lines)
            if door:
                return Failure("refused" if door.startswith("not let out") else "network", door)
            if kind in ("certificate", "network"):
                return Failure(kind, reason(lines))
            errors = [line for line in lines if line.startswith("ERROR:")] or words_of_build(lines) or list(lines)
            return Failure(kind, re.sub("^ERROR: ", "", errors[-1] if kind != "not_found" else errors[0]) if errors else "")
    said = [line for line in lines if line.strip()]
    return Failure("other", said[-1] if said else f"pip ended with status {status}")


def install(task, staging, root, requirements):
    # What is there, what is fetched and what is made of it.
    limit = size_of(root) + 2 * task["limit_mb"] * 2**20 + 64 * 2**20
    asked = {normal(re.match(r"[A-Za-z0-9._-]+", text).group(0)) for text in requirements}
    constraints = [f"{d.name}=={d.version}" for d in dists(root) if d.key not in asked]
    failure, index = None, task["index"] if task["index"] or task["wheels"] else PIP_INDEX
    for attempt in [constraints, []] if constraints else [[]]:
        target = os.path.join(staging, "target")
        shutil.rmtree(target, ignore_errors=True)
        failure = run_pip(command(task, staging, target, requirements, attempt), root, staging, limit, index)
        if failure is None:
            return target
        if failure.kind != "conflict" and not any(line in str(failure) for line in attempt):
            break
        if attempt:
            print("trying again without keeping the versions that are there", file=sys.stderr, flush=True)
    raise failure


# ---- into place ----


def exchange(staging, source, place):
    """Puts source in the place of what is there, which is put where source was, at once if the system can."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(place), RENAME_EXCHANGE) == 0:
            return
    except (OSError, AttributeError):
        pass
    os.rename(place, os.path.join(staging, "old"))
    os.rename(source, place)
    os.rename(os.path.join(staging, "old"), source)


def move(staging, source, place, path, shared):
    """Moves target/path to root/path; directories that other packages have a part in are merged."""
    if not os.path.lexists(place):
        os.rename(source, place)
    elif os.path.isdir(source) and os.path.isdir(place) and not os.path.islink(place) and path in shared:
        for name in sorted(os.listdir(source)):
            move(staging, os.path.join(source, name), os.path.join(place, name), os.path.join(path, name), shared)
    else:
        exchange(staging, source, place)


def parents(paths):
    found = set()
    for path in paths:
        while os.path.dirname(path):
            path = os.path.dirname(path)
            found.add(path)
    return found


def is_info(entry):
    return entry.endswith((".dist-info", ".egg-info"))


def merge(staging, target, root):
    new = dists(target)
    keys = {d.key for d in new}
    old = [d for d in dists(root) if d.key in keys]
    others = [d for d in dists(root) if d.key not in keys]
    shared = parents(path for d in others for path in d.files())
    shared |= {e for e in os.listdir(target) if e in ("bin", "share", "include", "etc", "__pycache__")}
    files = set()
    for place, _, names in os.walk(target):
        files.update(os.path.relpath(os.path.join(place, name), target) for name in names)
    gone = {path for d in old for path in d.files()} - files - {path for d in others for path in d.files()}
    for entry in sorted(os.listdir(target), key=is_info):
        if is_info(entry):
            for dist in old:
                if dist.key == Dist(target, entry).key and dist.entry != entry:
                    os.rename(os.path.join(root, dist.entry), os.path.join(staging, dist.entry))
        move(staging, os.path.join(target, entry), os.path.join(root, entry), entry, shared)
    for path in gone:
        try:
            os.unlink(os.path.join(root, path))
        except OSError:
            pass  # it went with its directory
    return [Dist(root, d.entry) for d in new]


def work(task, root):
    if importlib.util.find_spec("pip") is None:
        raise Failure("manager", "the image of the sandbox has no pip")
    requirements = still_needed(task["requirements"], root)
    if not requirements:
        return
    staging = os.path.join(root, f".staging-{task['id']}")
    os.mkdir(staging)
    try:
        target = install(task, staging, root, requirements)
        limit = task["limit_mb"] * 2**20
        if size_of(target) + size_of(root) - size_of(staging) > limit:
            raise Failure("space", f"all packages together would take more than {task['limit_mb']} MiB")
        for dist in merge(staging, target, root):
            say("+", dist.name, dist.version)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def main():
    task = json.loads(sys.argv[1])
    root = task["root"]
    os.umask(0o022)
    # Against one that an earlier server left. A file for it could be replaced by what a package brings.
    fcntl.flock(os.open(root, os.O_RDONLY), fcntl.LOCK_EX)
    for entry in os.listdir(root):
        if entry.startswith(".staging-"):
            shutil.rmtree(os.path.join(root, entry), ignore_errors=True)
    work(task, root)


def tell(kind, text):
    say("!", kind, " ".join(str(text).split())[:400])
    sys.exit(1)


try:
    main()
except Failure as problem:
    tell(problem.kind, problem)
except OSError as problem:
    tell("space" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else "other", problem)
