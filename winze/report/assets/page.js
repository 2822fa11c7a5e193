// What the reader can press: colours, choices, sorting, the download.
function everything() {
  profile();
  maps();
  spectra();
  if (byId("variances")) variances();
  embedding();
  if (byId("cuts-chart")) cuts();
  if (byId("training")) training();
}

function remembered(key, value) {
  try {
    if (value === undefined) return window.localStorage.getItem(key);
    window.localStorage.setItem(key, value);
  } catch (_) { /* a page from a file may have no storage */ }
  return null;
}

function dress() {
  byId("theme").setAttribute("aria-pressed", String(themeName() === "dark"));
  everything();
}

function sortable(table) {
  const body = table.tBodies[0];
  const key = (row, i) => row.cells[i].textContent;
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      [...table.tHead.rows[0].cells].forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const compare = (a, b) => {
        const [u, v] = [key(a, i), key(b, i)];
        if (u === "" || v === "") return (u === "") - (v === "");  // empty cells stay at the end
        return sign * (isNaN(u) || isNaN(v) ? u.localeCompare(v) : u - v);
      };
      body.replaceChildren(...[...body.rows].sort(compare));
    });
  });
}

function filtered() {
  const table = document.querySelector("table.sortable"), wanted = byId("only").value;
  const at = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent.trim() === "measure");
  [...table.tBodies[0].rows].forEach((row) => { row.hidden = wanted !== "" && row.cells[at].textContent !== wanted; });
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([page.csv], { type: "text/csv" }));
  link.download = "readings.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function listen(id, act) {
  if (byId(id)) byId(id).addEventListener("change", act);
}

document.querySelectorAll("table.sortable").forEach(sortable);
["second", "depth", "panels", "which", "ood"].forEach((id) => listen(id, profile));
listen("embedded", embedding);
listen("cost", cuts);
listen("trained", training);
listen("only", filtered);
byId("download").addEventListener("click", download);
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = themeName() === "dark" ? "light" : "dark";
  remembered("winze-theme", document.documentElement.dataset.theme);
  dress();
});
window.addEventListener("beforeprint", () => document.querySelectorAll(".fold").forEach((part) => { part.open = true; }));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
window.matchMedia("(max-width: 40rem)").addEventListener("change", everything);
if (["light", "dark"].includes(remembered("winze-theme"))) document.documentElement.dataset.theme = remembered("winze-theme");
dress();
