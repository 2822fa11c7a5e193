// The training points in the plane: shown for every set, drawn with the mouse or the keyboard for one's own.

import { theme } from "./colours.js";
import { make } from "./dom.js";
import { CanvasPainter } from "./painter.js";
import { rounded } from "./state.js";

const APART = 0.05;

export class PointsEditor {
  constructor({ classes, most, onChange }) {
    Object.assign(this, { most, onChange });
    this.points = [];
    this.shown = null;
    this.editable = false;
    this.cursor = null;
    this.canvas = make("canvas", { id: "points-canvas", role: "img", "aria-label": "Training points" });
    this.clear = make("button", { type: "button", class: "small", id: "draw-clear", onclick: () => { this.points = []; this.changed(); } }, "Clear");
    this.kind = make("div", { class: "draw", role: "radiogroup", "aria-label": "Class to draw" },
      ...Array.from({ length: classes }, (_, c) => make("label", {}, make("input", { type: "radio", name: "draw-class", value: c, checked: c === 0, id: `draw-class-${c}` }), make("span", { class: `dot c${c}` }), String(c + 1))),
      make("label", {}, make("input", { type: "radio", name: "draw-class", value: "erase", id: "draw-erase" }), "erase"),
      this.clear);
    this.hint = make("p", { class: "hint", id: "draw-hint" }, "Drag to draw. Keyboard: arrow keys move, Space draws.");
    this.tools = make("div", { hidden: true }, this.kind, this.hint);
    this.element = make("div", {}, this.canvas, this.tools);
    let down = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!this.editable) return;
      down = true;
      this.canvas.setPointerCapture(event.pointerId);
      this.at(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!down) return;
      const passed = event.getCoalescedEvents(); // a quick stroke has several points per frame
      (passed.length ? passed : [event]).forEach((one) => this.at(one));
    });
    for (const kind of ["pointerup", "pointercancel"]) this.canvas.addEventListener(kind, () => { if (down) { down = false; this.changed(); } });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => { this.cursor = null; this.paint(); });
  }

  get label() { return this.kind.querySelector("input:checked").value; }

  edit(editable, points) {
    this.editable = editable;
    this.tools.hidden = !editable;
    this.canvas.classList.toggle("editable", editable);
    if (editable) {
      this.canvas.setAttribute("tabindex", "0");
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-describedby", "draw-hint");
      this.points = points.map((one) => [...one]);
    } else {
      this.canvas.removeAttribute("tabindex");
      this.canvas.setAttribute("role", "img");
      this.canvas.removeAttribute("aria-describedby");
    }
    this.paint();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    this.put(((event.clientX - box.left) / box.width) * 2 - 1, 1 - ((event.clientY - box.top) / box.height) * 2);
  }

  put(x, y) {
    const [px, py] = [x, y].map((v) => rounded(Math.min(1, Math.max(-1, v))));
    if (this.label === "erase") {
      this.points = this.points.filter(([a, b]) => Math.hypot(a - px, b - py) > 0.1);
    } else if (this.points.length < this.most && this.points.every(([a, b]) => Math.hypot(a - px, b - py) > APART * 0.6)) {
      this.points.push([px, py, Number(this.label)]);
    }
    this.paint();
  }

  key(event) {
    if (!this.editable) return;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    this.cursor ??= [0, 0];
    if (moves[event.key]) this.cursor = this.cursor.map((v, i) => Math.min(1, Math.max(-1, v + 0.08 * moves[event.key][i])));
    else if (event.key === " " || event.key === "Enter") { this.put(...this.cursor); this.changed(); }
    else return;
    event.preventDefault();
    this.paint();
  }

  changed() {
    this.paint();
    this.onChange(this.points.map((one) => [...one]));
  }

  show(points) {
    this.shown = points;
    this.paint();
  }

  paint() {
    const side = this.canvas.clientWidth;
    if (!side) return;
    const t = theme();
    const p = new CanvasPainter(this.canvas, side, side);
    p.rect(0, 0, side, side, t.paper);
    p.line([[side / 2, 0], [side / 2, side]], t.grid);
    p.line([[0, side / 2], [side, side / 2]], t.grid);
    p.text("x₁", side - 5, side / 2 - 5, { size: 11, anchor: "end", fill: t.faint });
    p.text("x₂", side / 2 + 5, 13, { size: 11, fill: t.faint });
    const dot = (x, y, label, r) => p.circle(((x + 1) / 2) * side, ((1 - y) / 2) * side, r, t.classes[label], t.paper);
    if (this.editable) this.points.forEach(([x, y, label]) => dot(x, y, label, 3));
    else if (this.shown) for (let i = 0; i < this.shown.labels.length; i++) dot(this.shown.xy[2 * i], this.shown.xy[2 * i + 1], this.shown.labels[i], 2.1);
    if (this.cursor) {
      const [x, y] = [((this.cursor[0] + 1) / 2) * side, ((1 - this.cursor[1]) / 2) * side];
      p.line([[x - 8, y], [x + 8, y]], t.ink, 1.5);
      p.line([[x, y - 8], [x, y + 8]], t.ink, 1.5);
    }
    const count = this.editable ? this.points.length : this.shown?.labels.length ?? 0;
    this.canvas.setAttribute("aria-label", this.editable ? `Drawn points: ${count}` : `Training points, ${count} shown`);
  }
}
