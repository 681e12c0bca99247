"""A container engine that answers but has nothing: no image, no container, and a registry that refuses or never
answers. Only what a probe asks is known; for everything real there is engine.py."""

import http.server
import json
import os
import re
import socketserver
import threading

import mcp

INFO = {
    "OSType": "linux",
    "ServerVersion": "99.0",
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "2",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "NCPU": 2,
    "SecurityOptions": ["name=seccomp,profile=builtin"],
    "Runtimes": {"runc": {}},
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Api-Version", "1.43")
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):  # pylint: disable=invalid-name
        engine = self.server.engine
        path = re.sub(r"^/v1\.\d+", "", self.path).split("?")[0]
        engine.asked.append(path)
        if path == "/_ping":
            self.answer(200, "OK")
        elif path == "/info":
            self.answer(200, INFO)
        elif path == "/containers/json":
            self.answer(200, [])
        elif path == "/volumes":
            self.answer(200, {"Volumes": []})
        elif path.startswith("/distribution/"):
            if engine.hangs:
                engine.over.wait()
            self.answer(500, {"message": "the registry is not there"})
        elif path.startswith("/images/") and path.endswith("/json"):
            image = path[len("/images/") : -len("/json")]
            self.answer(*((200, {"Id": "sha256:0", "Os": "linux"}) if engine.has_image else (404, {"message": f"No such image: {image}"})))
        else:
            self.answer(404, {"message": "there is nothing here"})


class Sockets(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # whoever asked did not wait

    block_on_close = False


class FakeEngine:
    """`asked` are the paths of its requests, without the version."""

    def __init__(self, hangs=False, has_image=False):
        self.hangs = hangs
        self.has_image = has_image
        self.asked = []
        self.over = threading.Event()
        self.path = os.path.join(mcp.temporary_directory(), "engine.sock")
        self.server = Sockets(self.path, Handler)
        self.server.engine = self
        os.chmod(self.path, 0o666)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def host(self):
        return f"unix://{self.path}"

    def asked_of(self, word):
        return [path for path in self.asked if word in path]

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
