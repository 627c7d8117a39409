// One head of the first layer in numbers, fetched when it is opened: Q, K, V, scores, scaled, softmax, output, each with its shape.
import { label } from "./canvas.js";
import { css, heat } from "./colour.js";
import { card, element, say, select } from "./dom.js";
import { t } from "./strings.js";

const most = 7, dimensions = 6;  // rows and columns that are shown

function table(name, matrix, rows, { note = "", coloured = false, masked = null } = {}) {
  const square = matrix.rows === matrix.columns, columns = Math.min(matrix.columns, square ? most : dimensions), count = Math.min(matrix.rows, most);
  const line = (i) => element("tr", {}, element("th", { scope: "row" }, label(rows[i])), ...[...Array(columns).keys()].map((j) => {
    const value = matrix.values[i * matrix.columns + j], hidden = masked && masked.values[i * matrix.columns + j] === 0;
    const strong = coloured && value > 0.5;
    return element("td", { style: coloured ? `background:${css(heat(), value)};color:var(${strong ? "--card" : "--ink"})` : null }, hidden ? "−∞" : value.toFixed(2));
  }), matrix.columns > columns ? element("td", {}, "…") : null);
  return element("table", {}, element("caption", {}, name, element("span", { class: "quiet" }, `${matrix.rows} × ${matrix.columns}${note}`)),
    element("tbody", {}, [...Array(count).keys()].map(line)));
}

export function exampleCard(seen, fetchExample) {
  const stack = seen.stacks[0], tokens = seen.sides.find((side) => side.name === stack.side).tokens;
  const numbers = element("div", { class: "numbers" });
  async function load(head) {
    try {
      const { example: e } = await fetchExample(head);
      const scaled = `QKᵀ ${t("stepScaled", { scale: e.scale.toPrecision(4), bias: e.biased ? t("withBias") : "", mask: e.masked ? t("withMask") : "" })}`;
      numbers.replaceChildren(table("Q", e.q, tokens), table("K", e.k, tokens), table("V", e.v, tokens), table("QKᵀ", e.scores, tokens),
        table(scaled, e.scaled, tokens, { masked: e.weights }), table("softmax", e.weights, tokens, { coloured: true }), table("softmax · V", e.output, tokens));
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
    }
  }
  const heads = [...Array(stack.heads).keys()].map((i) => [i, String(i + 1)]);
  const details = element("details", { id: "example", ontoggle: () => { if (details.open && !numbers.childElementCount) load(0); } },
    element("summary", {}, t("exampleShow")), select(t("head"), heads, 0, (v) => load(Number(v))), numbers);
  return card(t("example"), t("exampleNote"), details);
}
