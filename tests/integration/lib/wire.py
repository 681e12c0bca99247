"""Checks everything that a server sends on one connection or in one session against the published schemas.

The form of a message depends on the request that it answers and on the revision of that request. So the
client reports the messages that it sends as well. A problem is a text; the client collects them, and a test
fails when it closes a client with problems.

Beyond the schemas it checks rules that are stricter: an answer of the latest revision has no error code of
older ones, what must be empty is empty, and features of the latest revision do not appear in older ones.
"""

import json

import schema

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TASKS = "ext-tasks"
EMPTY = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
MODERN_ONLY = ("resultType", "ttlMs", "cacheScope")
RETIRED_CODES = (-32002, -32042)  # retired in the latest revision
MODERN_ERRORS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}
SNIFF_BYTES = 1 << 20  # larger messages of a test are not parsed


class Names:
    """The definitions of a schema for each method."""

    def __init__(self, version):
        self.checker = schema.revision(version)
        self.table = self.checker.root.get("$defs") or self.checker.root["definitions"]
        self.requests = self.by_method("ClientRequest")
        self.server_requests = self.by_method("ServerRequest")
        self.notifications = self.by_method("ServerNotification")

    def by_method(self, union):
        found = {}
        for part in self.table.get(union, {}).get("anyOf", []):
            name = part["$ref"].rsplit("/", 1)[1]
            found[self.table[name]["properties"]["method"]["const"]] = name
        return found

    def result(self, method):
        """The definition of the result of a client's request, None if there is no such request."""
        request = self.requests.get(method)
        if request is None:
            return None
        name = request.removesuffix("Request") + "Result"
        return name if name in self.table else "EmptyResult"

    def problems(self, name, value):
        return [f"{name}: {text}" for text in self.checker.problems(value, self.table[name])]


_names = {}


def names(version):
    if version not in _names:
        _names[version] = TaskNames(version) if version == TASKS else Names(version)
    return _names[version]


class TaskNames(Names):
    """The extension defines its requests and notifications separately, each as an allOf."""

    METHODS = {"tasks/get": "GetTaskResult", "tasks/update": "UpdateTaskResult", "tasks/cancel": "CancelTaskResult"}

    def by_method(self, union):
        return {"notifications/tasks": "TaskStatusNotification"} if union == "ServerNotification" else {}

    def result(self, method):
        return self.METHODS.get(method)


