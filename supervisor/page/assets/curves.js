// A small curve of the last values of something, as one path of SVG.

const SPACE = "http://www.w3.org/2000/svg";
const POINTS = 60;
const WIDTH = 80, HEIGHT = 22;

export class Curve {
  constructor(label) {
    this.values = [];
    this.path = document.createElementNS(SPACE, "path");
    this.svg = document.createElementNS(SPACE, "svg");
    this.svg.setAttribute("class", "curve");
    this.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.svg.setAttribute("aria-label", label);
    this.svg.append(this.path);
  }

  // `full` is the value at the top; the curve may pass it, then that is the top.
  add(value, full) {
    this.values.push(value);
    if (this.values.length > POINTS) this.values.shift();
    const top = Math.max(full, ...this.values) || 1;
    const step = WIDTH / (POINTS - 1);
    const left = WIDTH - (this.values.length - 1) * step;
    const at = (v, i) => `${(left + i * step).toFixed(1)} ${(HEIGHT - 1 - (v / top) * (HEIGHT - 2)).toFixed(1)}`;
    const points = this.values.length > 1 ? this.values.map(at) : [at(value, 0), `${WIDTH} ${at(value, 0).split(" ")[1]}`];
    this.path.setAttribute("d", `M${points.join("L")}`);
  }
}
