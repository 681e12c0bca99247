// HTML that user code made, in a frame of its own: it has an origin that nobody else has, may run its
// scripts, and reaches neither a network nor us. All it can say to us is how high it is.
//
// Browsers have no policy for WebRTC, so the frame's script is left without it. A frame that it makes
// within its own has it again.

const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; " +
  "font-src data:; media-src data:; base-uri 'none'; form-action 'none'";
const WITHOUT_CALLS = "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection']) delete globalThis[name];";
const MEASURE = "new ResizeObserver(() => parent.postMessage({ height: document.documentElement.offsetHeight }, '*'))" +
  ".observe(document.documentElement)";
const HEIGHT_MIN = 40;
const HEIGHT_MAX = 600;
const FRAMES_MAX = 20;

const frames = new Set();

window.addEventListener("message", ({ source, data }) => {
  const frame = [...frames].find((each) => each.contentWindow === source);
  if (frame !== undefined && Number.isFinite(data?.height)) {
    frame.style.height = `${Math.min(HEIGHT_MAX, Math.max(HEIGHT_MIN, Math.ceil(data.height) + 2))}px`;
  }
});

// The policy comes first, so that nothing of the HTML is read before it holds.
function page(html) {
  return `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">` +
    '<meta http-equiv="x-dns-prefetch-control" content="off"><style>html { font: 14px system-ui, sans-serif; }</style>' +
    `<script>${WITHOUT_CALLS}${MEASURE}<${"/"}script>${html}`;
}

function framed(html, title) {
  if (frames.size === FRAMES_MAX) return element("p", { class: "quiet" }, `${title}: not shown, there are too many`);
  const frame = element("iframe", { sandbox: "allow-scripts", referrerpolicy: "no-referrer", title, srcdoc: page(html) });
  frames.add(frame);
  return element("figure", {}, element("figcaption", {}, title), frame);
}
