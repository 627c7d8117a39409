// The cards of tokens, of vectors, of feed-forward activity, and of the translations that the search kept.
import { imageOf, label, onWidth, sharp } from "./canvas.js";
import { paint, signed } from "./colour.js";
import { card, element } from "./dom.js";
import { matrixView } from "./matrix.js";
import { t } from "./strings.js";

// One stop for the tab key; the arrows go from token to token.
function walk(event) {
  const to = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key], next = to && event.target[to];
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

export function tokensCard(seen, old, onpoint) {
  const chips = new Map();  // by side
  const shown = seen.sides.filter((side) => side.name !== "target");
  const sides = shown.map((side) => element("div", { class: "side" },
    element("h3", {}, `${t(`side_${side.name}`)} · ${t("tokenCount", { n: side.tokens.length })}`),
    element("div", { class: "chips", role: "group", "aria-label": t(`side_${side.name}`), onkeydown: walk }, side.tokens.map((token, i) => {
      const chip = element("span", { class: `chip${token.special ? " special" : ""}${old > 0 && i >= old ? " new" : ""}`, title: token.token, tabindex: i === 0 ? "0" : "-1",
        onpointerenter: () => onpoint(side.name, i), onpointerleave: () => onpoint(side.name, null),
        onfocus: () => onpoint(side.name, i), onblur: () => onpoint(side.name, null) }, label(token), element("small", {}, String(token.id)));
      chips.set(side.name, [...(chips.get(side.name) ?? []), chip]);
      return chip;
    }))));
  let marked = null;
  const node = card(t("tokens"), t("tokensNote"), ...sides);
  node.id = "tokens";
  return {
    node,
    mark(row, side) {
      marked?.classList.remove("marked");
      marked = row === null || row === undefined ? null : chips.get(side)?.[row];
      marked?.classList.add("marked");
    },
  };
}

// Rows of vectors as strips: the token's, its place's, and what goes in.
function strips(stack, tokens) {
  const canvas = element("canvas", { role: "img", "aria-label": t("embedding") });
  const box = element("div", { class: "scroller", style: "max-height:22rem" }, canvas);
  const { vectors } = stack;
  const blocks = [["tokenVector", vectors.tokens], ["positionVector", vectors.positions], ["sumVector", vectors.sum]].filter(([, rows]) => rows);
  onWidth(box, (width) => {
    const line = 18, head = 24, left = Math.min(96, width * 0.28), gap = 14;
    const context = sharp(canvas, width, head + line * tokens.length + 4);
    const wide = (width - left - gap * (blocks.length - 1)) / blocks.length;
    context.font = "12.5px system-ui, 'Noto Sans KR', 'NanumGothic', sans-serif";
    context.textBaseline = "middle";
    context.imageSmoothingEnabled = false;
    blocks.forEach(([name, rows], b) => {
      const x = left + b * (wide + gap), flat = rows.flat();
      const greatest = flat.reduce((a, v) => Math.max(a, Math.abs(v)), 0) || 1;
      context.fillStyle = paint("soft");
      context.textAlign = "left";
      context.fillText(t(name), x, 10);
      const columns = rows[0].length;
      const picture = imageOf(flat, rows.length, columns, signed(), -greatest, greatest);
      rows.forEach((_, i) => context.drawImage(picture, 0, i, columns, 1, x, head + line * i, wide, line - 4));
    });
    context.fillStyle = paint("ink");
    context.textAlign = "right";
    tokens.forEach((token, i) => context.fillText(cut(context, label(token), left - 12), left - 8, head + line * (i + 0.5) - 2));
  });
  return box;
}
function cut(context, text, width) {
  let out = text;
  while (out.length > 1 && context.measureText(out).width > width) out = out.slice(0, -1);
  return out === text ? text : `${out.slice(0, -1)}…`;
}

export function embeddingCard(seen) {
  const stack = seen.stacks[0], tokens = seen.sides.find((side) => side.name === stack.side).tokens;
  const inside = { rotary: "positions_rotary", relative: "positions_relative", alibi: "positions_alibi" }[stack.positions];
  return card(t("embedding"), t("embeddingNote", { d: stack.d_model, shown: stack.vectors.shown }), strips(stack, tokens),
    inside && !stack.vectors.positions ? element("p", { class: "quiet", style: "margin-top:.6rem" }, t(inside)) : null);
}

export function feedForwardCard(seen) {
  const stack = seen.stacks.at(-1), tokens = seen.sides.find((side) => side.name === stack.side).tokens;
  const pointed = element("p", { class: "pointed quiet" }, t("nothingHovered"));
  // Each layer by its own strongest, so that all can be seen.
  const rows = stack.activity.map((layer) => layer.strength);
  const values = rows.flatMap((row) => { const greatest = Math.max(...row) || 1; return row.map((v) => v / greatest); });  // from 0 to 1
  const view = matrixView({ rows: rows.map((_, i) => ({ text: String(i + 1) })), columns: tokens, onpoint: (layer, token) => {
    if (layer === null || token === null) return void (pointed.textContent = t("nothingHovered"));
    const { active, strength, strongest } = stack.activity[layer];
    pointed.textContent = t("neuron", { layer: layer + 1, token: label(tokens[token]), strength: strength[token].toPrecision(3),
      active: `${(100 * active[token]).toFixed(0)} %`, neurons: strongest[token].map(([n, v]) => `${n} (${v.toPrecision(2)})`).join(", ") });
  } });
  view.show({ rows: rows.length, columns: tokens.length, values });
  return card(t("feedForward"), t("feedForwardNote", { d: stack.d_ff }), view.node, pointed);
}

export function translationsCard(seen, choose) {
  const shown = seen.translation.alternatives.findIndex((each) => each.text === seen.translation.text);  // tokens may differ where texts do not
  const list = element("ol", { class: "alternatives" }, seen.translation.alternatives.map((each, i) =>
    element("li", {}, element("button", { type: "button", "aria-pressed": String(i === shown), onclick: () => choose(each.text) },
      element("span", {}, each.text), element("span", { class: "quiet" }, `${t("score")} ${each.score.toFixed(3)}`)))));
  return card(t("translations"), t("translationsNote"), list);
}
