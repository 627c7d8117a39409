// Models of series: the numbers, and what each patch looks at, behind the curve.
import { onWidth, sharp } from "./canvas.js";
import { css, heat, paint } from "./colour.js";
import { number, ticks } from "./curve.js";
import { card, element, say, select } from "./dom.js";
import { t } from "./strings.js";

// "1, 2\n3, 4" → rows; a first line of names is taken for those. Columns that are no numbers, as dates are, are left out.
export function parse(text) {
  const lines = text.trim().split(/\r?\n/).map((line) => line.split(/[,;\t]/).map((cell) => cell.trim()));
  const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));
  const named = lines.length > 1 && !lines[0].some(isNumber);
  const body = named ? lines.slice(1) : lines;
  const used = [...body[0].keys()].filter((j) => body.every((cells) => isNumber(cells[j] ?? "")));
  const values = body.map((cells) => used.map((j) => Number(cells[j])));
  return named ? { channels: used.map((j) => lines[0][j]), values } : { values };
}

// A made series, for a beginning: a wave, its double and a drift.
const made = (channels, rows) => [...Array(rows).keys()].map((i) => [...Array(channels).keys()].map((c) =>
  (10 + c + 2 * Math.sin(i / (4 + c)) + Math.sin(i / 2.3) + i * 0.03).toFixed(3)).join(", ")).join("\n");

export function seriesInput(model, run) {
  const box = element("textarea", { id: "text", rows: 5, "aria-label": t("inputSeries"), spellcheck: "false" });
  box.value = sessionStorage.getItem(`input ${model.id}`) ?? made(model.channels ?? 1, model.context ?? 336);
  const file = element("input", { type: "file", accept: ".csv,text/csv,text/plain", "aria-label": "CSV", onchange: async () => {
    if (file.files[0]) box.value = await file.files[0].text(), go();
  } });
  const go = () => {
    try {
      sessionStorage.setItem(`input ${model.id}`, box.value);
      run({ series: parse(box.value) });
    } catch (error) {
      say(String(error), true);
    }
  };
  return { node: card(t("explore"), t("inputSeries"), element("div", { class: "stack" }, box,
    element("div", { class: "row" }, element("button", { type: "button", class: "primary", id: "look", onclick: go }, t("look")), file))), start: go };
}

export function seriesCard(seen, attention, onchannel) {
  const { history, forecast, patches, channels, channel } = seen.series;
  const canvas = element("canvas", { class: "marks", tabindex: "0", role: "img", "aria-label": t("seriesNote") });
  const box = element("div", {}, canvas), pointed = element("p", { class: "pointed" });
  const height = 280, left = 52, right = 10, top = 12, bottom = 26, extra = seen.sides[0].tokens.length - patches.length;
  let map = null, width = 0, patch = patches.length - 1;

  function draw() {
    if (!map || !width) return;
    const context = sharp(canvas, width, height), all = [...history, ...forecast];
    let low = Math.min(...all), high = Math.max(...all);
    const room = (high - low) * 0.08 || 1;
    low -= room;
    high += room;
    const x = (i) => left + ((width - left - right) * i) / Math.max(1, all.length - 1), y = (v) => top + (height - top - bottom) * (1 - (v - low) / (high - low));
    // A row is in one patch or in several: their weights are shared out among their rows.
    const row = map.values.slice((extra + patch) * map.columns + extra, (extra + patch + 1) * map.columns), shade = new Float64Array(history.length);
    patches.forEach(([begin, end], i) => { for (let at = begin; at < end; at += 1) shade[at] += row[i] / (end - begin); });
    const greatest = Math.max(...shade) || 1, wide = (width - left - right) / Math.max(1, all.length - 1);
    shade.forEach((value, i) => {
      context.fillStyle = css(heat(), (0.62 * value) / greatest);
      context.fillRect(Math.max(left, x(i) - wide / 2), top, wide + 0.6, height - top - bottom);
    });
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = paint("soft");
    for (const value of ticks(low, high, 4)) context.fillText(number(value), left - 8, y(value));
    context.textAlign = "center";
    for (const i of ticks(1 - history.length, forecast.length, 6)) context.fillText(String(i), Math.min(width - 14, x(i + history.length - 1)), height - bottom + 14);
    const curve = (values, from, name) => {
      context.strokeStyle = paint(name);
      context.lineWidth = 1.8;
      context.lineJoin = "round";
      context.beginPath();
      values.forEach((v, i) => (i === 0 ? context.moveTo(x(from + i), y(v)) : context.lineTo(x(from + i), y(v))));
      context.stroke();
    };
    curve(history, 0, "ink");
    if (forecast.length) curve([history.at(-1), ...forecast], history.length - 1, "cold");
    const [begin, end] = patches[patch];
    context.strokeStyle = paint("accent");
    context.lineWidth = 2;
    context.strokeRect(x(begin), top + 1, x(end - 1) - x(begin), height - top - bottom - 2);
  }
  // Said at once: the picture waits until the page knows its width.
  const tell = () => { pointed.textContent = t("fromToken", { token: seen.sides[0].tokens[extra + patch].text }); };
  const point = (next) => { if (next !== patch && next >= 0 && next < patches.length) patch = next, tell(), draw(); };
  canvas.addEventListener("pointermove", (event) => {
    const at = ((event.offsetX - left) / (width - left - right)) * (history.length + forecast.length - 1);
    const middle = ([begin, end]) => (begin + end - 1) / 2;
    point(patches.reduce((best, each, i) => (Math.abs(middle(each) - at) < Math.abs(middle(patches[best]) - at) ? i : best), 0));
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) event.preventDefault(), point(patch + move);
  });
  tell();
  onWidth(box, (next) => { width = next; draw(); });
  attention.onmap((next) => { map = next; draw(); });
  const legend = element("div", { class: "legend quiet" }, element("span", { style: "--mark: var(--ink)" }, t("history")),
    forecast.length ? element("span", { style: "--mark: var(--cold)" }, t("forecast")) : null);
  const chooser = channels.length > 1 ? select(t("channel"), channels.map((name, i) => [i, name]), channel, (v) => onchannel(Number(v)), "channel") : null;
  const node = card(t("side_patches"), t("seriesNote"), chooser, element("div", { style: "margin-top:.6rem" }, box), legend, pointed);
  node.id = "curve";
  return { node };
}
