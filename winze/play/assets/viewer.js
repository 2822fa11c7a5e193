// The scan viewer: stored scans and runs in the same panels, walked through layer by layer; nothing is trained.

import { floorOf, heatMap, lineChart, percent, scatter, short } from "./charts.js";
import { theme } from "./colours.js";
import { make } from "./dom.js";
import { Panel, mapsTall } from "./panels.js";
import { setHash } from "./state.js";

const AT_ONCE = 2; // scans whose maps are shown
const ROOM = 380; // pixels in which two maps stand side by side
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const TURNS = 6; // colours of scans before they repeat
const [EMBEDDING, CKA, SPECTRA] = [(scan) => scan.embedding, (scan) => scan.cka, (scan) => scan.spectra.length]; // what a scan may have
const filled = (values) => (values ?? []).map((v) => v ?? NaN);

export class Viewer {
  constructor(stored, { walk, settings, networks, panels }) {
    Object.assign(this, { stored, settings, bar: walk });
    walk.hidden = false;
    this.scans = stored.scans;
    this.chosen = this.usual();
    this.layer = this.frames = 0;
    this.measure = this.first = this.measures().find((one) => one === "numerical_rank") ?? this.measures()[0];
    this.large = "";
    this.head = networks;
    this.panels = this.made().filter(Boolean);
    if (this.panels.length > 1) this.panels.forEach((panel) => panel.enlarge(() => this.enlarge(this.large === panel.key ? "" : panel.key)));
    this.panels.forEach((panel) => { panel.onChoice = () => this.remember(); });
    panels.replaceChildren(...this.panels.map((panel) => panel.element));
    this.restore(location.hash);
  }

  // what the URL says of the layer, the scans, the measure and the large panel; what makes no sense is left out
  restore(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const scans = (given.get("scans") ?? "").split(",").map((one) => Number(one) - 1).filter((i) => this.scans[i]);
    this.chosen = scans.length ? [...new Set(scans)].sort((a, b) => a - b) : this.usual();
    this.layer = Math.min(this.depth, Math.max(1, Math.round(Number(given.get("layer"))) || 1)) - 1;
    this.measure = this.measures().includes(given.get("measure")) ? given.get("measure") : this.first;
    this.large = this.panels.some((panel) => panel.key === given.get("panel")) ? given.get("panel") : "";
    const { over } = this;
    if (over) over.value = this.watched().includes(given.get("training")) ? given.get("training") : this.watched()[0];
    this.fill();
    this.resize();
    requestAnimationFrame(() => this.paint());
  }

  // the choice of what is shown over training, where there is one
  get over() { return this.panels.find((panel) => panel.key === "training")?.choice; }

  remember() {
    const out = new URLSearchParams();
    if (this.layer) out.set("layer", this.layer + 1);
    if (this.measure !== this.first) out.set("measure", this.measure);
    if (this.chosen.join() !== this.usual().join()) out.set("scans", this.chosen.map((i) => i + 1).join());
    if (this.large) out.set("panel", this.large);
    if (this.over?.selectedIndex) out.set("training", this.over.value);
    setHash(out);
  }

  enlarge(key) {
    this.large = key;
    this.resize();
    this.paint();
    this.remember();
  }

  // the large panel stands alone
  resize() {
    for (const panel of this.panels) {
      panel.element.hidden = this.large ? panel.key !== this.large : panel.key === "ood" && this.chosen.length < 2;
      panel.grown(panel.key === this.large);
    }
  }

  // the scans shown first: of different points of a recipe rather than of two seeds
  usual() {
    const points = this.scans.map((scan) => scan.name.replace(/, seed \d+$/, ""));
    const first = points.map((_, i) => i).filter((i) => points.indexOf(points[i]) === i);
    return first.length >= AT_ONCE ? first.slice(0, AT_ONCE) : this.scans.map((_, i) => i).slice(0, AT_ONCE);
  }

  // several scans are told apart by letters, which legends and tables have room for
  tag(scan) { return LETTERS[this.scans.indexOf(scan)] ?? String(this.scans.indexOf(scan) + 1); }

