// Translating, for those who only want the translation; one step leads to the look inside.
import * as api from "./api.js";
import { card, element, say } from "./dom.js";
import { t } from "./strings.js";

export function show(place, model) {
  if (model.purpose && model.purpose !== "another_text") {
    place.append(element("p", { class: "empty" }, t("notForThis", { model: model.id, purpose: t(`purpose_${model.purpose}`) })));
    return null;
  }
  let running = null;
  const box = element("textarea", { rows: 3, id: "source", "aria-label": t("inputSource"), placeholder: t("inputSource"), onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) event.preventDefault(), run();
  } });
  box.value = sessionStorage.getItem("source") ?? "";
  const result = element("output", { class: "result", id: "translation", "aria-label": t("translation") });
  const inside = element("button", { type: "button", disabled: true, onclick: () => {
    sessionStorage.setItem(`input ${model.id}`, box.value);
    location.hash = "explore";
  } }, t("lookInside"));

  async function run() {
    const text = box.value.trim();
    if (!text) return;
    running?.abort();
    running = new AbortController();
    sessionStorage.setItem("source", text);
    say(t("working"));
    try {
      const answer = await api.translate({ q: text, source: "auto", target: "auto", format: "text", model: model.id }, running.signal);
      result.textContent = answer.translatedText;
      inside.disabled = false;
      say("");
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
    }
  }

  place.append(card(t("translate"), t("inputHelp"), element("div", { class: "columns" }, box, result),
    element("div", { class: "row", style: "margin-top:.9rem" }, element("button", { type: "button", class: "primary", onclick: run }, t("translateButton")), inside)));
  return () => running?.abort();
}
