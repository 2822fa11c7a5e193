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
    type: "scatter", mode: "lines+markers", x, y: curve.value, text, hovertemplate: "%{text}<extra></extra>", connectgaps: false, yaxis: look.axis || "y",
    line: { color: look.colour, dash: look.dash || "solid", width: look.width || 2 }, marker: { color: look.colour, size: look.size || 6, symbol: look.mark || "circle" },
    said: look.said, glyph: look.size === 3 ? "" : look.mark || "circle",
  }, bars);
}

function profile() {
  const second = chosen("second", ""), byShare = chosen("depth", "layer") === "share", sets = ticked("ood") || [], which = ticked("which");
  const all = byId("ood") ? [...byId("ood").querySelectorAll("input")].map((box) => box.value) : [];
  const traces = [], shapes = [];
  let longest = 1;
  scans.forEach((scan, spot) => {
    if (which && !which.includes(String(spot))) return;
    longest = Math.max(longest, scan.total);
    const x = scan.numbers.map((n) => (byShare ? n / scan.total : n)), who = several ? scan.name + ", " : "";
    const probes = scan.curves.probe || {}, colour = several ? scanColour(spot) : theme().probe;
    const title = (data) => `probe accuracy on ${data}`;
    if (probes[scan.home]) traces.push(line(scan, x, probes[scan.home], title(scan.home), percent, { colour, bars: true, said: several ? `${who}probe` : `probe, ${scan.home}`, mark: several ? marks[spot % 7] : "circle" }));
    all.forEach((data, k) => {
      if (!sets.includes(data) || !probes[data]) return;
      const look = several ? { colour, dash: "dot" } : { colour: theme().others[k % theme().others.length] };
      traces.push(line(scan, x, probes[data], title(data), percent, Object.assign(look, { width: 1.5, mark: marks[1 + (k % 6)], said: `${who}${data}` })));
    });
    const other = second && scan.curves[second] && scan.curves[second][scan.home];
    if (other) traces.push(line(scan, x, other, page.labels[second], number, { colour: several ? colour : theme().rank, dash: "dash", axis: "y2", size: 3, said: who + page.labels[second] }));
    tunnel(scan, byShare, colour, shapes);
  });
  const right = axis(page.labels[second] || "", { overlaying: "y", side: "right", tickmode: "auto", showgrid: false, rangemode: "tozero", tickfont: { color: several ? theme().ink : theme().rank } });
  const bottom = byShare ? axis("share of the depth", { tickformat: ".0%" }) : layerAxis(longest);
  draw("profile", traces, { xaxis: bottom, yaxis: axis("probe accuracy", { tickformat: ".2~%" }), yaxis2: right, shapes });
}

function tunnel(scan, byShare, colour, shapes) {
  const found = scan.tunnel;
  if (!found) return;
  if (several) {
    const at = byShare ? found.start / scan.total : found.start;
    if (found.start) shapes.push({ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: colour, dash: "dot", width: 1.5 } });
    return;
  }
  const end = scan.total + 0.5, rect = { type: "rect", yref: "paper", layer: "below", line: { width: 0 } };
  if (found.start && found.start < scan.total) shapes.push(Object.assign({}, rect, { x0: found.start + 0.5, x1: end, y0: 0, y1: 1, fillcolor: theme().shade }));
  if (found.bounds) shapes.push(Object.assign({}, rect, { x0: found.bounds[0] - 0.5, x1: (found.bounds[1] || scan.total) + 0.5, y0: 0, y1: 0.02, fillcolor: theme().faint }));
  shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: found.level, y1: found.level, line: { color: theme().faint, dash: "dot", width: 1.5 } });
}
