// The worker process of each sandbox, and how often it had to be replaced.
import { $, element } from "./dom.js";
import { ask } from "./api.js";

export async function refreshWorkers() {
  const { workers } = await ask("/workers");
  const row = (worker) => element("tr", {},
    element("td", { class: "id" }, worker.sandbox_id),
    element("td", { "data-name": "Owner" }, worker.owner),
    element("td", {}, worker.state),
    element("td", { class: "number", "data-name": "Process" }, worker.pid ? String(worker.pid) : "none"),
    element("td", { class: "number", "data-name": "Replaced" }, String(worker.restarts)));
  $("workers").querySelector("tbody").replaceChildren(...workers.map(row));
}
