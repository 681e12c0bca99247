// Elements and texts. What comes from the server is set as text, never as HTML.

export const $ = (id) => document.getElementById(id);

// element("li", { class: "x" }, "text", other)
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Changes the page only if it would differ, so that nothing is drawn again without need.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node, name) {
  if (node.className !== name) node.className = name;
}

// A list of names and values, in place of what was there.
export function setFacts(list, facts) {
  const rows = facts.filter(([, value]) => value !== undefined && value !== "");
  list.replaceChildren(...rows.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  let unit = 0;
  while (count >= 1000 && unit < UNITS.length - 1) {
    count /= 1000;
    unit++;
  }
  return `${count >= 100 || unit === 0 ? Math.round(count) : count.toFixed(1)} ${UNITS[unit]}`;
}

export function age(since, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function clock(at) {
  return new Date(at).toLocaleTimeString();
}
