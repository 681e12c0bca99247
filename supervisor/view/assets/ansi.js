// Colours of terminals (ECMA-48, SGR) as elements. Other escapes are left out, and of a line that was
// written again and again, as progress bars do it, the last state is shown.

const ESCAPES = /\x1b(?:\[([0-9;:]*)([@-~])|\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
const TEXT_MAX = 400000;
const CODES_MAX = 100; // of one sequence

const FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "under", 9: "strike" };
const ENDS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["under"], 29: ["strike"] };
const CUBE = [0, 95, 135, 175, 215, 255];

function fromPalette(number) {
  if (number < 16) return `var(--c${number})`;
  if (number < 232) {
    const at = number - 16;
    return `rgb(${CUBE[Math.floor(at / 36)]}, ${CUBE[Math.floor(at / 6) % 6]}, ${CUBE[at % 6]})`;
  }
  const grey = 8 + 10 * (number - 232);
  return `rgb(${grey}, ${grey}, ${grey})`;
}

// The colour behind 38 or 48; takes its numbers from the list.
function longColour(codes) {
  const kind = codes.shift();
  const byte = () => Math.min(255, codes.shift() ?? 0);
  if (kind === 5) return fromPalette(byte());
  return kind === 2 ? `rgb(${byte()}, ${byte()}, ${byte()})` : "";
}

function change(state, codes) {
  while (codes.length > 0) {
    const code = codes.shift();
    if (code === 0) Object.assign(state, { ink: "", ground: "", flags: new Set(), swapped: false });
    else if (FLAGS[code]) state.flags.add(FLAGS[code]);
    else if (ENDS[code]) ENDS[code].forEach((flag) => state.flags.delete(flag));
    else if (code === 7 || code === 27) state.swapped = code === 7;
    else if (code >= 30 && code <= 37) state.ink = fromPalette(code - 30);
    else if (code >= 90 && code <= 97) state.ink = fromPalette(code - 82);
    else if (code >= 40 && code <= 47) state.ground = fromPalette(code - 40);
    else if (code >= 100 && code <= 107) state.ground = fromPalette(code - 92);
    else if (code === 38) state.ink = longColour(codes);
    else if (code === 48) state.ground = longColour(codes);
    else if (code === 39) state.ink = "";
    else if (code === 49) state.ground = "";
  }
}

function piece(text, state) {
  const ink = state.swapped ? state.ground || "var(--raised)" : state.ink;
  const ground = state.swapped ? state.ink || "var(--ink)" : state.ground;
  if (ink === "" && ground === "" && state.flags.size === 0) return text;
  const made = element("span", { class: [...state.flags].join(" ") }, text);
  made.style.color = ink;
  made.style.backgroundColor = ground;
  return made;
}

// What stands before a \r was written over, if more than the end of the line follows. A search for the \r with a pattern would
// begin anew at each character of a long line.
function lastState(line) {
  let end = line.length;
  while (end > 0 && line[end - 1] === "\r") end--;
  return end === 0 ? line : line.slice(line.lastIndexOf("\r", end - 1) + 1);
}

// A block of output. It can be scrolled by keyboard.
function output(text, label) {
  const state = { ink: "", ground: "", flags: new Set(), swapped: false };
  const block = element("pre", { tabindex: "0", role: "region", "aria-label": label });
  const shown = text.slice(0, TEXT_MAX).split("\n").map(lastState).join("\n");
  let from = 0;
  for (const escape of shown.matchAll(ESCAPES)) {
    block.append(piece(shown.slice(from, escape.index), state));
    from = escape.index + escape[0].length;
    if (escape[2] === "m") change(state, escape[1].split(/[;:]/, CODES_MAX).map(Number));
  }
  block.append(piece(shown.slice(from), state));
  return block;
}
