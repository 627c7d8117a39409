// Models of images: the file, and what each patch looks at, over the picture.
import { onWidth, sharp } from "./canvas.js";
import { paint } from "./colour.js";
import { card, element, say, segments } from "./dom.js";
import { t } from "./strings.js";

const bytesOf = (file) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1]);
  reader.onerror = () => failed(reader.error);
  reader.readAsDataURL(file);
});

export function imageInput(model, run) {
  const file = element("input", { type: "file", id: "file", accept: "image/*", onchange: async () => {
    try {
      if (file.files[0]) run({ image: await bytesOf(file.files[0]) });
    } catch (error) {
      say(String(error), true);
    }
  } });
  return { node: card(t("explore"), null, element("label", { class: "field" }, element("span", { class: "quiet" }, t("inputImage")), file)) };
}

export function imageCard(seen, attention) {
  const canvas = element("canvas", { class: "marks", tabindex: "0", role: "img", "aria-label": t("imageNote") });
  const pointed = element("p", { class: "pointed" });
  const box = element("div", { style: "max-width:30rem" }, canvas);
  const picture = new Image();
  let map = null, token = 0, size = 0, mode = "attention";

  // Who looks, and at what. Swin's grids become coarser from stage to stage, and its roll-out is from the last one to the first.
  const side = (name) => seen.sides.find((each) => each.name === name);
  function shown() {
    if (mode === "rollout") return { values: seen.rollout.values, from: side(seen.rollout.from), to: side(seen.rollout.to) };
    const { rows, columns } = seen.attentions.find((each) => each.name === map.attention);
    return { values: map.values, from: side(rows), to: side(columns) };
  }

  function draw() {
    if (!size || !map || !picture.complete) return;
    const height = (size * picture.naturalHeight) / picture.naturalWidth || size, context = sharp(canvas, size, height);
    const { values, from, to } = shown(), { grid } = to;
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, 0, 0, size, height);
    const row = values.slice(token * to.tokens.length + grid.first, (token + 1) * to.tokens.length);
    const greatest = Math.max(...row) || 1;
    context.fillStyle = "rgb(12 16 24)";
    row.forEach((value, i) => {
      context.globalAlpha = 0.78 * (1 - value / greatest);
      context.fillRect((i % grid.columns) * (size / grid.columns), Math.floor(i / grid.columns) * (height / grid.rows), size / grid.columns + 0.5, height / grid.rows + 0.5);
    });
    context.globalAlpha = 1;
    if (token >= from.grid.first) {
      const { rows, columns, first } = from.grid;
      context.strokeStyle = paint("cold");
      context.lineWidth = 2.5;
      context.strokeRect(((token - first) % columns) * (size / columns), Math.floor((token - first) / columns) * (height / rows), size / columns, height / rows);
    }
  }
  // Said at once: the picture waits until it is decoded and the page knows its width.
  function tell() {
    const { tokens } = shown().from;
    if (token >= tokens.length) token = 0;
    pointed.textContent = t("fromToken", { token: tokens[token].text });
    draw();
  }
  function point(next) {
    if (next !== token) token = next, tell();
  }
  canvas.addEventListener("pointermove", (event) => {
    const { rows, columns, first } = shown().from.grid;
    const x = Math.floor((event.offsetX / canvas.clientWidth) * columns), y = Math.floor((event.offsetY / canvas.clientHeight) * rows);
    if (x >= 0 && x < columns && y >= 0 && y < rows) point(first + y * columns + x);
  });
  canvas.addEventListener("pointerleave", () => point(0));
  canvas.addEventListener("keydown", (event) => {
    const { tokens, grid } = shown().from;
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns }[event.key];
    if (!move) return;
    event.preventDefault();
    point(Math.max(0, Math.min(tokens.length - 1, token + move)));
  });
  picture.onload = draw;
  picture.src = `data:image/png;base64,${seen.image.png}`;
  onWidth(box, (width) => { size = Math.min(480, width); draw(); });
  attention.onmap((next) => {
    if (map && next.attention !== map.attention) token = 0;
    map = next;
    tell();
  });
  const modes = seen.rollout ? segments(t("viewAs"), [["attention", t("attention")], ["rollout", t("rollout")]], mode, (v) => { mode = v; token = 0; tell(); }) : null;
  const node = card(t("side_patches"), t("imageNote"), modes, element("div", { style: "margin-top:.8rem" }, box), pointed);
  node.id = "picture";
  return { node };
}
