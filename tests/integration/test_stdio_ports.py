"""Ports of sandboxes of a server on stdio: with --ports it opens a listener on loopback for the first address, which serves
signed addresses and nothing else; without the option, and before, nobody listens."""

import http.client
import os
import re
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # pylint: disable=wrong-import-position

from common import NONE, Suite, contains, equal, needs_runtime, poll
from mcp import Server

needs_runtime()
suite = Suite(NONE)

SECONDS = 120
WEB_SERVER = r"""
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words): pass
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f'{self.path} with {self.headers.get("Cookie")}'.encode())
threading.Thread(target=http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler).serve_forever, daemon=True).start()
"""


def listening(pid):
    """Addresses (hexadecimal) at which a process listens."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        if found:
            inodes.add(found[1])
    places = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            fields = [line.split() for line in file.readlines()[1:]]
        places += [f[1] for f in fields if f[3] == "0A" and f[9] in inodes]
    return places


def has_loaded(pid, library):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return library in file.read()


def opened(*options):
    server = Server(*options)
    server.legacy()
    return server


def ask(url, path="", **headers):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    connection.request("GET", path if path.startswith("/") else parts.path + path, headers=headers)
    response = connection.getresponse()
    got = response.status, response.read().decode(), dict(response.getheaders())
    connection.close()
    return got


@suite.case("nobody listens before an address is asked for, and then on loopback only")
def opens():
    with opened("--ports") as server:
        sandbox = server.call("create_sandbox", memory_mb=256)["sandbox_id"]
        server.stdout(WEB_SERVER, sandbox_id=sandbox)
        equal(listening(server.process.pid), [])
        assert not has_loaded(server.process.pid, "libmicrohttpd")
        result = server.call("expose_port", port=8000, sandbox_id=sandbox)
        url = result["url"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ports/[\w-]+/8000/\d+/[0-9a-f]{64}/", url), result
        places = listening(server.process.pid)
        equal([p.split(":")[0] for p in places], ["0100007F"])
        with urllib.request.urlopen(url + "a?b", timeout=SECONDS) as page:
            equal(page.read(), b"/a?b with None")
            contains(page.headers["Content-Security-Policy"], "sandbox allow-scripts")
        assert has_loaded(server.process.pid, "libmicrohttpd")
        equal(ask(url, "c", Cookie="a=b")[:2], (200, "/c with None"))
        again = server.call("expose_port", port=8001, sandbox_id=sandbox)["url"]
        equal(urllib.parse.urlsplit(again).netloc, urllib.parse.urlsplit(url).netloc)
        equal(ask(again)[0], 502)
        equal(listening(server.process.pid), places)


@suite.case("the listener serves signed addresses under its own name, and nothing else")
def guarded():
    with opened("--ports") as server:
        sandbox = server.call("create_sandbox", memory_mb=256)["sandbox_id"]
        server.stdout(WEB_SERVER, sandbox_id=sandbox)
        url = server.call("expose_port", port=8000, sandbox_id=sandbox)["url"]
        equal(ask(url)[0], 200)
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
            status, text, _ = ask(url, Host=host)
            equal(status, 403, host)
            assert "with None" not in text
        for path in ("/", "/mcp", "/ui/", "/api/v1/status", "/metrics", "/healthz", "/files/x"):
            equal(ask(url, path)[0], 404, path)
        changed = url.split("/")
        changed[6] = str(int(changed[6]) + 1)
        equal(ask("/".join(changed))[0], 403)
        server.call("close_sandbox", sandbox_id=sandbox)
        equal(ask(url)[0], 404)


@suite.case("an address expires")
def expires():
    with opened("--ports", "--link-seconds", "1") as server:
        sandbox = server.call("create_sandbox", memory_mb=64)["sandbox_id"]
        url = server.call("expose_port", port=8000, sandbox_id=sandbox)["url"]
        poll("it has expired", lambda: ask(url)[0] == 410)


@suite.case("without the option the tool is not there, and files have no links either way")
def not_offered():
    with opened() as server:
        assert "expose_port" not in [t["name"] for t in server.request("tools/list")["tools"]]
    with opened("--ports") as server:
        assert "expose_port" in [t["name"] for t in server.request("tools/list")["tools"]]
        sandbox = server.call("create_sandbox", memory_mb=64)["sandbox_id"]
        assert "url" not in server.call("write_file", sandbox_id=sandbox, path="a", content="x")
        server.call("expose_port", port=8000, sandbox_id=sandbox)
        assert "url" not in server.call("write_file", sandbox_id=sandbox, path="b", content="x")


@suite.case("a connection that is open does not keep the server when its client goes")
def ends():
    server = opened("--ports")
    sandbox = server.call("create_sandbox", memory_mb=256)["sandbox_id"]
    server.stdout("import socket; s = socket.create_server(('127.0.0.1', 9000))", sandbox_id=sandbox)
    url = server.call("expose_port", port=9000, sandbox_id=sandbox)["url"]
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    connection.request("GET", parts.path)
    server.close()
    try:
        equal(connection.getresponse().status, 502)
    except (http.client.HTTPException, ConnectionError):
        pass  # it was cut
    connection.close()


suite.run()
