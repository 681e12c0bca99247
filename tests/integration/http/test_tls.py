"""TLS: clients of every kind, certificates that are replaced, names in them, and peers that break the handshake."""

import http.client
import json
import os
import signal
import socket
import ssl
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, MODERN, Suite, contains, equal, mcp, needs_runtime, poll, refused
from certificates import certificate
from http_wire import Place, Raw, head_bytes
from mcp_http import EVENTS, JSON, HttpServer, SseClient

needs_runtime()
suite = Suite()
BOTH = [("Content-Type", JSON), ("Accept", f"{JSON}, {EVENTS}")]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@suite.case("TLS: every kind of client, long answers, and a certificate that is replaced while it runs")
def tls():
    directory = mcp.temporary_directory()
    cert, key = certificate(directory, "first")
    with HttpServer("--tls-cert", cert, "--tls-key", key, authority=cert) as server:
        assert server.place.secure, server.place.url
        client = server.client(LATEST_LEGACY)
        box = client.call("create_sandbox")["sandbox_id"]
        for other in (server.client(MODERN), server.client("2024-11-05", kind=SseClient)):
            contains(json.dumps(other.call("execute_code", code="6 * 7", sandbox_id=box)), "42")
        big = "z" * 900000
        client.call("write_file", path="big", content=big, sandbox_id=box)
        equal(client.request("resources/read", {"uri": f"sandbox://{box}/workspace/big"})["contents"][0]["text"], big)
        stream = client.listen()
        equal(stream.status(), 200)
        plain = Place(f"http://127.0.0.1:{server.place.port}")
        with Raw(plain) as raw:
            raw.send(head_bytes(plain, "POST", "/mcp", BOTH, len(PING)) + PING)
            assert raw.is_closed(20), "plain HTTP on the port of TLS"
        again = certificate(directory, "second")
        for made, place in zip(again, (cert, key)):
            os.replace(made, place)
        os.kill(server.process.pid, signal.SIGHUP)
        new = Place(server.place.url, cert)

        def served():
            try:
                with Raw(new):
                    return True
            except OSError:
                return False

        poll("the new certificate is shown", served)
        server.place = client.place = new
        equal(client.run("1", sandbox_id=box)["result"], "1")
        assert not stream.ended.is_set(), "a stream that was there before"
        with open(cert, "w", encoding="utf-8") as file:
            file.write("no certificate\n")
        before = len(server.log)
        os.kill(server.process.pid, signal.SIGHUP)
        poll("a complaint", lambda: any("tls" in line.lower() or "certificate" in line.lower() for line in server.log[before:]))
        new.connect().close()
        client.call("close_sandbox", sandbox_id=box)
    for options in (("--tls-cert", again[0]), ("--tls-key", key), ("--tls-cert", "/nowhere", "--tls-key", key), ("--tls-cert", key, "--tls-key", key)):
        contains(refused("--http", "127.0.0.1:0", *options).stderr.lower(), "tls")


@suite.case("TLS: the names in the certificate are names of the server, and those of the next one are after a SIGHUP")
def certified_names():
    directory = mcp.temporary_directory()
    cert, key = certificate(directory, "named", "DNS:box.example,DNS:*.wild.example,DNS:localhost,IP:127.0.0.1,IP:192.0.2.7,IP:2001:db8::7,URI:https://uri.example")
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    with HttpServer("--tls-cert", cert, "--tls-key", key, authority=cert) as server:

        def status(host):
            connection = http.client.HTTPSConnection("127.0.0.1", server.place.port, timeout=60, context=unchecked)
            connection.request("POST", "/mcp", PING, {"Host": host, "Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"})
            with connection.getresponse() as answer:
                return answer.status

        for host in ("box.example", "BOX.example:4443", "a.wild.example", "192.0.2.7", "[2001:db8::7]:1", "localhost"):
            assert status(host) != 403, host
        for host in ("example", "a.box.example", "wild.example", "a.b.wild.example", "uri.example", "192.0.2.8", "named"):
            equal(status(host), 403, host)
        for made, place in zip(certificate(directory, "next", "DNS:other.example,IP:127.0.0.1"), (cert, key)):
            os.replace(made, place)
        os.kill(server.process.pid, signal.SIGHUP)
        poll("the next name is taken", lambda: status("other.example") != 403)
        equal(status("box.example"), 403)
        server.place = Place(server.place.url, cert)


@suite.case("TLS: half a handshake, garbage, and a client that goes in the middle disturb nobody")
def tls_abuse():
    directory = mcp.temporary_directory()
    cert, key = certificate(directory, "abuse")
    with HttpServer("--tls-cert", cert, "--tls-key", key, authority=cert) as server:
        client = server.client(LATEST_LEGACY)
        held = []
        for data in (b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\xff\xff" + b"\0" * 2000, b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000)):
            for _ in range(20):
                s = socket.create_connection(("127.0.0.1", server.place.port))
                try:
                    s.sendall(data)
                except OSError:
                    pass  # the server refused it before that
                held.append(s)
        for _ in range(20):
            equal(client.request("ping"), {})
        for s in held:
            s.close()
        equal(client.request("ping"), {})


suite.run()
