// The page of a live training: messages in, drawings out. Everything that is shown follows from frames of the server.

import { setTheme, theme } from "./colours.js";
import { percent, short } from "./charts.js";
import { Controls } from "./controls.js";
import { make } from "./dom.js";
import * as nodes from "./nodes.js";
import { CanvasPainter } from "./painter.js";
import { trainingPanels } from "./panels.js";
import { PointsEditor } from "./points.js";
import { download, onClipboard, prepareDialog, savePng, showText } from "./save.js";
import { copy, fromHash, hashNow, setHash, stepOf, toParameters, writeHash } from "./state.js";
import { Viewer } from "./viewer.js";
import { Wire } from "./wire.js";
import { card, hideCard } from "./card.js";

const MOST = 3000; // points of a curve before neighbours are merged
const find = (id) => document.getElementById(id);

const model = {
  catalogue: null, settings: null, nets: [], points: null, step: 0, last: 0, epoch: 0, live: true, running: false, kept: [0], speed: 0,
  curves: { steps: [], loss: [[]], at: [], test: [[]], train: [[]], norm: [[]] }, focus: null, problem: "", parameters: [], accepted: null,
};
let [controls, panels, views, viewer] = [null, [], [], null];
let [dirty, deep, unacknowledged, pendingStart, settingsTimer, pending, frames, unsent, stepTimer] = [false, false, 0, false, 0, false, 0, false, 0];

const wire = new Wire({
  onFrame: (frame) => handlers[frame.kind]?.(frame),
  onState: (state, code) => {
    if (state === "open") unacknowledged = 0;
    else if (code !== 1013) notice(model.catalogue ? "Connection lost. Connecting again …" : "The server does not answer. Trying again …", "connection");
  },
});

function notice(text, kind = "") {
  const element = find("notice");
  if (element.textContent !== text) element.textContent = text;
  element.dataset.kind = kind;
  element.classList.toggle("bad", kind === "bad");
}

const handlers = {
  hello({ catalogue }) {
    if (model.catalogue) notice("The training process is gone. A new one starts from step 0 with the same settings.");
    else if (find("notice").dataset.kind === "connection") notice("");
    const again = Boolean(model.catalogue);
    model.catalogue = catalogue;
    const given = again ? model.settings : fromHash(location.hash, catalogue);
    if (!controls) {
      const editor = new PointsEditor({ classes: catalogue.most_classes, most: catalogue.most_drawn, onChange: (points) => { model.settings.drawn = points; settingsChanged(model.settings); } });
      controls = new Controls(find("settings"), catalogue, editor, settingsChanged);
    }
    model.settings = given;
    controls.fill(given);
    if (again || location.hash) sendSettings(again ? 0 : stepOf(location.hash));
  },
  resumed() {
    notice("Connected again; training went on meanwhile.");
    if (unsent) sendSettings();
    else fit();
  },
  setup({ settings, parameters, arrays }) {
    model.parameters = parameters;
    model.points = { xy: arrays.points, labels: arrays.labels };
    model.accepted = settings;
    model.problem = "";
    model.nets = settings.arms.map(() => ({ layers: [] }));
    model.curves = { steps: [], loss: settings.arms.map(() => []), at: [], test: settings.arms.map(() => []), train: settings.arms.map(() => []), norm: settings.arms.map(() => []) };
    Object.assign(model, { step: 0, last: 0, epoch: 0, live: true, kept: [0], focus: null });
    if (find("notice").dataset.kind === "bad") notice("");
    controls.editor.show(model.points);
    build(settings);
    hideCard();
    if (pendingStart) { pendingStart = false; wire.send("start"); }
  },
  update(frame) {
    unacknowledged++;
    take(frame);
    schedule();
  },
  error({ message }) { notice(message, "bad"); },
  full({ message }) { notice(message, "bad"); },
  code({ text, net }) { showText(model.nets.length > 1 ? `Python of network ${"AB"[net]}` : "Python of this network", text); },
  report({ arrays, net }) {
    download(`winze-report${model.nets.length > 1 ? `-${"ab"[net]}` : ""}.html`, new Blob([arrays.page], { type: "text/html" }));
    notice("Report saved.");
  },
  stored(frame) {
    notice(frame.note ?? "");
    if (viewer) return;
    find("transport").hidden = true;
    viewer = new Viewer(frame, { walk: find("walk"), settings: find("settings"), networks: find("networks"), panels: find("panels") });
  },
};

