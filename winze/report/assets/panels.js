// The other charts, in the order of the page.
function maps() {
  scans.forEach((scan, spot) => {
    if (!scan.cka) return;
    const name = (i) => `layer ${i + 1}, ${safe(short(scan.places[i] || ""))}`;
    const text = scan.cka.map((row, i) => row.map((value, j) => `${name(i)}<br>${name(j)}<br>CKA ${number(value)}`));
    const n = scan.cka.map((_, i) => i + 1), scale = theme().map.map((colour, i, all) => [i / (all.length - 1), colour]);
    const trace = { type: "heatmap", x: n, y: n, z: scan.cka, text, hovertemplate: "%{text}<extra></extra>", zmin: 0, zmax: 1, colorscale: scale, colorbar: { thickness: 12, outlinewidth: 0, title: { text: "CKA" } } };
    const at = scan.tunnel && scan.tunnel.start && scan.tunnel.start < n.length ? scan.tunnel.start + 0.5 : null;
    const [from, to] = [0.5, n.length + 0.5], shapes = [];
    if (at) [["#ffffff", "solid"], ["#1b1f24", "dot"]].forEach(([color, dash]) => shapes.push(
      { type: "line", x0: at, x1: at, y0: from, y1: to, line: { color, dash, width: 1 } }, { type: "line", x0: from, x1: to, y0: at, y1: at, line: { color, dash, width: 1 } }));
    const square = layerAxis(n.length, Object.assign({ constrain: "domain" }, n.length > 10 ? { nticks: 10, tickmode: "auto" } : {}));
    draw(`cka-${spot}`, [trace], { xaxis: square, yaxis: Object.assign({}, square, { scaleanchor: "x" }), shapes });
  });
}

function spectra() {
  scans.forEach((scan, spot) => {
    if (!scan.spectra.length) return;
    const traces = scan.spectra.map((one) => {
      const place = short(scan.places[scan.numbers.indexOf(one.number)] || "");
      return { type: "scatter", mode: "lines", x: one.rank, y: one.share, line: { color: rampColour(one.number - 1, scan.total), width: 1.5 },
        hovertemplate: `layer ${one.number}, ${safe(place)}<br>eigenvalue %{x}: %{y:.3g} of the largest<extra></extra>` };
    });
    ends(traces, scan, scan.spectra.map((one) => one.number));
    const least = Math.min(...scan.spectra.map((one) => Math.min(...one.share.filter((v) => v > 0))));
    const power = { type: "log", exponentformat: "power", dtick: narrow() ? 2 : 1 };
    const left = axis("share of the largest", Object.assign({ range: [Math.max(-8, Math.log10(least)) - 0.1, 0.1] }, power));
    draw(`spectra-${spot}`, traces, { xaxis: axis("eigenvalue, by size", { type: "log", dtick: 1 }), yaxis: left });
  });
}

// of lines coloured by depth, the legend names the first, the middle and the last
function ends(traces, scan, numbers) {
  new Set([0, Math.floor((traces.length - 1) / 2), traces.length - 1]).forEach((i) => { if (traces[i]) traces[i].said = `layer ${numbers[i]}`; });
}

function variances() {
  const traces = [];
  scans.forEach((scan, spot) => [["intra_variance", "solid", "probe"], ["inter_variance", "dash", "rank"]].forEach(([measure, dash, role]) => {
    if (!scan.curves[measure] || !scan.curves[measure][scan.home]) return;
    const found = scan.variances[measure];
    const look = { dash, colour: several ? scanColour(spot) : theme()[role], mark: several ? marks[spot % 7] : "circle", size: 5, said: (several ? scan.name + ", " : "") + page.labels[measure] };
    traces.push(line(scan, scan.numbers, found, page.labels[measure], number, look));
  }));
  const drawn = traces.flatMap((trace) => trace.y.filter((value) => value > 0));
  const powers = Math.max(...drawn) > 100 * Math.min(...drawn) ? { exponentformat: "power", dtick: 1 } : {}; // else ticks between powers
  draw("variances", traces, { xaxis: layerAxis(Math.max(...scans.map((scan) => scan.total))), yaxis: axis("variance per feature", Object.assign({ type: "log" }, powers)) });
}

