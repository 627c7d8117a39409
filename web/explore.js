// The explorer: what a person gives a model, and a card for everything that the model makes of it.
import * as api from "./api.js";
import { attentionCard, throughLayers } from "./attention.js";
import { card, element, say } from "./dom.js";
import { exampleCard } from "./example.js";
import { embeddingCard, feedForwardCard, tokensCard, translationsCard } from "./cards.js";
import { imageCard, imageInput } from "./image.js";
import { probabilitiesCard } from "./probabilities.js";
import { seriesCard, seriesInput } from "./series.js";
import { currentLanguage, t } from "./strings.js";

// What a model takes, by what it is for.
const kindOf = (purpose = "") => (purpose === "another_text" ? "translation" : purpose.startsWith("image") ? "image"
  : purpose === "forecast" || purpose.startsWith("series") ? "series" : "text");
const kept = (model) => `input ${model.id}`;

function textInput(model, kind, run) {
  const key = kind === "translation" ? "inputSource" : "inputText";
  const box = element("textarea", { id: "text", rows: 2, "aria-label": t(key), spellcheck: "false", onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) event.preventDefault(), go();
  } });
  box.value = sessionStorage.getItem(kept(model)) ?? model.example ?? t(kind === "translation" ? "someSource" : "someText");
  const go = () => {
    sessionStorage.setItem(kept(model), box.value);
    if (box.value.trim()) run({ text: box.value });
  };
  const node = card(t("explore"), t("inputHelp"), element("div", { class: "ask" }, box,
    element("button", { type: "button", class: "primary", id: "look", onclick: go }, t("look"))));
  return { node, start: go, show: (text) => { box.value = text; sessionStorage.setItem(kept(model), text); } };
}

export function show(place, model) {
  const kind = kindOf(model.purpose);
  const results = element("div", { class: "stack", id: "results" });
  // choice: attention, layer and head; old: tokens that were there before a step; typed: the text that steps go on from, and what its tokens say.
  let running = null, seen = null, choice = {}, old = 0, typed = null;

  // What the server is asked for the same look again: by tokens, so that nothing is searched or cut anew.
  const again = () => {
    const ids = (name) => seen.sides.find((side) => side.name === name)?.tokens.map((token) => token.id);
    if (seen.kind === "text") return { ids: ids("text") };
    if (seen.kind === "translation") return { ids: ids("source"), target_ids: ids("target") };
    return seen.given;
  };
  const ask = (body) => {
    running?.abort();
    running = new AbortController();
    const asked = choice.head === throughLayers ? { ...choice, head: -1, rollout: true } : choice;
    return api.explain({ model: model.id, ...asked, ...body }, running.signal);
  };

  async function look(given, { stepping = false } = {}) {
    if (!stepping) say(t("working"));
    try {
      const answer = await ask({ ...given, thumbnails: 24, rollout: kind === "image" });
      old = stepping && seen ? seen.sides[0].tokens.length : 0;
      answer.given = given;
      if (!stepping) typed = { text: input.text(), said: answer.text ?? "" };
      if (given.ids && seen?.translation) answer.translation = seen.translation;
      seen = answer;
      draw();
      say("");
      return true;
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
      return false;
    }
  }

  // Another attention, layer or head of the same look.
  async function maps(next) {
    choice = next;
    return ask({ ...again(), thumbnails: 24, map_only: true, rollout: next.head === throughLayers });
  }

  function draw() {
    const cards = [];
    let tokens = null, probabilities = null;
    const attention = attentionCard(seen, maps, (row, side) => {
      tokens?.mark(row, side);
      if (side === "written" && row !== null) probabilities?.point(row);
    });
    if (kind === "image") cards.push(imageCard(seen, attention).node);
    else if (kind === "series") cards.push(seriesCard(seen, attention, (channel) => look({ ...seen.given, channel })).node);
    else {
      tokens = tokensCard(seen, old, (side, row) => attention.mark(side, row));
      const alternatives = seen.translation?.alternatives.length > 0;
      cards.push(alternatives
        ? element("div", { class: "columns" }, tokens.node, translationsCard(seen, (target) => look({ text: input.text(), target }))) : tokens.node);
    }
    probabilities = seen.predictions.length ? probabilitiesCard(seen, kind, step) : null;
    const between = [attention.node, probabilities?.node].filter(Boolean);
    cards.push(...(kind === "image" ? between.reverse() : between));
    if (seen.stacks.length)
      cards.push(element("div", { class: "columns" }, embeddingCard(seen), feedForwardCard(seen)),
        exampleCard(seen, (head) => ask({ ...again(), head, example: true, map_only: true })));
    results.replaceChildren(...cards);
  }

  // Generation by hand: the chosen token goes behind the others, and what all of them say more now behind the text. Alone a token may be
  // part of a character, or lack its space.
  async function step(token) {
    const more = await look({ ids: [...again().ids, token.id] }, { stepping: true });
    if (more) input.show(typed.text + seen.text.slice(typed.said.length));
    return more;
  }

  const make = { image: imageInput, series: seriesInput }[kind];
  const input = make ? make(model, look) : textInput(model, kind, (given) => { choice = {}; return look(given); });
  input.text ??= () => document.getElementById("text")?.value ?? "";
  place.append(input.node, results);
  input.start?.();
  document.documentElement.lang = currentLanguage();
  return () => running?.abort();
}
