#!/usr/bin/env python3
"""Uses an installed cloister as a client does, and fails unless code runs in a sandbox.

  use.py stdio COMMAND…     starts COMMAND, runs code over its standard streams, ends it by closing them
  use.py tls COMMAND…       starts COMMAND as a server over HTTP with TLS and a token, runs code over that, ends it with SIGTERM

It needs Python and, for TLS, openssl."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE_SECONDS = 300  # for a slow machine
REVISION = "2025-06-18"
CODE = "import platform\nprint(6 * 7, platform.python_implementation())"


def requests():
    """What a client says, with whether it waits for an answer."""
    client = {"name": "use.py", "version": "1"}
    yield {"id": 1, "method": "initialize", "params": {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}}
    yield {"method": "notifications/initialized"}
    yield {"id": 2, "method": "tools/list"}
    yield {"id": 3, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": CODE}}}
    yield {"id": 4, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": "platform.system()"}}}


def check(request, answer):
    assert "result" in answer, answer
    result = answer["result"]
    if request["id"] == 1:
        print(f"    {result['serverInfo']['name']} {result['serverInfo']['version']}")
    elif request["id"] == 2:
        assert any(tool["name"] == "execute_code" for tool in result["tools"]), result
    else:
        text = result["content"][0]["text"]
        assert not result.get("isError"), text
        assert ("42 CPython" if request["id"] == 3 else "Linux") in text, text


def over_stdio(command):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        for request in requests():
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
            server.stdin.flush()
            while "id" in request:
                line = server.stdout.readline()
                assert line, "the server has closed its output"
                answer = json.loads(line)
                if answer.get("id") == request["id"]:
                    check(request, answer)
                    break
        server.stdin.close()
        status = server.wait(timeout=PATIENCE_SECONDS)
        assert status == 0, f"exit status {status}"


class Web:
    def __init__(self, address, token, certificate):
        self.address, self.token, self.session = address, token, None
        self.context = ssl.create_default_context(cafile=certificate)

    def ask(self, request):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.token}"}
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": REVISION}
        body = json.dumps({"jsonrpc": "2.0", **request}).encode()
        asked = urllib.request.Request(self.address, data=body, headers=headers)
        with urllib.request.urlopen(asked, context=self.context, timeout=PATIENCE_SECONDS) as reply:
            self.session = reply.headers.get("Mcp-Session-Id") or self.session
            text = reply.read().decode()
        lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")] or [text]
        answers = [json.loads(line) for line in lines if line.strip()]
        return next((each for each in answers if each.get("id") == request.get("id")), None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, server):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert server.poll() is None, f"the server has ended with {server.returncode}"
            assert time.monotonic() < deadline, "nobody listens"
            time.sleep(0.05)


def over_tls(command):
    with tempfile.TemporaryDirectory() as place:
        tokens, key, certificate = (os.path.join(place, name) for name in ("tokens", "key.pem", "cert.pem"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
             "-days", "2", "-keyout", key, "-out", certificate],
            check=True, stderr=subprocess.DEVNULL,
        )
        made = subprocess.run([*command, "token", "tester"], check=True, capture_output=True, text=True)
        with open(tokens, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(made.stdout)
        token = next(word for word in made.stderr.split() if len(word) >= 32)
        port = free_port()
        arguments = ["--http", str(port), "--tokens", tokens, "--tls-cert", certificate, "--tls-key", key, "--runtime-dir", os.path.join(place, "run")]
        with subprocess.Popen([*command, *arguments], stdin=subprocess.DEVNULL) as server:
            try:
                wait_for(port, server)
                web = Web(f"https://127.0.0.1:{port}/mcp", token, certificate)
                for request in requests():
                    answer = web.ask(request)
                    if "id" in request:
                        check(request, answer)
                stranger = Web(web.address, "wrong", certificate)
                try:
                    stranger.ask(next(requests()))
                    raise AssertionError("a wrong token was taken")
                except urllib.error.HTTPError as refusal:
                    assert refusal.code == 401, refusal.code
            finally:
                server.send_signal(signal.SIGINT)  # which ends its sandboxes as well
            server.wait(timeout=PATIENCE_SECONDS)


def main():
    {"stdio": over_stdio, "tls": over_tls}[sys.argv[1]](sys.argv[2:])
    print(f"    code ran over {sys.argv[1]}")


main()