  get shown() { return this.chosen.map((i) => this.scans[i]); }

  get depth() { return Math.max(1, ...this.shown.map((scan) => scan.places.length)); }

  measures() {
    const known = new Set(this.scans.flatMap((scan) => Object.keys(scan.curves)));
    known.delete("probe");
    return [...known];
  }

  label(measure) { return this.stored.labels[measure] ?? measure; }

  colour(i, alone) {
    const t = theme();
    return this.chosen.length > 1 ? [t.probe, t.rank, t.third, t.fourth, t.faint, t.ink][i % TURNS] : t[alone];
  }

  fill() {
    const swatch = (scan) => make("span", { class: `swatch s${this.shown.indexOf(scan) % TURNS}` });
    const boxes = this.scans.map((scan, i) => make("label", { class: "field flag" },
      make("input", { type: "checkbox", id: `scan-${i}`, checked: this.chosen.includes(i), onchange: (event) => this.choose(i, event.target.checked) }),
      this.chosen.length > 1 && this.chosen.includes(i) ? swatch(scan) : null, `${this.tag(scan)}: ${scan.name}`));
    this.slider = make("input", { type: "range", id: "layer", min: 1, max: this.depth, value: this.layer + 1, step: 1 });
    this.place = make("output", { for: "layer" });
    this.slider.addEventListener("input", () => this.walk(Number(this.slider.value)));
    this.bar.replaceChildren(make("label", { class: "scrub", for: "layer" }, make("span", {}, "Layer"), this.slider), this.place);
    this.facts = make("table", { class: "facts" });
    const measures = make("select", { id: "measure", onchange: () => { this.measure = measures.value; this.paint(); this.remember(); } },
      ...this.measures().map((one) => make("option", { value: one, selected: one === this.measure }, this.label(one))));
    this.settings.replaceChildren(
      this.scans.length > 1 ? make("fieldset", {}, make("legend", {}, "Scans"), ...boxes) : "",
      make("fieldset", {}, this.title = make("legend", {}), this.names = make("div", { class: "hint" }),
        make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Readings of this layer" }, this.facts)),
      make("fieldset", {}, make("legend", {}, "Depth profile"),
        make("div", { class: "field" }, make("label", { for: "measure" }, "measure beside the probes"), measures)));
    const told = this.shown.map((scan) => make("section", { class: "panel" },
      make("header", {}, make("h2", {}, ...(this.shown.length > 1 ? [swatch(scan), `${this.tag(scan)}: `] : []), scan.name), make("span", { class: "sub" }, `${scan.home} · ${scan.places.length} places`)),
      make("ul", { class: "findings" }, ...(this.stored.findings[scan.name] ?? []).map((text) => make("li", {}, text.replaceAll("`", ""))))));
    this.head.classList.toggle("two", told.length > 1);
    this.head.replaceChildren(...told);
  }

  // go to a layer, counted from 1: by the slider, or by a click into a panel over depth
  walk(number) {
    this.layer = Math.min(this.depth, Math.max(1, number)) - 1;
    this.slider.value = this.layer + 1;
    this.paint();
    this.remember();
  }

  choose(index, on) {
    const next = on ? [...this.chosen, index].sort((a, b) => a - b) : this.chosen.filter((one) => one !== index);
    if (next.length) this.chosen = next;
    this.layer = Math.min(this.layer, this.depth - 1);
    this.fill();
    this.resize();
    document.getElementById(`scan-${index}`)?.focus();
    this.paint();
    this.remember();
  }

  paint() {
    const places = this.shown.map((scan) => scan.places[this.layer] ?? "–");
    const names = new Set(places).size > 1 ? this.shown.map((scan, i) => `${this.tag(scan)}: ${places[i]}`) : places.slice(0, 1);
    this.place.textContent = `${this.layer + 1} of ${this.depth}${names.length > 1 ? "" : ` · ${names[0]}`}`;
    this.slider.setAttribute("aria-valuetext", `layer ${this.layer + 1}, ${names[0]}`);
    this.title.textContent = `Layer ${this.layer + 1}`;
    this.names.replaceChildren(...names.map((one) => make("p", {}, one)));
    this.facts.replaceChildren(...this.rows());
    this.panels.forEach((panel) => panel.paint());
    document.documentElement.dataset.frames = ++this.frames;
  }

  rows() {
    const tags = this.shown.map((scan) => (this.shown.length > 1 ? make("th", { scope: "col", title: scan.name }, this.tag(scan)) : null)).filter(Boolean);
    const rows = tags.length ? [make("tr", {}, make("td", {}, ""), ...tags)] : [];
    for (const measure of ["probe", ...this.measures()]) {
      const cells = this.shown.map((scan) => scan.curves[measure]?.[scan.home]?.value?.[this.layer]);
      if (cells.some((v) => v !== undefined && v !== null)) {
        rows.push(make("tr", {}, make("th", { scope: "row" }, this.label(measure)), ...cells.map((v) => make("td", {}, measure === "probe" ? percent(v ?? NaN) : short(v ?? NaN)))));
      }
    }
    for (const other of this.shown[0].others) {
      const cells = this.shown.map((scan) => scan.curves.probe?.[other]?.value?.[this.layer]);
      rows.push(make("tr", {}, make("th", { scope: "row" }, `probe on ${other}`), ...cells.map((v) => make("td", {}, percent(v ?? NaN)))));
    }
    return rows;
  }

  made() {
    const has = (test) => this.scans.some(test);
    const pick = (layer) => this.walk(layer);
    return [
      new Panel({ key: "depth", title: "Depth profile", height: () => (this.panels.length > 2 ? 320 : 360), pick, draw: (p, t) => this.profile(p, t), say: () => this.shown.map((scan) => this.tunnelText(scan)).join("; ") }),
      this.scans.length > 1 && has((scan) => scan.others.length) && new Panel({ key: "ood", title: "Out-of-distribution probes", height: () => (this.panels.length > 2 ? 320 : 360), pick, draw: (p, t) => this.ood(p, t), say: () => "accuracy of probes of OOD data on the same features" }),
      has(EMBEDDING) && new Panel({ key: "embedding", title: "Embedding by layer", height: (width) => 320 * this.rowsOf(width, EMBEDDING), draw: (p, t) => this.embedding(p, t), say: () => `one dot per test sample, coloured by class${this.bare()}${this.some()}` }),
      has(CKA) && new Panel({ key: "cka", title: "Similarity of layers (CKA)", height: (width) => this.rowsOf(width, CKA) * mapsTall(width, this.withThis(CKA).length / this.rowsOf(width, CKA)), pick, draw: (p, t) => this.similarity(p, t), say: () => `frame: layer ${this.layer + 1}${this.some()}` }),
      has(SPECTRA) && new Panel({ key: "spectra", title: "Spectrum by layer", height: (width) => 290 * this.rowsOf(width, SPECTRA), draw: (p, t) => this.spectra(p, t), say: () => `variance of each direction relative to the largest; the thick line is the chosen layer${this.some()}` }),
      this.watched().length && new Panel({
        key: "training", title: "Over training", height: 290, choice: { label: "Measure over training", options: Object.fromEntries(this.watched().map((one) => [one, this.label(one)])) },
        draw: (p, t, measure) => this.training(p, t, measure), say: () => `layer ${this.layer + 1} at the steps of its training`,
      }),
    ];
  }

  // the measures that were read more than once while a scan's network trained
  watched() {
    return [...new Set(this.scans.flatMap((scan) => Object.keys(scan.training).filter((one) => scan.training[one].steps.length > 1)))];
  }

  // which scans have no embedding of the chosen layer, in words: a scan stores those of a few layers
  bare() {
    const without = this.withThis(EMBEDDING).filter((scan) => !(String(this.layer + 1) in scan.embedding.points));
    const whose = this.shown.length > 1 ? ` in ${without.map((scan) => this.tag(scan)).join(" and ")}` : "";
    return without.length ? `; layer ${this.layer + 1} has no stored embedding${whose}, the nearest is shown` : "";
  }

  some() { return this.shown.length > AT_ONCE ? `; the first ${AT_ONCE} of the chosen scans` : ""; }

  withThis(has) { return this.shown.filter(has).slice(0, AT_ONCE); }

  rowsOf(width, has) { return width < ROOM ? Math.max(1, this.withThis(has).length) : 1; }

  // the scans that have this and a box for each: side by side where there is room, else one below the other
  boxes(p, has) {
    const rows = this.rowsOf(p.width, has);
    const scans = this.withThis(has);
    const [w, h] = [p.width / (scans.length / rows), p.height / rows];
    return scans.map((scan, k) => [scan, rows > 1 ? { x: 0, y: k * h, w, h } : { x: k * w, y: 0, w, h }]);
  }

  tunnelText(scan) {
    const start = scan.tunnel?.start;
    const none = scan.curves.probe?.[scan.home] ? "no tunnel" : "no probes stored";
    const said = start && start < scan.total ? `the tunnel starts after layer ${start} of ${scan.total}` : none;
    return this.shown.length > 1 ? `${this.tag(scan)}: ${said}` : said;
  }

  profile(p, t) {
    const series = [];
    const alone = this.shown.length === 1;
    const probed = this.shown.some((scan) => scan.curves.probe?.[scan.home]); // else the measure has the left axis
    this.shown.forEach((scan, i) => {
      const tag = alone ? "" : `${this.tag(scan)}: `;
      const probe = scan.curves.probe?.[scan.home]?.value;
      if (probe) series.push({ x: scan.numbers, y: filled(probe), colour: this.colour(i, "probe"), name: `${tag}probe on ${scan.home}`, show: percent, dots: true });
      if (alone) scan.others.slice(0, 4).forEach((other, k) => {
        const values = scan.curves.probe?.[other]?.value;
        if (values) series.push({ x: scan.numbers, y: filled(values), colour: [t.third, t.fourth, t.faint, t.ink][k], name: `probe on ${other}`, show: percent, dots: true });
      });
      const rank = scan.curves[this.measure]?.[scan.home]?.value;
      if (rank) series.push({ x: scan.numbers, y: filled(rank), colour: this.colour(i, "rank"), name: `${tag}${this.label(this.measure)}`, ...(probed ? { axis: "right", dash: [6, 3] } : { dots: true }) });
    });
    const scan = this.shown[0];
    const shades = this.shown.slice(0, AT_ONCE).map((one, i) => {
      const look = alone ? { colour: t.shade, opacity: 1, name: "tunnel" } : { colour: this.colour(i, "probe"), opacity: 0.13, name: `tunnel of ${this.tag(one)}` };
      return one.tunnel?.start < one.total ? { ends: [one.tunnel.start + 0.5, one.total], ...look } : null;
    }).filter(Boolean);
    return lineChart(p, {
      x: { label: "layer", unit: "layer", whole: true, min: 1, max: Math.max(2, this.depth) },
      left: probed ? { label: "probe accuracy, %", percent: true, min: floorOf(series.filter((one) => one.axis !== "right").flatMap((one) => one.y)), max: 1.02 } : { label: this.label(this.measure) },
      right: { label: this.label(this.measure) }, series,
      shades: this.shown.length > AT_ONCE ? [] : shades, marks: [this.layer + 1],
      levels: alone && scan.tunnel?.level ? [{ value: scan.tunnel.level, colour: t.probe }] : [],
    }, t);
  }

  // dash by data, colour by scan
  ood(p, t) {
    const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
    const others = [...new Set(this.shown.flatMap((scan) => scan.others))].slice(0, dashes.length);
    const series = this.shown.flatMap((scan, i) => others.map((other, k) => {
      const values = scan.curves.probe?.[other]?.value;
      return values && { x: scan.numbers, y: filled(values), colour: this.colour(i, "third"), dash: dashes[k], name: `${this.tag(scan)}: ${other}`, show: percent, dots: !k };
    })).filter(Boolean);
    return lineChart(p, {
      x: { label: "layer", unit: "layer", whole: true, min: 1, max: Math.max(2, this.depth) },
      left: { label: "probe accuracy, %", percent: true, min: floorOf(series.flatMap((one) => one.y)), max: 1.02 }, series, marks: [this.layer + 1],
      empty: series.length ? "" : "these scans hold no probes of OOD data",
    }, t);
  }

  similarity(p, t) {
    const ready = this.boxes(p, CKA);
    const reads = ready.map(([scan, box], k) => heatMap(p, {
      key: `stored-cka${k}`, values: scan.cka.flat().map((v) => v ?? NaN), n: scan.cka.length, low: 0, high: 1, first: 1, label: "CKA",
      title: ready.length > 1 ? this.tag(scan) : "", mark: this.layer < scan.cka.length ? this.layer : null,
    }, t, box));
    const read = (x, y) => reads.map((one) => one(x, y)).find(Boolean) ?? "";
    read.at = (x) => reads.map((one) => one.at(x)).find(Number.isFinite) ?? NaN;
    return read;
  }

  spectra(p, t) {
    const ready = this.boxes(p, SPECTRA);
    const reads = ready.map(([scan, box]) => lineChart(p, {
      title: ready.length > 1 ? this.tag(scan) : "", x: { label: "direction", unit: "direction", whole: true, min: 1 }, left: { label: "relative variance", log: true, floor: 1e-8, max: 0.2 },
      series: scan.spectra.map(({ number, rank, share }) => ({ x: rank, y: filled(share), colour: t.ramp((number - 1) / Math.max(1, scan.total - 1)), width: number === this.layer + 1 ? 3.2 : 1.1, opacity: number === this.layer + 1 ? 1 : 0.7, say: number === this.layer + 1, name: number === this.layer + 1 ? `layer ${number}` : undefined })),
    }, t, box));
    return (x, y) => reads.map((read) => read(x, y)).find(Boolean) ?? "";
  }

  embedding(p, t) {
    const ready = this.boxes(p, EMBEDDING);
    const colours = [t.probe, t.rank, t.third, t.fourth, "#0099a8", "#8a6d3b", "#e8418f", "#7a8a00", t.faint, t.ink];
    const reads = ready.map(([scan, box]) => {
      const { points, labels, classes } = scan.embedding;
      const known = Object.keys(points).map(Number);
      const near = known.reduce((best, one) => (Math.abs(one - this.layer - 1) < Math.abs(best - this.layer - 1) ? one : best));
      p.text(`${ready.length > 1 ? `${this.tag(scan)}: ` : ""}layer ${near}, ${scan.places[scan.numbers.indexOf(near)] ?? ""}`, box.x + 6, box.y + 11, { size: 11, fill: t.faint });
      const count = Math.max(0, ...(labels ?? [])) + 1;
      const named = (label) => classes?.[label] ?? `class ${label}`;
      const legend = labels && count > 1 && count <= colours.length ? Array.from({ length: count }, (_, label) => ({ name: named(label), dot: colours[label] })) : [];
      const [xs, ys] = points[String(near)].map(filled);
      return scatter(p, { xs, ys, labels, colour: (label) => colours[label % colours.length], name: named, legend }, t, { ...box, y: box.y + 16, h: box.h - 16 });
    });
    return (x, y) => reads.map((read) => read(x, y)).find(Boolean) ?? "";
  }

  training(p, t, measure) {
    const series = this.shown.map((scan, i) => {
      const found = scan.training[measure];
      return found && { x: found.steps, y: filled(found.values[Math.min(this.layer, found.values.length - 1)]), colour: this.colour(i, "probe"), name: this.shown.length > 1 ? this.tag(scan) : this.label(measure), dots: true };
    }).filter((one) => one && one.y.some(Number.isFinite));
    return lineChart(p, { x: { label: "step", whole: true }, left: { label: this.label(measure) }, series, empty: series.length ? "" : "not read at this layer" }, t);
  }
}
