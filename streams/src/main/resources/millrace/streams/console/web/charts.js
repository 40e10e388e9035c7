// Sparklines: one or two lines over the last minutes, drawn as SVG paths.

const NAMESPACE = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 40;

function node(name, attributes) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** An empty chart: the first line is filled below, the second is thinner. */
export function sparkline() {
  const svg = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  for (const name of ["area", "second", "line"]) svg.append(node("path", { class: name }));
  svg.append(node("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));
  return svg;
}

/** Path through points; a gap where a value is null, and where more than ten seconds have no point. */
function path(times, values, from, span, most, close) {
  let d = "";
  let begun = null;
  let last = null;
  const end = () => {
    if (close && begun !== null) d += `L${last} ${HEIGHT}L${begun} ${HEIGHT}Z`;
    begun = null;
  };
  for (let i = 0; i < times.length; i++) {
    const value = values[i];
    if (value === null || times[i] < from) { end(); continue; }
    if (begun !== null && times[i] - times[i - 1] > 10_000) end();
    const x = ((times[i] - from) / span * WIDTH).toFixed(1);
    const y = (HEIGHT - 1 - Math.min(1, value / most) * (HEIGHT - 4)).toFixed(1);
    d += begun === null ? `M${x} ${y}` : `L${x} ${y}`;
    if (begun === null) begun = x;
    last = x;
  }
  end();
  return d;
}

/** Draws anew. `most` fixes the top of the scale; otherwise the largest value does. */
export function draw(svg, times, lines, span, most, label) {
  const now = times.length ? times[times.length - 1] : Date.now();
  const from = now - span;
  let top = most ?? 0;
  if (most === null) for (const values of lines) for (const value of values) if (value !== null && value > top) top = value;
  top = top > 0 ? top : 1;
  const [area, second, line] = svg.querySelectorAll("path");
  area.setAttribute("d", path(times, lines[0], from, span, top, true));
  line.setAttribute("d", path(times, lines[0], from, span, top, false));
  second.setAttribute("d", lines[1] ? path(times, lines[1], from, span, top, false) : "");
  svg.setAttribute("aria-label", label);
}
