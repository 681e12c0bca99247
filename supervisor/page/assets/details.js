// One sandbox: what is known of it, its executions, the output of one of them as it comes, and the
// two things that a person can do about it.
import { $, bytes, clock, element, setFacts, setText } from "./dom.js";
import { ask, lines, Refused, tell } from "./api.js";

const OUTPUT_MAX = 2_000_000; // characters; the oldest go first
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"]);

// Output near its end is followed by the eye, unless the person has scrolled up.
function write(node, text) {
  const pane = $("output");
  const following = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 40;
  node.textContent = text;
  pane.append(node);
  let length = pane.textContent.length;
  while (length > OUTPUT_MAX && pane.firstChild !== pane.lastChild) {
    length -= pane.firstChild.textContent.length;
    pane.firstChild.remove();
  }
  if (following) pane.scrollTop = pane.scrollHeight;
}

const note = (text) => write(element("span", { class: "note" }), `${text}\n`);

function writeLine(line) {
  if (line.missed) note(`[${bytes(line.missed)} of ${line.stream} are not kept]`);
  else if (line.base64 !== undefined) note(`[${line.stream}: bytes that are no text]`);
  else if (line.text !== undefined) write(element("span", { class: line.stream }), line.text);
}

export class Details {
  // `closed` is called when nothing is shown any more.
  constructor(closed) {
    this.closed = closed;
    this.id = null;
    this.execution = null;
    this.follow = null;
    $("back").addEventListener("click", () => this.hide());
    $("stop").addEventListener("click", () => this.attempt(() => tell("POST", `/sandboxes/${this.id}/stop`)));
    $("close").addEventListener("click", () => $("sure").showModal());
    $("sure").addEventListener("close", () => {
      if ($("sure").returnValue === "yes" && this.id) this.remove();
      $("sure").returnValue = "";
    });
  }

  trouble(text) {
    $("trouble").hidden = !text;
    setText($("trouble"), text || "");
  }

  async attempt(act) {
    this.trouble("");
    try {
      await act();
      return true;
    } catch (error) {
      this.trouble(error.message);
      return false;
    }
  }

  async remove() {
    const id = this.id;
    if (await this.attempt(() => tell("DELETE", `/sandboxes/${id}`)) && this.id === id) this.hide();
  }

  hide() {
    this.stopFollowing();
    this.id = null;
    $("details").hidden = true;
    this.closed();
  }

  show(id) {
    this.stopFollowing();
    this.id = id;
    this.execution = null;
    this.trouble("");
    $("executions").replaceChildren();
    $("output").replaceChildren();
    $("pictures").replaceChildren();
    setText($("details-title"), id);
    setText($("output-title"), "Output");
    $("details").hidden = false;
    $("details").focus();
    return this.refresh();
  }

  async refresh() {
    const id = this.id;
    if (id === null) return;
    try {
      const sandbox = await ask(`/sandboxes/${id}`);
      if (this.id === id) this.render(sandbox);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      if (this.id === id) this.trouble("This sandbox has ended.");
    }
  }

  render(sandbox) {
    const { limits, usage, worker } = sandbox;
    setText($("details-title"), sandbox.name ? `${sandbox.name} (${sandbox.sandbox_id})` : sandbox.sandbox_id);
    setFacts($("facts"), [
      ["state", sandbox.state], ["owner", sandbox.owner], ["backend", [sandbox.backend, sandbox.runtime].filter(Boolean).join(" ")],
      ["image", sandbox.image], ["network", sandbox.network], ["languages", sandbox.languages.join(" ")],
      ["memory", usage ? `${bytes(usage.memory_bytes)} of ${limits.memory_mb} MiB` : `${limits.memory_mb} MiB`],
      ["processors", limits.cpus], ["processes", usage ? `${usage.processes} of ${limits.pids}` : limits.pids],
      ["files", usage ? bytes(usage.disk_bytes) : ""], ["not applied", limits.unapplied.join("; ")],
      ["worker", worker.pid ? `process ${worker.pid}${worker.restarts ? `, replaced ${worker.restarts} ×` : ""}` : "none now"],
      ["ends", sandbox.expires_at ? `${clock(sandbox.expires_at)} if it is not used` : ""],
    ]);
    const running = sandbox.executions_recent.filter((e) => e.status === "running" || e.status === "queued");
    $("stop").disabled = running.length === 0;
    $("executions").replaceChildren(...sandbox.executions_recent.map((e) => this.entry(e)));
    if (this.execution === null && sandbox.executions_recent.length > 0) {
      this.choose(sandbox.executions_recent[0].execution_id);
    }
  }

  entry(e) {
    const button = element("button", { type: "button", "aria-pressed": String(e.execution_id === this.execution) }, e.execution_id);
    button.addEventListener("click", () => this.choose(e.execution_id));
    const parts = [button, element("span", { class: `state-${e.status}` }, e.status), element("span", {}, e.language || ""),
      element("span", {}, `${Math.round(e.duration_ms)} ms`), element("time", { datetime: e.started_at }, clock(e.started_at))];
    return element("li", {}, ...parts);
  }

  stopFollowing() {
    if (this.follow !== null) this.follow.abort();
    this.follow = null;
  }

  async choose(execution) {
    this.stopFollowing();
    const follow = new AbortController();
    this.follow = follow;
    this.execution = execution;
    setText($("output-title"), `Output of ${execution}`);
    for (const button of $("executions").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.textContent === execution));
    }
    $("output").replaceChildren();
    $("pictures").replaceChildren();
    try {
      for await (const line of lines(`/executions/${execution}/logs?follow=1`, follow.signal)) {
        if (follow.signal.aborted) return;
        if (line.end) await this.ended(execution, line.end);
        else writeLine(line);
      }
    } catch (error) {
      if (!follow.signal.aborted) note(`[${error.message}]`);
    }
  }

  // An end with an error may also be that of the stream alone: then it says why no more comes.
  async ended(execution, end) {
    if (end.result) write(element("span", { class: "result" }), `${end.result}\n`);
    if (end.error) write(element("span", { class: "stderr" }), `${end.error.traceback || end.error.message || ""}\n`);
    note(`[${end.status}]`);
    const { displays } = await ask(`/executions/${execution}/displays`);
    if (this.execution !== execution) return;
    for (const display of displays) {
      const picture = display.find((form) => PICTURES.has(form.type));
      if (!picture) continue;
      const img = element("img", { alt: `picture that ${execution} has shown` });
      img.src = `data:${picture.type}${picture.base64 ? `;base64,${picture.base64}` : `,${encodeURIComponent(picture.text)}`}`;
      $("pictures").append(img);
    }
  }
}
