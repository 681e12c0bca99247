// The beginning: a token if the server wants one, then the lists, kept up to date by events.
import { $, setFacts, setText } from "./dom.js";
import { ask, paced, Refused, token } from "./api.js";
import { Details } from "./details.js";
import { Sandboxes } from "./sandboxes.js";
import { refreshWorkers } from "./workers.js";
import { showEvent, watch } from "./watch.js";

const MEASURE_MS = 2000;
const REFRESH_MS = 500;
const ANYWAY_MS = 10000;

const details = new Details(() => sandboxes.mark(null));
const sandboxes = new Sandboxes((id) => {
  sandboxes.mark(id);
  guarded(() => details.show(id));
});
let stopWatching = () => {};
let shown = false;

function state(text, lost = false) {
  setText($("state"), text);
  $("state").className = lost ? "lost" : "";
}

// What fails leaves the page as it is, and says so; a token that is refused is asked for again.
async function guarded(act) {
  try {
    await act();
  } catch (error) {
    if (error instanceof Refused && error.wantsToken) askForToken(error);
    else state(`The server cannot be reached: ${error.message}`, true);
  }
}

function askForToken(error) {
  stopWatching();
  shown = false;
  $("main").hidden = true;
  $("leave").hidden = true;
  $("login").hidden = false;
  setText($("login-why"), token.get() ? error.message : "");
  state("not signed in");
  $("token").focus();
}

function preloadText({ module, state: found, reason }) {
  if (found === "imported") return module;
  return `${module} (${found ? `${found}: ${reason}` : "not yet"})`;
}

function showStatus(status) {
  setText($("version"), status.version);
  document.title = status.instance ? `${status.instance} - cloister` : "cloister";
  const { sandboxes: count, pool, engine, memory } = status;
  setFacts($("summary"), [
    ["sandboxes", `${count.count} of ${count.limit}`], ["running", status.executions_running],
    ["memory promised", memory.budget_mb ? `${memory.promised_mb} of ${memory.budget_mb} MiB` : `${memory.promised_mb} MiB`],
    ["pool", pool.size ? `${pool.ready} of ${pool.size} ready, ${pool.hits} hits, ${pool.misses} misses` : ""],
    ["imported in advance", (pool.preload ?? []).map(preloadText).join(", ")],
    ["engine", engine.backend ? [engine.backend, engine.runtime, engine.address].filter(Boolean).join(" ") : `${engine.configured}, not used yet`],
  ]);
}

async function everything() {
  const [status] = await Promise.all([ask("/status"), sandboxes.refresh()]);
  showStatus(status);
  if (!$("workers").hidden) await refreshWorkers();
  await details.refresh();
}

const refresh = paced(REFRESH_MS, () => (shown && !document.hidden ? guarded(everything) : undefined));

async function begin() {
  await guarded(async () => {
    const status = await ask("/status");
    $("login").hidden = true;
    $("main").hidden = false;
    $("leave").hidden = !token.get();
    shown = true;
    showStatus(status);
    state("live");
    stopWatching();
    stopWatching = watch(Math.max(0, status.last_event - 50), (event) => {
      showEvent(event);
      refresh();
    }, (error) => {
      if (error === null) state("live");
      else if (error instanceof Refused && error.wantsToken) askForToken(error);
      else state("The server does not answer; trying again", true);
    });
    refresh();
  });
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set($("token").value.trim());
  $("token").value = "";
  begin();
});

$("leave").addEventListener("click", () => {
  token.set("");
  location.reload();
});

// ---- tabs, by mouse and by arrow keys ----

const tabs = [...$("tabs").children];

function choose(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    $(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  refresh();
}

for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}

setInterval(() => {
  if (shown && !document.hidden && !$("sandboxes").hidden) guarded(() => sandboxes.measure());
}, MEASURE_MS);
setInterval(refresh, ANYWAY_MS);
document.addEventListener("visibilitychange", refresh);
begin();
