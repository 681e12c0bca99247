"""Views of results (MCP Apps): who says that it shows them finds one, and nobody else sees that there is any."""

import json

from common import LEGACY, MODERN, NONE, Server, Suite, contains, equal, needs_runtime
from wire import PREFIX

needs_runtime()
suite = Suite(NONE)

URI = "ui://cloister/result.html"
TYPE = "text/html;profile=mcp-app"
UI = PREFIX + "ui"
VIEWED = ["create_run_close", "execute_code", "get_execution"]
SHOWS = {"extensions": {UI: {"mimeTypes": ["text/plain", TYPE]}}}
WITH_META = [version for version in (*LEGACY, MODERN) if version >= "2025-06-18"]  # older ones cannot name a view
TEXT = {"CLOISTER_RESULTS": "text"}


def opened(version, capabilities, **env):
    server = Server(env={**TEXT, **env})
    server.capabilities = capabilities
    return server, server.open(version)


def tools(server):
    return {tool["name"]: tool for tool in server.request("tools/list")["tools"]}


def without_views(tool):
    meta = {key: value for key, value in tool.get("_meta", {}).items() if key not in ("ui", "ui/resourceUri")}
    return {**{key: value for key, value in tool.items() if key != "_meta"}, **({"_meta": meta} if meta else {})}


def offered(server, version, opening):
    result = server.request("server/discover") if version == MODERN else opening
    return result["capabilities"].get("extensions", {})


@suite.case("who shows views is told of one by the tools that run code, finds it listed, and reads it")
def declared():
    for version in WITH_META:
        server, opening = opened(version, SHOWS)
        equal(offered(server, version, opening).get(UI), {}, version)
        named = {name: tool["_meta"] for name, tool in tools(server).items() if "ui" in tool.get("_meta", {})}
        equal(sorted(named), VIEWED)
        for meta in named.values():
            equal((meta["ui"], meta["ui/resourceUri"]), ({"resourceUri": URI}, URI))
        first = server.request("resources/list")["resources"][0]
        equal((first["uri"], first["mimeType"]), (URI, TYPE))
        (content,) = server.request("resources/read", {"uri": URI})["contents"]
        equal((content["uri"], content["mimeType"]), (URI, TYPE))
        equal(set(map(len, content["_meta"]["ui"]["csp"].values())), {0})  # it reaches nothing
        server.close()


@suite.case("the view is one small document that loads nothing")
def document():
    server, _ = opened(MODERN, SHOWS)
    (content,) = server.request("resources/read", {"uri": URI})["contents"]
    text = content["text"]
    assert text.startswith("<!doctype html>") and len(text) < 64 << 10, len(text)
    for word in ("http:", "https:", " src=", "@import", "url("):
        assert word not in text, word
    equal(text.count("</script>"), 1)
    server.close()


@suite.case("who does not show views, or no view of this type, sees no difference")
def others():
    server, _ = opened(MODERN, SHOWS)
    with_views = tools(server)
    beside = [{}, {"extensions": {}}, {"extensions": {UI: {}}}, {"extensions": {UI: {"mimeTypes": []}}}, {"extensions": {UI: {"mimeTypes": TYPE}}},
              {"extensions": {UI: {"mimeTypes": ["text/html", 7, None, {}]}}}, {"extensions": {UI: None}}, {"extensions": [UI]}]
    for capabilities in beside:
        server.capabilities = capabilities
        found = server.request("tools/list")["tools"]
        equal(found, [without_views(tool) for tool in with_views.values()], str(capabilities))
        assert UI not in offered(server, MODERN, None)
        equal([item for item in server.request("resources/list")["resources"] if item["uri"].startswith("ui:")], [])
        unknown = server.start("resources/read", {"uri": "sandbox://nobody/x"}).error()
        refused = server.start("resources/read", {"uri": URI}).error()
        equal((refused["code"], refused["message"].replace(URI, "")), (unknown["code"], unknown["message"].replace("sandbox://nobody/x", "")))
    server.close()
    for version in LEGACY:
        server, opening = opened(version, {})
        text = json.dumps([opening, server.request("tools/list"), server.request("resources/list")])
        assert "ui/" not in text and "ui:" not in text and UI not in text, version
        server.close()


@suite.case("models of hosts with views get the same text as others; what the view shows is beside it")
def results():
    server, _ = opened(MODERN, SHOWS)
    sandbox = server.request("tools/call", {"name": "create_sandbox", "arguments": {"name": "viewed"}})
    equal("cloister/fields" in sandbox.get("_meta", {}), False)
    call = {"name": "execute_code", "arguments": {"sandbox_id": "viewed", "code": "print('\\x1b[31mred\\x1b[0m')\nopen('a.txt', 'w').write('x')\n6 * 7"}}
    seen = server.request("tools/call", call)
    server.capabilities = {}
    plain = server.request("tools/call", call)
    equal(seen["content"], plain["content"])
    equal(("structuredContent" in seen, "structuredContent" in plain), (False, False))
    fields = seen["_meta"].pop("cloister/fields")
    equal(seen["_meta"], plain["_meta"])
    equal((fields["stdout"], fields["result"], fields["status"]), ("\x1b[31mred\x1b[0m\n", "42", "ok"))
    contains(plain["content"][0]["text"], "red\n42")
    server.capabilities = SHOWS
    both = server.request("tools/call", {**call, "_meta": {"cloister/results": "structured"}})
    equal((both["structuredContent"]["result"], "cloister/fields" in both["_meta"]), ("42", False))
    server.close()


suite.run()