function embedding() {
  const wanted = ticked("embedded");
  scans.forEach((scan, spot) => {
    const grid = byId(`embedding-${spot}`), found = scan.embedding;
    if (!grid || !found) return;
    grid.querySelectorAll(".one").forEach((chart) => Plotly.purge(chart));
    grid.replaceChildren();
    const colours = theme().scans, labels = found.labels, colour = (k) => colours[k % colours.length], mark = (k) => marks[Math.floor(k / colours.length) % 7];
    const picked = Object.keys(found.points).filter((n) => (wanted ? wanted.includes(n) : found.chosen.includes(Number(n)))).sort((a, b) => a - b);
    picked.forEach((n) => {
      const cell = document.createElement("div"), chart = document.createElement("div"), title = document.createElement("p");
      chart.className = "one";
      title.textContent = `layer ${n}`;
      cell.append(title, chart);
      grid.append(cell);
      const [x, y] = found.points[n], bare = { visible: false, automargin: false };
      const trace = { type: "scatter", mode: "markers", x, y, hovertemplate: "%{text}<extra></extra>", text: x.map((_, i) => (labels ? safe(found.classes[labels[i]]) : "")),
        marker: { size: 5, opacity: 0.85, color: labels ? labels.map(colour) : theme().probe, symbol: labels ? labels.map(mark) : "circle" } };
      Plotly.newPlot(chart, [trace], { xaxis: bare, yaxis: bare, margin: { l: 4, r: 4, t: 4, b: 4 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: coarse() ? false : "zoom",
        hoverlabel: { bgcolor: theme().paper, bordercolor: theme().faint, font: { color: theme().ink } } }, { responsive: true, displayModeBar: false });
    });
    const used = labels ? [...new Set(labels)].sort((a, b) => a - b) : [];
    legend(byId(`embedding-${spot}-legend`), used.length > 20 ? [] : used.map((k) => ({ said: found.classes[k], swatch: colour(k), glyph: mark(k) })));
  });
}

function cuts() {
  const cost = chosen("cost", "seconds"), traces = [], { scale, label } = page.costs[cost];
  scans.forEach((scan, spot) => {
    const found = scan.curves["cut_" + cost], probe = scan.curves.probe && scan.curves.probe[scan.home];
    if (!found || !probe) return;
    const x = found[scan.home].value.map((v) => (v === null ? null : v * scale)), colour = scanColour(spot), who = several ? scan.name : "cut after a layer";
    const trace = line(scan, x, probe, "accuracy", percent, { colour, said: who, mark: several ? marks[spot % 7] : "circle", width: 1.5 });
    trace.text = trace.text.map((text, i) => `${text}<br>${number(x[i])} ${label}`);
    traces.push(trace);
    const at = scan.tunnel && scan.tunnel.start ? scan.numbers.indexOf(scan.tunnel.start) : -1, bare = { type: "scatter", mode: "markers", hoverinfo: "skip" };
    if (at >= 0) traces.push(Object.assign({}, bare, { x: [x[at]], y: [probe.value[at]], marker: { size: 15, symbol: "circle-open", color: theme().ink, line: { width: 2 } } }));
    const whole = scan.whole;
    if (whole[cost] !== null && whole.accuracy !== null) traces.push(Object.assign({}, bare, { x: [whole[cost] * scale], y: [whole.accuracy], marker: { size: 11, symbol: "diamond", color: colour, line: { width: 1, color: theme().paper } },
      hoverinfo: "text", text: `${several ? safe(scan.name) + ", " : ""}whole network<br>${percent(whole.accuracy)}, ${number(whole[cost] * scale)} ${label}` }));
  });
  draw("cuts-chart", traces, { xaxis: axis(label, { rangemode: "tozero" }), yaxis: axis("accuracy", { tickformat: ".2~%" }) });
}

function training() {
  const measure = chosen("trained", "");
  scans.forEach((scan, spot) => {
    const found = scan.training[measure], write = measure === "probe" ? percent : number;
    const traces = found ? found.values.map((values, i) => ({ type: "scatter", mode: "lines", x: found.steps, y: values, line: { color: rampColour(i, found.values.length), width: 1.5 },
      text: values.map(write), hovertemplate: `layer ${scan.numbers[i]}, ${safe(short(scan.places[i]))}<br>step %{x}: %{text}<extra></extra>` })) : [];
    ends(traces, scan, scan.numbers);
    draw(`training-${spot}`, traces, { xaxis: axis("training step"), yaxis: axis(page.labels[measure] || "") });
  });
}
