// Colour scales that look even to the eye: straight lines in Oklab, from the paper to the ink, read from the page's own colours.

const toLinear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const fromLinear = (c) => (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055);

function toOklab([r, g, b]) {
  [r, g, b] = [toLinear(r / 255), toLinear(g / 255), toLinear(b / 255)];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => Math.round(255 * Math.min(1, Math.max(0, fromLinear(Math.min(1, Math.max(0, c)))))));
}

// "#0b4f9e" → [11, 79, 158]
const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
export const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// 256 colours through the given ones, as bytes red, green, blue.
function table(...names) {
  const stops = names.map((name) => toOklab(parse(paint(name))));
  const out = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i += 1) {
    const at = (i / 255) * (stops.length - 1), from = Math.min(Math.floor(at), stops.length - 2), share = at - from;
    out.set(fromOklab([0, 1, 2].map((k) => stops[from][k] * (1 - share) + stops[from + 1][k] * share)), i * 3);
  }
  return out;
}

let cached = {};
export function forgetColours() { cached = {}; }
// From nothing to much.
export const heat = () => (cached.heat ??= table("heat-0", "heat-1", "heat-2"));
// From below 0 over 0 to above.
export const signed = () => (cached.signed ??= table("cold", "zero", "warm"));
export const css = (scale, share) => {
  const i = Math.max(0, Math.min(255, Math.round(share * 255))) * 3;
  return `rgb(${scale[i]} ${scale[i + 1]} ${scale[i + 2]})`;
};