function take(frame) {
  const { arrays } = frame;
  frame.nets.forEach((told, i) => {
    const net = model.nets[i];
    if (!net) return;
    for (const name of ["maps", "sizes", "weights", "weights_in", "weights_out", "decision"]) if (arrays[`${i}/${name}`]) net[name] = arrays[`${i}/${name}`];
    Object.assign(net, { layers: told.layers, nodes: told.nodes, glance: told.glance ?? net.glance });
    if (told.profile) {
      const own = {};
      for (const [name, array] of Object.entries(arrays)) if (name.startsWith(`${i}/`)) own[name.slice(2)] = array;
      net.profile = { facts: told.profile, arrays: own };
      deep = true;
    }
  });
  const { losses } = arrays;
  const width = 1 + model.nets.length;
  for (let row = 0; row < losses.length; row += width) {
    model.curves.steps.push(losses[row]);
    model.nets.forEach((_, i) => model.curves.loss[i].push(losses[row + 1 + i]));
  }
  if (frame.live && frame.nets[0].glance) curvePoint(frame.step);
  thin(model.curves, "steps", ["loss"]);
  thin(model.curves, "at", ["test", "train", "norm"]);
  const { step, last, epoch, live, running, speed, kept, problem } = frame;
  Object.assign(model, { step, last, epoch, live, running, speed, kept, focus: frame.focus });
  if (frame.focus && arrays.focus_map) model.focused = { spot: frame.focus, map: arrays.focus_map, weights: arrays.focus_weights, facts: arrays.focus_facts };
  if (problem && problem !== model.problem) notice(problem, "bad");
  model.problem = problem;
  if (!running && (find("notice").dataset.kind === "until") && last) notice("");
  clearTimeout(stepTimer);
  if (!running && step !== stepOf(hashNow())) stepTimer = setTimeout(() => { if (!pending && !model.running) remember(model.step); }, 250);
}

function curvePoint(step) {
  if (step <= (model.curves.at.at(-1) ?? -1)) return;
  model.curves.at.push(step);
  model.nets.forEach(({ glance }, i) => {
    model.curves.test[i].push(glance.test_accuracy ?? NaN);
    model.curves.train[i].push(glance.train_accuracy ?? NaN);
    model.curves.norm[i].push(glance.logits_norm ?? NaN);
  });
}

function thin(curves, axis, names) {
  if (curves[axis].length < MOST) return;
  const half = (values, mean) => values.filter((_, i) => i % 2 === 0).map((v, i) => (mean && Number.isFinite(values[2 * i + 1]) ? (v + values[2 * i + 1]) / 2 : v));
  curves[axis] = half(curves[axis], false);
  for (const name of names) curves[name] = curves[name].map((one) => half(one, name === "loss"));
}

function schedule() {
  if (dirty) return;
  dirty = true;
  if (document.hidden) setTimeout(paint, 1000); // a hidden page is never asked to draw, but training goes on
  else requestAnimationFrame(paint);
}

function paint() {
  dirty = false;
  frames++;
  if (viewer) { viewer.paint(); return; }
  views.forEach((view) => view.paint());
  if (deep || frames % 12 === 0 || !model.running) panels.forEach((panel) => panel.paint());
  deep = false;
  transport();
  if (model.focused && model.focus) card(model, model.focused, anchor);
  while (unacknowledged > 0) { unacknowledged--; wire.send("ack"); }
  document.documentElement.dataset.frames = frames;
  document.documentElement.dataset.read = model.nets[0]?.profile?.facts.step ?? ""; // the step of the depth profile
}

function transport() {
  const start = find("start");
  const label = model.running ? "Pause" : "Start";
  if (start.textContent !== label) start.textContent = label;
  const scrub = find("scrub");
  const at = model.live ? model.kept.length : model.kept.indexOf(model.step);
  scrub.max = model.kept.length;
  if (document.activeElement !== scrub || model.running) scrub.value = at;
  scrub.setAttribute("aria-valuetext", `step ${model.step}`);
  const speed = model.running && model.speed ? ` · ${short(model.speed)} steps/s` : "";
  const past = model.live ? "" : ` of ${model.last.toLocaleString("en")}`;
  find("counter").textContent = `step ${model.step.toLocaleString("en")}${past} · epoch ${(model.live ? model.epoch : model.epoch * model.step / Math.max(1, model.last)).toFixed(1)}${speed}`;
}

let anchor = null;

