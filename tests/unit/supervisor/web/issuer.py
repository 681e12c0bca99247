#!/usr/bin/env python3
"""An authorization server for test_auth.c, which misbehaves as the token says.

It listens on loopback, without TLS and with a certificate that no authority has signed. It prints "ready PORT
TLSPORT" and serves until its stdin is closed. Only the client that the test configured may ask. A token lists
members that its answer has besides the usual ones, as "noscope.listaud"; "count" makes the number of
questions about this token the subject.
"""

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

RESOURCE = "http://127.0.0.1:8080/mcp"
CLIENT = ("clois/ter", "s%e:c ret")

asked = {}
lock = threading.Lock()
released = threading.Event()


def answer(token, issuer):
    now = int(time.time())
    result = {"active": True, "sub": "alice", "aud": RESOURCE, "scope": "read write", "exp": now + 3600, "iss": issuer}
    changes = {
        "off": {"active": False},
        "noscope": {"scope": "read"},
        "noaud": {"aud": None},
        "otheraud": {"aud": "http://127.0.0.1:8080/other"},
        "listaud": {"aud": ["https://elsewhere.example", RESOURCE + "/"]},
        "othersub": {"sub": "bob/ä x"},
        "client": {"sub": None, "client_id": "robot"},
        "nobody": {"sub": None},
        "expired": {"exp": now - 1},
        "early": {"nbf": now + 3600},
        "otheriss": {"iss": "https://evil.example"},
        "refresh": {"token_type": "Refresh"},
        "bound": {"cnf": {"jkt": "x"}},
        "badactive": {"active": "true"},
        "badexp": {"exp": str(now + 3600)},
        "count": {"sub": f"asked{asked[token]}"},
    }
    for part in token.split("."):
        result.update(changes.get(part, {}))
    return json.dumps({k: v for k, v in result.items() if v is not None}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def is_client(self):
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic":
            return False
        pair = base64.b64decode(value, validate=True).decode("ascii").split(":")
        return tuple(map(urllib.parse.unquote, pair)) == CLIENT

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode("ascii")
        form = urllib.parse.parse_qs(body, strict_parsing=True)
        (token,) = form["token"]
        good = (
            self.is_client()
            and self.headers["Content-Type"] == "application/x-www-form-urlencoded"
            and form["token_type_hint"] == ["access_token"]
        )
        if not good:
            self.reply(401)
            return
        with lock:
            asked[token] = asked.get(token, 0) + 1
        good = answer(token, f"http://127.0.0.1:{self.server.server_port}/realm")
        if self.path == "/introspect/":
            self.serve(token, good)
        elif self.path == "/good":  # target of redirects
            self.reply(200, good)
        else:
            self.reply(404)

    def serve(self, token, good):
        if "redirect" in token:
            self.reply(307, Location="/good")
        elif "moved" in token:
            self.reply(302, good, Location="/good")
        elif "error500" in token:
            self.reply(500, good)
        elif "notjson" in token:
            self.reply(200, good + b"}")
        elif "huge" in token:
            self.reply(200, good[:-1] + b', "more": "' + b"x" * 70000 + b'"}')
        elif "endless" in token:
            self.reply(200, good[:-1] + b', "more": ' + b"[" * 60 + b"]" * 60 + b"}")
        elif "hangup" in token:
            self.close_connection = True
        elif "cut" in token:
            self.send_response(200)
            self.send_header("Content-Length", str(len(good) + 100))
            self.end_headers()
            self.wfile.write(good)
            self.close_connection = True
        elif "hang" in token:
            released.wait(30)
            self.close_connection = True
        else:
            self.reply(200, good)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, address):
        pass  # clients hang up, and one does not trust us


def main():
    top = sys.argv[1]
    key, cert = os.path.join(top, "issuer-key.pem"), os.path.join(top, "issuer.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
         key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True)
    plain = Server(("127.0.0.1", 0), Handler)
    tls = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    # the handshake runs in the thread of the connection, not in the accepting one
    tls.socket = context.wrap_socket(tls.socket, server_side=True, do_handshake_on_connect=False)
    for server in (plain, tls):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"ready {plain.server_port} {tls.server_port}", flush=True)
    sys.stdin.buffer.read()
    released.set()


main()
