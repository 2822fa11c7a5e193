"use strict";
// Charts from the stored numbers. Each function draws one chart again from the controls as they stand.
const page = JSON.parse(document.getElementById("winze-data").textContent);
const scans = page.scans, several = scans.length > 1;
const marks = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"];
const byId = (id) => document.getElementById(id);
const chosen = (id, otherwise) => (byId(id) ? byId(id).value : otherwise);
const ticked = (id) => (byId(id) ? [...byId(id).querySelectorAll("input:checked")].map((box) => box.value) : null);
const narrow = () => window.matchMedia("(max-width: 40rem)").matches;
const coarse = () => window.matchMedia("(pointer: coarse)").matches;
const short = (name) => (name.length > 40 ? name.slice(0, 12) + "…" + name.slice(-27) : name);
// plotly reads some tags in its texts; a place may be named like one
const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const number = (value) => (value === null || value === undefined ? "not read" : String(Number(value.toPrecision(4))));
const percent = (value) => (value === null || value === undefined ? "not read" : (100 * value).toFixed(1) + " %");

function themeName() {
  const forced = document.documentElement.dataset.theme;
  return forced || (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
const theme = () => page.themes[themeName()];
const scanColour = (spot) => theme().scans[spot % theme().scans.length];
const rampColour = (spot, count) => theme().ramp[Math.round((63 * spot) / Math.max(count - 1, 1))];

function axis(title, more) {
  const look = { gridcolor: theme().grid, linecolor: theme().faint, zeroline: false, automargin: true, ticks: "outside" };
  return Object.assign(look, { tickcolor: theme().faint, title: { text: safe(title), standoff: 8 } }, more);
}

function layerAxis(count, more) {
  const from = { tickmode: count <= 20 ? "linear" : "auto", tick0: 1, dtick: narrow() && count > 10 ? 2 : 1, nticks: narrow() ? 6 : 16 };
  return axis("layer", Object.assign({ range: [0.5, count + 0.5], tickformat: "d" }, from, more));
}

function draw(id, traces, layout) {
  const target = byId(id);
  if (!target) return;
  const look = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif", size: 13, color: theme().ink },
    margin: { l: 50, r: narrow() ? 45 : 55, t: 34, b: 44 }, dragmode: coarse() ? false : "zoom",
    hoverlabel: { bgcolor: theme().paper, bordercolor: theme().faint, font: { color: theme().ink }, align: "left" },
    height: narrow() ? 340 : 400, modebar: { bgcolor: "rgba(0,0,0,0)", color: theme().faint, activecolor: theme().ink },
  };
  const config = { responsive: true, displaylogo: false, displayModeBar: true, modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]] };
  Plotly.react(target, traces, Object.assign(look, layout), config);
  // the container has the words, the table the values: ticks read aloud one by one would say nothing
  target.querySelectorAll(".main-svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
  legend(byId(id + "-legend"), traces);
}

function legend(list, traces) {
  if (!list) return;
  list.replaceChildren(...traces.filter((trace) => trace.said).map((trace) => {
    const item = document.createElement("li"), line = trace.line || {}, colour = trace.swatch || line.color;
    const dash = line.dash === "dash" ? "5 3" : line.dash === "dot" ? "2 2" : "";
    const stroke = (trace.mode || "").includes("lines") ? `<line x1="0" y1="6" x2="26" y2="6" stroke="${colour}" stroke-width="2.5" stroke-dasharray="${dash}"/>` : "";
    item.innerHTML = `<svg width="26" height="12" aria-hidden="true">${stroke}${glyph(trace.glyph, colour)}</svg>`;
    item.append(trace.said);
    return item;
  }));
}

