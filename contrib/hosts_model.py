"""A scripted model: what answers real hosts in the place of their model's service, on loopback.

A host sends its conversation to the service of its model, with the tools that it offers and the results of those that were called. The scripted
model answers each request with the next call of its script, and notes what the host hands to it. The three wire formats are those of the
services: Messages of Anthropic, Responses of OpenAI, generateContent of Google.
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Result:
    """One result of a tool, as a host hands it to its model."""

    def __init__(self, is_error, content):
        self.is_error = bool(is_error)  # whether the host marks it as an error
        self.texts = []
        self.images = []  # (media type, bytes)
        self.other = []  # kinds of blocks that a model cannot read
        for part in content if isinstance(content, list) else [content]:
            self._add(part)

    def _add(self, part):
        if isinstance(part, str):
            self.texts.append(part)
        elif "text" in part:
            self.texts.append(part["text"])
        elif part.get("type") == "image":
            self._image(part["source"].get("media_type"), part["source"].get("data", ""))
        elif part.get("type") == "input_image":
            head, _, data = part["image_url"].partition(",")
            self._image(head.removeprefix("data:").split(";")[0], data)
        elif "inlineData" in part:
            self._image(part["inlineData"]["mimeType"], part["inlineData"]["data"])
        else:
            self.other.append(part.get("type") or "/".join(sorted(part)))

    def _image(self, kind, data):
        self.images.append((kind, len(base64.b64decode(data))))

    @property
    def text(self):
        return "\n".join(self.texts)


class Model:
    """One conversation. `steps` are (tool, arguments, what to do before the call or None)."""

    def __init__(self, steps, prefix):
        self.steps = steps
        self.prefix = prefix  # that the host puts before the names of tools
        self.asked = 0  # steps whose call was handed out
        self.results = []
        self._told = set()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):  # lists of models and the like
                self.send({"object": "list", "data": [], "models": []})

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    request = json.loads(body or b"{}")
                except ValueError:
                    request = {}
                self.send(*model.answer(self.path, request))

            def send(self, body, events=None):
                text = json.dumps(body) if events is None else events
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if events is None else "text/event-stream")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path, request):
        """(JSON, text of an event stream or None) for one request."""
        raise NotImplementedError

    def _next(self):
        """(tool, arguments) of the next step, or None behind the last."""
        if self.asked == len(self.steps):
            return None
        tool, arguments, before = self.steps[self.asked]
        self.asked += 1
        if before:
            before()
        return tool, arguments

    def _got(self, result, is_error, content):
        """Notes the result of a call; a host sends those of earlier calls again."""
        if result not in self._told:
            self._told.add(result)
            self.results.append(Result(is_error, content))


def events(items, named=True):
    return "".join((f"event: {item['type']}\n" if named else "") + f"data: {json.dumps(item)}\n\n" for item in items)


class Messages(Model):
    """Claude Code."""

    def answer(self, path, request):
        if "/messages" not in path or "count_tokens" in path:
            return {"input_tokens": 10, "data": []}, None
        call = None
        if request.get("tools"):  # requests beside the conversation have none
            for message in request["messages"]:
                for block in message["content"] if isinstance(message["content"], list) else []:
                    if block.get("type") == "tool_result":
                        self._got(block["tool_use_id"], block.get("is_error"), block["content"])
            call = self._next()
        number = self.asked
        if call:
            content = {"type": "tool_use", "id": f"toolu_{number}", "name": self.prefix + call[0], "input": call[1]}
            empty, delta = {**content, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            content = {"type": "text", "text": "done"}
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
        stop = "tool_use" if call else "end_turn"
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request.get("model")}
        message["usage"] = {"input_tokens": 1, "output_tokens": 1}
        if not request.get("stream"):
            return {**message, "content": [content], "stop_reason": stop}, None
        return None, events(
            [
                {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": empty},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
            ]
        )


class Responses(Model):
    """Codex CLI."""

    def answer(self, path, request):
        if "/responses" not in path:
            return {"object": "list", "data": [], "models": []}, None
        items = request.get("input") or []
        for item in items:
            if item.get("type") == "function_call_output":
                self._got(item["call_id"], None, item["output"])  # this wire has no flag for errors
        call, number = self._next(), self.asked
        if call:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": call[0]}
            item.update(namespace=self.prefix, arguments=json.dumps(call[1]))
        else:
            item = {"type": "message", "id": "msg_1", "role": "assistant"}
            item["content"] = [{"type": "output_text", "text": "done", "annotations": []}]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": None}
        usage["output_tokens_details"] = None
        return None, events(
            [
                {"type": "response.created", "response": {"id": f"resp_{number}"}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {"id": f"resp_{number}", "output": [item], "usage": usage}},
            ]
        )


class GenerateContent(Model):
    """Gemini CLI."""

    def answer(self, path, request):
        if "countTokens" in path:
            return {"totalTokens": 10}, None
        declared = [each for tool in request.get("tools") or [] for each in tool.get("functionDeclarations") or []]
        text, call = '{"next_speaker": "user", "reasoning": "done"}', None
        if any(each["name"].startswith(self.prefix) for each in declared):
            self._results(request["contents"][-1]["parts"])
            text, call = "done", self._next()
        part = {"functionCall": {"name": self.prefix + call[0], "args": call[1]}} if call else {"text": text}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        reply = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]}
        reply["usageMetadata"] = usage
        return (None, events([reply], named=False)) if "stream" in path else (reply, None)

    def _results(self, parts):
        rest = [part for part in parts if "functionResponse" not in part]
        for part in parts:
            if "functionResponse" in part:
                response = part["functionResponse"]["response"]
                text = response.get("error") or response.get("output") or json.dumps(response)
                extra = part["functionResponse"].get("parts") or []
                self._got(self.asked, "error" in response, [str(text), *rest, *extra])
