// A panel is a title, a canvas and two buttons that save it; these are the panels of a live training.

import { theme } from "./colours.js";
import { floorOf, heatMap, lineChart, percent, short } from "./charts.js";
import { make } from "./dom.js";
import { layerName } from "./nodes.js";
import { CanvasPainter } from "./painter.js";
import { savePng, saveSvg } from "./save.js";

export class Panel {
  constructor({ key, title, height, draw, say, choice, wide, pick }) {
    Object.assign(this, { key, title, draw, say, wide });
    this.height = height ?? 250;
    this.read = () => "";
    this.canvas = make("canvas", { role: "img", "aria-label": title, id: `${key}-canvas` });
    this.note = make("p", { class: "read" });
    this.head = make("h2", { id: `${key}-title` }, title);
    const save = (kind, file) => make("button", {
      type: "button", class: "small", "aria-label": `Save ${title} as ${kind}`, onclick: () => file(`winze-${key}`, this.width, this.tall(), (p) => this.draw(p, theme(), this.choice?.value)),
    }, kind);
    this.choice = choice && make("select", { id: `${key}-choice`, "aria-label": choice.label, onchange: () => { this.paint(); this.onChoice?.(); } },
      ...Object.entries(choice.options).map(([value, text]) => make("option", { value }, text)));
    this.tools = make("div", { class: "row" }, this.choice, save("PNG", savePng), save("SVG", saveSvg));
    this.element = make("section", { class: `panel${wide ? " wide" : ""}`, "aria-labelledby": `${key}-title`, id: key },
      make("header", {}, this.head, this.tools), this.canvas, this.note);
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.note.textContent = this.read(event.clientX - box.left, event.clientY - box.top) || this.said || "";
    });
    if (pick) {
      this.canvas.addEventListener("click", (event) => {
        const layer = Math.round(this.read.at?.(event.clientX - this.canvas.getBoundingClientRect().left) ?? NaN);
        if (Number.isFinite(layer)) pick(layer);
      });
    }
    this.canvas.addEventListener("pointerleave", () => { this.note.textContent = this.said || ""; });
  }

  // a button that lets this panel stand alone, and puts the others back
  enlarge(onclick) {
    this.size = make("button", { type: "button", class: "small", id: `${this.key}-size`, "aria-pressed": "false", "aria-label": `Enlarge ${this.title}`, onclick }, "Enlarge");
    this.tools.append(this.size);
  }

  grown(large) {
    this.times = large ? 1.8 : 1;
    if (!this.size) return;
    this.size.setAttribute("aria-pressed", String(large));
    this.size.textContent = large ? "Back to all" : "Enlarge";
    this.size.setAttribute("aria-label", large ? "Back to all panels" : `Enlarge ${this.title}`);
  }

  get width() { return Math.max(60, this.canvas.clientWidth || 320); }

  tall() { return Math.round((this.times ?? 1) * (typeof this.height === "function" ? this.height(this.width) : this.height)); }

  paint() {
    if (!this.element.isConnected || this.element.hidden) return;
    const height = this.tall();
    const wanted = `${height}px`;
    if (this.canvas.style.height !== wanted) this.canvas.style.height = wanted;
    this.read = this.draw(new CanvasPainter(this.canvas, this.width, height), theme(), this.choice?.value) ?? (() => "");
    const said = this.say?.(this.choice?.value) ?? "";
    if (said !== this.said) {
      if (!this.canvas.matches(":hover")) this.note.textContent = said;
      this.said = said;
      this.canvas.setAttribute("aria-label", said ? `${this.title}. ${said}` : this.title);
    }
  }
}

const BEFORE = "press Start or Step";
const names = (model) => model.nets.map((_, i) => (model.nets.length > 1 ? `${"AB"[i]}: ` : ""));
const layers = (count) => Array.from({ length: count }, (_, i) => i);

// the maps of this kind side by side, or one, or why there is none
function sideBySide(p, model, kind, draw) {
  const wide = p.width / model.nets.length;
  const reads = model.nets.map((net, i) => {
    const values = net.profile?.arrays[kind];
    if (values) return draw(values, i, { x: i * wide, y: 0, w: wide, h: p.height });
    wrapped(`${names(model)[i]}${missing(net)}`, wide / 7).forEach((line, row) => p.text(line, (i + 0.5) * wide, p.height / 2 + 16 * row, { size: 12, anchor: "middle", fill: theme().faint }));
    return () => "";
  });
  return (x, y) => reads.map((read) => read(x, y)).find(Boolean) ?? "";
}

const wrapped = (text, most) => text.split(" ").reduce((lines, word) => (lines.at(-1).length + word.length < most ? [...lines.slice(0, -1), `${lines.at(-1)} ${word}`.trim()] : [...lines, word]), [""]);

