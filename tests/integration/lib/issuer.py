"""An authorization server for a resource server: token introspection (RFC 7662), with answers that a test chooses."""

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT = "cloister-tests:a secret: with a colon"


class Issuer:
    def __init__(self):
        self.tokens = {}  # token: its answer, a dict, bytes or a status
        self.asked = []
        self.problems = []
        self.hold = threading.Event()  # answers wait for this
        self.hold.set()
        issuer = self

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """Clients may disconnect."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                issuer.serve(self)

            def log_message(self, *_):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def serve(self, request):
        form = urllib.parse.parse_qs(request.rfile.read(int(request.headers["Content-Length"])).decode())
        scheme, _, shown = (request.headers.get("Authorization") or "").partition(" ")
        # each part is encoded like a field of a form (RFC 6749, 2.3.1)
        parts = [urllib.parse.unquote_plus(part) for part in base64.b64decode(shown).decode().split(":")]
        if scheme != "Basic" or parts != CLIENT.split(":", 1):
            self.problems.append(f"who asks shows {scheme} {parts}")
        if request.headers.get("Content-Type") != "application/x-www-form-urlencoded" or request.path != "/introspect":
            self.problems.append(f"asked at {request.path} with {request.headers.get('Content-Type')}")
        token = form["token"][0]
        self.asked.append(token)
        self.hold.wait(30)
        answer = self.tokens.get(token, {"active": False})
        status, body = 200, b""
        if isinstance(answer, int):
            status = answer
        else:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        try:
            request.send_response(status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            pass  # the client has not waited

    def good(self, token, subject, audience, **more):
        """Registers a token of this subject that is valid for an hour."""
        self.tokens[token] = {
            "active": True,
            "sub": subject,
            "client_id": "somebody's app",
            "iss": self.url,
            "aud": audience,
            "scope": "mcp:use",
            "exp": int(time.time()) + 3600,
            **more,
        }
        return token

    def close(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()
