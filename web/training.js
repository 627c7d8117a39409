// A training as it goes: curves of what metrics.jsonl holds, and samples of what the model says.
import * as api from "./api.js";
import { curveView } from "./curve.js";
import { card, element, say } from "./dom.js";
import { has, t } from "./strings.js";

const seconds = 2;
const points = 1000;  // of a curve, about: more than it has pixels
// Names of metrics, in the order of their curves; what is not here comes behind.
const known = { loss: "curve_loss", lr: "curve_lr", gradient_norm: "curve_norm" };
const notCurves = new Set(["step", "epoch", "split", "seconds"]);

export function show(place) {
  let next = 0, timer = 0, over = false, rows = 0, since = 0, asked = null;  // since: rows behind the first answer; asked: the checkpoint that was asked last
  const stopper = new AbortController();
  const note = element("p", { class: "note", role: "status" });
  const curves = element("div", { class: "curves" });
  const samples = element("ol", { class: "samples", id: "samples", hidden: true, "aria-live": "polite" });
  const question = element("input", { type: "text", id: "question", "aria-label": t("samplesAsk"), value: sessionStorage.getItem("question") ?? t("someText"),
    onchange: () => { sessionStorage.setItem("question", question.value); samples.replaceChildren(); asked = null; } });
  const silent = element("p", { class: "quiet", id: "silent" });
  const sampleCard = card(t("samples"), t("samplesNote"), question, silent, samples);
  sampleCard.hidden = true;
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
    if (next === 0 || answer.restarted) rows = since = 0, charts.forEach((chart) => chart.clear());
    else since += answer.records.length;
    // What comes is added as it is; when that is much, all is asked for again.
    next = since > 2 * points ? 0 : answer.next;
    rows += answer.rows;
    const touched = new Set();
    for (const row of answer.records) {
      for (const [name, value] of Object.entries(row)) {
        if (notCurves.has(name) || typeof value !== "number") continue;
        const chart = chartOf(name);
        chart.add(row.split === "train" ? "train" : "validation", row.step, value);
        touched.add(chart);
      }
      note.textContent = t("trainingNote", { step: row.step, rows });
    }
    for (const chart of touched) chart.draw();
  }

  // What the newest checkpoint says, the newest first. A model that reads no text says why not.
  async function listen(checkpoint) {
    if (checkpoint === null || checkpoint === undefined || checkpoint === asked || !question.value.trim()) return;
    asked = checkpoint;
    sampleCard.hidden = false;
    try {
      const { step, text, said } = await api.trainingSample(question.value, stopper.signal);
      if (text !== question.value) return;  // another question was typed meanwhile
      silent.textContent = "";
      samples.hidden = false;
      samples.prepend(element("li", { value: step }, element("span", { class: "quiet" }, t("sampleStep", { step })), ` ${said}`));
      while (samples.children.length > 40) samples.lastChild.remove();
    } catch (error) {
      if (error.name !== "AbortError") silent.textContent = error.message;
    }
  }

  async function look() {
    try {
      const answer = await api.trainingRows(next, points, stopper.signal);
      take(answer);
      listen(answer.checkpoint);
      if (rows === 0) note.textContent = t("trainingWaiting");
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
