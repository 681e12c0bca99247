// One result as elements: how the code ended, what it wrote, its displays in their order, its value
// or error, and its files.
//
// The fields of a result are in structuredContent or, for clients whose models get text, beside it
// in _meta. Without fields there are texts and pictures.

const FIELDS = "cloister/fields";
const READABLE_MAX = 1 << 20; // what resources/read of the server returns
const DISPLAYS_MAX = 50;
const TEXTS = ["text/markdown", "text/latex", "text/plain", "application/json"];

// A part that cannot be made is a line in its place, so that the others are shown.
function attempt(title, make) {
  try {
    return make();
  } catch (problem) {
    return [element("p", { class: "quiet" }, `${title}: not shown (${problem.message})`)];
  }
}

function stateOf(fields, failed) {
  const words = [fields.status ?? (failed ? "failed" : "done"), fields.language];
  if (Number.isFinite(fields.duration_ms)) words.push(`${(fields.duration_ms / 1000).toFixed(2)} s`);
  if (Number.isFinite(fields.exit_code) && fields.exit_code !== 0) words.push(`exit code ${fields.exit_code}`);
  const look = failed ? "bad" : fields.status === "running" ? "quiet" : "good";
  return element("p", { class: look, role: "status" }, words.filter(Boolean).join(" \u00b7 "));
}

function pictureOf(type, base64, title) {
  const image = element("img", { src: `data:${type};base64,${base64}`, alt: title });
  return element("figure", {}, image, element("figcaption", {}, title));
}

function pictures(content) {
  const list = content.filter((block) => block.type === "image" && /^image\/[\w.+-]+$/.test(block.mimeType));
  const title = (at) => (list.length === 1 ? "Plot" : `Plot ${at + 1} of ${list.length}`);
  const figures = list.map((block, at) => pictureOf(block.mimeType, block.data, title(at)));
  return figures.length > 0 ? [element("div", { class: "pictures" }, figures)] : [];
}

function htmlOf(html, title) {
  const table = readTable(html);
  return table !== null ? sortable(table, title) : framed(html, title);
}

const utf8AsBase64 = (text) => btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));

// A display that the result only locates: asked for from the server, by way of the host.
function located(place, type, title, read) {
  const here = element("div", {}, element("p", { class: "quiet" }, `${title}: ${type}, ${inUnits(place.size ?? 0)}`));
  if (read === null || typeof place.uri !== "string" || place.size > READABLE_MAX) return here;
  read(place.uri).then((text) => {
    here.replaceChildren(type === "text/html" ? htmlOf(text, title) : pictureOf(type, utf8AsBase64(text), title));
  }).catch((problem) => here.firstChild.append(` (${problem.message})`));
  return here;
}

// The richest form of a display; pictures are in the content, so those give nothing here.
function displayOf(display, title, read) {
  const html = display["text/html"];
  const drawing = display["image/svg+xml"];
  if (typeof html === "string") return [htmlOf(html, title)];
  if (html?.uri) return [located(html, "text/html", title, read)];
  if (drawing?.uri) return [located(drawing, "image/svg+xml", title, read)];
  if (Object.keys(display).some((type) => type.startsWith("image/"))) return [];
  const type = TEXTS.find((each) => typeof display[each] === "string");
  return type === undefined ? [] : [part(title, output(display[type], title))];
}

function displays(fields, read) {
  const list = fields.displays.slice(0, DISPLAYS_MAX);
  return list.flatMap((display, at) => {
    const title = list.length === 1 ? "Display" : `Display ${at + 1} of ${list.length}`;
    return attempt(title, () => displayOf(display, title, read));
  });
}

// The value, unless a display is another form of it.
function valueOf(fields) {
  const told = fields.displays.some((display) => display?.["text/plain"] === fields.result);
  return typeof fields.result !== "string" || told ? [] : [part("Value", output(fields.result, "Value"))];
}

function errorOf(error) {
  if (error === undefined) return [];
  const text = error.traceback || `${error.name ?? error.code ?? "error"}: ${error.message ?? ""}`;
  const hint = error.hint ? [element("p", { class: "quiet" }, error.hint)] : [];
  return [part("Error", output(text, "Error"), ...hint)];
}

function filesOf(files) {
  if (files.length === 0) return [];
  return [part("Files", element("ul", {}, files.map((file) => element("li", {}, `${file.path} (${inUnits(file.size)})`))))];
}

function stream(text, title) {
  return text ? [part(title, output(text, title))] : [];
}

function fromContent(content) {
  const texts = content.filter((block) => block.type === "text");
  return [...texts.map((block) => part("Result", output(block.text, "Result"))), ...pictures(content)];
}

// `read` gives the text of a resource; null if the host reads none for us.
function resultParts(result, read) {
  const content = result.content ?? [];
  const found = result.structuredContent ?? result._meta?.[FIELDS];
  const state = stateOf(found ?? {}, result.isError === true);
  if (found === undefined) return [state, ...fromContent(content)];
  const fields = { displays: [], files: [], ...found };
  return [
    state,
    ...attempt("Output", () => stream(fields.stdout, "Output")),
    ...attempt("Errors and warnings", () => stream(fields.stderr, "Errors and warnings")),
    ...attempt("Plots", () => pictures(content)),
    ...attempt("Displays", () => displays(fields, read)),
    ...attempt("Value", () => valueOf(fields)),
    ...attempt("Error", () => errorOf(fields.error)),
    ...attempt("Files", () => filesOf(fields.files)),
  ];
}
