// A training as it goes: curves of what metrics.jsonl holds, and samples of what the model says.
import * as api from "./api.js";
import { curveView } from "./curve.js";
import { card, element, say } from "./dom.js";
import { has, t } from "./strings.js";

const seconds = 2;
// Names of metrics, in the order of their curves; what is not here comes behind.
const known = { loss: "curve_loss", lr: "curve_lr", gradient_norm: "curve_norm" };
const notCurves = new Set(["step", "epoch", "split", "seconds"]);

export function show(place) {
  let next = 0, timer = 0, over = false, rows = 0;
  const stopper = new AbortController();
  const note = element("p", { class: "note", role: "status" });
  const curves = element("div", { class: "curves" });
  const samples = element("div", { class: "samples", hidden: true });
  const sampleCard = element("section", { class: "card", hidden: true }, element("h2", {}, t("samples")), samples);
  place.append(element("section", { class: "card" }, element("h2", {}, t("training")), note, curves), sampleCard);
  const charts = new Map();  // by the metric's name

  const title = (name) => (known[name] ? t(known[name]) : has(`curve_${name}`) ? t(`curve_${name}`) : name.replaceAll("_", " "));
  function chartOf(name) {
    if (charts.has(name)) return charts.get(name);
    const chart = curveView(title(name), { logarithmic: false });
    charts.set(name, chart);
    const order = [...charts.keys()].sort((a, b) => rank(a) - rank(b));
    curves.replaceChildren(...order.map((key) => charts.get(key).node));
    return chart;
  }
  const rank = (name) => (Object.keys(known).includes(name) ? Object.keys(known).indexOf(name) : 9);

  function take(answer) {
    if (answer.restarted) rows = 0, charts.forEach((chart) => chart.clear());
    next = answer.next;
    const touched = new Set();
    for (const row of answer.records) {
      rows += 1;
      for (const [name, value] of Object.entries(row)) {
        if (notCurves.has(name) || typeof value !== "number") continue;
        const chart = chartOf(name);
        chart.add(row.split === "train" ? "train" : "validation", row.step, value);
        touched.add(chart);
      }
      note.textContent = t("trainingNote", { step: row.step, rows });
    }
    for (const chart of touched) chart.draw();
    if (answer.samples?.length) {
      sampleCard.hidden = samples.hidden = false;
      samples.textContent = answer.samples.map((sample) => (typeof sample === "string" ? sample : sample.text)).join("\n\n");
    }
  }

  async function look() {
    try {
      take(await api.trainingRows(next, stopper.signal));
      if (rows === 0) note.textContent = t("trainingNone");
    } catch (error) {
      if (error.name === "AbortError") return;
      if (rows === 0) note.textContent = t("trainingNone");
      else say(error.message, true);
    }
    if (!over) timer = setTimeout(look, seconds * 1000);
  }
  look();
  return () => { over = true; clearTimeout(timer); stopper.abort(); };
}
