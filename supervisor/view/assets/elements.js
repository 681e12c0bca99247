// Elements and texts. What comes from the host is set as text, never as HTML.

// A child may be a list of children. A long one is passed as such: a call with as many arguments fails.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  for (const child of children.flat()) made.append(child);
  return made;
}

const UNITS = ["bytes", "kB", "MB", "GB"];

function inUnits(count) {
  let unit = 0;
  while (count >= 1000 && unit < UNITS.length - 1) {
    count /= 1000;
    unit++;
  }
  return `${unit === 0 ? count : count.toFixed(1)} ${UNITS[unit]}`;
}

let headings = 0;

// A part of the result under a heading, which names it for a screen reader.
function part(title, ...children) {
  const id = `part${++headings}`;
  return element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children);
}
