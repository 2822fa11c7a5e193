// The form: every setting as a labelled control, built from what the server offers.

import { short } from "./charts.js";
import { make } from "./dom.js";
import { copy } from "./state.js";

const words = (name) => name.replaceAll("_", " ").replace(/([a-z])([A-Z])/g, "$1 $2");
const HELP = { lr: "learning rate", bias: "gate bias", rate: "drop rate", alpha_min: "alpha min" };
const called = (name) => HELP[name] ?? words(name);

function slider(id, label, { low, high, step = 1, value, show = short, to = (v) => v, from = (v) => v, onInput }) {
  const output = make("output", { for: id }, show(value));
  const input = make("input", { type: "range", id, min: low, max: high, step, value: from(value), "aria-valuetext": show(value) });
  input.addEventListener("input", () => {
    const now = to(Number(input.value));
    output.textContent = show(now);
    input.setAttribute("aria-valuetext", show(now));
    onInput(now);
  });
  return make("div", { class: "field" }, make("label", { for: id }, label), output, input);
}

function select(id, label, choices, value, onChange) {
  const entries = Array.isArray(choices) ? choices.map((one) => [one, words(one)]) : Object.entries(choices);
  const input = make("select", { id, onchange: () => onChange(input.value) }, ...entries.map(([one, text]) => make("option", { value: one, selected: one === value }, text)));
  return make("div", { class: "field" }, make("label", { for: id }, label), input);
}

function flag(id, label, value, onChange) {
  const input = make("input", { type: "checkbox", id, checked: value, onchange: () => onChange(input.checked) });
  return make("div", { class: "field flag" }, input, make("label", { for: id }, label));
}

const power2 = { to: (v) => 2 ** v, from: (v) => Math.round(Math.log2(v)) };
const power10 = { to: (v) => Number((10 ** v).toPrecision(2)), from: (v) => Math.log10(v) };

export class Controls {
  constructor(root, catalogue, editor, onChange) {
    Object.assign(this, { root, catalogue, editor, onChange });
  }

  // the form as the settings are; `focus` returns to the control that had it
  fill(settings) {
    const focus = document.activeElement?.id;
    this.settings = settings;
    const arms = settings.arms.map((arm, i) => this.arm(arm, i));
    const second = make("fieldset", {}, make("legend", {}, "Compare"), flag("two", "Train a second network on the same data and seed", settings.arms.length > 1, (on) => this.change(() => {
      if (on) settings.arms = [settings.arms[0], { ...copy(settings.arms[0]), rule: { name: "DecayedIdentity", alpha_min: 0.6 } }];
      else settings.arms = [settings.arms[0]];
    }, true)));
    this.root.replaceChildren(this.data(), second, ...arms);
    this.editor.edit(settings.data === "drawn", settings.drawn);
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  }

  change(act, rebuild = false) {
    act();
    if (rebuild) this.fill(this.settings);
    this.onChange(this.settings);
  }

  set(name, rebuild = false) {
    return (value) => this.change(() => { this.settings[name] = value; }, rebuild);
  }

  data() {
    const { settings: s, catalogue: c } = this;
    const bounds = c.bounds;
    const drawn = s.data === "drawn";
    return make("fieldset", {}, make("legend", {}, "Data"),
      select("data", "dataset", c.data, s.data, this.set("data", true)),
      this.editor.element,
      drawn ? null : slider("points", "number of points", { low: Math.log2(bounds.points[0]), high: Math.log2(bounds.points[1]), value: s.points, ...power2, show: (v) => v.toLocaleString("en"), onInput: this.set("points") }),
      drawn ? null : slider("noise", "noise", { low: 0, high: bounds.noise[1], step: 0.01, value: s.noise, onInput: this.set("noise") }),
      s.data === "gaussians" ? slider("classes", "classes", { low: 2, high: c.most_classes, value: s.classes, onInput: this.set("classes") }) : null,
      make("div", { class: "pair" },
        slider("batch", "batch", { low: 0, high: Math.log2(bounds.batch[1]), value: s.batch, ...power2, onInput: this.set("batch") }),
        this.seed()));
  }

  seed() {
    const input = make("input", { type: "number", id: "seed", min: 0, max: this.catalogue.bounds.seed[1], step: 1, value: this.settings.seed });
    input.addEventListener("change", () => {
      const value = Math.min(this.catalogue.bounds.seed[1], Math.max(0, Math.trunc(Number(input.value) || 0)));
      input.value = value;
      this.set("seed")(value);
    });
    return make("div", { class: "field" }, make("label", { for: "seed" }, "seed"), input);
  }

  arm(arm, index) {
    const { catalogue: c } = this;
    const id = (name) => `${"ab"[index]}-${name}`;
    const set = (name, rebuild = false) => (value) => this.change(() => { arm[name] = value; }, rebuild);
    const rule = c.rules[arm.rule.name] ?? { options: {}, about: "" };
    const title = this.settings.arms.length > 1 ? `Network ${"AB"[index]}` : "Network";
    const options = Object.entries(rule.options).map(([name, about]) => {
      const value = arm.rule[name] ?? about.default;
      const put = (now) => this.change(() => { arm.rule[name] = now; });
      if (about.kind === "number") return slider(id(`rule-${name}`), called(name), { low: about.low, high: about.high, step: 0.01, value, onInput: put });
      if (about.kind === "flag") return flag(id(`rule-${name}`), called(name), value, put);
      return select(id(`rule-${name}`), called(name), about.choices, value, put);
    });
    const norm = arm.temperature === "norm";
    const temperature = arm.objective !== "cross_entropy" ? [] : [
      norm ? null : slider(id("temperature"), "temperature", { low: -1, high: 2, step: 0.05, value: arm.temperature, ...power10, onInput: set("temperature") }),
      flag(id("norm"), "temperature follows the norm of the logits", norm, (on) => set("temperature", true)(on ? "norm" : 1)),
    ];
    return make("fieldset", {}, make("legend", {}, make("span", { class: `swatch ${"ab"[index]}` }), title),
      make("div", { class: "pair" },
        slider(id("depth"), "depth", { low: c.bounds.depth[0], high: c.bounds.depth[1], value: arm.depth, onInput: set("depth") }),
        slider(id("width"), "width", { low: c.bounds.width[0], high: c.bounds.width[1], value: arm.width, onInput: set("width") })),
      select(id("activation"), "activation", c.activations, arm.activation, set("activation")),
      select(id("rule"), "rule at the junctions", Object.keys(c.rules), arm.rule.name, (name) => this.change(() => { arm.rule = { name }; }, true)),
      make("p", { class: "hint" }, rule.about),
      ...options,
      select(id("objective"), "objective", c.objectives, arm.objective, set("objective", true)),
      ...temperature,
      select(id("optimizer"), "optimizer", Object.fromEntries(c.optimizers.map((one) => [one, one])), arm.optimizer, set("optimizer")),
      slider(id("lr"), "learning rate", { low: Math.log10(c.bounds.lr[0]), high: Math.log10(c.bounds.lr[1]), step: 0.05, value: arm.lr, ...power10, onInput: set("lr") }));
  }
}
