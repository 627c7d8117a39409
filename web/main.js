// The page: which view of which model is shown, in which language and colours. Views are modules with show(place, model).
import * as api from "./api.js";
import { forgetColours } from "./colour.js";
import { element, say } from "./dom.js";
import { currentLanguage, setLanguage, t } from "./strings.js";
import { show as showChat } from "./chat.js";
import { show as showExplore } from "./explore.js";
import { show as showTraining } from "./training.js";
import { show as showTranslate } from "./translate.js";

const views = { explore: showExplore, chat: showChat, translate: showTranslate, training: showTraining };
const place = document.getElementById("view"), chooser = document.getElementById("model");
let models = [], leave = null;

const chosenView = () => (location.hash.slice(1).split("?")[0] in views ? location.hash.slice(1).split("?")[0] : "explore");
const chosenModel = () => models.find((model) => model.id === chooser.value);

function render() {
  if (leave) leave(), say("");  // what was under way is no more
  leave = null;
  const current = chosenView(), model = chosenModel();
  const tabs = document.getElementById("tabs");
  tabs.replaceChildren(...Object.keys(views).map((view) =>
    element("a", { href: `#${view}`, "aria-current": view === current ? "page" : null }, t(view))));
  for (const node of document.querySelectorAll("[data-i18n]")) node.textContent = t(node.dataset.i18n);
  const language = document.getElementById("language");
  language.textContent = t("language");
  language.setAttribute("aria-label", t("languageName"));
  document.getElementById("theme").textContent = { light: "☀", dark: "☾", system: "◐" }[theme()];
  document.getElementById("theme").setAttribute("aria-label", t({ light: "themeLight", dark: "themeDark", system: "themeAuto" }[theme()]));
  document.title = `${t(current)} · transformer`;
  place.replaceChildren();
  if (!model && current !== "training") place.append(element("p", { class: "empty" }, t("noModels")));
  else leave = views[current](place, model) ?? null;
}

const theme = () => localStorage.getItem("theme") ?? "system";
function applyTheme() {
  if (theme() === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
  forgetColours();
}

document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem("theme", { system: "light", light: "dark", dark: "system" }[theme()]);
  applyTheme();
  render();
});
document.getElementById("language").addEventListener("click", () => {
  setLanguage(currentLanguage() === "ko" ? "en" : "ko");
  render();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forgetColours(); render(); });
chooser.addEventListener("change", () => { localStorage.setItem("model", chooser.value); render(); });
window.addEventListener("hashchange", render);

applyTheme();
try {
  models = await api.models();
} catch (error) {
  say(error.message, true);
}
chooser.replaceChildren(...models.map((model) => element("option", { value: model.id }, model.id)));
if (models.some((model) => model.id === localStorage.getItem("model"))) chooser.value = localStorage.getItem("model");
render();
document.documentElement.dataset.ready = "true";
