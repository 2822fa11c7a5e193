// Line charts and heat maps on a painter. Each returns what the point under the pointer says.

import { image, viridisBytes } from "./colours.js";

export const percent = (v) => (v === null || !Number.isFinite(v) ? "–" : `${(100 * v).toFixed(1)} %`);
// the lower end of an axis of accuracies: a multiple of ten percent below all of them
export const floorOf = (values, most = 1) => Math.max(0, Math.floor(values.filter(Number.isFinite).reduce((low, v) => Math.min(low, v), most) * 10 - 0.5) / 10);
export const short = (v) => {
  if (v === null || !Number.isFinite(v)) return "–";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size < 1e5 && size >= 1e-3) return String(Number(v.toPrecision(3)));
  const [factor, power] = v.toExponential(1).split("e").map(Number);
  return `${factor === 1 ? "" : `${factor}×`}${power10(power)}`;
};
const UP = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const power10 = (power) => `10${[...String(power)].map((c) => UP[c]).join("")}`;

function ticks(low, high, count, log) {
  if (log) return logTicks(low, high, count);
  const raw = (high - low) / count || 1;
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + 1e-9; at += step) found.push({ at, text: short(Math.abs(at) < step / 1e6 ? 0 : at) });
  return found;
}

// powers of ten, all as numbers or all as powers; over less than two decades 1, 2, 5, or equal distances
function logTicks(low, high, count) {
  const [a, b] = [Math.ceil(low - 1e-9), Math.floor(high + 1e-9)];
  if (b - a > 1) {
    const every = Math.ceil((b - a + 1) / count);
    const powers = Array.from({ length: Math.floor((b - a) / every) + 1 }, (_, i) => a + i * every);
    const plain = powers[0] >= -3 && powers.at(-1) <= 3;
    return powers.map((at) => ({ at, text: plain ? short(10 ** at) : power10(at) }));
  }
  const few = [a - 1, a, a + 1, a + 2].flatMap((power) => [1, 2, 5].map((m) => m * 10 ** power)).filter((v) => Math.log10(v) >= low && Math.log10(v) <= high);
  return few.length > 2 ? few.map((v) => ({ at: Math.log10(v), text: short(v) })) : ticks(10 ** low, 10 ** high, count, false).filter(({ at }) => at > 0).map(({ at, text }) => ({ at: Math.log10(at), text }));
}

function range(series, axis) {
  let [low, high] = [Infinity, -Infinity];
  for (const one of series) {
    for (const v of one.y) {
      const w = axis.log ? (v > 0 ? Math.log10(v) : NaN) : v;
      if (Number.isFinite(w)) { low = Math.min(low, w); high = Math.max(high, w); }
    }
  }
  if (low > high) [low, high] = axis.log ? [-1, 0] : [0, 1];
  if (axis.floor !== undefined && axis.log) low = Math.max(low, Math.log10(axis.floor));
  const room = (high - low) * 0.06 || 0.5;
  if (axis.min === undefined) low -= room; else low = axis.min;
  if (axis.max === undefined) high += room; else high = axis.max;
  return [low, high];
}

