// The settings, and the URL that holds all of them.

const SHARED = ["data", "points", "noise", "classes", "batch", "seed"];
const ARM = ["depth", "width", "activation", "objective", "temperature", "optimizer", "lr"];
const WORDS = new Set(["data", "activation", "objective", "optimizer"]);

export const copy = (value) => JSON.parse(JSON.stringify(value));

export function toParameters(settings, defaults) {
  const out = new URLSearchParams();
  for (const name of SHARED) if (settings[name] !== defaults[name]) out.set(name, settings[name]);
  settings.arms.forEach((arm, index) => {
    const letter = "ab"[index];
    const base = defaults.arms[0];
    for (const name of ARM) if (arm[name] !== base[name]) out.set(`${letter}.${name}`, arm[name]);
    const { name, ...options } = arm.rule;
    if (name !== base.rule.name) out.set(`${letter}.rule`, name);
    for (const [option, value] of Object.entries(options)) out.set(`${letter}.rule.${option}`, value);
  });
  if (settings.arms.length > 1) out.set("two", "1");
  if (settings.data === "drawn" && settings.drawn.length) out.set("drawn", packPoints(settings.drawn));
  return out;
}

export function fromHash(hash, catalogue) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const settings = copy(catalogue.defaults);
  for (const name of SHARED) if (given.has(name)) settings[name] = value(name, given.get(name));
  const arms = given.get("two") ? [settings.arms[0], copy(settings.arms[0])] : [settings.arms[0]];
  arms.forEach((arm, index) => {
    const letter = "ab"[index];
    for (const name of ARM) if (given.has(`${letter}.${name}`)) arm[name] = value(name, given.get(`${letter}.${name}`));
    if (given.has(`${letter}.rule`)) arm.rule = { name: given.get(`${letter}.rule`) };
    const known = catalogue.rules[arm.rule.name]?.options ?? {};
    for (const [option, about] of Object.entries(known)) {
      const text = given.get(`${letter}.rule.${option}`);
      if (text === null) continue;
      arm.rule[option] = about.kind === "number" ? Number(text) : about.kind === "flag" ? text === "true" : text;
    }
  });
  settings.arms = arms;
  if (given.has("drawn")) settings.drawn = unpackPoints(given.get("drawn"));
  return settings;
}

let [waiting, timer] = [null, 0];

// the hash of the URL, or the one that it is about to get
export const hashNow = () => waiting ?? location.hash;

// browsers refuse more than some twenty changes of the URL per second: while a slider moves, the newest hash waits
export function setHash(parameters) {
  const text = parameters.toString();
  waiting = text && `#${text}`;
  clearTimeout(timer);
  timer = setTimeout(writeHash, 140);
}

export function writeHash() {
  clearTimeout(timer);
  if (waiting !== null) history.replaceState(null, "", waiting || location.pathname);
  waiting = null;
}

// the step at which a link shows the training; 0: the start
export function stepOf(hash) {
  const step = Number(new URLSearchParams(hash.replace(/^#/, "")).get("step"));
  return Number.isInteger(step) && step > 0 && step <= 1e7 ? step : 0;
}

const value = (name, text) => (WORDS.has(name) || text === "norm" ? text : Number(text));

// three characters per point: x and y in 91 steps, and the class, all printable
function packPoints(points) {
  const at = (v) => String.fromCharCode(33 + Math.round(((v + 1) / 2) * 90));
  const text = points.map(([x, y, label]) => at(x) + at(y) + label).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function unpackPoints(packed) {
  let text = "";
  try { text = atob(packed.replaceAll("-", "+").replaceAll("_", "/")); } catch { return []; }
  const at = (c) => Math.round(((c.charCodeAt(0) - 33) / 90 * 2 - 1) * 1000) / 1000;
  const points = [];
  for (let i = 0; i + 2 < text.length; i += 3) points.push([at(text[i]), at(text[i + 1]), Number(text[i + 2])]);
  return points;
}

// drawn points are rounded as the URL rounds them, so that a shared link trains on the very same points
export const rounded = (v) => Math.round((Math.round(((v + 1) / 2) * 90) / 90 * 2 - 1) * 1000) / 1000;
