"""A collector of traces: OTLP over HTTP as JSON. It checks the shape of what it is sent; it can refuse, or hang."""

import http.server
import json
import re
import threading

ID = {"traceId": re.compile("[0-9a-f]{32}"), "spanId": re.compile("[0-9a-f]{16}"), "parentSpanId": re.compile("[0-9a-f]{16}")}
KNOWN = {*ID, "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}


def checked(span):
    for key, pattern in ID.items():
        if key in span or key != "parentSpanId":
            assert pattern.fullmatch(span[key]) and span[key].strip("0"), span
    assert set(span) <= KNOWN and span["name"] and span["kind"] in (1, 2), span
    begin, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
    assert isinstance(begin, str) and isinstance(end, str) and int(begin) <= int(end), span
    attributes = {}
    for attribute in span["attributes"]:
        assert set(attribute) == {"key", "value"} and list(attribute["value"]) == ["stringValue"], span
        attributes[attribute["key"]] = attribute["value"]["stringValue"]
    return {**span, "begin": int(begin), "end": int(end), "attributes": attributes}


class Collector:
    """`status`: what it answers. While `held` is cleared, it does not answer."""

    def __init__(self):
        self.spans, self.problems, self.requests, self.status = [], [], 0, 200
        self.bodies = []
        self.free = threading.Event()
        self.free.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                outer.take(self)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.requests += 1
        self.free.wait()
        try:
            assert handler.path == "/v1/traces", handler.path
            assert handler.headers["Content-Type"] == "application/json", handler.headers
            (resource,) = json.loads(body)["resourceSpans"]
            names = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
            assert names["service.name"] == "cloister" and names["service.version"], names
            (scope,) = resource["scopeSpans"]
            spans = [checked(span) for span in scope["spans"]]
            if self.status == 200:
                self.bodies.append(body)
                self.spans += spans
        except (AssertionError, KeyError, ValueError, TypeError) as problem:
            self.problems.append(repr(problem))
        try:
            handler.send_response(self.status)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"{}")
        except OSError:
            pass  # the server has given up

    def calls(self):
        return [span for span in list(self.spans) if span["kind"] == 2]

    def below(self, span):
        return {s["name"]: s for s in list(self.spans) if s.get("parentSpanId") == span["spanId"]}

    def close(self):
        self.free.set()
        self.server.shutdown()
        self.server.server_close()
        assert not self.problems, self.problems
