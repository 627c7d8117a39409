// What every drawing shares: a canvas as sharp as the screen, drawn again when its size or the colours change.

export function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// Values [rows, columns] as an image of one pixel each, to be drawn in any size.
export function imageOf(values, rows, columns, scale, low, high) {
  const picture = new OffscreenCanvas(columns, rows), context = picture.getContext("2d");
  const image = context.createImageData(columns, rows), span = high - low || 1;
  for (let i = 0; i < rows * columns; i += 1) {
    const at = Math.max(0, Math.min(255, Math.round(((values[i] - low) / span) * 255))) * 3;
    image.data[4 * i] = scale[at];
    image.data[4 * i + 1] = scale[at + 1];
    image.data[4 * i + 2] = scale[at + 2];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return picture;
}

// What has the strongest colour: the greatest value, but never less than twice an even spread, which is nothing to point out.
export const scaleOf = (map) => map.values.reduce((a, b) => Math.max(a, b), 2 / map.columns) || 1;

// Calls draw(width) now and whenever the width of the element changes.
export function onWidth(node, draw) {
  let last = -1;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width !== last && width > 0) draw((last = width));
  }).observe(node);
}

export const label = (token) => token.text.replace(/\s/g, "·") || "·";
export function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let cut = text;
  while (cut.length > 1 && context.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}
