// The scan viewer: stored scans and runs in the same panels, walked through layer by layer; nothing is trained.

import { heatMap, lineChart, percent, scatter, short } from "./charts.js";
import { theme } from "./colours.js";
import { make } from "./dom.js";
import { Panel } from "./panels.js";

const AT_ONCE = 2; // scans whose maps stand side by side
const filled = (values) => (values ?? []).map((v) => v ?? NaN);

export class Viewer {
  constructor(stored, { settings, networks, panels }) {
    Object.assign(this, { stored, settings });
    this.scans = stored.scans;
    this.chosen = this.scans.map((_, i) => i).slice(0, AT_ONCE);
    this.layer = 0;
    this.measure = this.first = this.measures().find((one) => one === "numerical_rank") ?? this.measures()[0];
    this.large = "";
    this.head = networks;
    this.panels = this.made().filter(Boolean);
    if (this.panels.length > 1) this.panels.forEach((panel) => panel.enlarge(() => this.enlarge(this.large === panel.key ? "" : panel.key)));
    panels.replaceChildren(...this.panels.map((panel) => panel.element));
    this.restore(location.hash);
    document.documentElement.dataset.frames = 1;
  }

  // what the URL says of the layer, the scans, the measure and the large panel; what makes no sense is left out
  restore(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const scans = (given.get("scans") ?? "").split(",").map((one) => Number(one) - 1).filter((i) => this.scans[i]);
    this.chosen = scans.length ? [...new Set(scans)].sort((a, b) => a - b) : this.scans.map((_, i) => i).slice(0, AT_ONCE);
    this.layer = Math.min(this.depth, Math.max(1, Math.round(Number(given.get("layer"))) || 1)) - 1;
    this.measure = this.measures().includes(given.get("measure")) ? given.get("measure") : this.first;
    this.large = this.panels.some((panel) => panel.key === given.get("panel")) ? given.get("panel") : "";
    this.fill();
    this.resize();
    requestAnimationFrame(() => this.paint());
  }

