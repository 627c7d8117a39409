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
  const { png } = seen.image;
  let { rows, columns, first } = seen.image, tokens = seen.sides[0].tokens;
  const canvas = element("canvas", { class: "marks", tabindex: "0", role: "img", "aria-label": t("imageNote") });
  const pointed = element("p", { class: "pointed" });
  const box = element("div", { style: "max-width:30rem" }, canvas);
  const picture = new Image();
  let map = null, rolled = null, token = 0, size = 0, mode = "attention";

  function draw() {
    if (!size || !map || !picture.complete) return;
    const context = sharp(canvas, size, (size * picture.naturalHeight) / picture.naturalWidth || size);
    const height = (size * picture.naturalHeight) / picture.naturalWidth, source = mode === "rollout" ? rolled : map;
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, 0, 0, size, height);
    const row = source.values.slice(token * source.columns + first, (token + 1) * source.columns);
    const greatest = Math.max(...row) || 1;
    context.fillStyle = "rgb(12 16 24)";
    row.forEach((value, i) => {
      context.globalAlpha = 0.78 * (1 - value / greatest);
      context.fillRect((i % columns) * (size / columns), Math.floor(i / columns) * (height / rows), size / columns + 0.5, height / rows + 0.5);
    });
    context.globalAlpha = 1;
    if (token >= first) {
      context.strokeStyle = paint("cold");
      context.lineWidth = 2.5;
      context.strokeRect(((token - first) % columns) * (size / columns), Math.floor((token - first) / columns) * (height / rows), size / columns, height / rows);
    }
  }
  // Said at once: the picture waits until it is decoded and the page knows its width.
  function tell() {
    pointed.textContent = t("fromToken", { token: tokens[token].text });
    draw();
  }
  function point(next) {
    if (next !== token) token = next, tell();
  }
  canvas.addEventListener("pointermove", (event) => {
    const x = Math.floor((event.offsetX / canvas.clientWidth) * columns), y = Math.floor((event.offsetY / canvas.clientHeight) * rows);
    if (x >= 0 && x < columns && y >= 0 && y < rows) point(first + y * columns + x);
  });
  canvas.addEventListener("pointerleave", () => point(0));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (!move) return;
    event.preventDefault();
    point(Math.max(0, Math.min(tokens.length - 1, token + move)));
  });
  picture.onload = draw;
  picture.src = `data:image/png;base64,${png}`;
  onWidth(box, (width) => { size = Math.min(480, width); draw(); });
  attention.onmap((next, rollout) => {
    // The grid of the attention that is shown: Swin's become coarser from stage to stage.
    const side = seen.sides.find((each) => each.name === seen.attentions.find((a) => a.name === next.attention).rows);
    if (side.tokens !== tokens) token = 0;
    ({ tokens } = side);
    ({ rows, columns, first } = side.grid);
    map = next;
    rolled = rollout;
    tell();
  });
  const modes = seen.rollout ? segments(t("viewAs"), [["attention", t("attention")], ["rollout", t("rollout")]], mode, (v) => { mode = v; draw(); }) : null;
  const node = card(t("side_patches"), t("imageNote"), modes, element("div", { style: "margin-top:.8rem" }, box), pointed);
  node.id = "picture";
  return { node };
}
