"""Traces by OTLP: spans of calls and of what they wait for; a collector that hangs, refuses or is away costs spans and nothing else."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, NONE, Suite, contains, equal, mcp, needs_runtime, poll
from collector import Collector
from mcp_http import HttpServer
from metrics_page import number, page

needs_runtime()
suite = Suite(NONE)  # spans do not depend on the backend
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def call_with(client, traceparent, tool="get_sandbox_status", **arguments):
    return client.request("tools/call", {"name": tool, "arguments": arguments, "_meta": {"traceparent": traceparent}})


@suite.case("a call is a span with what it waited for below it; it belongs to the trace of its request")
def spans():
    collector = Collector()
    with HttpServer("--otlp-endpoint", collector.url) as server:
        client = server.client(LATEST_LEGACY)
        sandbox = client.call("create_sandbox", name="marsupial-name")["sandbox_id"]
        call_with(client, f"00-{TRACE}-{PARENT}-01", "execute_code", sandbox_id=sandbox, code="import time\nprint('marsupial')\ntime.sleep(0.2)")
        client.call_failing("read_file", sandbox_id=sandbox, path="marsupial-none")
        client.call("close_sandbox", sandbox_id=sandbox)
        found = poll("four calls", lambda: len(collector.calls()) == 4 and collector.calls())
        equal([span["name"] for span in found], [f"tools/call {tool}" for tool in ("create_sandbox", "execute_code", "read_file", "close_sandbox")])
        run = found[1]
        equal((run["traceId"], run["parentSpanId"]), (TRACE, PARENT))
        equal((run["attributes"]["cloister.outcome"], run["attributes"]["cloister.sandbox"]), ("ok", sandbox))
        below = collector.below(run)
        equal(sorted(below), ["run", "sandbox", "worker"])
        assert {span["traceId"] for span in below.values()} == {TRACE}, below
        assert below["run"]["end"] - below["run"]["begin"] >= 200_000_000, below
        equal((below["sandbox"]["begin"], below["run"]["end"]), (run["begin"], run["end"]))
        equal(below["sandbox"]["end"], below["worker"]["begin"])
        equal(below["worker"]["end"], below["run"]["begin"])
        failed = found[2]
        equal((failed["status"], failed["attributes"]["error.type"]), ({"code": 2}, "file_not_found"))
        assert "parentSpanId" not in failed and "status" not in run and failed["traceId"] != TRACE, failed
        poll("they are counted", lambda: number(page(server), "cloister_traced_calls_total") == 4)
    collector.close()
    assert b"marsupial" not in b"".join(collector.bodies)


@suite.case("a trace that its client does not record is not sent, and what is no traceparent begins a new one")
def parents():
    collector = Collector()
    with HttpServer("--otlp-endpoint", collector.url) as server:
        client = server.client(LATEST_LEGACY)
        call_with(client, f"00-{TRACE}-{PARENT}-00")
        for wrong in ("", "x", f"00-{TRACE}-{PARENT}", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01", 7, {"a": 1}):
            call_with(client, wrong)
        found = poll("seven calls", lambda: len(collector.calls()) == 7 and collector.calls())
        assert all("parentSpanId" not in span and span["traceId"] != TRACE for span in found), found
        equal(len({span["traceId"] for span in found}), 7)
    collector.close()


@suite.case("the last calls before the end of a server are sent")
def at_the_end():
    collector = Collector()
    with mcp.Server("--otlp-endpoint", collector.url + "/below/") as server:
        server.open(LATEST_LEGACY)
        server.call("get_sandbox_status")
    gave_up = "takes too long" in server.log_tail()  # on a machine that slow
    if not gave_up:
        equal(collector.requests, 1)
        contains(str(collector.problems), "/below/v1/traces")
    collector.problems.clear()
    collector.close()


@suite.case("a collector that hangs delays neither calls nor the end of the server")
def hangs():
    collector = Collector()
    collector.free.clear()
    with HttpServer("--otlp-endpoint", collector.url) as server:
        client = server.client(LATEST_LEGACY)
        client.call("get_sandbox_status")
        poll("it has a batch, and does not answer", lambda: collector.requests == 1)
        for _ in range(5):
            client.call("get_sandbox_status")
    contains(server.log_tail(), "takes too long")
    collector.close()


@suite.case("a collector that refuses or is away costs spans, which are counted, and the log says so")
def refuses():
    collector = Collector()
    collector.status = 503
    with HttpServer("--otlp-endpoint", collector.url) as server:
        client = server.client(LATEST_LEGACY)
        client.call("get_sandbox_status")
        poll("they are counted", lambda: number(page(server), "cloister_traced_calls_dropped_total", reason="send_failed") == 1)
        poll("the log says so", lambda: "answered with status 503" in server.log_tail())
        collector.status = 200
        client.call("get_sandbox_status")
        poll("later ones are taken", lambda: number(page(server), "cloister_traced_calls_total") == 1)
        collector.close()
        client.call("get_sandbox_status")
        poll("it is away", lambda: number(page(server), "cloister_traced_calls_dropped_total", reason="send_failed") == 2)


@suite.case("what is no URL of a collector is refused when the server starts")
def bad_urls():
    for url in ("collector", "ftp://collector", "http://user@collector", "http://collector/?x=1"):
        done = subprocess.run([os.environ["CLOISTER"], "--otlp-endpoint", url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        equal((done.returncode, done.stdout), (64, ""), f"{url}: {done.stderr}")
        contains(done.stderr, "--otlp-endpoint")


suite.run()
