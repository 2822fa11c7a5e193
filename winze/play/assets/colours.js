// Colours by what they stand for, read from the style sheet, and the tables that turn bytes into pixels.

const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];

let cached = null;

export function theme() {
  if (cached) return cached;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const found = {
    dark: document.documentElement.dataset.theme === "dark",
    paper: colour("paper"), ink: colour("ink"), faint: colour("faint"), grid: colour("grid"), shade: colour("shade"),
    line: colour("line"), probe: colour("probe"), rank: colour("rank"), third: colour("third"), fourth: colour("fourth"),
  };
  found.nets = [found.probe, found.rank];
  found.classes = [found.rank, found.probe, found.third, found.fourth];
  found.signed = signedTable(found);
  found.ramp = (share) => viridis(found.dark ? 0.32 + 0.68 * share : 0.8 * share);
  return (cached = found);
}

export function forgetTheme() { cached = null; }

export function setTheme(name) {
  document.documentElement.dataset.theme = name;
  forgetTheme();
}

export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

export const css = (word) => `rgb(${word & 255},${(word >> 8) & 255},${(word >> 16) & 255})`;

const mix = (a, b, share) => a.map((v, i) => v + (b[i] - v) * share);

export function viridis(share) {
  const at = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1);
  const low = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const [r, g, b] = mix(rgb(VIRIDIS[low]), rgb(VIRIDIS[low + 1]), at - low).map(Math.round);
  return `rgb(${r},${g},${b})`;
}

const viridisTable = Array.from({ length: 256 }, (_, i) => viridis(i / 255).match(/\d+/g).map(Number));
export const viridisBytes = (share) => viridisTable[Math.round(255 * Math.min(1, Math.max(0, share)))];

// bytes around 128: below it the second colour, above it the first, at it the paper
function signedTable(found) {
  const table = new Uint32Array(256);
  const paper = rgb(found.paper);
  for (let i = 0; i < 256; i++) {
    const size = Math.min(1, Math.abs(i - 128) / 127) ** 0.85;
    const [r, g, b] = mix(paper, rgb(i < 128 ? found.rank : found.probe), size * 0.92);
    table[i] = 0xff000000 | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r);
  }
  return table;
}

// the share of each class at every point, mixed on paper by how sure the network is
export function decisionPixels(bytes, classes, side, found) {
  const pixels = new Uint32Array(side * side);
  const colours = found.classes.slice(0, classes).map(rgb);
  const paper = rgb(found.paper);
  const floor = 1 / classes;
  for (let i = 0; i < pixels.length; i++) {
    let best = 0;
    for (let c = 1; c < classes; c++) if (bytes[c * side * side + i] > bytes[best * side * side + i]) best = c;
    const sure = Math.max(0, (bytes[best * side * side + i] / 255 - floor) / (1 - floor));
    const known = bytes[best * side * side + i] > 0; // no class has a share where the outputs are not finite
    const [r, g, b] = known ? mix(paper, colours[best], 0.12 + 0.6 * sure) : paper;
    pixels[i] = 0xff000000 | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r);
  }
  return pixels;
}

const scratch = new Map();

// a small canvas that holds the pixels, one per key and size, to be drawn scaled
export function image(key, width, height, pixels) {
  const name = `${key}/${width}/${height}`;
  let entry = scratch.get(name);
  if (!entry) {
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    entry = { canvas, context, data: context.createImageData(width, height) };
    entry.view = new Uint32Array(entry.data.data.buffer);
    scratch.set(name, entry);
    if (scratch.size > 80) scratch.delete(scratch.keys().next().value);
  }
  entry.view.set(pixels);
  entry.context.putImageData(entry.data, 0, 0);
  return entry.canvas;
}