def claim(message):
    """The revision that a message claims, None if there is none."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(PREFIX + "protocolVersion") if isinstance(meta, dict) else None


def key(ident):
    return json.dumps(ident)


class Wire:
    def __init__(self):
        self.version = None  # the negotiated one
        self.asked = {}  # id: the unanswered requests with that id
        self.tokens = {}  # progress token: version of the request

    # ---- sent messages ----

    def sent_bytes(self, data):
        """Records the whole messages among the bytes."""
        if len(data) > SNIFF_BYTES:
            return
        for line in data.split(b"\n"):
            try:
                self.sent(json.loads(line))
            except (ValueError, RecursionError):
                pass  # not a message, on purpose

    def sent(self, message):
        if isinstance(message, list):
            for part in message:
                self.sent(part)
        elif isinstance(message, dict) and "id" in message and isinstance(message.get("method"), str):
            self.asked.setdefault(key(message["id"]), []).append(message)
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            token = meta.get("progressToken") if isinstance(meta, dict) else None
            if token is not None:
                self.tokens[key(token)] = self.version_of(message)

    def forget(self, message):
        """Forgets a request that will not be answered."""
        if isinstance(message, dict) and "id" in message:
            waiting = self.asked.get(key(message["id"]), [])
            if message in waiting:
                waiting.remove(message)

    def version_of(self, request):
        return MODERN if claim(request) is not None else self.version or LEGACY[-1]

    # ---- received messages ----

    def received(self, message):
        """Problems of a message; none if it is valid."""
        if isinstance(message, list):
            found = [] if self.version == "2025-03-26" else [f"an array in {self.version}"]
            return found + [p for part in message for p in self.received(part)]
        if not isinstance(message, dict):
            return ["neither an object nor an array"]
        if message.get("jsonrpc") != "2.0":
            return ["not JSON-RPC 2.0"]
        if "method" in message:
            return self.request(message) if "id" in message else self.notification(message)
        if ("result" in message) == ("error" in message):
            return ["an answer has a result or an error"]
        return self.answer(message)

    def notification(self, message):
        method, params = message["method"], message.get("params") or {}
        version = self.version or MODERN
        if method == "notifications/progress":
            token = key(params.get("progressToken"))
            if token not in self.tokens:
                return [f"progress for a token that was not given: {token}"]
            version = self.tokens[token] or version
        elif PREFIX + "subscriptionId" in params.get("_meta", {}):
            version = MODERN
        table = names(version)
        if version == MODERN and method == "notifications/tasks":
            table = names(TASKS)
        if method not in table.notifications:
            return [f"{version} has no {method}"]
        return table.problems(table.notifications[method], message)

    def request(self, message):
        version = self.version or MODERN
        name = names(version).server_requests.get(message["method"])
        if name is None:
            return [f"{version} has no {message['method']} from a server"]
        return names(version).problems(name, message)

    def answer(self, message):
        ident = message.get("id")
        waiting = self.asked.get(key(ident)) if ident is not None else None
        # A request whose id is pending already is refused, and the first request goes on.
        refused = message.get("error", {}).get("code") == -32600
        request = waiting.pop(-1 if refused else 0) if waiting else None
        version = self.version_of(request) if request else self.version
        if request and request["method"] == "initialize" and version != MODERN and "result" in message:
            version = self.version = message["result"].get("protocolVersion")
            if version not in LEGACY:
                return [f"initialize agreed on {version!r}"]
        if "error" in message:
            return self.error(message, version)
        table = names(version or MODERN)
        envelope = "JSONRPCResultResponse" if "JSONRPCResultResponse" in table.table else "JSONRPCResponse"
        return table.problems(envelope, message) + (self.result(request, message["result"], version or MODERN) if request else [])

    def result(self, request, result, version):
        method, table = request["method"], names(version)
        if not isinstance(result, dict):
            return []  # reported by the check of the envelope
        if version == MODERN:
            kind = result.get("resultType")
            if method == "tools/call" and kind == "task":
                return names(TASKS).problems("CreateTaskResult", result)
            if method in ("tools/call", "prompts/get", "resources/read") and kind == "input_required":
                return table.problems("InputRequiredResult", result)
            if kind != "complete":
                return [f"{method}: resultType {kind!r}"]
            if names(TASKS).result(method):
                inner = result.get("result") if method == "tasks/get" else None
                return names(TASKS).problems(names(TASKS).result(method), result) + (
                    table.problems("CallToolResult", inner) if inner is not None else []
                )
        name = table.result(method)
        if name is None:
            return [f"{version} has no {method}, and it was answered with a result"]
        if method == "tools/call" and version == "2025-11-25" and "task" in request.get("params", {}):
            name = "CreateTaskResult"
        found = table.problems(name, result)
        if name == "GetTaskPayloadResult":
            found += table.problems("CallToolResult", result)
        if version != MODERN:
            found += [f"{name}: {m} is not for {version}" for m in MODERN_ONLY if m in result]
            if method in EMPTY and result:
                found.append(f"{method} is answered by an empty object")
        return found

    def error(self, message, version):
        if "id" in message and message["id"] is None:
            # JSON-RPC itself requires null where the revision says nothing
            if version in (None, *LEGACY[:3]):
                message = {k: v for k, v in message.items() if k != "id"}
            else:
                return [f"an id that is null in {version}"]
        table = names(version or MODERN)
        name = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in table.table else "JSONRPCError"
        if "id" not in message and name == "JSONRPCError":
            table, name = names(MODERN), "JSONRPCErrorResponse"  # the same without an id
        found = table.problems(name, message)
        code = message["error"].get("code") if isinstance(message["error"], dict) else None
        if version == MODERN:
            if code in RETIRED_CODES:
                found.append(f"code {code} in {version}")
            if code in MODERN_ERRORS:
                found += table.problems(MODERN_ERRORS[code], message)
        return found
