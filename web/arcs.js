// An attention map as lines. Between two sides: the rows' tokens above, the columns' below. Within one: arcs over a line of tokens.
// Of a token that is pointed at, its lines; without one, the strongest of all.
import { clipped, label, onWidth, sharp } from "./canvas.js";
import { css, heat, paint } from "./colour.js";
import { element } from "./dom.js";
import { t } from "./strings.js";

const font = "13px ui-sans-serif, system-ui, 'Noto Sans KR', 'NanumGothic', sans-serif";
const most = 400;  // lines at once

export function arcsView({ rows, columns, two, onpoint }) {
  const canvas = element("canvas", { class: "marks", tabindex: "0", role: "img", "aria-label": t("arcsName") });
  const box = element("div", { class: "scroller" }, canvas);
  let map = null, width = 0, chosen = null, places = null, height = 0, strongest = [];

  // Where tokens stand: one behind the other, each as wide as its text.
  function line(context, tokens, y) {
    context.font = font;
    const widths = tokens.map((token) => Math.min(110, context.measureText(label(token)).width) + 14);
    const spare = width - 8 - widths.reduce((a, b) => a + b, 0);  // few tokens take more room
    if (spare > 0) tokens.forEach((_, i) => (widths[i] += Math.min(36, spare / tokens.length)));
    const total = widths.reduce((a, b) => a + b, 0), room = Math.max(width - 8, 60), squeeze = Math.max(1, total / Math.max(room, 60));
    let x = 4;
    return { total: Math.min(total, Math.max(room, tokens.length * 7)) + 8, tokens: tokens.map((token, i) => {
      const wide = tokens.length * 7 > room ? Math.max(7, widths[i] / squeeze) : widths[i] / squeeze;
      const place = { x, wide, middle: x + wide / 2, y, token };
      x += wide;
      return place;
    }) };
  }

  function draw() {
    if (!map || width === 0) return;
    const context = canvas.getContext("2d");
    const rise = two ? 150 : Math.min(220, 60 + 6 * rows.length);
    height = two ? rise + 68 : rise + 40;
    const above = line(context, rows, two ? 26 : rise + 8), below = two ? line(context, columns, rise + 40) : above;
    places = { above: above.tokens, below: below.tokens };
    const wide = Math.max(width, ...[...above.tokens, ...below.tokens].map((p) => p.x + p.wide + 4));
    sharp(canvas, wide, height);
    strongest = [...map.values.keys()].filter((i) => map.values[i] > 0.04).sort((a, b) => map.values[b] - map.values[a]).slice(0, most);
    paintAll();
  }

  function paintAll() {
    const context = canvas.getContext("2d"), scale = heat();
    context.clearRect(0, 0, canvas.width, canvas.height);
    const greatest = map.values.reduce((a, b) => Math.max(a, b), 0) || 1;
    const lines = chosen === null ? strongest : [...Array(map.columns).keys()].map((j) => chosen * map.columns + j);
    for (const i of [...lines].reverse()) {
      const value = map.values[i];
      if (value < 0.002) continue;
      const from = places.above[Math.floor(i / map.columns)], to = places.below[i % map.columns];
      context.strokeStyle = css(scale, 0.25 + 0.75 * Math.sqrt(value / greatest));
      context.globalAlpha = chosen === null ? 0.35 + 0.5 * (value / greatest) : 0.4 + 0.6 * (value / greatest);
      context.lineWidth = 0.75 + 4.5 * (value / greatest);
      context.beginPath();
      if (two) {
        context.moveTo(from.middle, from.y + 12);
        context.bezierCurveTo(from.middle, from.y + 70, to.middle, to.y - 70, to.middle, to.y - 14);
      } else if (from === to) {
        context.arc(from.middle, from.y - 20, 6, 0, 2 * Math.PI);
      } else {
        const reach = Math.abs(from.middle - to.middle) / 2, top = Math.min(from.y - 22, 14 + reach * 0.9);
        context.moveTo(from.middle, from.y - 14);
        context.bezierCurveTo(from.middle, from.y - 14 - top, to.middle, to.y - 14 - top, to.middle, to.y - 14);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
    write(context, places.above, chosen, two ? "bottom" : "top");
    if (two) write(context, places.below, null, "top");
  }

  function write(context, tokens, marked) {
    context.font = font;
    context.textAlign = "center";
    context.textBaseline = "middle";
    tokens.forEach((place, i) => {
      if (i === marked) {
        context.fillStyle = paint("accent-soft");
        context.beginPath();
        context.roundRect(place.x + 1, place.y - 11, place.wide - 2, 22, 5);
        context.fill();
      }
      const share = !two && chosen !== null ? map.values[chosen * map.columns + i] : 1;
      context.fillStyle = i === marked || share > 0.02 ? paint("ink") : paint("soft");
      if (place.wide >= 12) context.fillText(clipped(context, label(place.token), place.wide - 4), place.middle, place.y);
      else context.fillRect(place.middle - 1, place.y - 3, 2, 6);
    });
  }

  function choose(row) {
    if (row === chosen || !places) return;
    chosen = row;
    paintAll();
    onpoint?.(row, null);
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!places) return;
    const found = places.above.findIndex((p) => event.offsetX >= p.x && event.offsetX < p.x + p.wide);
    choose(found < 0 ? null : found);
  });
  canvas.addEventListener("pointerleave", () => choose(null));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") choose(null);
    if (!move) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(rows.length - 1, (chosen ?? (move > 0 ? -1 : rows.length)) + move)));
  });
  onWidth(box, (next) => { width = next; draw(); });

  return {
    node: box,
    show(next) { map = next; chosen = null; draw(); },
    mark(row) { if (places && row !== chosen) { chosen = row; paintAll(); } },
    redraw: draw,
  };
}