// spec: {x: {label, min, max, whole}, left: {label, log, min, max}, right?, series: [{x, y, colour, dash, axis, name, show}], shades?: [{ends, colour, opacity, name}], marks?, levels?, empty?}
export function lineChart(p, spec, theme, box = { x: 0, y: 0, w: p.width, h: p.height }) {
  const right = spec.series.some((one) => one.axis === "right") && spec.right;
  const legend = spec.legend ?? spec.series.filter((one) => one.name);
  const lines = layLegend(legend, box.w - 50);
  const head = (spec.title ? 16 : 0) + lines * 15 + 3;
  const inner = { y: box.y + head + 4, h: box.h - head - 40 };
  const scale = (axis, side) => {
    const [low, high] = range(spec.series.filter((one) => (one.axis ?? "left") === side), axis);
    const at = (v) => inner.y + inner.h - (((axis.log ? (v > 0 ? Math.log10(v) : NaN) : v) - low) / (high - low)) * inner.h;
    const marks = ticks(low, high, Math.max(2, inner.h / 38), axis.log)
      .map((one) => ({ y: inner.y + inner.h - ((one.at - low) / (high - low)) * inner.h, at: one.at, text: axis.percent ? `${Math.round(100 * one.at)}` : one.text }))
      .filter((one) => one.y >= inner.y - 1 && one.y <= inner.y + inner.h + 1 && !(axis.percent && one.at > 1.001));
    return { at, marks, room: 24 + 6.2 * Math.max(0, ...marks.map((one) => one.text.length)) };
  };
  const left = scale(spec.left, "left");
  const other = right ? scale(spec.right, "right") : null;
  inner.x = box.x + Math.max(44, left.room);
  inner.w = box.x + box.w - inner.x - (other ? Math.max(40, other.room) : 10);
  if (inner.w < 20 || inner.h < 20) return () => "";
  const xs = spec.series.flatMap((one) => [one.x[0], one.x.at(-1)]).filter(Number.isFinite);
  const xlow = spec.x.min ?? Math.min(...xs, Infinity);
  const xhigh = spec.x.max ?? Math.max(...xs, -Infinity);
  const [x0, x1] = xlow < xhigh ? [xlow, xhigh] : [Number.isFinite(xlow) ? xlow - 0.5 : 0, Number.isFinite(xlow) ? xlow + 0.5 : 1];
  const sx = (v) => inner.x + ((v - x0) / (x1 - x0)) * inner.w;
  if (spec.title) p.text(spec.title, box.x + 4, box.y + 12, { size: 11.5, weight: 600, fill: theme.ink });
  (spec.shades ?? []).forEach(({ ends, colour, opacity, name }, i) => {
    const [from, to] = ends.map((v) => Math.min(inner.x + inner.w, Math.max(inner.x, sx(v))));
    p.rect(from, inner.y, Math.max(0, to - from), inner.h, colour, opacity);
    if (to - from > 6 * name.length + 8) p.text(name, (from + to) / 2, inner.y + inner.h - 7 - 13 * i, { size: 10.5, anchor: "middle", fill: theme.faint });
  });
  for (const { y, text } of left.marks) {
    p.line([[inner.x, y], [inner.x + inner.w, y]], theme.grid, 1);
    p.text(text, inner.x - 5, y, { size: 10.5, anchor: "end", baseline: "middle", fill: theme.faint });
  }
  if (other) {
    for (const { y, text } of other.marks) p.text(text, inner.x + inner.w + 5, y, { size: 10.5, baseline: "middle", fill: theme.faint });
    p.text(spec.right.label, box.x + box.w - 3, inner.y + inner.h / 2, { size: 10.5, anchor: "middle", fill: theme.faint, turn: -90 });
  }
  const wide = spec.x.whole && x1 - x0 < 100 ? 28 : 70; // pixels for one number
  for (const { at, text } of ticks(x0, x1, Math.max(2, inner.w / wide), false)) {
    if (spec.x.whole && !Number.isInteger(Number(at.toFixed(6)))) continue;
    p.text(spec.x.whole ? String(Math.round(at)) : text, sx(at), inner.y + inner.h + 14, { size: 10.5, anchor: "middle", fill: theme.faint });
  }
  p.text(spec.x.label, inner.x + inner.w / 2, box.y + box.h - 6, { size: 10.5, anchor: "middle", fill: theme.faint });
  p.text(spec.left.label, box.x + 10, inner.y + inner.h / 2, { size: 10.5, anchor: "middle", fill: theme.faint, turn: -90 });
  p.line([[inner.x, inner.y + inner.h], [inner.x + inner.w, inner.y + inner.h]], theme.line, 1);
  for (const level of spec.levels ?? []) {
    const y = left.at(level.value);
    if (y >= inner.y && y <= inner.y + inner.h) p.line([[inner.x, y], [inner.x + inner.w, y]], level.colour, 1, [2, 3], 0.8);
  }
  for (const mark of spec.marks ?? []) p.line([[sx(mark), inner.y], [sx(mark), inner.y + inner.h]], theme.ink, 1, [3, 3], 0.7);
  for (const one of spec.series) {
    const axis = one.axis === "right" ? other : left;
    if (!axis) continue;
    const points = Array.from(one.y, (v, i) => [sx(one.x[i]), Math.min(inner.y + inner.h + 1, Math.max(inner.y - 1, axis.at(v)))]);
    p.line(points, one.colour, one.width ?? 1.8, one.dash ?? [], one.opacity ?? 1);
    if (one.dots && points.length <= 34) for (const [x, y] of points) if (Number.isFinite(y)) p.circle(x, y, 2.2, one.colour);
  }
  drawLegend(p, legend, box.x + 4, box.y + (spec.title ? 26 : 11), box.w - 50, theme);
  if (spec.empty) p.text(spec.empty, inner.x + inner.w / 2, inner.y + inner.h / 2, { size: 12, anchor: "middle", fill: theme.faint });
  const read = (px, py) => {
    if (px < inner.x - 8 || px > inner.x + inner.w + 8 || py < box.y || py > box.y + box.h) return "";
    const x = x0 + ((px - inner.x) / inner.w) * (x1 - x0);
    const said = spec.series.filter((one) => one.say !== false).map((one) => {
      let best = 0;
      for (let i = 1; i < one.x.length; i++) if (Math.abs(one.x[i] - x) < Math.abs(one.x[best] - x)) best = i;
      return one.x.length ? [one.x[best], `${one.name ?? ""} ${(one.show ?? short)(one.y[best])}`.trim()] : null;
    }).filter(Boolean);
    return said.length ? `${spec.x.unit ?? spec.x.label} ${short(said[0][0])}: ${said.map((one) => one[1]).slice(0, 6).join(", ")}` : "";
  };
  read.at = (px) => Math.min(x1, Math.max(x0, x0 + ((px - inner.x) / inner.w) * (x1 - x0)));
  return read;
}

