"""The engine's part of bench: the cost of the same operations without cloister.

DOCKER_HOST names the measured engine; without it an engine is started for the measurement, with the image of
the tests, and ended afterwards.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "integration", "lib"))

# pylint: disable=wrong-import-position
import engine as engines


class EngineSide:
    def __init__(self, image):
        """`image`: "" = that of the tests, or with DOCKER_HOST cloister's default."""
        self.own = None
        host = os.environ.get("DOCKER_HOST", "")
        if host and not host.startswith("unix://"):
            raise SystemExit("bench measures an engine on this machine: DOCKER_HOST must be unix://…")
        if not host:
            place = os.environ.get("CLOISTER_TEST_IMAGES") or os.path.join(tempfile.gettempdir(), "cloister-test-images")
            subprocess.run([os.path.join(HERE, "images", "make-test-image"), place], check=True)
            try:
                self.own = engines.Engine.create("docker")
            except engines.Unusable as reason:
                raise SystemExit(f"no engine to measure: {reason}") from None
            self.own.load(engines.IMAGE, os.path.join(place, "python.tar"))
            host, image = self.own.host, image or engines.IMAGE
        self.host = host
        self.api = self.own or engines.Api(host.removeprefix("unix://"))
        self.environment = {"CLOISTER_BACKEND": "docker", "DOCKER_HOST": host, "CLOISTER_IMAGE": image}
        self.command = shutil.which("docker")

    def close(self):
        if self.own:
            self.own.destroy()

    def offer(self, image, tar):
        """Has the engine know an image by this name: from a file, if it is the engine that was started here."""
        if self.api.send("GET", f"/images/{image}/json")[0] == 200:
            return
        if not self.own or not tar or not os.path.exists(tar):
            raise SystemExit(f"the engine has no image {image}" + (f", and there is no {tar}" if tar else "") + ": pull it, or import one under that name")
        self.own.load(image, tar)

    def container(self, sandbox):
        return self.api.containers(sandbox)[0]

    def version(self):
        about = self.api.ask("GET", "/version")
        return f"Docker Engine {about['Version']}"

    # ---- the usual alternatives ----

    def exec_python(self, container, code):
        """`docker exec CONTAINER python3 -c CODE` by the docker command, or the two requests that it makes."""
        if self.command:
            done = subprocess.run(
                [self.command, "--host", self.host, "exec", container, "python3", "-c", code],
                stdin=subprocess.DEVNULL, capture_output=True, check=True,
            )
            return done.stdout
        return self.exec_api(container, "python3", "-c", code)

    def exec_api(self, container, *command):
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": list(command)}
        made = self.api.ask("POST", f"/containers/{container}/exec", body)["Id"]
        status, output = self.api.send("POST", f"/exec/{made}/start", {"Detach": False, "Tty": False})
        if status >= 400:
            raise SystemExit(f"exec failed: {output[:300]}")
        return output[8:]  # without the header of its only frame

    # ---- create and start, with the same options ----

    def body_of(self, sandbox):
        """The request for another container like this sandbox's."""
        made = self.container(sandbox)
        return {**made["Config"], "Hostname": "bench", "HostConfig": made["HostConfig"]}

    def remove_volumes(self, body):
        """Removes volumes for packages, which the engine makes for a container that mounts them."""
        for mount in body["HostConfig"].get("Mounts") or []:
            if mount.get("Source", "").startswith("cloister-packages-"):
                self.api.ask("DELETE", f"/volumes/{mount['Source']}", force="1")

    def create_and_start(self, body):
        """Returns milliseconds; the container is removed afterwards."""
        begun = time.perf_counter_ns()
        made = self.api.ask("POST", "/containers/create", body)["Id"]
        self.api.ask("POST", f"/containers/{made}/start")
        spent = (time.perf_counter_ns() - begun) / 1e6
        self.api.ask("DELETE", f"/containers/{made}", force="1", v="1")
        self.remove_volumes(body)
        return spent
