"""Links to files over HTTP: a link gives access to that file only, for a limited time; and what is served is
harmless in a browser."""

import base64
import hashlib
import http.client
import os
import re
import signal
import urllib.parse

from common import LATEST_LEGACY, NONE, ONE, Suite, contains, equal, mcp, needs_runtime, poll
from mcp_http import HttpServer

needs_runtime()
# The server makes links: on engines only cases run that read a file from a container.
suite = Suite(NONE)

MIB = 1 << 20
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
_shared = []


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.headers = {k.lower(): v for k, v in response.getheaders()}

    def header(self, name):
        return self.headers.get(name.lower())


def ask(url, method="GET", **headers):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    answer = Answer(response, response.read())
    connection.close()
    return answer


def shared():
    if not _shared:
        server = HttpServer("--disk-mb", "160", "--max-sandboxes", "4")
        client = server.client(LATEST_LEGACY)
        _shared.extend([server, client, client.call("create_sandbox")["sandbox_id"]])
    return _shared


def write(name, data):
    _, client, sandbox = shared()
    done = client.call("upload_file", sandbox_id=sandbox, path=name, content=base64.b64encode(data).decode(), encoding="base64")
    return done["url"]


def run(code):
    _, client, sandbox = shared()
    return client.stdout(code, sandbox_id=sandbox)


@suite.case("results of tools have a link to their file, which anybody can fetch", engines=ONE)
def fetch():
    server, client, sandbox = shared()
    url = write("dir/a plot ä&?#%+.png", PNG)
    assert url.startswith("http://127.0.0.1:"), url
    got = ask(url)
    equal((got.status, got.body, got.header("Content-Type"), got.header("Content-Length")), (200, PNG, "image/png", str(len(PNG))))
    written = client.call("write_file", sandbox_id=sandbox, path="t.txt", content="zeile ä\n")
    equal(ask(written["url"]).body.decode(), "zeile ä\n")
    read = client.call("read_file", sandbox_id=sandbox, path="t.txt")
    equal(ask(read["url"]).body.decode(), "zeile ä\n")
    equal(ask(write("empty", b"")).body, b"")
    modern = server.client().modern()
    equal(ask(modern.call("write_file", sandbox_id=sandbox, path="m.txt", content="x")["url"]).body, b"x")


@suite.case("what code writes and shows has a link, too")
def of_executions():
    _, client, sandbox = shared()
    done = client.run("open('sums ä.csv', 'w').write('a,b\\n'); display({'image/png': PIXEL}, raw=True)".replace("PIXEL", repr(PNG)), sandbox_id=sandbox)
    equal(ask(done["files"][0]["url"]).body, b"a,b\n")
    got = ask(done["displays"][0]["image/png"]["url"])
    equal((got.status, got.header("Content-Type"), got.body), (200, "image/png", PNG))


@suite.case("pictures and plain text are shown, all that could be active or is unknown is a download, and nothing is guessed")
def safe():
    for name, kind, type_ in (
        ("a.png", "inline", "image/png"),
        ("a.txt", "inline", "text/plain; charset=utf-8"),
        ("a.csv", "inline", "text/csv; charset=utf-8"),
        ("a.html", "attachment", "text/html; charset=utf-8"),
        ("a.svg", "attachment", "image/svg+xml"),
        ("a.xml", "attachment", "application/xml"),
        ("a.js", "attachment", "text/javascript; charset=utf-8"),
        ("a.pdf", "attachment", "application/pdf"),
        ("a.unknown", "attachment", "application/octet-stream"),
        ("none", "attachment", "application/octet-stream"),
        ("a.html.png.HTM", "attachment", "text/html; charset=utf-8"),
    ):
        got = ask(write(name, b"<script>alert(1)</script>"))
        equal((got.status, got.header("Content-Type")), (200, type_), name)
        equal(got.header("Content-Disposition").split(";")[0], kind, name)
        contains(got.header("Content-Disposition"), f'filename="{name}"')
        equal(got.header("X-Content-Type-Options"), "nosniff")
        contains(got.header("Content-Security-Policy"), "sandbox")
        contains(got.header("Content-Security-Policy"), "default-src 'none'")
        equal(got.header("Referrer-Policy"), "no-referrer")
    for name, type_ in (("a.mp4", "video/mp4"), ("a.mp3", "audio/mpeg")):  # a browser's player requests the file again
        got = ask(write(name, b"<script>alert(1)</script>"))
        equal((got.header("Content-Type"), got.header("Content-Disposition").split(";")[0], got.header("X-Content-Type-Options")), (type_, "inline", "nosniff"))
        equal(got.header("Content-Security-Policy"), "default-src 'none'; media-src 'self'; style-src 'unsafe-inline'")
    got = ask(write('q"\\ä;.png', PNG))
    equal(got.header("Content-Disposition"), "inline; filename=\"q_____.png\"; filename*=UTF-8''q%22%5C%C3%A4%3B.png")


