#!/usr/bin/env python3
"""Runs test files on a real container engine that is started for them and ended afterwards.

usage: with_engine.py docker|podman [--languages] [--network] TEST_FILE… [-- part of a case's name…]

--languages  with an image that contains more than bash and Python: pip, numpy, pandas, matplotlib, pillow, Node.js,
             npm, Ruby, Perl, Lua, gcc (contrib/images/make-test-image); files that need it are listed apart in
             meson.build. `engine.LANGUAGES` is its name
--network    the engine has a network of its own, see lib/engine.py; without it no container has any

The files run unchanged: only the environment differs from a run on the oci backend. Their TAP is merged into one
stream, with names prefixed by the file. After each file nothing may be left in the engine but the agent's
volume, and in the end nothing of the engine on this machine. Where no engine can be started, or where it cannot
run containers itself, all is skipped with the reason.

CLOISTER_TEST_IMAGES  directory in which test images are kept (a directory in the system's temporary one)
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.join(os.path.dirname(HERE), "lib")]

# pylint: disable=wrong-import-position
import engine
from tap import poll, skip_all

MAKE_IMAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "contrib", "images", "make-test-image")
LEFT_SECONDS = 10.0  # time for the engine to remove everything
CASE = re.compile(r"^(ok|not ok)\b *\d* *-? *(.*)")
PLAN = re.compile(r"^1\.\.(\d+)(?: *# *SKIP *(.*))?", re.I)
AGENT_VOLUMES = "cloister-agent"  # prefix of their names


class Stream:
    """The merged TAP."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def case(self, good, title):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {title}", flush=True)

    def remark(self, text):
        for line in str(text).splitlines():
            print(f"# {line}", flush=True)

    def check(self, title, problems):
        """Reports a case of our own; `problems` is a list of texts."""
        self.case(not problems, title)
        for problem in problems:
            self.remark(problem)

    def end(self):
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failed else 0)


def make_images(languages):
    """Makes the test images; returns their directory."""
    place = os.environ.get("CLOISTER_TEST_IMAGES") or os.path.join(tempfile.gettempdir(), "cloister-test-images")
    os.makedirs(place, exist_ok=True)
    more = ["languages"] if languages else []
    # several processes may need them at once: one makes them, the others wait; who needs only small images
    # does not wait for the largest
    command = ["flock", "-".join([f"{place}/lock", *more]), MAKE_IMAGES, place, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        skip_all(" ".join(done.stderr.split())[-300:])
    if done.returncode != 0:
        sys.exit(f"{MAKE_IMAGES} failed:\n{done.stderr[-3000:]}")
    return place


def begin(kind, images, languages, network):
    """Starts an engine and loads the test images, of which one is run as a check."""
    try:
        running = engine.Engine.create(kind, network)
    except engine.Unusable as reason:
        skip_all(f"no {kind} for tests: {reason}")
    try:
        running.state["images"] = images  # for files that load more of them
        running.load(engine.IMAGE, os.path.join(images, "python.tar"))
        if languages:
            running.load(engine.LANGUAGES, os.path.join(images, "languages.tar"))
        try:
            status = running.run(engine.IMAGE, "python3", "-c", "pass")
        except engine.Answer as problem:
            status = str(problem)
    except BaseException:
        running.destroy()
        raise
    if status != 0:
        running.destroy()
        skip_all(f"{kind} starts here but cannot run a container: {status}")
    return running


def environment_for(running, languages):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DOCKER_") and k != "INTERPRETER_TYPE"}
    return dict(
        clean,
        CLOISTER_BACKEND="docker",
        CLOISTER_IMAGE=engine.LANGUAGES if languages else engine.IMAGE,
        DOCKER_HOST=running.host,
        **{engine.VARIABLE: running.save()},
    )


def title_of(path):
    """The name of a file with its directory, since test_packages.py is in engines/ as well."""
    return os.path.relpath(path, HERE).removesuffix(".py").replace("test_", "")


def run_file(stream, path, names, environment):
    """Runs one test file and merges its cases into the stream."""
    prefix = title_of(path)
    seen, planned = 0, None
    child = subprocess.Popen(
        [sys.executable, path, *names], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", env=environment
    )
    try:
        for line in child.stdout:
            line = line.rstrip("\n")
            case, plan = CASE.match(line), PLAN.match(line)
            if plan:
                planned = int(plan.group(1))
                if plan.group(2) is not None:
                    stream.case(True, f"{prefix} # SKIP {plan.group(2)}")
            elif case:
                seen += 1
                stream.case(case.group(1) == "ok", f"{prefix}: {case.group(2)}")
            else:
                stream.remark(line.removeprefix("# "))
        status = child.wait()
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    if planned != seen or status not in (0, 1):
        stream.case(False, f"{prefix}: the file ran to its end")
        stream.remark(f"{seen} of {planned} cases, exit status {status}")


def files_and_names(words):
    """The test files of a command line, and the parts of names of cases behind its "--"."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def run_elsewhere(place, where, environment, name_of, checks=()):
    """Runs the files of the command line on a backend beyond this machine; `place` tells what is left there. `checks` are for after
    each file: (title, what returns the problems)."""
    files, names = files_and_names(sys.argv[1:])
    stream = Stream()
    for path in files:
        run_file(stream, path, names, {**environment, "CLOISTER_TEST_ELSEWHERE": "1"})
        left = []
        try:
            poll(f"no sandbox is left in the {where}", lambda: not place.boxes())
        except AssertionError:
            left = place.boxes()
        stream.check(f"{title_of(path)}: nothing is left in the {where}", [name_of(each) for each in left])
        for each in left:
            place.remove(each)
        for title, problems in checks:
            stream.check(f"{title_of(path)}: {title}", problems())
    if not place.is_real:
        place.close()
    stream.end()


def left_in(running):
    """What is left after the engine had time to remove it."""
    running.reload()
    if not running.running():
        running.start()
        return ["the engine was not running"]
    deadline = time.monotonic() + LEFT_SECONDS
    while True:
        found = running.left(volumes=[AGENT_VOLUMES])
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def on_signal(number, _frame):
    sys.exit(128 + number)  # runs all `finally` blocks


def main():
    kind = sys.argv[1]
    files, names = files_and_names(sys.argv[2:])
    languages, network = "--languages" in files, "--network" in files
    files = [f for f in files if not f.startswith("--")]
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    stream = Stream()
    running = begin(kind, make_images(languages), languages, network)
    stream.remark(f"{kind} {running.ask('GET', '/version')['Version']}, storage {running.state['storage']}")
    forced = []
    try:
        for path in files:
            begun = time.monotonic()
            run_file(stream, path, names, environment_for(running, languages))
            title = title_of(path)
            left = left_in(running)
            stream.check(f"{title}: nothing is left in the engine", left)
            if left:
                running.remove_contents()
            stream.remark(f"{title} took {time.monotonic() - begun:.0f} s")
        if stream.failed:
            stream.remark(running.log_tail())
    except Exception:  # the engine is ended and the plan printed in any case
        stream.check("the driver ran to its end", traceback.format_exc().splitlines())
    finally:
        running.reload()
        left = [v["Name"] for v in running.volumes()] if running.running() else []
        stream.remark(f"volumes at the end: {', '.join(left) or 'none'}")
        forced = running.destroy()
    stream.check("nothing of the engine is left on this machine", forced)
    stream.end()


if __name__ == "__main__":
    main()