class NetworkView {
  constructor(index, arm, two) {
    this.index = index;
    const title = two ? `Network ${"AB"[index]}` : "Network";
    this.canvas = make("canvas", { tabindex: 0, role: "application", id: `nodes-${"ab"[index]}`, "aria-label": `Node maps of ${title}. Arrow keys choose a node, Escape leaves it.` });
    this.sub = make("span", { class: "sub" });
    const name = () => `winze-nodes-${"ab"[index]}`;
    const small = (text, label, onclick, id) => make("button", { type: "button", class: "small", id, "aria-label": label, onclick }, text);
    this.element = make("section", { class: "panel nodes", "aria-labelledby": `title-${index}` },
      make("header", {}, make("h2", { id: `title-${index}` }, two ? make("span", { class: `swatch ${"ab"[index]}` }) : null, describe(arm)), this.sub,
        make("div", { class: "row" },
          small("Copy Python", `Copy Python of ${title}`, () => command("code", { net: index }), `python-${"ab"[index]}`),
          small("Save report", `Save report of ${title}`, () => { notice("Scanning the network …"); command("report", { net: index }); }, `report-${"ab"[index]}`),
          small("PNG", `Save node maps of ${title} as PNG`, () => savePng(name(), this.canvas.clientWidth, this.height, (p) => this.draw(p))),
          small("SVG", `Save node maps of ${title} as SVG`, () => download(`${name()}.svg`, nodes.svg(this.canvas.clientWidth, this.net, model.points, theme(), `save${index}`), "image/svg+xml")))),
      this.canvas);
    for (const kind of ["pointermove", "click"]) this.canvas.addEventListener(kind, (event) => this.over(event)); // a tap moves no pointer
    this.canvas.addEventListener("pointerleave", () => { if (document.activeElement !== this.canvas) this.choose(null); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.choose(null));
  }

  get net() { return model.nets[this.index]; }

  get height() { return nodes.layout(this.canvas.clientWidth, this.net).height; }

  draw(p) { return nodes.draw(p, this.net, model.points, theme(), `nodes${this.index}`, this.chosen); }

  paint() {
    if (!this.net?.maps || !this.element.isConnected) return;
    const width = this.canvas.clientWidth;
    const height = this.height;
    if (this.canvas.style.height !== `${height}px`) this.canvas.style.height = `${height}px`;
    this.layout = this.draw(new CanvasPainter(this.canvas, width, height));
    const { glance } = this.net;
    const accuracy = glance ? ` · test accuracy ${percent(glance.test_accuracy ?? NaN)}` : "";
    const text = `${(model.parameters[this.index] ?? 0).toLocaleString("en")} parameters${accuracy}`;
    if (this.sub.textContent !== text) this.sub.textContent = text;
  }

  over(event) {
    if (!this.layout) return;
    const box = this.canvas.getBoundingClientRect();
    const found = nodes.hit(this.layout, this.net, event.clientX - box.left, event.clientY - box.top);
    if (found) anchor = { x: event.clientX, y: event.clientY };
    this.choose(found);
  }

  choose(found) {
    const same = found?.layer === this.chosen?.layer && found?.node === this.chosen?.node;
    this.chosen = found;
    if (!found) { if (!same) { model.focused = null; hideCard(); wire.sendNewest("focus", { net: null }); schedule(); } return; }
    if (!same) { model.focused = null; wire.sendNewest("focus", { net: this.index, ...found }); schedule(); }
    else if (model.focused) card(model, model.focused, anchor);
  }

  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Escape") { this.choose(null); return; }
    if (!moves[event.key] || !this.layout) return;
    event.preventDefault();
    const { layers, nodes: shown } = this.net;
    const now = this.chosen ? [layers.indexOf(this.chosen.layer), shown.indexOf(this.chosen.node)] : [-1, 0];
    const clamp = (v, n) => Math.min(n - 1, Math.max(0, v));
    const [c, r] = [clamp(now[0] + moves[event.key][0], layers.length), clamp(now[1] + moves[event.key][1], shown.length)];
    const box = this.canvas.getBoundingClientRect();
    anchor = { x: box.left + (c + 1) * this.layout.pitch + this.layout.map, y: box.top + 30 + r * this.layout.down };
    this.choose({ layer: layers[c], node: shown[r] });
  }
}

function describe(arm) {
  const { name, ...options } = arm.rule;
  const values = Object.values(options).filter((v) => typeof v === "number").map(short).join(", ");
  return `${arm.depth} ${arm.depth > 1 ? "layers" : "layer"} of ${arm.width}, ${name}${values ? `(${values})` : ""}`;
}

function build(settings) {
  const two = settings.arms.length > 1;
  views = settings.arms.map((arm, i) => new NetworkView(i, arm, two));
  for (const id of ["networks", "panels"]) find(id).classList.toggle("two", two);
  find("networks").replaceChildren(...views.map((view) => view.element));
  if (!panels.length) {
    panels = trainingPanels(model);
    restoreChoices();
    panels.forEach((panel) => { panel.onChoice = () => remember(stepOf(hashNow())); });
    find("panels").replaceChildren(...panels.map((panel) => panel.element));
  }
  fit();
}