  remember() {
    const out = new URLSearchParams();
    if (this.layer) out.set("layer", this.layer + 1);
    if (this.measure !== this.first) out.set("measure", this.measure);
    if (this.chosen.join() !== this.scans.map((_, i) => i).slice(0, AT_ONCE).join()) out.set("scans", this.chosen.map((i) => i + 1).join());
    if (this.large) out.set("panel", this.large);
    const text = out.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname);
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
      panel.element.hidden = Boolean(this.large) && panel.key !== this.large;
      panel.grown(panel.key === this.large);
    }
  }

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
    const many = [t.probe, t.rank, t.third, t.fourth, t.faint, t.ink];
    return this.chosen.length > 1 ? many[i % many.length] : t[alone];
  }

  fill() {
    const boxes = this.scans.map((scan, i) => make("label", { class: "field flag" },
      make("input", { type: "checkbox", id: `scan-${i}`, checked: this.chosen.includes(i), onchange: (event) => this.choose(i, event.target.checked) }), scan.name));
    this.slider = make("input", { type: "range", id: "layer", min: 1, max: this.depth, value: this.layer + 1, step: 1 });
    this.place = make("output", { for: "layer" });
    this.slider.addEventListener("input", () => { this.layer = Number(this.slider.value) - 1; this.paint(); this.remember(); });
    this.facts = make("table", { class: "facts" });
    const measures = make("select", { id: "measure", onchange: () => { this.measure = measures.value; this.paint(); this.remember(); } },
      ...this.measures().map((one) => make("option", { value: one, selected: one === this.measure }, this.label(one))));
    this.settings.replaceChildren(
      this.scans.length > 1 ? make("fieldset", {}, make("legend", {}, "Scans"), ...boxes) : "",
      make("fieldset", {}, make("legend", {}, "Layer"),
        make("div", { class: "field" }, make("label", { for: "layer" }, "layer"), this.place, this.slider),
        make("p", { class: "hint", id: "place" }), this.facts),
      make("fieldset", {}, make("legend", {}, "Depth profile"),
        make("div", { class: "field" }, make("label", { for: "measure" }, "dashed, right axis"), measures)));
    const told = this.shown.map((scan) => make("section", { class: "panel" },
      make("header", {}, make("h2", {}, scan.name), make("span", { class: "sub" }, `${scan.home} · ${scan.places.length} places`)),
      make("ul", { class: "findings" }, ...(this.stored.findings[scan.name] ?? []).map((text) => make("li", {}, text.replaceAll("`", ""))))));
    this.head.classList.toggle("two", told.length > 1);
    this.head.replaceChildren(...told);
  }

  choose(index, on) {
    const next = on ? [...this.chosen, index].sort((a, b) => a - b) : this.chosen.filter((one) => one !== index);
    if (next.length) this.chosen = next;
    this.layer = Math.min(this.layer, this.depth - 1);
    this.fill();
    document.getElementById(`scan-${index}`)?.focus();
    this.paint();
    this.remember();
  }

  paint() {
    const scan = this.shown[0];
    const name = scan.places[Math.min(this.layer, scan.places.length - 1)];
    this.place.textContent = `${this.layer + 1} of ${this.depth}`;
    this.slider.setAttribute("aria-valuetext", `layer ${this.layer + 1}, ${name}`);
    document.getElementById("place").textContent = name;
    this.facts.replaceChildren(...this.rows());
    this.panels.forEach((panel) => panel.paint());
  }

  rows() {
    const tags = this.shown.map((scan) => (this.shown.length > 1 ? make("th", { scope: "col" }, scan.name) : null)).filter(Boolean);
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
    return [
      new Panel({ key: "depth", title: "Probe accuracy and rank over depth", height: 290, draw: (p, t) => this.profile(p, t), say: () => this.shown.map((scan) => this.tunnelText(scan)).join("; ") }),
      has((scan) => scan.embedding) && new Panel({ key: "embedding", title: "Samples at the chosen layer", height: 290, draw: (p, t) => this.embedding(p, t), say: () => `layer ${this.layer + 1}` }),
      has((scan) => scan.cka) && new Panel({ key: "cka", title: "Similarity of layers (CKA)", height: (width) => Math.min(290, width / this.maps(width) - 80) + 60, draw: (p, t) => this.similarity(p, t), say: () => `the frame marks layer ${this.layer + 1}` }),
      has((scan) => scan.spectra.length) && new Panel({ key: "spectra", title: "Spectrum of each layer", height: 290, draw: (p, t) => this.spectra(p, t), say: () => "variance of each direction relative to the largest; the thick line is the chosen layer" }),
      has((scan) => Object.keys(scan.training).length) && new Panel({ key: "training", title: "Over training", height: 290, draw: (p, t) => this.training(p, t) }),
    ];
  }

  maps(width) { return Math.min(this.shown.length, AT_ONCE, Math.max(1, Math.floor(width / 230))); }

  tunnelText(scan) {
    const start = scan.tunnel?.start;
    const said = start ? (start < scan.total ? `the tunnel starts after layer ${start} of ${scan.total}` : "no tunnel") : "no tunnel";
    return this.shown.length > 1 ? `${scan.name}: ${said}` : said;
  }

  profile(p, t) {
    const series = [];
    const alone = this.shown.length === 1;
    this.shown.forEach((scan, i) => {
      const tag = alone ? "" : `${scan.name}: `;
      const probe = scan.curves.probe?.[scan.home]?.value;
      if (probe) series.push({ x: scan.numbers, y: filled(probe), colour: this.colour(i, "probe"), name: `${tag}probe on ${scan.home}`, show: percent, dots: true });
      if (alone) scan.others.slice(0, 4).forEach((other, k) => {
        const values = scan.curves.probe?.[other]?.value;
        if (values) series.push({ x: scan.numbers, y: filled(values), colour: [t.third, t.fourth, t.faint, t.ink][k], name: `probe on ${other}`, show: percent, dots: true });
      });
      const rank = scan.curves[this.measure]?.[scan.home]?.value;
      if (rank) series.push({ x: scan.numbers, y: filled(rank), colour: this.colour(i, "rank"), name: `${tag}${this.label(this.measure)}`, axis: "right", dash: [6, 3] });
    });
    const scan = this.shown[0];
    const start = alone ? scan.tunnel?.start : null;
    return lineChart(p, {
      x: { label: "layer", unit: "layer", whole: true, min: 1, max: Math.max(2, this.depth) },
      left: { label: "probe accuracy, %", percent: true, max: 1.02 }, right: { label: this.label(this.measure) }, series,
      shade: start && start < scan.total ? [start + 0.5, scan.total] : null, marks: [this.layer + 1],
      levels: alone && scan.tunnel?.level ? [{ value: scan.tunnel.level, colour: t.probe }] : [],
    }, t);
  }

  similarity(p, t) {
    const ready = this.shown.filter((scan) => scan.cka).slice(0, this.maps(p.width));
    const reads = ready.map((scan, k) => heatMap(p, {
      key: `stored-cka${k}`, values: scan.cka.flat().map((v) => v ?? NaN), n: scan.cka.length, low: 0, high: 1, first: 1, label: "CKA",
      title: ready.length > 1 ? scan.name : "", mark: this.layer < scan.cka.length ? this.layer : null,
    }, t, { x: (k * p.width) / ready.length, y: 0, w: p.width / ready.length, h: p.height }));
    return (x, y) => reads.map((read) => read(x, y)).find(Boolean) ?? "";
  }

  spectra(p, t) {
    const ready = this.shown.filter((scan) => scan.spectra.length).slice(0, this.maps(p.width));
    const reads = ready.map((scan, k) => lineChart(p, {
      title: ready.length > 1 ? scan.name : "", x: { label: "direction", unit: "direction", whole: true, min: 1 }, left: { label: "relative variance", log: true, floor: 1e-8, max: 0.2 },
      series: scan.spectra.map(({ number, rank, share }) => ({ x: rank, y: filled(share), colour: t.ramp((number - 1) / Math.max(1, scan.total - 1)), width: number === this.layer + 1 ? 3.2 : 1.1, opacity: number === this.layer + 1 ? 1 : 0.7, say: number === this.layer + 1, name: number === this.layer + 1 ? `layer ${number}` : undefined })),
    }, t, { x: (k * p.width) / ready.length, y: 0, w: p.width / ready.length, h: p.height }));
    return (x, y) => reads.map((read) => read(x, y)).find(Boolean) ?? "";
  }

  embedding(p, t) {
    const ready = this.shown.filter((scan) => scan.embedding).slice(0, this.maps(p.width));
    const colours = [t.probe, t.rank, t.third, t.fourth, "#0099a8", "#8a6d3b", "#e8418f", "#7a8a00", t.faint, t.ink];
    const reads = ready.map((scan, k) => {
      const { points, labels, classes } = scan.embedding;
      const known = Object.keys(points).map(Number);
      const near = known.reduce((best, one) => (Math.abs(one - this.layer - 1) < Math.abs(best - this.layer - 1) ? one : best));
      const box = { x: (k * p.width) / ready.length, y: 16, w: p.width / ready.length, h: p.height - 16 };
      p.text(`${ready.length > 1 ? `${scan.name}, ` : ""}layer ${near}`, box.x + 6, 11, { size: 11, fill: t.faint });
      const [xs, ys] = points[String(near)].map(filled);
      return scatter(p, { xs, ys, labels, colour: (label) => colours[label % colours.length], name: (label) => classes?.[label] ?? `class ${label}` }, t, box);
    });
    return (x, y) => reads.map((read) => read(x, y)).find(Boolean) ?? "";
  }

  training(p, t) {
    const series = [];
    this.shown.forEach((scan, i) => {
      const found = scan.training.probe ?? scan.training[this.measure];
      if (!found) return;
      const values = filled(found.values[Math.min(this.layer, found.values.length - 1)]);
      series.push({ x: found.steps, y: values, colour: this.colour(i, "probe"), name: `${this.shown.length > 1 ? scan.name : this.label(scan.training.probe ? "probe" : this.measure)}` });
    });
    return lineChart(p, { x: { label: "step", whole: true }, left: { label: this.scans[0].training.probe ? "probe accuracy at this layer" : this.label(this.measure) }, series }, t);
  }
}