@suite.case("pages of others get no permission to read it, but may link to it; the Host has to be ours")
def pages():
    server, _, _ = shared()
    url = write("page.txt", b"text")
    for origin in ("https://evil.example", "http://localhost:3000"):
        got = ask(url, Origin=origin, Sec_Fetch_Site="cross-site")
        equal([k for k in got.headers if k.startswith("access-control")], [])
    equal(ask(url, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").body, b"text")
    equal(ask(url, Host="evil.example").status, 403)
    equal(ask(url, method="POST").status, 405)
    equal(ask(url, method="OPTIONS", Origin="http://localhost:3000", Access_Control_Request_Method="GET").status, 405)
    health = server.ask("GET", "/health")
    equal((health.head.status, health.body), (200, b'{"status":"healthy"}'))


@suite.case("a link opens one file, as it is written, and nothing else")
def tampered():
    _, client, sandbox = shared()
    url = write("one.txt", b"one")
    other = write("two.txt", b"two")
    second = client.call("create_sandbox")["sandbox_id"]
    client.call("write_file", sandbox_id=second, path="one.txt", content="of the second")
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    equal(set(query), {"expires", "sig"})

    def made(path=parts.path, **changed):
        return parts._replace(path=path, query=urllib.parse.urlencode({k: v for k, v in {**query, **changed}.items() if v is not None})).geturl()

    equal(ask(made()).body, b"one")
    flipped = query["sig"][:-1] + ("0" if query["sig"][-1] != "0" else "1")
    for wrong in (
        made(path=parts.path.replace("one.txt", "two.txt")),
        made(path=parts.path.replace(sandbox, second)),
        made(path=parts.path.replace("one.txt", "./one.txt")),
        made(path=parts.path.replace("/workspace/one.txt", "/etc/passwd")),
        made(path=parts.path.replace(sandbox, "absent")),
        made(expires=str(int(query["expires"]) + 1)),
        made(expires="0" + query["expires"]),
        made(expires="99999999999999999999"),
        made(expires="-1"),
        made(sig=flipped), made(sig=""), made(sig=None), made(expires=None), made(sig=query["sig"] + "0"), made(sig=query["sig"].upper() if query["sig"].upper() != query["sig"] else ""),
        made(sig=dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(other).query))["sig"]),
    ):
        got = ask(wrong)
        equal(got.status, 403, wrong)
        assert b"one" not in got.body.replace(b"is not one that", b""), got.body
    for nothing in ("/files/", "/files", "/files/x"):
        equal(ask(parts._replace(path=nothing).geturl()).status, 404, nothing)
    equal(ask(parts._replace(path="/sandbox/file", query=urllib.parse.urlencode({"sandbox_id": sandbox, "file_path": "/workspace/one.txt", **query})).geturl()).status, 404)
    client.call("close_sandbox", sandbox_id=second)


@suite.case("what is no file any more, or none that can be read, is not found; so is a file of a closed sandbox", engines=ONE)
def gone():
    _, client, sandbox = shared()
    url = write("going.txt", b"x")
    run("import os; os.remove('going.txt')")
    equal(ask(url).status, 404)
    run("import os; os.mkfifo('going.txt')")
    equal(ask(url).status, 404)
    run("import os; os.remove('going.txt'); os.mkdir('going.txt')")
    equal(ask(url).status, 404)
    run("import os; os.rmdir('going.txt'); os.symlink('/proc/1/environ', 'going.txt')")
    equal(ask(url).status, 404)
    closing = client.call("create_sandbox")["sandbox_id"]
    url = client.call("write_file", sandbox_id=closing, path="x", content="x")["url"]
    equal(ask(url).status, 200)
    client.call("close_sandbox", sandbox_id=closing)
    equal(ask(url).status, 404)


@suite.case("parts of it, its head, and that it has not changed")
def parts():
    data = bytes(range(256)) * 8000
    url = write("parts.bin", data)
    whole = ask(url)
    equal((whole.status, whole.body == data, whole.header("Accept-Ranges")), (200, True, "bytes"))
    head = ask(url, method="HEAD")
    equal((head.status, head.body, head.header("Content-Length")), (200, b"", str(len(data))))
    for header, wanted in (
        ("bytes=0-0", (0, 1)), ("bytes=100-199", (100, 200)), ("bytes=2047999-", (2047999, 2048000)),
        ("bytes=-500", (len(data) - 500, len(data))), ("bytes=1000-99999999", (1000, len(data))), ("bytes=-99999999", (0, len(data))),
    ):
        got = ask(url, Range=header)
        equal((got.status, got.body == data[slice(*wanted)]), (206, True), header)
        equal(got.header("Content-Range"), f"bytes {wanted[0]}-{wanted[1] - 1}/{len(data)}")
    for header in ("bytes=2048000-", "bytes=-0", "bytes=999999999999-"):
        got = ask(url, Range=header)
        equal((got.status, got.header("Content-Range")), (416, f"bytes */{len(data)}"), header)
        equal((got.header("Cache-Control"), got.header("ETag")), ("no-store", None), header)
    for header in ("bytes=5-2", "bytes=", "bytes=-", "bytes=a-b", "items=0-1", "bytes=0-1,3-4", "bytes=99999999999999999999-"):
        got = ask(url, Range=header)
        equal((got.status, got.body == data), (200, True), header)
    etag = whole.header("ETag")
    known = ask(url, If_None_Match=etag)
    equal((known.status, known.body, known.header("Content-Length")), (304, b"", str(len(data))))
    equal(ask(url, If_Range=etag, Range="bytes=0-9").status, 206)
    write("parts.bin", b"other")
    equal(ask(url, If_Range=etag, Range="bytes=0-1").body, b"other")
    equal(ask(url, If_None_Match=etag).body, b"other")
    # It is rewritten in place with the same times, and is a new version anyway.
    etag = ask(url).header("ETag")
    run("import os\nt = os.stat('parts.bin')\nwith open('parts.bin', 'r+b') as f: f.write(b'OTHER')\nos.utime('parts.bin', ns=(t.st_atime_ns, t.st_mtime_ns))")
    equal(ask(url, If_None_Match=etag).body, b"OTHER")
    equal(ask(url, If_Range=etag, Range="bytes=0-1").body, b"OTHER")


