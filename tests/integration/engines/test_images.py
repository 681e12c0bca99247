"""Images of container engines with problems: missing, for another architecture, without interpreters, or with
settings of their own. Each gives its own error and has no other effect.

Run by with_engine.py only.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import Server, Skip, Suite, clear, contains, doctor, equal, needs_engine, needs_runtime, opened, poll, works
import engine as engines
import mcp

running = needs_engine()
needs_runtime()
running.load(engines.PLAIN, os.path.join(running.state["images"], "plain.tar"))
running.load(engines.FOREIGN, engines.tar_of({"etc/hostname": b"foreign\n"}), "s390x")
suite = Suite()
DOCKER = running.state["kind"] == "docker"


def image_error(*options, image, code):
    with Server(*options, "--image", image) as server:
        server.legacy()
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], code)
        contains(error["message"] + error["hint"], image)
        equal(server.request("ping"), {})
        equal(server.call("get_sandbox_status")["count"], 0)
        return error


@suite.case("an image that is not there and may not be fetched: the error says how to get it")
def image_missing():
    error = image_error("--pull", "never", image="localhost/cloister-test:absent", code="image_not_found")
    contains(error["hint"], "pull")


@suite.case("an image that cannot be fetched, since no registry answers: the error says how to get it")
def registry_unreachable():
    image_error("--pull", "missing", image="localhost:1/cloister-test:absent", code="image_not_found")


@contextlib.contextmanager
def registry():
    """A registry of our own on loopback; yields "localhost:PORT"."""
    program = shutil.which("docker-registry")
    if program is None:
        raise Skip("there is no docker-registry here")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="cloreg", dir="/tmp") as place:
        with open(f"{place}/config.yml", "w", encoding="utf-8") as file:
            file.write(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {place}/data}}}}\n")
            file.write(f"http: {{addr: '127.0.0.1:{port}'}}\n")
        child = subprocess.Popen([program, "serve", f"{place}/config.yml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            poll("the registry answers", lambda: answers(port))
            yield f"localhost:{port}"
        finally:
            child.terminate()
            child.wait(30)


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


@suite.case("a missing image is fetched from its registry", when=DOCKER)  # Podman requires TLS
def image_fetched():
    with registry() as host:
        name = f"{host}/team/python"
        running.derive(engines.IMAGE, f"{name}:one", "LABEL fetched=yes")
        status, report = running.send("POST", f"/images/{name}/push", tag="one")
        assert status == 200 and b'"error"' not in report, report[-400:]
        running.ask("DELETE", f"/images/{name}:one", force="1")
        image_error("--pull", "never", image=f"{name}:one", code="image_not_found")
        server, sandbox = opened("--image", f"{name}:one")
        with server:
            equal(server.run("6 * 7", sandbox_id=sandbox)["result"], "42")
            equal(server.call("get_sandbox_status", sandbox_id=sandbox)["image"], f"{name}:one")
            server.call("close_sandbox", sandbox_id=sandbox)
        running.ask("DELETE", f"/images/{name}:one", force="1")


@suite.case("an image without Python: bash works, and what the image has is listed")
def image_without_python():
    server, sandbox = opened("--image", engines.PLAIN)
    with server:
        status = server.call("get_sandbox_status", sandbox_id=sandbox)
        contains(status["languages"], "bash")
        assert "python" not in status["languages"], status["languages"]
        equal(status["image"], engines.PLAIN)
        equal(server.run("echo $((6*7))", language="bash", sandbox_id=sandbox)["stdout"], "42\n")
        error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
        equal(error["code"], "language_unavailable")
        contains(error["message"] + error["hint"], "bash")
        equal(server.run("echo on", language="bash", sandbox_id=sandbox)["stdout"], "on\n")


@suite.case("an image of another architecture is named as that")
def image_of_another_architecture():
    with Server("--image", engines.FOREIGN) as server:
        server.legacy()
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "image_not_found")
        contains(error["message"], "s390x")
        poll("nothing of it is left", lambda: not mcp.containers_of(server.runtime_dir))


@suite.case("doctor reports an image that is missing, of another architecture or without interpreters, and what to do")
def doctor_and_images():
    bare = "localhost/cloister-test:bare"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    running.load(bare, engines.tar_of({"etc/hostname": b"bare\n"}), machine)
    try:
        for options, said in (
            (("--image", engines.IMAGE), ("sandbox: works", "python")),
            (("--pull", "never", "--image", "localhost/cloister-test:absent"), ("cannot be made", "cloister-test:absent", "pull")),
            (("--image", "localhost:1/cloister-test:absent"), ("cannot be made", "could not be fetched")),
            (("--image", engines.FOREIGN), ("cannot be made", "s390x", "--platform")),
            (("--image", bare), ("runs no code", "no interpreter", "--image")),
        ):
            done = doctor("--backend", "docker", *options)
            equal(done.returncode == 0, said[0] == "sandbox: works", done.stdout)
            for part in said:
                contains(done.stdout, part)
    finally:
        running.ask("DELETE", f"/images/{bare}", force="1")
    poll("nothing of it is left", lambda: not mcp.containers_of("doctor"))


@suite.case("a file at the path of a sandbox's directory is reported as a fault of the image")
def image_with_a_file_in_the_way():
    name = "localhost/cloister-test:inway"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    for path in ("workspace", ".cloister", "tmp", "packages"):
        running.load(name, engines.tar_of({path: b"a file\n", "etc/hostname": b"x\n"}), machine)
        try:
            error = image_error(image=name, code="image_not_found")
            contains(error["message"], "has a file where a sandbox has a directory")
            contains(error["hint"], "/workspace")
        finally:
            running.ask("DELETE", f"/images/{name}", force="1")


def warnings_of(server, words):
    return [line for line in server.log if " warn " in line and words in line]


@contextlib.contextmanager
def lost(image):
    """The engine's storage has lost the files of an image of one layer, as one that is not mounted has."""
    place = (running.ask("GET", f"/images/{image}/json")["GraphDriver"]["Data"] or {}).get("UpperDir")
    if place is None:
        raise Skip("the engine's storage has no directory for the layer of an image")
    os.rename(place, f"{place}.aside")
    os.mkdir(place, 0o755)
    try:
        yield
    finally:
        shutil.rmtree(place)
        os.rename(f"{place}.aside", place)


