"""The configuration file: what it sets, what wins over it, and how it is told what is wrong with it."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, NONE, ON_OCI, Suite, contains, equal, mcp, needs_runtime, skip_all
from control import Control
from mcp_http import HttpServer

needs_runtime()
if not ON_OCI:
    skip_all("does not depend on the backend")
suite = Suite(NONE)
PROGRAM = os.environ["CLOISTER"]
USAGE = 64
PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("CLOISTER_")}


def written(text, name="cloister.conf", directory=None):
    path = os.path.join(directory or mcp.temporary_directory(), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def check(*words, status=0, **env):
    command = [PROGRAM, *words]
    done = subprocess.run(command, env={**PLAIN, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    equal(done.returncode, status, f"{words}: {done.stderr}")
    return done


def limits(server):
    """Memory and processes of a new sandbox."""
    made = server.client(LATEST_LEGACY).call("create_sandbox")
    return made["limits"]["memory_mb"], made["limits"]["pids"]


@suite.case("options of a file are taken; the environment wins over it, and the command line over both")
def precedence():
    path = written("# ours\nmemory-mb: 200\npids: 100\ncpus: 0.5\nmax-sandboxes: 3\n")
    with HttpServer("--config", path) as server:
        equal(limits(server), (200, 100))
        equal(Control(server).get("/v1/status")["sandboxes"]["limit"], 3)
        server.close_sandboxes()
    with HttpServer("--memory-mb", "150", env={"CLOISTER_CONFIG": path, "CLOISTER_PIDS": "90", "CLOISTER_MEMORY_MB": "300"}) as server:
        equal(limits(server), (150, 90))
        server.close_sandboxes()


@suite.case("the user's own file is found, and none says that no file is meant")
def usual_place():
    home = mcp.temporary_directory()
    path = written("log-level: debug\n", "cloister/cloister.conf", os.path.join(home, "config"))
    equal(check("config", "check", XDG_CONFIG_HOME=os.path.join(home, "config")).stdout.splitlines()[-1], f"{path}: good")
    os.rename(os.path.join(home, "config"), os.path.join(home, ".config"))
    contains(check("config", "check", HOME=home, XDG_CONFIG_HOME="").stdout, ".config/cloister/cloister.conf: good")
    written("log-level: loud\n", "cloister/cloister.conf", os.path.join(home, ".config"))
    contains(check("config", "check", HOME=home, XDG_CONFIG_HOME="", status=USAGE).stderr, "line 1: log-level")
    equal(check("--config", "none", "config", "check", HOME=home).stdout, "there is no configuration file\n")


@suite.case("lists are lists, or one text; a later source replaces the whole list")
def lists():
    one, two = mcp.temporary_directory(), mcp.temporary_directory()
    path = written(f"share:\n  - {one}=one\n  - {two}=two\n")
    for words, env, shown in (((), {}, {"one", "two"}), (("--share", f"{two}=three"), {}, {"three"}), ((), {"CLOISTER_SHARE": f"{one}=four"}, {"four"})):
        with HttpServer("--config", path, *words, env=env) as server:
            made = server.client(LATEST_LEGACY).call("create_sandbox")
            equal({text.split()[0].removeprefix("/shared/") for text in made["shares"]}, shown)
            server.close_sandboxes()


@suite.case("what is wrong is told with file, line and key, by config check as by a server")
def wrong():
    for text, line, said in (
        ("memory-mb: 512\nmemry-mb: 5\n", 2, "did you mean memory-mb?"),
        ("\n\nmemory-mb: much\n", 3, "memory-mb: "),
        ("memory-mb: [1, 2]\n", 1, "memory-mb: expected one value"),
        ("http:\n  port: 8080\n", 1, "http: expected one value"),
        ("share: [{a: b}]\n", 1, "share: expected a list of values"),
        ("strict: perhaps\n", 1, "strict: expected yes or no"),
        ('pids: 100\nstrict: "True"\n', 2, "strict: expected yes or no"),
        ("strict:\n", 1, "strict: expected one value"),
        ("strict: [yes]\n", 1, "strict: expected one value"),
        ("pids: 100\npids: 200\n", 2, "line 1 already"),
        ("config: other.conf\n", 1, "unknown key config"),
        ("- memory-mb\n", 1, "NAME: VALUE"),
        ("just words\n", 1, "NAME: VALUE"),
        ("memory-mb: 512\n  pids: 3\n", 2, "no YAML"),
        ("backend: nothing\n", 1, "backend: "),
    ):
        path = written(text)
        for words in (("config", "check", path), ("--config", path)):
            done = check(*words, status=USAGE)
            for part in (path, f"line {line}: ", said):
                contains(done.stderr, part)
            equal(done.stdout, "")
    contains(check("config", "check", written("timeout-seconds: 100\nmax-timeout-seconds: 10\n"), status=USAGE).stderr, "--timeout-seconds")
    contains(check("config", "check", "/no/such/file", status=USAGE).stderr, "/no/such/file")
    contains(check("config", "chek", status=USAGE).stderr, "check")
    equal(check("config", "check", written("# nothing\n\n")).returncode, 0)
    for word in ("yes", "true", "on", "1", '"yes"', "'true'", "no", '"false"', "off", "0"):
        equal(check("config", "check", written(f"strict: {word}\nshare: []\n")).returncode, 0)


@suite.case("a file that others may write is refused")
def writable():
    path = written("pids: 100\n")
    os.chmod(path, 0o666)
    contains(check("config", "check", path, status=USAGE).stderr, path)


suite.run()
