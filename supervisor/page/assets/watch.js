// The stream of events. It is opened again when it was cut, behind the last event that was seen.
import { $, clock, element } from "./dom.js";
import { lines, Refused } from "./api.js";

const KEPT = 500;
const WAITS_MS = [500, 1000, 2000, 5000];

// `onEvent` gets each event; `onLost` a Refused or TypeError, and null when it goes on.
export function watch(last, onEvent, onLost) {
  const ending = new AbortController();
  (async () => {
    for (let tries = 0; !ending.signal.aborted; tries++) {
      try {
        for await (const event of lines(`/events?follow=1&since=${last}`, ending.signal)) {
          if (tries > 0) onLost(null);
          tries = 0;
          if (event.number) last = event.number;
          onEvent(event);
        }
      } catch (error) {
        if (ending.signal.aborted) return;
        onLost(error);
        if (error instanceof Refused && error.wantsToken) return;
      }
      await new Promise((go) => setTimeout(go, WAITS_MS[Math.min(tries, WAITS_MS.length - 1)]));
    }
  })();
  return () => ending.abort();
}

export function showEvent(event) {
  const list = $("event-list");
  const words = event.event === "missed"
    ? [element("span", { class: "note" }, `${event.count} events were missed`)]
    : [element("time", { datetime: event.at }, clock(event.at)), element("strong", {}, event.event),
       element("span", { class: "id" }, event.execution_id || event.sandbox_id || ""),
       element("span", {}, event.text || ""), element("span", {}, event.owner || "")];
  list.prepend(element("li", {}, ...words));
  while (list.children.length > KEPT) list.lastChild.remove();
}
