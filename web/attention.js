// The card of attention: which, of which layer and head, as a matrix or as lines, and all heads beside each other.
import { arcsView } from "./arcs.js";
import { imageOf, label, scaleOf } from "./canvas.js";
import { heat } from "./colour.js";
import { card, element, say, segments, select } from "./dom.js";
import { matrixView } from "./matrix.js";
import { has, t } from "./strings.js";

export const throughLayers = -2;  // instead of a head: roll-out
// Stages of a model are numbered, all others have names.
const nameOf = (kind, name) => (has(`${kind}_${name}`) ? t(`${kind}_${name}`) : t("stage", { n: name.replace("stage", "") }));
const share = (value) => (value >= 0.01 ? value.toFixed(3) : value.toPrecision(2));
let preferred = "matrix";  // the view that was chosen last

export function attentionCard(seen, maps, onrow) {
  const listeners = [];
  let map = seen.map, heads = seen.heads ?? [], view = null;
  const about = (name) => seen.attentions.find((each) => each.name === name);
  const side = (name) => seen.sides.find((each) => each.name === name).tokens;
  const numbers = (count) => [...Array(count).keys()].map((i) => [i, String(i + 1)]);
  const choice = { attention: map.attention, layer: map.layer, head: map.head };

  const stage = element("div", { style: "min-width:0" });
  const pointed = element("p", { class: "pointed", id: "pointed" }, t("nothingHovered"));
  const sides = element("div", { class: "sides quiet" });
  const thumbs = element("div", { class: "thumbs", role: "group", "aria-label": t("head") });
  const thumbsTitle = element("h3", { style: "margin-top:1rem" });

  function tell(row, column) {
    const rows = side(about(map.attention).rows), columns = side(about(map.attention).columns);
    onrow?.(row, about(map.attention).rows);
    if (row === null) return void (pointed.textContent = t("nothingHovered"));
    const value = (j) => map.values[row * map.columns + j];
    if (column !== null) {
      pointed.textContent = t("pair", { row: label(rows[row]), column: label(columns[column]), value: share(value(column)) });
    } else {
      const order = [...Array(map.columns).keys()].sort((a, b) => value(b) - value(a)).slice(0, 4);
      pointed.textContent = `${label(rows[row])} → ${order.map((j) => `${label(columns[j])} ${share(value(j))}`).join(", ")}`;
    }
  }

  function stageView() {
    const { rows, columns } = about(map.attention), two = rows !== columns;
    const make = preferred === "matrix" ? matrixView : arcsView;
    view = make({ rows: side(rows), columns: side(columns), two, onpoint: tell });
    stage.replaceChildren(view.node);
    sides.replaceChildren(element("span", {}, t("rowsAre", { side: nameOf("side", rows) })), element("span", {}, t("columnsAre", { side: nameOf("side", columns) })));
    view.show(map);
  }

  function drawHeads() {
    thumbsTitle.textContent = t("heads", { n: map.layer + 1 });
    thumbs.replaceChildren(...heads.map((head, i) => {
      const canvas = element("canvas", { width: head.columns, height: head.rows, "aria-hidden": "true" });
      const greatest = scaleOf({ values: head.values, columns: map.columns });
      canvas.getContext("2d").drawImage(imageOf(head.values, head.rows, head.columns, heat(), 0, greatest), 0, 0);
      return element("button", { type: "button", class: "thumb", "aria-pressed": String(i === map.head), "aria-label": t("headNumber", { n: i + 1 }),
        onclick: () => change({ head: i }) }, canvas, String(i + 1));
    }));
  }

  async function change(next) {
    const before = { ...choice };
    Object.assign(choice, next);
    if (about(choice.attention).rows !== about(choice.attention).columns && choice.head === throughLayers) choice.head = -1;
    if ("attention" in next) choice.layer = Math.min(choice.layer, about(choice.attention).layers - 1);
    try {
      const answer = await maps({ ...choice });
      map = choice.head === throughLayers ? { ...answer.map, ...answer.rollout, head: throughLayers } : answer.map;
      heads = answer.heads ?? heads;
      controls();
      if (before.attention !== choice.attention) stageView();
      else view.show(map);
      drawHeads();
      tell(null);
      for (const listener of listeners) listener(map);
      say("");
    } catch (error) {
      if (error.name !== "AbortError") Object.assign(choice, before), say(error.message, true);
    }
  }

  const bar = element("div", { class: "row" });
  function controls() {
    const focused = document.activeElement?.id;
    const { layers, heads: count, rows, columns } = about(choice.attention);
    bar.replaceChildren(
      ...(seen.attentions.length > 1
        ? [select(t("which"), seen.attentions.map((a) => [a.name, nameOf("attention", a.name)]), choice.attention, (v) => change({ attention: v }), "which")] : []),
      select(t("layer"), numbers(layers), choice.layer, (v) => change({ layer: Number(v) }), "layer"),
      select(t("head"), [[-1, t("headMean")], ...numbers(count), ...(rows === columns && !seen.image ? [[throughLayers, t("rollout")]] : [])], choice.head, (v) => change({ head: Number(v) }), "head"),
      segments(t("viewAs"), [["matrix", t("matrix")], ["arcs", t("arcs")]], preferred, (v) => { preferred = v; stageView(); }));
    if (focused && focused !== "text") document.getElementById(focused)?.focus();
  }

  controls();
  const node = card(t("attention"), t("attentionNote"), bar, sides, element("div", { class: "beside" }, stage,
    element("div", {}, pointed, ...(heads.length > 1 ? [thumbsTitle, thumbs] : []))));
  node.id = "attention";
  stageView();
  drawHeads();
  return {
    node,
    // A token of a side that is pointed at elsewhere.
    mark(name, row) {
      if (row === null || about(map.attention).rows === name) view.mark(row, null), tell(row, null);
    },
    onmap(listener) { listeners.push(listener); listener(map); },
  };
}