@suite.case("a large file arrives as it is; one that changes on the way is cut; slow clients have their number", engines=ONE)
def large():
    _, client, sandbox = shared()
    digest = run("import os, hashlib\nd = os.urandom(48 << 20)\nopen('large.bin', 'wb').write(d)\nprint(hashlib.sha256(d).hexdigest())").strip()
    url = client.call("read_file", sandbox_id=sandbox, path="large.bin", length=1)["url"]
    got = ask(url)
    equal((len(got.body), hashlib.sha256(got.body).hexdigest()), (48 << 20, digest))
    place = urllib.parse.urlsplit(url)
    slow = []
    for _ in range(8):
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
        connection.request("GET", f"{place.path}?{place.query}")
        slow.append((connection, connection.getresponse()))
    busy = ask(url)
    equal((busy.status, busy.header("Retry-After")), (503, "1"))
    equal(client.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    equal(ask(url, method="HEAD").status, 503)
    # It changes while eight clients read: each download is cut, so each client notices.
    run("with open('large.bin', 'r+b') as f: f.write(b'changed')")
    for connection, response in slow:
        try:
            body = response.read()
            raise AssertionError(f"{len(body)} bytes came as if they were all")
        except (http.client.IncompleteRead, ConnectionError) as cut:
            assert len(getattr(cut, "partial", b"")) < 48 << 20
        connection.close()
    # Clients that disconnect make room.
    poll("there is room again", lambda: ask(url, Range="bytes=0-6").body == b"changed")


@suite.case("links end after their time, and say so")
def expired():
    with HttpServer("--link-seconds", "2") as server:
        client = server.client(LATEST_LEGACY)
        sandbox = client.call("create_sandbox")["sandbox_id"]
        url = client.call("write_file", sandbox_id=sandbox, path="x", content="short")["url"]
        equal(ask(url).body, b"short")
        poll("it has expired", lambda: ask(url).status != 200, interval=0.2)
        got = ask(url)
        equal(got.status, 410)
        contains(got.body, b"expired")
        server.close_sandboxes()


@suite.case("where tokens are needed a link is enough, it has none in it, and it outlives the server", engines=ONE)
def restart():
    place = mcp.temporary_directory()
    tokens = os.path.join(place, "tokens")
    secret = "a-token-of-twenty-four-letters"
    with open(tokens, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(f"alice {secret}\n")
    runtime = mcp.temporary_directory()
    first = HttpServer("--tokens", tokens, runtime_dir=runtime)
    client = first.client(LATEST_LEGACY, token=secret)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    url = client.call("write_file", sandbox_id=sandbox, path="x", content="kept")["url"]
    assert secret not in url and "alice" not in url
    equal(ask(url).body, b"kept")
    key = os.path.join(runtime, "main", "key")
    equal((os.stat(key).st_mode & 0o777, os.stat(key).st_size), (0o600, 32))
    first.process.send_signal(signal.SIGTERM)
    equal(first.wait_exit(), 0)
    port = urllib.parse.urlsplit(url).port
    second = HttpServer("--tokens", tokens, runtime_dir=runtime, address=f"127.0.0.1:{port}")
    equal(poll("the sandbox was taken over", lambda: ask(url).body == b"kept"), True)
    second.close_sandboxes(token=secret)
    equal(ask(url).status, 404)
    second.close()


@suite.case("links begin as --public-url says; on stdio there are none")
def public():
    with HttpServer("--public-url", "https://box.example/tools", "--insecure-http") as server:
        client = server.client(LATEST_LEGACY)
        sandbox = client.call("create_sandbox")["sandbox_id"]
        url = client.call("write_file", sandbox_id=sandbox, path="x", content="x")["url"]
        assert re.match(rf"https://box\.example/tools/files/{sandbox}/workspace/x\?", url), url
        here = f"/files/{url.split('/files/')[1]}"
        equal(server.ask("GET", here).body, b"x")
        server.close_sandboxes()
    with mcp.Server() as server:
        server.legacy()
        assert "url" not in server.call("write_file", path="x", content="x")


@suite.finish
def finish():
    """the server ends and leaves nothing behind"""
    if _shared:
        _shared[0].close_sandboxes()
        _shared[0].close()


suite.run()
