// Curves over the steps of a training, or over the rows of a series: one canvas, values told where one points.
import { onWidth, sharp } from "./canvas.js";
import { paint } from "./colour.js";
import { element } from "./dom.js";
import { t } from "./strings.js";

const height = 210, left = 58, right = 12, top = 10, bottom = 26;
const colours = { train: "accent", validation: "cold" };

// About `count` round numbers from low to high.
export function ticks(low, high, count = 5) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((by) => by * power >= raw) * power;
  const out = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) out.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return out;
}
export const number = (value) => (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4))));

export function curveView(name) {
  const canvas = element("canvas", { role: "img", tabindex: "0" });
  const legend = element("div", { class: "legend quiet" });
  const told = element("p", { class: "quiet pointed" });
  const node = element("figure", { style: "margin:0;min-width:0" }, element("h3", {}, name), canvas, legend, told);
  const lines = new Map();  // series → [[step, value], …]
  let width = 0, scale = null;

  function draw(pointed = null) {
    if (width === 0) return;
    const context = sharp(canvas, width, height);
    const all = [...lines.values()].flat();
    if (all.length === 0) return;
    let low = Infinity, high = -Infinity, first = Infinity, last = -Infinity;
    for (const [step, value] of all) low = Math.min(low, value), high = Math.max(high, value), first = Math.min(first, step), last = Math.max(last, step);
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    low -= room;
    high += room;
    if (last === first) last = first + 1;
    scale = { x: (step) => left + ((width - left - right) * (step - first)) / (last - first), y: (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low)), first, last };
    context.font = "12px system-ui, sans-serif";
    context.strokeStyle = paint("line");
    context.fillStyle = paint("soft");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of ticks(low, high)) {
      const y = Math.round(scale.y(value)) + 0.5;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(width - right, y);
      context.stroke();
      context.fillText(number(value), left - 8, y);
    }
    context.textAlign = "center";
    for (const step of ticks(first, last, Math.max(2, Math.floor(width / 120)))) context.fillText(number(step), Math.min(width - 14, scale.x(step)), height - bottom + 14);
    context.lineJoin = "round";
    for (const [series, points] of lines) {
      context.strokeStyle = context.fillStyle = paint(colours[series] ?? "ink");
      context.lineWidth = 1.8;
      context.beginPath();
      points.forEach(([step, value], i) => (i === 0 ? context.moveTo(scale.x(step), scale.y(value)) : context.lineTo(scale.x(step), scale.y(value))));
      context.stroke();
      if (series !== "train" || points.length < 3)
        for (const [step, value] of points) context.beginPath(), context.arc(scale.x(step), scale.y(value), 2.6, 0, 7), context.fill();
    }
    if (pointed !== null) {
      context.strokeStyle = paint("soft");
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(scale.x(pointed), top);
      context.lineTo(scale.x(pointed), height - bottom);
      context.stroke();
    }
    legend.replaceChildren(...[...lines.keys()].map((series) => element("span", { style: `--mark: ${paint(colours[series] ?? "ink")}` }, t(series))));
    const final = [...lines.values()].map((points) => points.at(-1)).filter(Boolean);
    canvas.setAttribute("aria-label", t("tableOf", { name, value: final.map(([, value]) => number(value)).join(", ") }));
  }

  function tell(step) {
    const parts = [...lines].map(([series, points]) => {
      const nearest = points.reduce((best, point) => (Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best), points[0]);
      return `${t(series)} ${number(nearest[1])} (${t("stepAxis")} ${nearest[0]})`;
    });
    told.textContent = parts.join("   ");
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!scale) return;
    const step = scale.first + ((event.offsetX - left) / (width - left - right)) * (scale.last - scale.first);
    draw(Math.max(scale.first, Math.min(scale.last, step)));
    tell(step);
  });
  canvas.addEventListener("pointerleave", () => { draw(); told.textContent = ""; });
  onWidth(node, (next) => { width = next; draw(); });

  return {
    node,
    add(series, step, value) {
      if (!lines.has(series)) lines.set(series, []);
      lines.get(series).push([step, value]);
    },
    clear() { lines.clear(); },
    draw,
  };
}
