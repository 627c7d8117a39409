// The card of what comes out: bars, with temperature and top k applied here, and generation step by step.
import { label } from "./canvas.js";
import { card, element, select, slider } from "./dom.js";
import { t } from "./strings.js";

const settings = { temperature: 1, top: 10, draw: false };  // stay as they were for the next look
const shown = 12;
let stepsLeft = 0;

// softmax(logit / temperature) over the first `top` choices; without logits, what is given.
export function shares(choices, temperature, top) {
  const kept = choices.slice(0, top);
  if (!choices.some((choice) => choice.logit !== 0)) return kept.map((choice) => choice.probability);
  const powers = kept.map((choice) => Math.exp((choice.logit - kept[0].logit) / Math.max(temperature, 1e-3)));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

export function probabilitiesCard(seen, kind, step) {
  const notes = { next_words: "probabilitiesNext", masked_words: "probabilitiesMasked", another_text: "probabilitiesWritten" };
  const generates = seen.purpose === "next_words";
  const labels = seen.purpose.endsWith("_labels") && seen.purpose !== "token_labels";
  let place = 0;
  const bars = element("div", { class: "bars", id: "bars", role: "list" });

  const choices = () => seen.predictions[place].choices;
  function draw() {
    const all = choices(), values = labels ? all.map((choice) => choice.probability) : shares(all, settings.temperature, settings.top);
    const greatest = Math.max(...values, 1e-9);
    bars.replaceChildren(...all.slice(0, shown).map((choice, i) => {
      const value = values[i] ?? 0, name = label(choice);
      return element("div", { class: `entry${i < values.length ? "" : " off"}`, role: "listitem" },
        generates ? element("button", { type: "button", class: "name", title: t("step"), onclick: () => step(choice) }, name) : element("span", { class: "name" }, name),
        element("div", { class: "track" }, element("div", { class: "fill", style: `width:${(100 * value) / greatest}%` })),
        element("span", { class: "share" }, `${(100 * value).toFixed(value >= 0.0995 ? 1 : 2)} %`));
    }));
  }

  function pick() {
    const all = choices(), values = shares(all, settings.temperature, settings.top);
    if (!settings.draw) return all[0];
    let left = Math.random();
    return all[values.findIndex((value) => (left -= value) <= 0)] ?? all[0];
  }
  // Several steps: each draws a new card, which goes on from there, until one is not made.
  const onward = async () => {
    if (await step(pick())) return;
    stepsLeft = 0;
    steps.textContent = t("stepTen");
  };
  const many = (count) => {
    stepsLeft = stepsLeft > 0 ? 0 : count - 1;
    if (stepsLeft > 0) onward();
  };
  const steps = element("button", { type: "button", id: "steps", onclick: () => many(10) }, t(stepsLeft > 0 ? "stop" : "stepTen"));

  const controls = element("div", { class: "row" });
  if (seen.predictions.length > 1) {
    const tokens = seen.sides.find((side) => side.name === seen.predictions[0].side).tokens;
    controls.append(select(t("place"), seen.predictions.map((p, i) => [i, `${p.position + 1} · ${label(tokens[p.position])}`]), place, (v) => { place = Number(v); draw(); }, "place"));
  }
  if (!labels)
    controls.append(
      slider(t("temperature"), { min: 0.1, max: 3, step: 0.05, value: settings.temperature, id: "temperature", text: (v) => v.toFixed(2) }, (v) => { settings.temperature = v; draw(); }),
      slider(t("topK"), { min: 1, max: Math.min(50, choices().length), step: 1, value: Math.min(settings.top, choices().length), id: "topk" }, (v) => { settings.top = v; draw(); }));
  if (generates) {
    const draws = element("input", { type: "checkbox", onchange: () => (settings.draw = draws.checked) });
    draws.checked = settings.draw;
    controls.append(element("label", { class: "row", style: "gap:.4rem;align-items:center" }, draws, element("span", {}, t("sample"))),
      element("button", { type: "button", class: "primary", id: "step", onclick: () => step(pick()) }, t("step")),
      steps);
  }
  draw();
  const node = card(t("probabilities"), t(labels || seen.purpose === "token_labels" ? "probabilitiesLabels" : notes[seen.purpose] ?? "probabilitiesNext"), controls, bars);
  node.id = "probabilities";
  if (generates && stepsLeft > 0) {
    stepsLeft -= 1;
    setTimeout(() => { if (node.isConnected) onward(); else stepsLeft = 0; }, 60);
  }
  return {
    node,
    // A token that is pointed at elsewhere: what was weighed there.
    point(row) {
      const found = seen.predictions.findIndex((p) => p.position === row);
      if (found < 0 || found === place || seen.predictions.length < 2) return;
      place = found;
      node.querySelector("#place").value = String(place);
      draw();
    },
  };
}