// why a network has no depth profile
const missing = (net) => (net.profile ? net.profile.facts.note ?? "" : "reading …");

// values with the geometric mean of their neighbours, so that one line can be followed through the noise of batches
function smooth(values) {
  const half = Math.floor(values.length / 60);
  const sums = [[0, 0]];
  for (const v of values) {
    const [sum, count] = sums.at(-1);
    sums.push(v > 0 ? [sum + Math.log(v), count + 1] : [sum, count]);
  }
  return values.map((v, i) => {
    const [from, to] = [sums[Math.max(0, i - half)], sums[Math.min(values.length, i + half + 1)]];
    return Number.isFinite(v) ? Math.exp((to[0] - from[0]) / (to[1] - from[1])) : v;
  });
}

// how tall a row of so many heat maps is
export const mapsTall = (width, columns) => Math.min(280, width / columns - 96) + 56;

export function trainingPanels(model) {
  const two = () => model.nets.length > 1;
  const colour = (t, i, alone) => (two() ? t.nets[i] : t[alone]);
  return [
    new Panel({
      key: "depth", title: "Probe and rank by layer",
      choice: { label: "Rank", options: { effective_rank: "effective", rank: "numerical" } },
      draw: (p, t, rank) => depthChart(p, t, rank, model, colour),
      say: () => model.nets.map((net, i) => names(model)[i] + tunnelText(net)).join("; "),
    }),
    new Panel({
      key: "loss", title: "Loss and accuracy",
      draw: (p, t) => lossChart(p, t, model, colour),
      say: () => model.nets.map((net, i) => `${names(model)[i]}${model.step ? `loss ${short(lossNow(model, i))}, ` : ""}test accuracy ${percent(net.glance?.test_accuracy ?? NaN)}`).join("; "),
    }),
    new Panel({
      key: "distance", title: "Distance between layers", height: (width) => mapsTall(width, model.nets.length),
      draw: (p, t) => {
        const apart = model.nets.flatMap((net) => [...(net.profile?.arrays.distances ?? [])]).filter((v) => v > 0); // one scale for both
        const [low, high] = apart.length ? [Math.min(...apart), Math.max(...apart)] : [1, 1];
        return sideBySide(p, model, "distances", (values, i, box) => heatMap(p, { key: `distance${i}`, values, n: values.shape[0], low, high, log: true, first: 0, label: "distance", title: two() ? "AB"[i] : "" }, t, box));
      },
      say: () => `mean ‖hᵢ − hⱼ‖ over the plane, logarithmic${two() ? ", one scale for both" : ""}`,
    }),
    new Panel({
      key: "cka", title: "Similarity of layers (CKA)", height: (width) => mapsTall(width, model.nets.length),
      draw: (p, t) => sideBySide(p, model, "cka", (values, i, box) => heatMap(p, { key: `cka${i}`, values, n: values.shape[0], low: 0, high: 1, first: 0, label: "CKA", title: two() ? "AB"[i] : "" }, t, box)),
      say: () => "unbiased minibatch CKA on test points",
    }),
    new Panel({
      key: "spectra", title: "Singular values by layer",
      choice: { label: "Of what", options: { singular_values: "features", weight_values: "weights" } },
      draw: (p, t, kind) => sideBySide(p, model, kind, (values, i, box) => spectraChart(p, t, values, kind === "weight_values" ? (i) => `layer ${i + 1}` : layerName, two() ? "AB"[i] : "", box)),
      say: (kind) => `${kind === "weight_values" ? "of each layer's weights" : "of the centred features of h₀ and each layer"}, relative to the largest; dark to bright: early to late`,
    }),
    new Panel({
      key: "norm", title: "Norm of the logits",
      draw: (p, t) => lineChart(p, {
        x: { label: "step", whole: true, min: 0, max: Math.max(1, model.last) }, left: { label: "mean norm" },
        series: model.nets.map((_, i) => ({ x: model.curves.at, y: model.curves.norm[i], colour: colour(t, i, "third"), name: two() ? `network ${"AB"[i]}` : "", dash: i && two() ? [6, 3] : [], dots: model.curves.at.length < 12 })),
        legend: two() ? undefined : [], marks: model.live ? [] : [model.step], empty: model.last ? "" : BEFORE,
      }, t),
      say: () => model.nets.map((net, i) => `${names(model)[i]}mean norm ${short(net.glance?.logits_norm ?? NaN)} on test points`).join("; "),
    }),
  ];
}

function tunnelText(net) {
  const facts = net.profile?.facts;
  if (!facts) return "reading …";
  if (facts.tunnel === undefined || facts.tunnel === null) return facts.note ?? "no tunnel";
  const last = net.profile.arrays.probe.length - 1;
  return facts.tunnel === last ? "no tunnel: the last layer alone reaches the level" : `the tunnel starts after layer ${facts.tunnel} of ${last}`;
}

