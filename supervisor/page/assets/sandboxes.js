// The list of sandboxes. A row is made once and then brought up to date; usage is asked only of the
// rows that are on the screen.
import { $, age, bytes, element, setClass, setText } from "./dom.js";
import { ask, Refused } from "./api.js";
import { Curve } from "./curves.js";

const MEASURED_AT_ONCE = 4;

class Row {
  constructor(sandbox, choose) {
    this.id = sandbox.sandbox_id;
    this.button = element("button", { type: "button" });
    this.button.addEventListener("click", () => choose(this.id));
    this.owner = element("td", { "data-name": "Owner" });
    this.state = element("td", {});
    this.memory = element("span", {});
    this.cpu = element("span", {});
    this.runs = element("td", { class: "number", "data-name": "Runs" });
    this.age = element("td", { class: "number", "data-name": "Age" });
    this.memoryCurve = new Curve("memory, last 2 minutes");
    this.cpuCurve = new Curve("CPU, last 2 minutes");
    this.node = element("tr", {}, element("td", {}, this.button), this.owner, this.state,
      element("td", { class: "measure", "data-name": "Memory" }, this.memory, this.memoryCurve.svg),
      element("td", { class: "measure", "data-name": "CPU" }, this.cpu, this.cpuCurve.svg),
      this.runs, this.age);
    this.visible = false;
    this.last = null;
  }

  show(sandbox, now) {
    this.sandbox = sandbox;
    setText(this.button, sandbox.name ? `${sandbox.name} (${this.id})` : this.id);
    setText(this.owner, sandbox.owner);
    setText(this.state, sandbox.reason ? `${sandbox.state}: ${sandbox.reason}` : sandbox.state);
    setClass(this.state, `state-${sandbox.state}`);
    setText(this.runs, String(sandbox.executions));
    setText(this.age, age(sandbox.created_at, now));
  }

  measured(usage, at) {
    setText(this.memory, bytes(usage.memory_bytes));
    this.memoryCurve.add(usage.memory_bytes, this.sandbox.limits.memory_mb * 1048576);
    if (this.last !== null && at > this.last.at) {
      const share = Math.max(0, usage.cpu_ms - this.last.cpu_ms) / (at - this.last.at);
      setText(this.cpu, `${Math.round(share * 100)} %`);
      this.cpuCurve.add(share, this.sandbox.limits.cpus);
    }
    this.last = { at, cpu_ms: usage.cpu_ms };
  }

  matches(words) {
    const s = this.sandbox;
    return !words || [s.sandbox_id, s.name, s.owner, s.state].some((t) => (t || "").toLowerCase().includes(words));
  }
}

export class Sandboxes {
  // `choose` gets the id of a row that was chosen.
  constructor(choose) {
    this.rows = new Map();
    this.choose = choose;
    this.body = $("list").tBodies[0];
    this.seen = new IntersectionObserver((changes) => {
      for (const change of changes) {
        const row = this.rows.get(change.target.dataset.id);
        if (row) row.visible = change.isIntersecting;
      }
    });
    $("filter").addEventListener("input", () => this.filter());
  }

  async refresh() {
    const { sandboxes } = await ask("/sandboxes");
    const now = Date.now();
    const fresh = [];
    const living = new Set();
    sandboxes.sort((a, b) => b.created_at.localeCompare(a.created_at));
    for (const sandbox of sandboxes) {
      living.add(sandbox.sandbox_id);
      let row = this.rows.get(sandbox.sandbox_id);
      if (!row) {
        row = new Row(sandbox, this.choose);
        row.node.dataset.id = row.id;
        this.rows.set(row.id, row);
        this.seen.observe(row.node);
        fresh.push(row.node);
      }
      row.show(sandbox, now);
    }
    for (const [id, row] of this.rows) {
      if (living.has(id)) continue;
      this.seen.unobserve(row.node);
      row.node.remove();
      this.rows.delete(id);
    }
    this.body.prepend(...fresh);
    $("none").hidden = this.rows.size > 0;
    $("list").hidden = this.rows.size === 0;
    this.filter();
  }

  filter() {
    const words = $("filter").value.trim().toLowerCase();
    for (const row of this.rows.values()) {
      const hidden = !row.matches(words);
      if (row.node.hidden !== hidden) row.node.hidden = hidden;
    }
  }

  mark(id) {
    for (const row of this.rows.values()) setClass(row.node, row.id === id ? "chosen" : "");
  }

  // Asks for the usage of what can be seen, a few at a time.
  async measure() {
    const waiting = [...this.rows.values()].filter((row) => row.visible && row.sandbox.state === "ready");
    const next = async () => {
      for (let row = waiting.shift(); row; row = waiting.shift()) {
        try {
          const { usage } = await ask(`/sandboxes/${row.id}`);
          if (usage) row.measured(usage, performance.now());
        } catch (error) {
          if (!(error instanceof Refused) || error.status !== 404) throw error; // it may have ended
        }
      }
    };
    await Promise.all(Array.from({ length: MEASURED_AT_ONCE }, next));
  }
}
