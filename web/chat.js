// Talking with a model that goes on from a text: with its chat template where it has one, as plain text where it has none.
import * as api from "./api.js";
import { card, element, say, slider } from "./dom.js";
import { t } from "./strings.js";

const talks = new Map();  // of each model, while the page is open
const plain = new Map();  // models that were found to have no chat template

export function show(place, model) {
  if (model.purpose && model.purpose !== "next_words") {
    place.append(element("p", { class: "empty" }, t("notForThis", { model: model.id, purpose: t(`purpose_${model.purpose}`) })));
    return null;
  }
  const messages = talks.get(model.id) ?? [];
  talks.set(model.id, messages);
  let chat = plain.get(model.id) !== true;
  const settings = { temperature: 0.8, max_tokens: 120 };
  let running = null;

  const log = element("div", { class: "talk", role: "log", "aria-live": "polite", "aria-label": t("chat") });
  const box = element("textarea", { rows: 2, "aria-label": t("message"), placeholder: t("message"), onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) event.preventDefault(), send();
  } });
  const button = element("button", { type: "button", class: "primary", onclick: () => (running ? running.abort() : send()) }, t("send"));
  const bubble = (message) => element("div", { class: `said ${message.role === "user" ? "mine" : ""}` },
    element("span", { class: "quiet" }, t(message.role === "user" ? "you" : "modelSays")), element("div", { class: "words" }, message.content));
  const draw = () => {
    log.replaceChildren(...(messages.length ? messages.map(bubble) : [element("p", { class: "empty" }, t(chat ? "chatEmpty" : "chatPlain"))]));
    log.scrollTop = log.scrollHeight;
  };

  async function send() {
    const content = box.value.trim();
    if (!content || running) return;
    messages.push({ role: "user", content });
    box.value = "";
    const reply = { role: "assistant", content: "" };
    const before = [...messages];
    messages.push(reply);
    draw();
    const words = log.lastElementChild.querySelector(".words");
    running = new AbortController();
    button.textContent = t("stop");
    try {
      const body = { model: model.id, ...settings };
      const on = (text) => { reply.content += text ?? ""; words.textContent = reply.content; log.scrollTop = log.scrollHeight; };
      if (chat) {
        try {
          await api.stream("v1/chat/completions", { ...body, messages: before }, (e) => on(e.choices[0]?.delta?.content), running.signal);
        } catch (error) {
          if (!error.message.includes("chat template")) throw error;
          chat = false;
          plain.set(model.id, true);
          say(t("chatPlain"));
        }
      }
      if (!chat) await api.stream("v1/completions", { ...body, prompt: content }, (e) => on(e.choices[0]?.text), running.signal);
      if (chat) say("");
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
    } finally {
      // An answer that never began is no part of the conversation.
      if (!reply.content && messages.at(-1) === reply) messages.pop(), draw();
      running = null;
      button.textContent = t("send");
      box.focus();
    }
  }

  draw();
  place.append(card(t("chat"), null, log, element("div", { class: "stack" }, box, element("div", { class: "row" }, button,
    element("button", { type: "button", onclick: () => { messages.length = 0; draw(); } }, t("clear")),
    slider(t("temperature"), { min: 0, max: 2, step: 0.05, value: settings.temperature, text: (v) => v.toFixed(2) }, (v) => (settings.temperature = v)),
    slider(t("answerLength"), { min: 10, max: 500, step: 10, value: settings.max_tokens }, (v) => (settings.max_tokens = v))))));
  return () => running?.abort();
}
