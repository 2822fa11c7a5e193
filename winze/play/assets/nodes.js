// The node maps: inputs, one column per shown layer, the decision over the plane, and weights as lines between.

import { drawLegend, layLegend } from "./charts.js";
import { css, decisionPixels, image } from "./colours.js";
import { SvgPainter } from "./painter.js";

const SUB = "₀₁₂₃₄₅₆₇₈₉";
export const layerName = (number) => `h${[...String(number)].map((c) => SUB[c]).join("")}`;
const LEAST = 30;
const MOST = 60;
const ROWS = 8;
const HEAD = 22;

// how many layers and nodes fit readably, for a network of this depth and width in this many pixels
export function fitting(width, arm) {
  const out = Math.max(84, Math.min(190, width * 0.2));
  const rows = Math.min(ROWS, arm.width);
  const columns = Math.max(2, Math.min(24, Math.floor((width - out - 8) / (LEAST * 1.7)) - 1));
  return { columns: Math.min(columns, arm.depth + 1), rows };
}

export function layout(width, net) {
  const [columns, rows] = [net.layers.length + 1, net.nodes.length];
  const out = Math.max(84, Math.min(190, width * 0.2));
  const pitch = (width - out - 8) / columns;
  const map = Math.max(18, Math.min(MOST, pitch * 0.62));
  const down = map + Math.max(4, map * 0.12);
  const body = Math.max(rows * down, out);
  const foot = 15 * layLegend(legend(net), width) + 10;
  return { columns, rows, out, pitch, map, down, height: HEAD + body + foot, middle: HEAD + body / 2 };
}

function legend(net, theme) {
  const [layers, nodes] = [net.layers.at(-1) + 1, net.nodes.at(-1) + 1];
  const some = layers > net.layers.length || nodes > net.nodes.length;
  return [
    { name: "output of a node from − to +, scaled per map", colours: theme ? [1, 64, 128, 192, 255].map((byte) => css(theme.signed[byte])) : [] },
    { name: "positive weight", colour: theme?.probe },
    { name: "negative weight", colour: theme?.rank },
    ...Array.from({ length: net.weights_out.shape[0] }, (_, c) => ({ name: `class ${c + 1}`, dot: theme?.classes[c] ?? true })),
    ...(some ? [{ name: `shown: ${net.layers.length} of ${layers} layers, ${net.nodes.length} of ${nodes} nodes` }] : []),
  ];
}

const top = (l, row, rows) => l.middle - (rows * l.down) / 2 + row * l.down;
const left = (l, column) => 2 + column * l.pitch;

export function draw(p, net, points, theme, key, chosen) {
  const l = layout(p.width, net);
  const titles = ["input", ...net.layers.map(layerName)];
  titles.forEach((title, column) => p.text(title, left(l, column) + l.map / 2, 12, { size: 11, anchor: "middle", fill: theme.faint }));
  p.text("output", p.width - l.out / 2 - 2, 12, { size: 11, anchor: "middle", fill: theme.faint });
  lines(p, net, l, theme);
  inputs(p, l, theme, key);
  const [, , side] = net.maps.shape.slice(1);
  atlas(p, net, l, side, theme, key);
  for (let c = 1; c < net.layers.length; c++) {
    if (net.layers[c] - net.layers[c - 1] > 1) {
      p.text("⋯", left(l, c + 1) - (l.pitch - l.map) / 2, 12, { size: 12, anchor: "middle", fill: theme.faint });
    }
  }
  if (net.nodes.at(-1) > net.nodes.length - 1) {
    const x = p.width - l.out - 8;
    net.nodes.forEach((node, row) => p.text(String(node), Math.min(left(l, l.columns - 1) + l.map + 3, x), top(l, row, l.rows) + l.map / 2, { size: 9.5, baseline: "middle", fill: theme.faint }));
  }
  decision(p, net, l, points, theme, key);
  const shown = legend(net, theme);
  drawLegend(p, shown, 2, l.height - 15 * layLegend(shown, p.width) + 9, p.width, theme);
  if (chosen) {
    const spot = place(l, net, chosen.layer, chosen.node);
    if (spot) p.frame(spot[0] - 1.5, spot[1] - 1.5, l.map + 3, l.map + 3, theme.ink, 2);
  }
  return l;
}

function place(l, net, layer, node) {
  const [column, row] = [net.layers.indexOf(layer), net.nodes.indexOf(node)];
  return column < 0 || row < 0 ? null : [left(l, column + 1), top(l, row, l.rows)];
}