// tell the worker how many layers and nodes fit readably
function fit() {
  if (!views.length || !model.accepted) return;
  const wanted = views.map((view, i) => nodes.fitting(view.canvas.clientWidth || 600, model.accepted.arms[i]));
  wire.send("view", { columns: Math.max(...wanted.map((one) => one.columns)), rows: Math.max(...wanted.map((one) => one.rows)) });
}

// the whole state in the URL: the settings, what the panels show, and the step at which training paused
function remember(step = 0) {
  const out = toParameters(model.settings, model.catalogue.defaults);
  for (const panel of panels) if (panel.choice?.selectedIndex) out.set(`panel.${panel.key}`, panel.choice.value);
  if (step) out.set("step", step);
  setHash(out);
}

function restoreChoices() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const panel of panels) {
    const wanted = [...(panel.choice?.options ?? [])].find((one) => one.value === given.get(`panel.${panel.key}`));
    if (panel.choice) panel.choice.value = wanted?.value ?? panel.choice.options[0].value;
  }
}

function settingsChanged(settings) {
  model.settings = settings;
  remember();
  clearTimeout(settingsTimer);
  settingsTimer = setTimeout(flush, 140);
  pending = true;
}

// settings that wait for the hand to rest go first: a command is about what the page shows
function flush() {
  clearTimeout(settingsTimer);
  if (pending) sendSettings();
  pending = false;
}

function command(what, more) {
  flush();
  wire.flush();
  wire.send(what, more);
}

// whether there are too few points of one's own to train on; the notice says so
function wantsPoints() {
  const { data, drawn } = model.settings;
  const few = data === "drawn" && (drawn.length < 4 || new Set(drawn.map((one) => one[2])).size < 2);
  if (few) notice("Draw at least four points in two classes.", "points");
  return few;
}

function sendSettings(until = 0) {
  const { settings } = model;
  if (wantsPoints()) return;
  if (find("notice").dataset.kind === "points") notice("");
  pendingStart = !until && (model.running || pendingStart);
  if (until) notice(`Training to step ${until.toLocaleString("en")} …`, "until");
  const { drawn, ...rest } = copy(settings);
  unsent = !wire.send("setup", { settings: settings.data === "drawn" ? { ...rest, drawn } : rest, until });
}

function chooseTheme(name) {
  setTheme(name);
  find("theme").setAttribute("aria-pressed", String(name === "dark"));
  controls?.editor.paint();
  views.forEach((view) => view.paint());
  panels.forEach((panel) => panel.paint());
  viewer?.paint();
}

find("start").onclick = () => {
  if (!model.accepted) { // the training process is still starting: it trains as soon as it is there
    pendingStart = true;
    return notice("Training begins as soon as its process has started …", "connection");
  }
  if (model.running || !wantsPoints()) command(model.running ? "pause" : "start");
  pendingStart = false;
};
find("step").onclick = () => { if (model.accepted && !wantsPoints()) command("step"); };
find("reset").onclick = () => { pendingStart = false; command("reset"); };
find("scrub").oninput = (event) => {
  const at = Number(event.target.value);
  wire.sendNewest("show", { step: at >= model.kept.length ? null : model.kept[at] });
};
find("share").onclick = async () => {
  if (!viewer && model.catalogue) remember(model.step);
  writeHash();
  if (await onClipboard(location.href)) notice(viewer ? "Link copied: it holds the layer, the scans and the panel." : "Link copied: it holds all settings and the step.");
  else showText("Link to these settings", location.href);
};
find("theme").onclick = () => {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("winze-theme", name); } catch { /* a private window keeps nothing */ }
  chooseTheme(name);
};
window.addEventListener("hashchange", () => {
  setHash(new URLSearchParams(location.hash.slice(1))); // what waited is about the page before
  if (viewer) { viewer.restore(location.hash); return; }
  if (!model.catalogue) return;
  model.settings = fromHash(location.hash, model.catalogue);
  controls.fill(model.settings);
  restoreChoices();
  sendSettings(stepOf(location.hash));
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, button, canvas, dialog") || viewer) return;
  if (event.key === " ") { event.preventDefault(); find("start").click(); }
});
// links within the page: the hash of the URL holds the state, so that they must not change it
for (const [from, to] of [["skip", "main"], ["to-settings", "settings"]]) {
  find(from).onclick = (event) => {
    event.preventDefault();
    find(to).scrollIntoView();
    find(to).focus({ preventScroll: true });
  };
}
let resizing = 0;
new ResizeObserver(() => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { if (viewer) viewer.paint(); else { fit(); controls?.editor.paint(); views.forEach((view) => view.paint()); panels.forEach((panel) => panel.paint()); } }, 120);
}).observe(find("main"));

let saved = null;
try { saved = localStorage.getItem("winze-theme"); } catch { /* the system's choice then */ }
chooseTheme(saved ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
prepareDialog();
