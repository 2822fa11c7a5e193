// The card beside the chosen node: its large map, its statistics, its incoming weights.

import { image, theme } from "./colours.js";
import { short } from "./charts.js";
import { layerName } from "./nodes.js";
import { CanvasPainter } from "./painter.js";

const find = (id) => document.getElementById(id);
let said = "";

export function hideCard() {
  find("card").hidden = true;
  said = "";
}

export function card(model, focused, anchor) {
  const element = find("card");
  element.hidden = false;
  const t = theme();
  const side = focused.map.shape[0];
  const pixels = Uint32Array.from(focused.map, (byte) => t.signed[byte]);
  const map = find("card-map");
  const width = map.clientWidth;
  map.style.height = `${width}px`;
  const p = new CanvasPainter(map, width, width);
  p.image(image("focus", side, side, pixels), 0, 0, width, width);
  const { xy, labels } = model.points;
  for (let i = 0; i < Math.min(200, labels.length); i++) p.circle(((xy[2 * i] + 1) / 2) * width, ((1 - xy[2 * i + 1]) / 2) * width, 1.5, t.classes[labels[i]], t.paper);
  const [net, layer, node] = focused.spot;
  const [mean, deviation, low, high, positive] = focused.facts;
  const title = `${model.nets.length > 1 ? `${"AB"[net]}, ` : ""}${layerName(layer)}, node ${node}`;
  if (title !== said) {
    said = title;
    find("card-text").replaceChildren(document.createElement("strong"), document.createElement("dl"));
    find("card-text").firstChild.textContent = title;
  }
  const facts = { mean, sd: deviation, min: low, max: high, "above 0": positive };
  find("card-text").lastChild.replaceChildren(...Object.entries(facts).flatMap(([name, value]) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = name;
    dd.textContent = name === "above 0" ? `${Math.round(100 * value)} %` : short(value);
    return [dt, dd];
  }));
  weights(focused.weights, t, layer);
  const box = element.getBoundingClientRect();
  const at = anchor ?? { x: 200, y: 200 };
  const x = at.x + 24 + box.width > innerWidth ? at.x - box.width - 24 : at.x + 24;
  element.style.left = `${Math.max(8, x)}px`;
  element.style.top = `${Math.max(8, Math.min(innerHeight - box.height - 8, at.y - box.height / 3))}px`;
}

function weights(values, t, layer) {
  const canvas = find("card-weights");
  const [width, height] = [canvas.clientWidth, 62];
  canvas.style.height = `${height}px`;
  const p = new CanvasPainter(canvas, width, height);
  const count = values.length - 1; // the last is the bias
  const most = values.reduce((top, v) => Math.max(top, Math.abs(v)), 1e-9);
  const step = width / (count + 1.5);
  const middle = 36;
  p.text(`weights from ${layer ? layerName(layer - 1) : "input"}, bias; largest ${short(most)}`, 0, 10, { size: 10.5, fill: t.faint });
  p.line([[0, middle], [width, middle]], t.line);
  values.forEach((v, i) => {
    const tall = (Math.abs(v) / most) * 20;
    const x = (i + (i === count ? 0.5 : 0)) * step;
    p.rect(x + step * 0.12, v > 0 ? middle - tall : middle, Math.max(1.5, step * 0.76), tall, v > 0 ? t.probe : t.rank);
  });
}
