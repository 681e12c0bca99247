// The beginning: greets the host, follows its colours, tells it our height, and shows what comes.

const place = document.getElementById("result");
let host = {};
let code = [];

function readResource(uri) {
  return ask("resources/read", { uri }).then(({ contents: [content] }) => {
    if (typeof content?.text !== "string") throw new Error("it is no text");
    return content.text;
  });
}

function show(parts) {
  place.replaceChildren(...code);
  for (const each of parts) place.append(each);
  place.setAttribute("aria-busy", "false");
}

function showCode({ arguments: given }) {
  if (typeof given?.code !== "string") return;
  code = [element("details", {}, element("summary", {}, "Code"), output(given.code, "Code"))];
  place.prepend(...code);
}

function showResult(result) {
  frames.clear();
  const canRead = host.hostCapabilities?.serverResources !== undefined;
  show(resultParts(result, canRead ? readResource : null));
}

function follow(context) {
  if (context.theme !== undefined) document.documentElement.dataset.theme = context.theme;
  for (const [name, value] of Object.entries(context.styles?.variables ?? {})) {
    if (name.startsWith("--") && value) document.documentElement.style.setProperty(name, value);
  }
}

listen({
  "ui/notifications/tool-input": showCode,
  "ui/notifications/tool-result": showResult,
  "ui/notifications/tool-cancelled": ({ reason }) => show([element("p", { class: "bad", role: "status" }, `cancelled${reason ? `: ${reason}` : ""}`)]),
  "ui/notifications/host-context-changed": follow,
});
host = await greet();
follow(host.hostContext ?? {});
tell("ui/notifications/initialized", {});
new ResizeObserver(() => {
  tell("ui/notifications/size-changed", { height: Math.ceil(document.documentElement.getBoundingClientRect().height) });
}).observe(document.documentElement);
