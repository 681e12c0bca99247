"""Ports of sandboxes: a browser reaches a web server inside by a signed address; everything else is refused, and
nothing of ours gets to the sandbox or back."""

import hashlib
import http.client
import json
import os
import re
import signal
import socket
import sys
import threading
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, NONE, Suite, contains, equal, needs_runtime, poll
from mcp import temporary_directory
from mcp_http import HttpServer

needs_runtime()
suite = Suite(NONE)

MIB = 1 << 20
SECONDS = 120
WEB, RAW = 8000, 9000
POLICY = "sandbox allow-scripts allow-forms"
_shared = []

# A web server whose answers say what it was asked.
WEB_SERVER = r"""
import http.server, json, os, threading, hashlib, pathlib

def keep_number(name, number):  # whole at any time
    own = pathlib.Path(f'/tmp/{name}.{threading.get_ident()}')
    own.write_text(str(number))
    os.replace(own, f'/tmp/{name}')

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *words): pass
    def answer(self, status, headers, body=b''):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)
    def echo(self):
        length = int(self.headers.get('Content-Length') or 0)
        digest, seen = hashlib.sha256(), 0
        while seen < length:
            part = self.rfile.read(min(length - seen, 65536))
            digest.update(part)
            seen += len(part)
        body = json.dumps({'method': self.command, 'path': self.path, 'headers': self.headers.items(), 'bytes': seen,
                           'sha256': digest.hexdigest()}).encode()
        self.answer(200, [('Content-Type', 'application/json'), ('Content-Length', str(len(body)))], body)
    def do_POST(self): self.echo()
    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST
    def do_GET(self):
        name = self.path.split('?')[0]
        if name == '/':
            page = b'<!doctype html><title>Inside</title><p>hello from inside</p>'
            self.answer(200, [('Content-Type', 'text/html'), ('Content-Length', str(len(page))), ('Set-Cookie', 'a=b'),
                              ('Access-Control-Allow-Origin', 'https://evil.example'), ('Refresh', '0;url=/mcp'),
                              ('Clear-Site-Data', '*'), ('WWW-Authenticate', 'Basic'), ('ETag', '"1"'), ('X-Own', 'x')], page)
        elif name == '/big':
            self.send_response(200)
            self.send_header('Content-Length', str(64 << 20))
            self.end_headers()
            sent = 0
            part = bytes(65536)
            try:
                while sent < 64 << 20:
                    self.wfile.write(part)
                    sent += len(part)
                    keep_number('sent', sent)
            except OSError:
                keep_number('gone', sent)
        elif name == '/chunked':
            self.send_response(200)
            self.send_header('Transfer-Encoding', 'chunked')
            self.end_headers()
            for i in range(200):
                text = b'part %d;' % i
                self.wfile.write(b'%x;ext=1\r\n%s\r\n' % (len(text), text))
            self.wfile.write(b'0\r\nTrailer: 1\r\n\r\n')
        elif name == '/open':
            self.send_response(200)
            self.send_header('Connection', 'close')
            self.end_headers()
            self.wfile.write(b'without a length')
        elif name.startswith('/go'):
            self.answer(302, [('Location', self.path.split('?', 1)[1]), ('Content-Length', '0')])
        elif name == '/304':
            self.answer(304, [('ETag', '"1"')])
        elif name == '/204':
            self.answer(204, [])
        else:
            self.echo()
    do_HEAD = do_GET

server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""

# A server that answers with the bytes that the case has put into a file, and keeps what it was told.
RAW_SERVER = r"""
import socket, threading, pathlib
listener = socket.create_server(('127.0.0.1', 9000))

def serve(s):
    how = pathlib.Path('/tmp/how').read_text().split()
    head = b''
    while b'\r\n\r\n' not in head:
        head += s.recv(65536)
    pathlib.Path('/tmp/told').write_bytes(head)
    if 'early' in how:
        s.recv(1)
    s.sendall(pathlib.Path('/tmp/answer').read_bytes())
    if 'stay' in how:
        while s.recv(65536):
            pass
        pathlib.Path('/tmp/left').write_text('yes')
    s.close()