function glyph(name, colour) {
  const paths = { circle: "M9 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0", square: "M9.5 2.5h7v7h-7z", diamond: "M13 1l5 5l-5 5l-5-5z", "triangle-up": "M13 2l4.5 8h-9z", "triangle-down": "M13 10l4.5-8h-9z", cross: "M11.5 2h3v2.5H17v3h-2.5V10h-3V7.5H9v-3h2.5z", x: "M9.5 3.5l2-2l1.5 2l1.5-2l2 2l-2 2.5l2 2.5l-2 2l-1.5-2l-1.5 2l-2-2l2-2.5z" };
  return name && paths[name] ? `<path d="${paths[name]}" fill="${colour}"/>` : "";
}

function hovers(scan, values, title, write, low, high) {
  return values.map((value, i) => {
    const within = low && high && low[i] !== null ? ` (${write(low[i])} to ${write(high[i])})` : "";
    const who = several ? `${safe(scan.name)}, ` : "";
    return `${who}layer ${scan.numbers[i]}, ${safe(short(scan.places[i]))}<br>${safe(title)}: ${write(value)}${within}`;
  });
}

function line(scan, x, curve, title, write, look) {
  const text = hovers(scan, curve.value, title, write, curve.low, curve.high);
  const bars = look.bars && curve.low ? {
    error_y: { type: "data", symmetric: false, thickness: 1, width: 0, color: look.colour,
      array: curve.high.map((v, i) => (v === null ? 0 : v - curve.value[i])), arrayminus: curve.low.map((v, i) => (v === null ? 0 : curve.value[i] - v)) },
  } : {};
  return Object.assign({
    type: "scatter", mode: "lines+markers", x, y: curve.value, text, hovertemplate: "%{text}<extra></extra>", connectgaps: false, xaxis: look.xaxis || "x", yaxis: look.axis || "y",
    line: { color: look.colour, dash: look.dash || "solid", width: look.width || 2 }, marker: { color: look.colour, size: look.size || 6, symbol: look.mark || "circle" },
    said: look.said, glyph: look.size === 3 ? "" : look.mark || "circle",
  }, bars);
}

function profile() {
  const which = ticked("which"), drawn = scans.filter((_, spot) => !which || which.includes(String(spot)));
  const apart = several && chosen("panels", "apart") === "apart", layout = { shapes: [], annotations: [] }, traces = [];
  if (!apart) {
    drawn.forEach((scan) => profileOf(scan, several ? scan.name + ", " : "", ["x", "y", "y2"], !several, traces, layout.shapes));
    layout.xaxis = profileBottom(Math.max(1, ...drawn.map((scan) => scan.total)));
    Object.assign(layout, profileSides(["y", "y2"], {}, true, true));
  } else {
    // one panel per scan on the same scales: side by side, on a phone one below the other
    const count = drawn.length, gap = narrow() ? 0.12 : 0.03, size = (1 - gap * (count - 1)) / count;
    drawn.forEach((scan, k) => {
      const axes = ["x" + (k + 1), "y" + (2 * k + 1), "y" + (2 * k + 2)].map((name) => name.replace(/^([xy])1$/, "$1"));
      const span = [k * (size + gap), k * (size + gap) + size], down = [Math.max(0, 1 - span[1]), 1 - span[0]];
      const wide = narrow() ? [0, 1] : span, tall = narrow() ? down : [0, 1], first = narrow() || k === 0, last = narrow() || k === count - 1;
      profileOf(scan, "", axes, true, traces, layout.shapes, k > 0);
      layout[axes[0].replace("x", "xaxis")] = Object.assign(profileBottom(scan.total, narrow() && k < count - 1), { domain: wide, anchor: axes[1] });
      Object.assign(layout, profileSides(axes.slice(1), { domain: tall, anchor: axes[0] }, first, last));
      layout.annotations.push({ text: safe(scan.name), x: wide[0], xanchor: "left", y: tall[1], yanchor: "bottom", xref: "paper", yref: "paper", showarrow: false });
    });
    if (narrow()) layout.height = 100 + 240 * count;
  }
  draw("profile", traces, layout);
}

const byShare = () => chosen("depth", "layer") === "share";

function profileBottom(total, quiet) {
  const title = quiet ? { title: { text: "" } } : {};
  return byShare() ? axis("share of the depth", Object.assign({ tickformat: ".0%" }, title)) : layerAxis(total, title);
}