const entryWidth = (one) => (one.dot ? 18 : 26) + 6.1 * one.name.length;

// how many lines a legend takes
export function layLegend(entries, width) {
  let [lines, x] = [entries.length ? 1 : 0, 0];
  for (const one of entries) {
    if (x && x + entryWidth(one) > width) { lines++; x = 0; }
    x += entryWidth(one);
  }
  return lines;
}

// entries with a colour are lines, those with colours are bars, those with a dot are dots, others are words alone
export function drawLegend(p, entries, x0, y, width, theme) {
  let x = 0;
  for (const one of entries) {
    if (x && x + entryWidth(one) > width) { y += 15; x = 0; }
    if (one.colour) p.line([[x0 + x, y - 4], [x0 + x + 16, y - 4]], one.colour, 2, one.dash ?? []);
    one.colours?.forEach((colour, i, all) => p.rect(x0 + x + (i * 16) / all.length, y - 8, 16 / all.length, 8, colour));
    if (one.dot) p.circle(x0 + x + 4, y - 4, 4, one.dot);
    p.text(one.name, x0 + x + (one.colour || one.colours ? 20 : one.dot ? 12 : 0), y, { size: 10.5, fill: theme.faint });
    x += entryWidth(one);
  }
}

// spec: {values (row by row), n, low, high, log?, label, title?, first (number of the first layer), key, mark?, shown}
export function heatMap(p, spec, theme, box = { x: 0, y: 0, w: p.width, h: p.height }) {
  const head = 20;
  const [edge, bar] = [40, 56];
  const side = Math.max(20, Math.min(box.w - edge - bar, box.h - head - 36));
  const [x0, y0] = [box.x + edge + Math.max(0, (box.w - edge - bar - side) / 2), box.y + head];
  if (spec.title) p.text(spec.title, x0, box.y + 12, { size: 11.5, weight: 600, fill: theme.ink });
  const { n, values } = spec;
  let [floor, ceiling] = [spec.low, spec.high].map((v) => (spec.log ? Math.log(Math.max(v, 1e-30)) : v));
  if (!(ceiling > floor)) [floor, ceiling] = [floor - 0.5, floor + 0.5]; // one value alone lies in the middle of its scale
  const share = (v) => ((spec.log ? Math.log(v) : v) - floor) / (ceiling - floor);
  const paper = 0xff000000 | parseInt(theme.shade.slice(5, 7) + theme.shade.slice(3, 5) + theme.shade.slice(1, 3), 16);
  const pixels = new Uint32Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const v = values[i * n + j];
      const empty = !Number.isFinite(v) || (spec.log && v <= 0);
      const [r, g, b] = empty ? [0, 0, 0] : viridisBytes(share(v));
      pixels[(n - 1 - i) * n + j] = empty ? paper : 0xff000000 | (b << 16) | (g << 8) | r;
    }
  }
  p.image(image(spec.key, n, n, pixels), x0, y0, side, side, false);
  const cell = side / n;
  const every = Math.max(1, Math.ceil(n / Math.max(2, Math.floor(side / 26))));
  for (let i = 0; i < n; i += every) {
    p.text(String(i + spec.first), x0 + (i + 0.5) * cell, y0 + side + 13, { size: 10, anchor: "middle", fill: theme.faint });
    p.text(String(i + spec.first), x0 - 5, y0 + side - (i + 0.5) * cell, { size: 10, anchor: "end", baseline: "middle", fill: theme.faint });
  }
  p.text("layer", x0 + side / 2, y0 + side + 27, { size: 10.5, anchor: "middle", fill: theme.faint });
  p.text("layer", x0 - 27, y0 + side / 2, { size: 10.5, anchor: "middle", fill: theme.faint, turn: -90 });
  p.text(spec.label, x0 + side + bar, y0 - 9, { size: 10.5, anchor: "end", fill: theme.faint });
  if (spec.mark !== undefined && spec.mark !== null) {
    p.frame(x0 + spec.mark * cell, y0, cell, side, theme.ink, 1.2);
    p.frame(x0, y0 + side - (spec.mark + 1) * cell, side, cell, theme.ink, 1.2);
  }
  const steps = 48;
  for (let i = 0; i < steps; i++) {
    const [r, g, b] = viridisBytes(i / (steps - 1));
    p.rect(x0 + side + 8, y0 + side - ((i + 1) * side) / steps, 9, side / steps + 0.5, `rgb(${r},${g},${b})`);
  }
  for (const at of [0, 0.5, 1]) {
    const v = spec.log ? Math.exp(floor + at * (ceiling - floor)) : floor + at * (ceiling - floor);
    p.text(short(v), x0 + side + 20, y0 + side * (1 - at), { size: 10, baseline: "middle", fill: theme.faint });
  }
  const read = (px, py) => {
    const [j, i] = [Math.floor((px - x0) / cell), Math.floor((y0 + side - py) / cell)];
    if (i < 0 || j < 0 || i >= n || j >= n) return "";
    return `layers ${i + spec.first} and ${j + spec.first}: ${spec.label} ${(spec.show ?? short)(values[i * n + j])}`;
  };
  read.at = (px) => (px >= x0 && px < x0 + side ? Math.floor((px - x0) / cell) + spec.first : NaN);
  return read;
}