function depthChart(p, t, rank, model, colour) {
  const alone = model.nets.length === 1;
  const series = [];
  model.nets.forEach((net, i) => {
    const arrays = net.profile?.arrays ?? {};
    const tag = alone ? "" : `${"AB"[i]}: `;
    if (arrays.probe) series.push({ x: layers(arrays.probe.length), y: arrays.probe, colour: colour(t, i, "probe"), name: `${tag}probe`, show: percent, dots: true });
    if (arrays[rank]) series.push({ x: layers(arrays[rank].length), y: arrays[rank], colour: alone ? t.rank : t.nets[i], name: `${tag}rank`, axis: "right", dash: [6, 3] });
  });
  const facts = alone ? model.nets[0].profile?.facts : null;
  const end = Math.max(1, ...series.map((one) => one.x.length - 1));
  return lineChart(p, {
    x: { label: "layer", unit: "layer", whole: true, min: 0, max: end },
    left: { label: "probe accuracy, %", percent: true, min: floorOf(series.filter((one) => one.axis !== "right").flatMap((one) => [...one.y])), max: 1.02 },
    right: { label: rank === "rank" ? "numerical rank" : "effective rank", min: 0 },
    series, shades: tunnels(model, t),
    levels: facts?.tunnel_level ? [{ value: facts.tunnel_level, colour: t.probe }] : [],
    empty: series.length ? "" : missing(model.nets[0]),
  }, t);
}

// one shaded range of layers per network that has a tunnel
function tunnels(model, t) {
  const alone = model.nets.length === 1;
  return model.nets.map((net, i) => {
    const start = net.profile?.facts.tunnel;
    const last = (net.profile?.arrays.probe?.length ?? 0) - 1;
    const look = alone ? { colour: t.shade, opacity: 1, name: "tunnel" } : { colour: t.nets[i], opacity: 0.13, name: `tunnel of ${"AB"[i]}` };
    return Number.isFinite(start) && start < last ? { ends: [start + 0.5, last], ...look } : null;
  }).filter(Boolean);
}

// the loss of the step that is shown, or of the nearest that was kept
function lossNow(model, i) {
  const { steps, loss } = model.curves;
  if (model.live) return loss[i].at(-1) ?? NaN;
  let best = 0;
  for (let k = 1; k < steps.length; k++) if (Math.abs(steps[k] - model.step) < Math.abs(steps[best] - model.step)) best = k;
  return loss[i][best] ?? NaN;
}

function lossChart(p, t, model, colour) {
  const { curves } = model;
  const alone = model.nets.length === 1;
  const series = [];
  model.nets.forEach((_, i) => {
    const tag = alone ? "" : `${"AB"[i]}: `;
    series.push({ x: curves.steps, y: curves.loss[i], colour: colour(t, i, "rank"), name: `${tag}loss`, width: 1, opacity: 0.35 });
    series.push({ x: curves.at, y: curves.test[i], colour: alone ? t.probe : t.nets[i], name: `${tag}test accuracy`, axis: "right", dash: [6, 3], show: percent, dots: curves.at.length < 12 });
    if (alone) series.push({ x: curves.at, y: curves.train[i], colour: t.faint, name: "train accuracy", axis: "right", dash: [2, 2], width: 1.2, show: percent });
  });
  model.nets.forEach((_, i) => series.push({ x: curves.steps, y: smooth(curves.loss[i]), colour: colour(t, i, "rank"), say: false })); // above all others
  return lineChart(p, {
    x: { label: "step", whole: true, min: 0, max: Math.max(1, model.last) }, left: { label: "loss", log: true, floor: 1e-7 },
    right: { label: "accuracy, %", percent: true, min: floorOf(series.filter((one) => one.axis === "right").flatMap((one) => one.y), 0.95), max: 1.02 }, series, marks: model.live ? [] : [model.step],
    empty: model.last ? "" : BEFORE,
  }, t);
}

function spectraChart(p, t, values, name, title, box) {
  const [count, width] = values.shape;
  const series = layers(count).map((i) => {
    const row = values.subarray(i * width, (i + 1) * width);
    return { x: layers(width).map((k) => k + 1), y: Array.from(row, (v) => v / row[0]), colour: t.ramp(count > 1 ? i / (count - 1) : 0), width: 1.2, say: i === 0 || i === count - 1, name: i === 0 || i === count - 1 ? name(i) : undefined };
  });
  return lineChart(p, { title, x: { label: "direction", unit: "direction", whole: true, min: 1, max: Math.max(2, width) }, left: { label: "relative size", log: true, floor: 1e-6, max: 0.1 }, series }, t, box);
}