def run():
    while True:
        s = listener.accept()[0]
        threading.Thread(target=serve, args=(s,), daemon=True).start()
threading.Thread(target=run, daemon=True).start()
"""


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.names = [k.lower() for k, _ in response.getheaders()]
        self.headers = {k.lower(): v for k, v in response.getheaders()}

    def header(self, name):
        return self.headers.get(name.lower())


def connected(url):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    return connection, parts.path + (f"?{parts.query}" if parts.query else "")


def ask(url, method="GET", body=None, **headers):
    connection, target = connected(url)
    connection.request(method, target, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    answer = Answer(response, response.read())
    connection.close()
    return answer


class Box:
    """A sandbox with both servers."""

    def __init__(self, client):
        self.client = client
        self.id = client.call("create_sandbox", memory_mb=256)["sandbox_id"]
        self.run(WEB_SERVER + RAW_SERVER)
        self.web = self.expose(WEB)
        self.raw = self.expose(RAW)

    def run(self, code):
        return self.client.stdout(code, sandbox_id=self.id)

    def expose(self, port):
        return self.client.call("expose_port", port=port, sandbox_id=self.id)["url"]

    def answers(self, answer, how="-"):
        self.run(f"pathlib.Path('/tmp/answer').write_bytes({answer!r}); pathlib.Path('/tmp/how').write_text({how!r})")

    def told(self):
        return self.run("print(pathlib.Path('/tmp/told').read_text())")

    def has(self, name):
        return self.run(f"print(pathlib.Path('/tmp/{name}').exists())").strip() == "True"


def shared():
    if not _shared:
        server = HttpServer("--ports", "--max-sandboxes", "6", "--port-wait-seconds", "20")
        client = server.client(LATEST_LEGACY)
        _shared.extend([server, client, Box(client)])
    return _shared


def box():
    return shared()[2]


def alive():
    """The server answers others."""
    equal(shared()[1].stdout("print(6 * 7)", sandbox_id=box().id), "42\n")


# ---- what works ----


@suite.case("a page of a web server inside is shown, under a policy that takes its origin away")
def page():
    got = ask(box().web)
    equal(got.status, 200)
    contains(got.body.decode(), "hello from inside")
    contains(got.header("Content-Security-Policy"), POLICY)
    assert "allow-same-origin" not in got.header("Content-Security-Policy")
    equal(got.header("Referrer-Policy"), "no-referrer")
    equal(got.header("X-Content-Type-Options"), "nosniff")
    equal(got.header("Cross-Origin-Resource-Policy"), "cross-origin")
    equal(got.header("Access-Control-Allow-Origin"), "*")
    equal(got.header("ETag"), '"1"')
    equal(got.header("Cache-Control"), "private, no-cache")
    for name in ("Set-Cookie", "Refresh", "Clear-Site-Data", "WWW-Authenticate", "X-Own", "Server"):
        equal(got.header(name), None, name)
    alive()


@suite.case("the tool is offered with --ports only, and says when its address expires")
def offered():
    _, client, _ = shared()
    result = client.call("expose_port", port=1, sandbox_id=box().id)
    equal((result["sandbox_id"], result["port"]), (box().id, 1))
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ports/[\w-]+/1/\d+/[0-9a-f]{64}/", result["url"]), result
    assert result["expires_at"] > "2020", result
    with HttpServer() as other:
        names = [t["name"] for t in other.client(LATEST_LEGACY).request("tools/list")["tools"]]
        assert "expose_port" not in names
        equal(ask(f"http://{other.place.host}:{other.place.port}/ports/a/1/1/{'0' * 64}/").status, 404)


@suite.case("methods, queries and bodies reach the web server as they are")
def methods():
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        got = ask(box().web + "form/x?a=%20b&c", method, b"name=value", Content_Type="application/x-www-form-urlencoded")
        said = json.loads(got.body)
        equal((said["method"], said["path"], said["bytes"]), (method, "/form/x?a=%20b&c", 10))
        contains(str(said["headers"]), "application/x-www-form-urlencoded")
    equal(json.loads(ask(box().web + "a//b/%2e%2e/c", "POST").body)["path"], "/a//b/%2e%2e/c")


@suite.case("an upload of any size up to the limit arrives whole, and a larger one is refused")
def uploads():
    for size in (200_000, 300_000, 5 * MIB, 16 * MIB):
        data = os.urandom(1000) * (size // 1000)
        said = json.loads(ask(box().web + "up", "POST", data).body)
        equal((said["bytes"], said["sha256"]), (len(data), hashlib.sha256(data).hexdigest()))
    connection, target = connected(box().web)
    connection.putrequest("POST", target)
    connection.putheader("Content-Length", str(17 * MIB))
    connection.endheaders()
    equal(connection.getresponse().status, 413)
    connection.close()
    alive()


@suite.case("a client that waits for 100 Continue gets it, and only with a good address")
def expects():
    for url, first in ((box().web + "up", b"HTTP/1.1 100"), (box().web[:-2] + "/up", b"HTTP/1.1 40")):
        parts = urllib.parse.urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS) as s:
            s.sendall(f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode())
            data = s.recv(65536)
            contains(data[:12].decode(), first.decode())
            if first.endswith(b"100"):
                s.sendall(b"body")
                whole = data
                while part := s.recv(65536):
                    whole += part
                contains(whole.decode(), '"bytes": 4')
                assert "Expect" not in whole.decode()


@suite.case("answers of every kind of length arrive whole")
def lengths():
    equal(ask(box().web + "chunked").body, b"".join(b"part %d;" % i for i in range(200)))
    equal(ask(box().web + "open").body, b"without a length")
    equal(len(ask(box().web + "big").body), 64 * MIB)
    head = ask(box().web, "HEAD")
    equal((head.status, head.body), (200, b""))
    equal(head.header("Content-Length"), str(len(ask(box().web).body)))


@suite.case("answers without a body have none")
def bodiless():
    for path, status in (("204", 204), ("304", 304)):
        got = ask(box().web + path)
        equal((got.status, got.body), (status, b""), path)
        equal(got.header("Content-Length"), None, path)
    box().answers(b"HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\nextra")
    equal((ask(box().raw).status, ask(box().raw).body), (304, b""))
    box().answers(b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\nextra")
    equal((ask(box().raw).status, ask(box().raw).body), (204, b""))
    alive()


@suite.case("interim answers are passed over, and what follows the answer is dropped")
def interim():
    box().answers(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n\r\n")
    got = ask(box().raw)
    equal((got.status, got.body), (200, b"ok"))
    assert "set-cookie" not in got.names and "link" not in got.names


@suite.case("redirects stay below the address, and those that lead elsewhere are not followed")
def redirects():
    web = box().web
    base = urllib.parse.urlsplit(web).path
    for where in ("/x", "x", "../../../../x", "/../x", "//127.0.0.1:8000/x", "http://localhost:8000/x", "/%2e%2e/%2E./x", "./x", "x?a=/../..", "/", "?q"):
        for at in ("go", "go/deep/er", "go/"):
            got = ask(f"{web}{at}?{where}")
            equal(got.status, 302, where)
            to = urllib.parse.urljoin(f"{web}{at}", got.header("Location"))
            assert urllib.parse.urlsplit(to).path.startswith(base), (where, at, to)
    for where in ("https://evil.example/", "//evil.example/", "javascript:alert(1)", "http://127.0.0.1:8001/", "/a\\b", "\\\\evil", "http:evil"):
        got = ask(f"{web}go?{where}")
        equal((got.status, got.header("Location")), (502, None), where)


@suite.case("an address without its last slash leads to the one with it")
def slash():
    got = ask(box().web[:-1])
    equal(got.status, 308)
    equal(urllib.parse.urljoin(box().web[:-1], got.header("Location")), box().web)


@suite.case("of several words on caching nothing is kept")
def caching():
    for lines, wanted in (("Cache-Control: max-age=9\r\n", "private, max-age=9"), ("Cache-Control: max-age=9\r\nETag: \"a\"\r\ncache-control: no-store\r\n", "no-store"),
                          ("Cache-Control: private\r\nCache-Control: public\r\n", "no-store")):
        box().answers(f"HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok".encode())
        equal(ask(box().raw).header("Cache-Control"), wanted, lines)


# ---- what does not get through ----


@suite.case("what says who somebody is does not reach the sandbox")
def secrets():
    said = ask(box().web + "x", Authorization="Bearer secret", Cookie="session=secret", Proxy_Authorization="secret", Referer="http://secret/",
               X_Forwarded_User="secret", Cf_Access_Jwt_Assertion="secret", X_Forwarded_For="secret", Mcp_Session_Id="secret", Origin="http://secret",
               Connection="keep-alive, X-Secret", X_Secret="secret", TE="trailers", Accept_Language="de").body.decode()
    assert "secret" not in said, said
    contains(said, "Accept-Language")
    contains(said, "Connection\", \"close\"")
    contains(said, "127.0.0.1:8000")


@suite.case("an address is good for one port of one sandbox, and nothing else opens it")
def addresses():
    web = box().web
    parts = web.split("/")  # http: '' host ports ID PORT EXPIRES SIG ''
    other = shared()[1].call("create_sandbox", memory_mb=64)["sandbox_id"]
    wrong = [parts[:4] + [other] + parts[5:], parts[:5] + ["9000"] + parts[6:], parts[:6] + [str(int(parts[6]) + 1)] + parts[7:],
             parts[:7] + ["0" * 64, ""]]
    for w in wrong:
        equal(ask("/".join(w)).status, 403, w)
    for w in (parts[:5] + ["08000"] + parts[6:], parts[:5] + ["70000"] + parts[6:], parts[:7] + [parts[7].upper(), ""], parts[:7]):
        assert ask("/".join(w)).status in (403, 404), w
    file_url = shared()[1].call("write_file", sandbox_id=box().id, path="8000", content="x")["url"]
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(file_url).query))
    equal(ask("/".join(parts[:6] + [query["expires"], query["sig"], ""])).status, 403)
    shared()[1].call("close_sandbox", sandbox_id=other)


@suite.case("an address expires, and dies with its sandbox")
def ends():
    with HttpServer("--ports", "--link-seconds", "1") as server:
        client = server.client(LATEST_LEGACY)
        sandbox = client.call("create_sandbox", memory_mb=64)["sandbox_id"]
        url = client.call("expose_port", port=8000, sandbox_id=sandbox)["url"]
        poll("it expires", lambda: ask(url).status == 410)
        server.close_sandboxes()
    _, client, _ = shared()
    sandbox = client.call("create_sandbox", memory_mb=64)["sandbox_id"]
    url = client.call("expose_port", port=8000, sandbox_id=sandbox)["url"]
    equal(ask(url).status, 502)
    client.call("close_sandbox", sandbox_id=sandbox)
    equal(ask(url).status, 404)


@suite.case("requests that another reader could read differently are refused, before their body")
def smuggling():
    parts = urllib.parse.urlsplit(box().web)
    for head, statuses in (("Transfer-Encoding: chunked\r\n", (411,)), ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", (400,)),
                           ("Content-Length: 4\r\nContent-Length: 5\r\n", (400,)), ("Upgrade: websocket\r\nConnection: Upgrade\r\n", (400,))):
        with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS) as s:
            s.sendall(f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{head}\r\n".encode())
            status = int(s.recv(65536).split()[1])
            assert status in statuses, (head, status)
    equal(ask(box().web, "TRACE").status, 501)
    got = ask(box().web, "OPTIONS", Origin="null", Access_Control_Request_Method="PUT", Access_Control_Request_Headers="content-type")
    equal((got.status, got.header("Access-Control-Allow-Origin")), (204, "*"))
    contains(got.header("Access-Control-Allow-Headers"), "Content-Type")
    alive()


@suite.case("an answer that could be read in two ways, or carries cookies inside, is not passed on")
def bad_answers():
    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
                   b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", b"HTTP/1.1 200 OK\nX: y\n\n",
                   b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=b\r\n\r\n--b\r\nSet-Cookie: a=b\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\nContent-Type: text/html, Multipart/mixed\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n",
                   b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000 + b"\r\n\r\n",
                   b"HTTP/1.1 100 Continue\r\n\r\n" * 20):
        box().answers(answer)
        got = ask(box().raw)
        equal(got.status, 502, answer[:60])
        assert "set-cookie" not in got.names
    alive()


def is_cut(url):
    try:
        ask(url)
    except (http.client.IncompleteRead, ConnectionError, http.client.RemoteDisconnected):
        return True
    return False


@suite.case("an answer that breaks off is seen to be incomplete")
def broken_answers():
    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhellox", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        box().answers(answer)
        assert is_cut(box().raw), answer
    alive()


# ---- faults ----


@suite.case("a server that is not there is told in plain words")
def nobody():
    got = ask(box().expose(7777))
    equal(got.status, 502)
    contains(got.body.decode(), "nothing listens at this port")
    contains(got.header("Content-Security-Policy"), POLICY)


@suite.case("a server that never answers is given up after its time")
def silent():
    box().answers(b"", "stay")
    got = ask(box().raw)
    equal(got.status, 504)
    poll("the connection inside is closed", lambda: box().has("left"))


@suite.case("a refusal while the body is still being sent arrives, and harms nobody")
def early_refusal():
    box().answers(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "early")
    for _ in range(5):
        got = ask(box().raw, "POST", bytes(8 * MIB))
        equal((got.status, got.body), (413, b"no"))
    alive()


@suite.case("a client that goes away ends the connection inside")
def client_goes():
    box().run("pathlib.Path('/tmp/gone').unlink(missing_ok=True)")
    connection, target = connected(box().web + "big")
    connection.request("GET", target)
    response = connection.getresponse()
    response.read(100)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    poll("the server inside sees it", lambda: box().has("gone"))
    alive()


@suite.case("a client that reads slowly slows the server inside down, and gets everything")
def slow_reader():
    box().run("pathlib.Path('/tmp/sent').unlink(missing_ok=True)")
    connection, target = connected(box().web + "big")
    connection.request("GET", target)
    response = connection.getresponse()
    equal(len(response.read(1000)), 1000)
    poll("it has begun", lambda: box().has("sent"))
    sent = []

    def stands_still():
        sent.append(int(box().run("print(pathlib.Path('/tmp/sent').read_text())")))
        return sent[-2:-1] == sent[-1:]

    poll("the server inside waits", stands_still)
    assert sent[-1] < 48 * MIB, sent
    equal(len(response.read()), 64 * MIB - 1000)
    connection.close()


@suite.case("uploads that nobody reads do not keep others from calling tools")
def unread_bodies():
    open_now = []
    parts = urllib.parse.urlsplit(box().web)
    for status in (100, 503, 503, 503):  # one principal has room for one; each is asked for when the one before has been answered
        s = socket.create_connection((parts.hostname, parts.port), timeout=SECONDS)
        s.sendall(f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {16 * MIB}\r\nExpect: 100-continue\r\n\r\n".encode())
        contains(s.recv(100).decode(), f"HTTP/1.1 {status}")
        if status == 100:
            s.sendall(bytes(15 * MIB))  # with which it may take some minutes
        open_now.append(s)
    code = "# " + "x" * (10 * MIB) + "\nprint(1)"
    equal(shared()[1].stdout(code, sandbox_id=box().id), "1\n")
    for s in open_now:
        s.close()

    def uploaded():
        try:
            return ask(box().web + "up", "POST", bytes(16 * MIB)).status == 200
        except OSError:  # it was refused before it was sent
            return False

    poll("the room is free again", uploaded)


def hold(url):
    """A connection whose answer does not end. What earlier ones had may still be in use for a moment."""

    def taken():
        connection, target = connected(url)
        connection.request("GET", target)
        connection.answer = connection.getresponse()  # which is closed when nobody has it
        if connection.answer.status == 200:
            return connection
        connection.close()
        return None

    return poll("there is a place for a connection", taken)


@suite.case("so many connections are open at a time and no more, and others get through")
def bound():
    box().answers(b"HTTP/1.1 200 OK\r\n\r\nbegun", "stay")
    held = [hold(box().raw) for _ in range(16)]
    equal(ask(box().raw).status, 503)
    alive()
    for connection in held:
        connection.close()
    poll("there is room again", lambda: ask(box().web).status == 200)


@suite.case("one principal holds half of what there is for all, in however many sandboxes")
def bound_of_one():
    boxes = [box(), Box(shared()[1])]
    held = []
    for each in boxes:
        each.answers(b"HTTP/1.1 200 OK\r\n\r\nbegun", "stay")
        held += [hold(each.raw) for _ in range(16)]
    third = shared()[1].call("create_sandbox", memory_mb=64)["sandbox_id"]
    url = shared()[1].call("expose_port", port=1, sandbox_id=third)["url"]
    got = ask(url)
    equal((got.status, got.header("Retry-After")), (503, "1"))
    for connection in held:
        connection.close()
    poll("there is room again", lambda: ask(url).status == 502)
    for sandbox in (third, boxes[1].id):
        shared()[1].call("close_sandbox", sandbox_id=sandbox)


@suite.case("a worker that is killed in the middle of an answer costs nobody the server")
def killed_worker():
    connection, target = connected(box().web + "big")
    connection.request("GET", target)
    response = connection.getresponse()
    equal(len(response.read(1000)), 1000)
    pid = shared()[1].call("get_sandbox_status", sandbox_id=box().id)["worker"]["pid"]
    os.kill(pid, signal.SIGKILL)
    try:
        equal(len(response.read()), 64 * MIB - 1000)
    except (http.client.IncompleteRead, ConnectionError):
        pass  # it may also be cut, but never be short without a word
    connection.close()
    alive()
    equal(ask(box().web).status, 200)


@suite.case("when a sandbox is closed, what it was sending is cut")
def closed_sandbox():
    own = Box(shared()[1])
    connection, target = connected(own.web + "big")
    connection.request("GET", target)
    response = connection.getresponse()
    equal(len(response.read(1000)), 1000)
    own.client.call("close_sandbox", sandbox_id=own.id)
    try:
        assert len(response.read()) < 64 * MIB - 1000
        raise AssertionError("the answer was short without a word")
    except (http.client.IncompleteRead, ConnectionError):
        pass
    connection.close()
    equal(ask(own.web).status, 404)


@suite.case("many at once each get their own")
def many():
    problems = []

    def one(i):
        data = os.urandom(100_000 + i)
        said = json.loads(ask(box().web + f"n{i}", "POST", data).body)
        if (said["path"], said["sha256"]) != (f"/n{i}", hashlib.sha256(data).hexdigest()):
            problems.append(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(problems, [])


@suite.case("where tokens are needed an address is enough, and the next server serves it and ends what was open")
def restart():
    place, secret = temporary_directory(), "a-token-of-twenty-four-letters"
    tokens = os.path.join(place, "tokens")
    with open(tokens, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(f"alice {secret}\n")
    runtime = temporary_directory()
    first = HttpServer("--ports", "--tokens", tokens, runtime_dir=runtime)
    own = Box(first.client(LATEST_LEGACY, token=secret))
    assert secret not in own.raw and "alice" not in own.raw
    own.answers(b"HTTP/1.1 200 OK\r\n\r\nbegun", "stay")
    connection, target = connected(own.raw)
    connection.request("GET", target)
    equal(connection.getresponse().status, 200)
    first.kill()
    connection.close()
    second = HttpServer("--ports", "--tokens", tokens, runtime_dir=runtime, address=f"127.0.0.1:{urllib.parse.urlsplit(own.raw).port}")
    contains(ask(own.web).body.decode(), "hello from inside")
    own.client = second.client(LATEST_LEGACY, token=secret)
    poll("the connection of the first server is closed", lambda: own.has("left"))
    second.close_sandboxes(token=secret)
    equal(ask(own.web).status, 404)
    second.close()


@suite.case("a server that ends cuts what is open and ends in time")
def server_ends():
    server = HttpServer("--ports")
    own = Box(server.client(LATEST_LEGACY))
    connection, target = connected(own.web + "big")
    connection.request("GET", target)
    response = connection.getresponse()
    response.read(1000)
    server.close_sandboxes()
    server.close()
    connection.close()


@suite.finish
def close():
    """the shared server leaves nothing behind"""
    if _shared:
        _shared[0].close_sandboxes()
        _shared[0].close()


suite.run()