@suite.case("a sandbox whose root came up empty is not given out, and the log says what was there")
def empty_root():
    server, sandbox = opened()
    with server:
        server.call("close_sandbox", sandbox_id=sandbox)
        with lost(engines.IMAGE):
            error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "engine_unavailable")
        contains(error["message"], "without any interpreter twice")
        poll("the log has a warning of each try", lambda: len(warnings_of(server, "without any language")) == 2)
        for line in warnings_of(server, "without any language"):
            contains(line, "; / has type 0x")
            contains(line, "/usr/bin: No such file or directory")
            contains(line, " sandbox=")
        works(server)


@suite.case("what an image says about user, program, directory, health and volumes changes nothing")
def image_settings():
    reference = "localhost/cloister-test:odd"
    changes = ['ENTRYPOINT ["/nowhere"]', 'CMD ["nothing"]', "USER 12345:12345", "WORKDIR /nowhere", "VOLUME /odd", "ENV FROM_IMAGE=yes"]
    if DOCKER:
        changes += ["HEALTHCHECK --interval=1s CMD /nowhere"]
    running.derive(engines.IMAGE, reference, *changes)
    before = {v["Name"] for v in running.volumes()}
    server, sandbox = opened("--image", reference)
    with server:
        done = server.run("import os; (os.getcwd(), os.environ.get('FROM_IMAGE'), os.getuid() != 12345)", sandbox_id=sandbox)
        equal(done["result"], "('/workspace', 'yes', True)")
        done = server.run("open('/odd/file', 'w')", sandbox_id=sandbox)
        equal(done["status"], "error", "writing into a volume of the image")
        server.call("close_sandbox", sandbox_id=sandbox)
    equal({v["Name"] for v in running.volumes() if not v["Name"].startswith("cloister")} - before, set(), "volumes left")
    running.ask("DELETE", f"/images/{reference}", force="1")


suite.run()