function lines(p, net, l, theme) {
  const strongest = (values) => values.reduce((most, v) => Math.max(most, Math.abs(v)), 1e-9);
  const strand = (w, most, x0, y0, x1, y1) => {
    const size = Math.abs(w) / most;
    if (size > least) p.curve(x0, y0, x1, y1, w > 0 ? theme.probe : theme.rank, thin + (thick - thin) * size, 0.2 + 0.6 * size);
  };
  // in a narrow gap only the stronger weights are drawn, and thinner, so that single lines can be followed
  const narrow = Math.min(1, Math.max(0, (44 - (l.pitch - l.map)) / 30)) * Math.min(1, l.rows / 8);
  const [least, thin, thick] = [0.06 + 0.42 * narrow, 0.4, 2.4 - 1.2 * narrow];
  const half = l.map / 2;
  let most = strongest(net.weights_in);
  net.nodes.forEach((_, row) => [0, 1].forEach((i) => strand(net.weights_in[row * 2 + i], most, left(l, 0) + l.map, top(l, i, 2) + half, left(l, 1), top(l, row, l.rows) + half)));
  for (let c = 1; c < net.layers.length; c++) {
    const part = net.weights.subarray(c * l.rows * l.rows, (c + 1) * l.rows * l.rows);
    most = strongest(part);
    for (let to = 0; to < l.rows; to++) {
      for (let from = 0; from < l.rows; from++) strand(part[to * l.rows + from], most, left(l, c) + l.map, top(l, from, l.rows) + half, left(l, c + 1), top(l, to, l.rows) + half);
    }
  }
  const classes = net.weights_out.shape[0];
  most = strongest(net.weights_out);
  const x = p.width - l.out - 2;
  for (let from = 0; from < l.rows; from++) {
    // of two classes the difference decides; of more, the strongest
    let w = classes === 2 ? net.weights_out[l.rows + from] - net.weights_out[from] : 0;
    if (classes > 2) for (let c = 0; c < classes; c++) if (Math.abs(net.weights_out[c * l.rows + from]) > Math.abs(w)) w = net.weights_out[c * l.rows + from];
    strand(w, most * (classes === 2 ? 2 : 1), left(l, l.columns - 1) + l.map, top(l, from, l.rows) + half, x, l.middle);
  }
}

function inputs(p, l, theme, key) {
  const side = 16;
  for (const axis of [0, 1]) {
    const pixels = new Uint32Array(side * side);
    for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) pixels[y * side + x] = theme.signed[Math.round(1 + 254 * (axis ? 1 - y / (side - 1) : x / (side - 1)))];
    const y = top(l, axis, 2);
    p.image(image(`${key}/input${axis}`, side, side, pixels), left(l, 0), y, l.map, l.map);
    p.frame(left(l, 0) + 0.5, y + 0.5, l.map - 1, l.map - 1, theme.line);
    p.text(`x${SUB[axis + 1]}`, left(l, 0) + 4, y + 13, { size: 10.5, fill: theme.ink });
  }
}

// all maps of a network in one image: one upload per frame, whatever the number of nodes
function atlas(p, net, l, side, theme, key) {
  const [columns, rows] = [net.layers.length, l.rows];
  const wide = columns * side;
  const pixels = new Uint32Array(wide * rows * side);
  for (let c = 0; c < columns; c++) {
    for (let r = 0; r < rows; r++) {
      const start = (c * rows + r) * side * side;
      for (let y = 0; y < side; y++) {
        const to = (r * side + y) * wide + c * side;
        for (let x = 0; x < side; x++) pixels[to + x] = theme.signed[net.maps[start + y * side + x]];
      }
    }
  }
  const source = image(`${key}/maps`, wide, rows * side, pixels);
  for (let c = 0; c < columns; c++) {
    for (let r = 0; r < rows; r++) {
      const [x, y] = [left(l, c + 1), top(l, r, rows)];
      if (p.context) {
        p.context.imageSmoothingEnabled = true;
        p.context.drawImage(source, c * side, r * side, side, side, x, y, l.map, l.map);
      } else {
        p.image(part(source, c * side, r * side, side), x, y, l.map, l.map);
      }
      p.frame(x + 0.5, y + 0.5, l.map - 1, l.map - 1, theme.line);
      if (!Number.isFinite(net.sizes[c * rows + r])) p.text("NaN", x + l.map / 2, y + l.map / 2, { size: 9.5, anchor: "middle", baseline: "middle", fill: theme.faint });
    }
  }
}

function part(source, x, y, side) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  canvas.getContext("2d").drawImage(source, x, y, side, side, 0, 0, side, side);
  return canvas;
}

function decision(p, net, l, points, theme, key) {
  const [x, y, size] = [p.width - l.out - 2, l.middle - l.out / 2, l.out];
  if (net.decision) {
    const [classes, side] = net.decision.shape;
    p.image(image(`${key}/decision`, side, side, decisionPixels(net.decision, classes, side, theme)), x, y, size, size);
  }
  if (points) {
    const shown = Math.min(points.labels.length, 400);
    for (let i = 0; i < shown; i++) {
      const [px, py] = [points.xy[2 * i], points.xy[2 * i + 1]];
      if (Math.abs(px) <= 1 && Math.abs(py) <= 1) p.circle(x + ((px + 1) / 2) * size, y + ((1 - py) / 2) * size, 1.9, theme.classes[points.labels[i]], theme.paper);
    }
  }
  p.frame(x + 0.5, y + 0.5, size - 1, size - 1, theme.line);
}

// the node under a point of the canvas
export function hit(l, net, px, py) {
  const column = Math.floor((px - 2) / l.pitch) - 1;
  if (column < 0 || column >= net.layers.length || px - left(l, column + 1) > l.map) return null;
  const row = Math.floor((py - top(l, 0, l.rows)) / l.down);
  if (row < 0 || row >= l.rows) return null;
  return { layer: net.layers[column], node: net.nodes[row] };
}

export function svg(width, net, points, theme, key) {
  const painter = new SvgPainter(width, layout(width, net).height, theme.paper);
  draw(painter, net, points, theme, key, null);
  return painter.toString();
}
