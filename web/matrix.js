// An attention map as a matrix: rows look, columns are looked at. One canvas holds the cells, a second one above it the marks of
// what is pointed at, so that pointing draws a few lines and no cells.
import { clipped, imageOf, label, onWidth, scaleOf, sharp } from "./canvas.js";
import { heat, paint } from "./colour.js";
import { element } from "./dom.js";
import { t } from "./strings.js";

const font = "13px ui-sans-serif, system-ui, 'Noto Sans KR', 'NanumGothic', sans-serif";

export function matrixView({ rows, columns, onpoint }) {
  const cells = element("canvas", { class: "cells", "aria-hidden": "true" });
  const marks = element("canvas", { class: "marks", tabindex: "0", role: "img", "aria-label": t("matrixName") });
  const frame = element("div", { class: "matrix" }, cells, marks);
  const box = element("div", { class: "scroller" }, frame);
  let map = null, width = 0, layout = null, at = null;

  function measure() {
    const context = cells.getContext("2d");
    context.font = font;
    const widest = (tokens) => Math.min(120, Math.max(12, ...tokens.map((token) => context.measureText(label(token)).width)));
    const left = Math.ceil(widest(rows)) + 14;
    const room = width - left - 18;
    const cell = Math.max(columns.length > 120 ? 2 : 4, Math.min(46, room / columns.length));
    const slanted = widest(columns) > cell - 6;
    const top = cell < 9 ? 8 : slanted ? Math.ceil(widest(columns) * 0.78) + 16 : 24;
    const spill = slanted && cell >= 9 ? Math.ceil(widest(columns.slice(-1)) * 0.72) : 0;
    const high = rows.length <= 24 ? Math.max(cell, 15) : cell;  // few rows stay readable, however many columns there are
    return { left, top, cell, high, slanted, width: Math.ceil(left + cell * columns.length + spill + 6), height: Math.ceil(top + high * rows.length + 4) };
  }

  function draw() {
    if (!map || width === 0) return;
    layout = measure();
    const { left, top, cell, high, slanted } = layout;
    const context = sharp(cells, layout.width, layout.height);
    sharp(marks, layout.width, layout.height);
    const greatest = scaleOf(map);
    context.imageSmoothingEnabled = false;
    context.drawImage(imageOf(map.values, map.rows, map.columns, heat(), 0, greatest), left, top, cell * map.columns, high * map.rows);
    if (cell >= 9) {
      context.strokeStyle = paint("card");
      context.lineWidth = 1;
      context.beginPath();
      for (let i = 0; i <= map.columns; i += 1) context.moveTo(left + cell * i, top), context.lineTo(left + cell * i, top + high * map.rows);
      for (let i = 0; i <= map.rows; i += 1) context.moveTo(left, top + high * i), context.lineTo(left + cell * map.columns, top + high * i);
      context.stroke();
    }
    context.font = font;
    context.fillStyle = paint("ink");
    context.textBaseline = "middle";
    // Labels as many as there is room for.
    const every = Math.max(1, Math.ceil(13 / cell)), everyRow = Math.max(1, Math.ceil(13 / high));
    context.textAlign = "right";
    rows.forEach((token, i) => {
      if (i % everyRow === 0) context.fillText(clipped(context, label(token), left - 12), left - 7, top + high * (i + 0.5));
    });
    if (cell < 9) return mark();
    columns.forEach((token, j) => {
      const x = left + cell * (j + 0.5);
      if (!slanted) {
        context.textAlign = "center";
        context.fillText(clipped(context, label(token), cell - 4), x, top - 11);
      } else if (j % every === 0) {
        context.save();
        context.translate(x, top - 7);
        context.rotate(-0.9);
        context.textAlign = "left";
        context.fillText(clipped(context, label(token), 120), 0, 0);
        context.restore();
      }
    });
    mark();
  }

  // A frame around the row and the cell that are pointed at.
  function mark() {
    if (!layout) return;
    const context = marks.getContext("2d");
    context.clearRect(0, 0, layout.width, layout.height);
    if (!at) return;
    const { left, top, cell, high } = layout;
    context.strokeStyle = paint("accent");
    context.lineWidth = 2;
    context.strokeRect(left, top + high * at.row, cell * map.columns, Math.max(high, 3));
    if (at.column !== null) context.strokeRect(left + cell * at.column - 1, top + high * at.row - 1, Math.max(cell, 3) + 2, Math.max(high, 3) + 2);
  }

  function point(row, column) {
    if (at?.row === row && at?.column === column) return;
    at = row === null ? null : { row, column };
    mark();
    onpoint?.(row, column);
  }

  marks.addEventListener("pointermove", (event) => {
    if (!layout) return;
    const column = Math.floor((event.offsetX - layout.left) / layout.cell), row = Math.floor((event.offsetY - layout.top) / layout.high);
    if (row < 0 || row >= rows.length) return point(null, null);
    point(row, column >= 0 && column < columns.length ? column : null);
  });
  marks.addEventListener("pointerleave", () => point(null, null));
  marks.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") return point(null, null);
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const from = at ?? { row: 0, column: -1 };
    point(Math.max(0, Math.min(rows.length - 1, from.row + move[0])), Math.max(0, Math.min(columns.length - 1, (from.column ?? 0) + move[1])));
  });
  onWidth(box, (next) => { width = next; draw(); });

  return {
    node: box,
    show(next) { map = next; draw(); },
    mark(row, column) { at = row === null ? null : { row, column }; mark(); },
    redraw: draw,
  };
}
