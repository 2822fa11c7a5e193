// One drawing interface, two makers: a canvas on the page, and an SVG file to save.

const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

export class CanvasPainter {
  constructor(canvas, width, height, scale = window.devicePixelRatio || 1) {
    this.width = width;
    this.height = height;
    const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  rect(x, y, w, h, fill, opacity = 1) {
    this.context.globalAlpha = opacity;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, w, h);
    this.context.globalAlpha = 1;
  }

  frame(x, y, w, h, stroke, width = 1) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = width;
    this.context.strokeRect(x, y, w, h);
  }

  line(points, stroke, width = 1, dash = [], opacity = 1) {
    const c = this.context;
    c.globalAlpha = opacity;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.lineJoin = "round";
    c.setLineDash(dash);
    c.beginPath();
    let pen = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
      if (pen) c.lineTo(x, y); else c.moveTo(x, y);
      pen = true;
    }
    c.stroke();
    c.setLineDash([]);
    c.globalAlpha = 1;
  }

  curve(x0, y0, x1, y1, stroke, width, opacity = 1) {
    const c = this.context;
    const bend = (x1 - x0) * 0.45;
    c.globalAlpha = opacity;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    c.stroke();
    c.globalAlpha = 1;
  }

  circle(x, y, r, fill, stroke = null) {
    this.context.beginPath();
    this.context.arc(x, y, r, 0, 2 * Math.PI);
    this.context.fillStyle = fill;
    this.context.fill();
    if (stroke) { this.context.strokeStyle = stroke; this.context.lineWidth = 0.6; this.context.stroke(); }
  }

  text(text, x, y, { size = 11, anchor = "start", baseline = "alphabetic", fill = "#000", turn = 0, weight = 400 } = {}) {
    const c = this.context;
    c.save();
    c.translate(x, y);
    if (turn) c.rotate((turn * Math.PI) / 180);
    c.font = `${weight} ${size}px ${FONT}`;
    c.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
    c.textBaseline = { alphabetic: "alphabetic", middle: "middle", top: "top" }[baseline];
    c.fillStyle = fill;
    c.fillText(text, 0, 0);
    c.restore();
  }

  image(source, x, y, w, h, smooth = true) {
    this.context.imageSmoothingEnabled = smooth;
    this.context.imageSmoothingQuality = "medium";
    this.context.drawImage(source, x, y, w, h);
  }
}

const escaped = (text) => String(text).replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);
const number = (value) => String(Math.round(value * 100) / 100);

export class SvgPainter {
  constructor(width, height, paper) {
    this.width = width;
    this.height = height;
    this.parts = [];
    this.rect(0, 0, width, height, paper);
  }

  rect(x, y, w, h, fill, opacity = 1) {
    this.parts.push(`<rect x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}" fill="${fill}" opacity="${number(opacity)}"/>`);
  }

  frame(x, y, w, h, stroke, width = 1) {
    this.parts.push(`<rect x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}" fill="none" stroke="${stroke}" stroke-width="${number(width)}"/>`);
  }

  line(points, stroke, width = 1, dash = [], opacity = 1) {
    let path = "";
    let pen = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${number(x)} ${number(y)}`;
      pen = true;
    }
    this.parts.push(`<path d="${path}" fill="none" stroke="${stroke}" stroke-width="${number(width)}" stroke-linejoin="round" opacity="${number(opacity)}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`);
  }

  curve(x0, y0, x1, y1, stroke, width, opacity = 1) {
    const bend = (x1 - x0) * 0.45;
    const [a, b, c, d, e, f, g, h] = [x0, y0, x0 + bend, y0, x1 - bend, y1, x1, y1].map(number);
    this.parts.push(`<path d="M${a} ${b}C${c} ${d} ${e} ${f} ${g} ${h}" fill="none" stroke="${stroke}" stroke-width="${number(width)}" opacity="${number(opacity)}"/>`);
  }

  circle(x, y, r, fill, stroke = null) {
    this.parts.push(`<circle cx="${number(x)}" cy="${number(y)}" r="${number(r)}" fill="${fill}"${stroke ? ` stroke="${stroke}" stroke-width="0.6"` : ""}/>`);
  }

  text(text, x, y, { size = 11, anchor = "start", baseline = "alphabetic", fill = "#000", turn = 0, weight = 400 } = {}) {
    const shift = { alphabetic: 0, middle: 0.35, top: 0.8 }[baseline] * size;
    this.parts.push(`<text transform="translate(${number(x)} ${number(y)})${turn ? ` rotate(${turn})` : ""}" y="${number(shift)}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" fill="${fill}">${escaped(text)}</text>`);
  }

  image(source, x, y, w, h, smooth = true) {
    this.parts.push(`<image x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}" preserveAspectRatio="none"${smooth ? "" : ' style="image-rendering:pixelated"'} href="${source.toDataURL("image/png")}"/>`);
  }

  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" font-family="${escaped(FONT)}">${this.parts.join("")}</svg>\n`;
  }
}