// the accuracies on the left and the chosen measure on the right; panels after the first share both scales
function profileSides([left, right], place, named, ended) {
  const second = page.labels[chosen("second", "")] || "", shared = (axis, first) => (axis === first ? {} : { matches: first });
  const coloured = several && chosen("panels", "apart") !== "apart" ? theme().ink : theme().rank, other = { overlaying: left, side: "right", tickmode: "auto", showgrid: false, rangemode: "tozero", tickfont: { color: coloured }, anchor: place.anchor };
  return {
    [left.replace("y", "yaxis")]: axis(named ? "probe accuracy" : "", Object.assign({ tickformat: ".2~%", showticklabels: named, ticks: named ? "outside" : "" }, place, shared(left, "y"))),
    [right.replace("y", "yaxis")]: axis(ended ? second : "", Object.assign(other, { showticklabels: ended, ticks: ended ? "outside" : "" }, shared(right, "y2"))),
  };
}

// the curves of one scan, in the colours of what they are where it has a panel of its own, else all in its own colour
function profileOf(scan, who, [x, y, y2], alone, traces, shapes, known) {
  const second = chosen("second", ""), sets = ticked("ood") || [], spot = scans.indexOf(scan);
  const all = byId("ood") ? [...byId("ood").querySelectorAll("input")].map((box) => box.value) : [];
  const at = scan.numbers.map((n) => (byShare() ? n / scan.total : n)), probes = scan.curves.probe || {}, colour = alone ? theme().probe : scanColour(spot);
  const title = (data) => `probe accuracy on ${data}`, on = (axis, look) => Object.assign({ axis, xaxis: x }, look, known ? { said: "" } : {});
  if (probes[scan.home]) traces.push(line(scan, at, probes[scan.home], title(scan.home), percent, on(y, { colour, bars: true, said: alone ? `probe, ${scan.home}` : `${who}probe`, mark: alone ? "circle" : marks[spot % 7] })));
  all.forEach((data, k) => {
    if (!sets.includes(data) || !probes[data]) return;
    const look = alone ? { colour: theme().others[k % theme().others.length] } : { colour, dash: "dot" };
    traces.push(line(scan, at, probes[data], title(data), percent, on(y, Object.assign(look, { width: 1.5, mark: marks[1 + (k % 6)], said: alone ? `OOD probe, ${data}` : who + data }))));
  });
  const other = second && scan.curves[second] && scan.curves[second][scan.home];
  if (other) traces.push(line(scan, at, other, page.labels[second], number, on(y2, { colour: alone ? theme().rank : colour, dash: "dash", size: 3, said: who + page.labels[second] })));
  tunnel(scan, colour, [x, y], alone, shapes);
}

function tunnel(scan, colour, [x, y], alone, shapes) {
  const found = scan.tunnel, at = (n) => (byShare() ? n / scan.total : n), upright = { xref: x, yref: y + " domain" };
  if (!found) return;
  if (!alone) {
    if (found.start) shapes.push(Object.assign({ type: "line", x0: at(found.start), x1: at(found.start), y0: 0, y1: 1, line: { color: colour, dash: "dot", width: 1.5 } }, upright));
    return;
  }
  const rect = Object.assign({ type: "rect", layer: "below", line: { width: 0 } }, upright);
  if (found.start && found.start < scan.total) shapes.push(Object.assign({}, rect, { x0: at(found.start + 0.5), x1: at(scan.total + 0.5), y0: 0, y1: 1, fillcolor: theme().shade }));
  if (found.bounds) shapes.push(Object.assign({}, rect, { x0: at(found.bounds[0] - 0.5), x1: at((found.bounds[1] || scan.total) + 0.5), y0: 0, y1: 0.02, fillcolor: theme().faint }));
  shapes.push({ type: "line", xref: x + " domain", x0: 0, x1: 1, yref: y, y0: found.level, y1: found.level, line: { color: theme().faint, dash: "dot", width: 1.5 } });
}
