// The wire to the host: JSON-RPC by postMessage, as MCP Apps has it. Only the window that holds us
// is listened to, so frames of ours cannot speak for the host.

const PROTOCOL = "2026-01-26";
const NO_METHOD = -32601;

const waiting = new Map();
let latestId = 0;

function post(message) {
  window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function ask(method, params) {
  const id = ++latestId;
  post({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function tell(method, params) {
  post({ method, params });
}

function answered(message) {
  const asked = waiting.get(message.id);
  waiting.delete(message.id);
  if (message.error) asked?.reject(new Error(String(message.error.message)));
  else asked?.resolve(message.result);
}

// What the host may ask of us: whether we are there, and to end.
function answer(message) {
  const known = message.method === "ping" || message.method === "ui/resource-teardown";
  const outcome = known ? { result: {} } : { error: { code: NO_METHOD, message: "Method not found" } };
  post({ id: message.id, ...outcome });
}

function listen(handlers) {
  window.addEventListener("message", ({ source, data: message }) => {
    if (source !== window.parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) answered(message);
    else if (message.id !== undefined) answer(message);
    else handlers[message.method]?.(message.params ?? {});
  });
}

function greet() {
  return ask("ui/initialize", {
    protocolVersion: PROTOCOL,
    appInfo: { name: "cloister-result", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline"] },
  });
}