// points in the plane by class; returns the number of the point under the pointer in words
export function scatter(p, spec, theme, box = { x: 0, y: 0, w: p.width, h: p.height }) {
  const { xs, ys, labels } = spec;
  const entries = spec.legend ?? [];
  const room = layLegend(entries, box.w - 12) * 15;
  drawLegend(p, entries, box.x + 6, box.y + box.h - room + 11, box.w - 12, theme);
  box = { ...box, h: box.h - room };
  const ends = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low < high ? [low, high] : [low - 1, high + 1];
  };
  const [x0, x1] = ends(xs);
  const [y0, y1] = ends(ys);
  const at = (i) => [box.x + 8 + ((xs[i] - x0) / (x1 - x0)) * (box.w - 16), box.y + box.h - 8 - ((ys[i] - y0) / (y1 - y0)) * (box.h - 16)];
  for (let i = 0; i < xs.length; i++) p.circle(...at(i), 2, spec.colour(labels ? labels[i] : 0));
  return (px, py) => {
    let [best, near] = [-1, 64];
    for (let i = 0; i < xs.length; i++) {
      const [x, y] = at(i);
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < near) [best, near] = [i, far];
    }
    return best < 0 ? "" : `sample ${best}: ${spec.name(labels ? labels[best] : 0)}`;
  };
}
