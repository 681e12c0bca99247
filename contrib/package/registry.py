#!/usr/bin/env python3
"""A registry of npm that has the packages of these files and no others, on loopback; prints its address.

  registry.py FILE.tgz…"""

import base64
import hashlib
import http.server
import json
import os
import sys
import tarfile


def describe(path, address):
    with tarfile.open(path) as tar:
        package = json.load(tar.extractfile("package/package.json"))
    with open(path, "rb") as f:
        digest = base64.b64encode(hashlib.sha512(f.read()).digest()).decode()
    package["dist"] = {"tarball": f"{address}/files/{os.path.basename(path)}", "integrity": f"sha512-{digest}"}
    return {"name": package["name"], "dist-tags": {"latest": package["version"]}, "versions": {package["version"]: package}}


class Handler(http.server.BaseHTTPRequestHandler):
    packages, files = {}, {}

    def do_GET(self):  # pylint: disable=invalid-name
        if self.path.startswith("/files/") and self.path[7:] in self.files:
            with open(self.files[self.path[7:]], "rb") as f:
                self.answer(200, "application/octet-stream", f.read())
        elif self.path[1:] in self.packages:
            self.answer(200, "application/json", json.dumps(self.packages[self.path[1:]]).encode())
        else:
            self.answer(404, "application/json", b'{"error":"not found"}')

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        for path in sys.argv[1:]:
            described = describe(path, address)
            Handler.packages[described["name"]] = described
            Handler.files[os.path.basename(path)] = path
        print(address, flush=True)
        server.serve_forever()


main()
