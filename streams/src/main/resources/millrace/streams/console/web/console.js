// The page: asks the service once a second, draws what changed, and checks leaves when told to.

import { sparkline, draw } from "./charts.js";
import { canVerify, hex, parseKey, verify } from "./verify.js";

const EVERY = 1_000;
const MOST_SPAN = 15 * 60 * 1_000;
const LEAST_SPAN = 2 * 60 * 1_000;
const MOST_ROWS = 200;
const at = (id) => document.getElementById(id);

// ---------------------------------------------------------------- small helpers

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const remembered = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* a browser that forgets */ } };

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(10_000) });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ?? `the service answers ${answer.status}`);
  return body;
}

function number(value, digits = 1) {
  if (value === null || value === undefined) return "\u2013";
  const places = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : digits;
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}

/** A span of seconds as number and unit. */
function span(seconds) {
  if (seconds === null || seconds === undefined) return ["\u2013", ""];
  if (seconds < 1) return [number(seconds * 1_000, seconds < 0.01 ? 1 : 0), "ms"];
  if (seconds < 120) return [number(seconds, seconds < 10 ? 2 : seconds < 30 ? 1 : 0), "s"];
  if (seconds < 7_200) return [number(seconds / 60, 0), "min"];
  return [number(seconds / 3_600, 1), "h"];
}
const spanText = (seconds) => span(seconds).filter(Boolean).join(" ");
const percent = (share) => share === null ? ["\u2013", ""] : [number(share * 100, 1), "%"];
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB", { hour12: false });

// ---------------------------------------------------------------- tiles

// The columns of a point, after its time.
const COLUMNS = ["prompts", "input", "output", "firstP50", "firstP99", "requestP50", "requestP99", "inflight", "pending", "lag", "kv",
  "cached", "batch"];
const TILES = [
  { title: "Output tokens per second", key: "output", value: (p) => [number(p.output), ""], also: (p) => `${number(p.input)} in prompts` },
  { title: "Answers per second", key: "prompts", value: (p) => [number(p.prompts, 2), ""], also: (p) => `${number(p.inflight, 0)} in the engine` },
  { title: "Time to the first token", key: "firstP50", second: "firstP99", value: (p) => span(p.firstP50), also: (p) => `p99 ${spanText(p.firstP99)}`, note: "median" },
  { title: "Time of an answer", key: "requestP50", second: "requestP99", value: (p) => span(p.requestP50), also: (p) => `p99 ${spanText(p.requestP99)}`, note: "median" },
  { title: "KV cache in use", key: "kv", top: 1, value: (p) => percent(p.kv), also: () => "pages in sequences" },
  { title: "Prompts from the cache", key: "cached", top: 1, value: (p) => percent(p.cached), also: () => "of their tokens, last minute" },
  { title: "Batch", key: "batch", value: (p) => [number(p.batch, 1), ""], also: () => "prompts at once" },
  { title: "Backlog", key: "lag", second: "pending", value: (p) => [number(p.lag, 0), ""], also: (p) => `${number(p.pending, 0)} pending` },
];
const times = [];
const series = Object.fromEntries(COLUMNS.map((name) => [name, []]));

function buildTiles() {
  for (const tile of TILES) {
    tile.number = element("span");
    tile.unit = element("span", { class: "unit" });
    tile.words = element("p", { class: "also" });
    tile.chart = sparkline();
    at("tiles").append(element("div", { class: "tile" }, element("h3", {}, tile.title),
      element("p", { class: "value" }, tile.number, tile.unit), tile.words, tile.chart));
    if (tile.second) tile.swatch = element("span", { class: "swatch" });
  }
}

function takePoints(points) {
  for (const [time, ...values] of points) {
    times.push(time);
    COLUMNS.forEach((name, i) => series[name].push(values[i]));
  }
  const old = times.findIndex((time) => time >= times[times.length - 1] - MOST_SPAN);
  if (old > 0) {
    times.splice(0, old);
    for (const name of COLUMNS) series[name].splice(0, old);
  }
}

function drawTiles() {
  if (times.length === 0) return;
  const span = Math.max(LEAST_SPAN, times[times.length - 1] - times[0]);
  const minutes = Math.max(2, Math.round(span / 60_000));
  say(at("span"), `the last ${minutes} minutes`);
  const now = Object.fromEntries(COLUMNS.map((name) => [name, series[name][times.length - 1]]));
  for (const tile of TILES) {
    const [value, unit] = tile.value(now);
    say(tile.number, value);
    say(tile.unit, [unit, tile.note && value !== "\u2013" ? tile.note : ""].filter(Boolean).join(" "));
    const words = tile.also(now);
    if (tile.said !== words) {
      tile.words.replaceChildren(...(tile.swatch ? [tile.swatch] : []), words);
      tile.said = words;
    }
    draw(tile.chart, times, tile.second ? [series[tile.key], series[tile.second]] : [series[tile.key]], span, tile.top ?? null,
      `${tile.title}, the last ${minutes} minutes: now ${value} ${unit}, ${words}`);
  }
}

// ---------------------------------------------------------------- state

function showStatus(state, words) {
  at("status").querySelector(".dot").dataset.state = state;
  say(at("status").querySelector(".words"), words);
}

function showChecks(checks) {
  const down = Object.keys(checks).filter((name) => !checks[name]);
  if (down.length) showStatus("bad", `not ready: ${down.join(", ")}`);
  else showStatus("good", "serving");
}

// Each line: name, state and words from what the service says of its integrity.
const CHECKS = [
  ["Verified at load", (i) => [i.problems > 0 ? "bad" : ["require", "digest_pinned"].includes(i.mode) ? "good" : "warn",
    i.problems > 0 ? `${i.mode}: ${number(i.problems, 0)} problems` : i.mode]],
  ["Weights scrubbed", (i) => i.scrubAge === null ? ["warn", "not watched"] : [i.weight > 0 ? "bad" : i.scrubAge > 600 ? "warn" : "good",
    `oldest check ${spanText(i.scrubAge)} ago, ${number(i.scrubPasses, 0)} passes, ${number(i.weight, 0)} damaged`]],
  ["KV pages sealed", (i) => [i.kv > 0 ? "warn" : "good", `${number(i.sealsVerified, 0)} verified, ${number(i.kv, 0)} mismatches`]],
  ["Numbers guarded", (i) => [i.compute > 0 ? "warn" : "good", `${number(i.compute, 0)} steps refused, ${number(i.recomputed, 0)} computed again`]],
  ["Golden prompt", (i) => i.canaryAge === null ? ["warn", `has not passed yet, ${number(i.canaryFailures, 0)} failures`]
    : [i.canaryFailures > 0 ? "bad" : "good", `passed ${spanText(i.canaryAge)} ago, ${number(i.canaryFailures, 0)} failures`]],
  ["Log signed", (i) => [i.checkpointLag > 60 ? "bad" : i.checkpointFailures > 0 || i.checkpointLag > 10 ? "warn" : "good",
    `${number(i.unsigned, 0)} unsigned, lag ${spanText(i.checkpointLag)}, ${number(i.checkpointFailures, 0)} failures`]],
  ["Witness", (i) => i.witnessLag === null ? ["none", "none has cosigned"] : [i.witnessLag > 900 ? "warn" : "good", `cosigned ${spanText(i.witnessLag)} ago`]],
  ["Answers", (i) => [i.suspects > 0 ? "bad" : i.withheld > 0 || i.failed > 0 ? "warn" : "good",
    `${number(i.withheld, 0)} withheld, ${number(i.suspects, 0)} in doubt, ${number(i.failed, 0)} failed, ${number(i.deadLetters, 0)} dead letters`]],
  ["Engine", (i) => i.refused > 0 ? ["bad", "takes no more work"] : i.admitting > 0 ? ["good", "takes work"] : ["warn", "repairing: takes no work for now"]],
];
const WORDS = { good: "good", warn: "look at this", bad: "act on this", none: "no statement" };

function buildIntegrity() {
  for (const check of CHECKS) {
    check.dot = element("span", { class: "dot", role: "img" });
    check.words = element("span");
    at("integrity").append(element("dt", {}, check[0]), element("dd", {}, check.dot, check.words));
  }
}

function showIntegrity(integrity) {
  const counts = { good: 0, warn: 0, bad: 0, none: 0 };
  for (const check of CHECKS) {
    const [state, words] = check[1](integrity);
    counts[state]++;
    if (check.dot.dataset.state !== state) {
      check.dot.dataset.state = state;
      check.dot.setAttribute("aria-label", WORDS[state]);
    }
    say(check.words, words);
  }
  say(at("integrity-word"), counts.bad ? `${counts.bad} to act on` : counts.warn ? `${counts.warn} to look at` : "all well");
}

function showPartitions(partitions) {
  const body = at("queue").tBodies[0];
  while (body.rows.length > partitions.length) body.lastElementChild.remove();
  partitions.forEach((each, i) => {
    const row = body.rows[i] ?? body.insertRow();
    [each.partition, each.lag, each.pending, each.inflight, each.leaves].forEach((value, column) => {
      const cell = row.cells[column] ?? row.insertCell();
      cell.className = "num";
      say(cell, number(value, 0));
    });
  });
}

let alarmsShown = "";
function showAlarms(alarms) {
  const key = JSON.stringify(alarms);
  if (key === alarmsShown) return;
  alarmsShown = key;
  const items = alarms.slice(0, 8).map((alarm) => element("li", {},
    element("b", { class: alarm.result }, `${alarm.kind} ${alarm.result}`), ` ${alarm.code} ${alarm.detail} `,
    element("span", { class: "quiet" }, `${new Date(alarm.time).toLocaleString("en-GB")}, ${alarm.instance.slice(0, 8)}`)));
  at("alarms").replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, "none")]));
}

// ---------------------------------------------------------------- audit log

const shown = new Map();
const schemas = new Map();
let servedKey = "";
let ownKey = remembered("millrace-key") ?? "";
let lastRow = 0;

const verdictState = (verdict) => verdict === "OK" ? "good" : verdict === "OK_RECOMPUTED" ? "warn" : "bad";

function rowOf(leaf) {
  const cell = (text, kind) => element("td", kind ? { class: kind } : {}, text);
  const answer = leaf.event === "INFERENCE" || leaf.event === "REFUSED";
  const verdict = cell(leaf.verdict, verdictState(leaf.verdict));
  if (leaf.code) verdict.append(element("span", { class: "code" }, leaf.code));
  const [partition, epoch] = leaf.origin.split("/").slice(-2);
  const button = element("button", { type: "button", "aria-expanded": "false" }, "Verify");
  button.setAttribute("aria-label", `Verify leaf ${leaf.seq} of log ${partition}`);
  if (!leaf.provable) {
    button.disabled = true;
    button.title = "Written before this process took the log over: millrace audit prove has its proof";
  }
  const time = element("time", { datetime: new Date(leaf.time).toISOString() }, clock(leaf.time));
  const row = element("tr", {},
    element("td", {}, time), element("td", { class: "num" }, epoch === "0" ? partition : `${partition}/${epoch}`),
    cell(leaf.seq.toLocaleString("en"), "num"), cell(leaf.event.toLowerCase().replace("_", " ")),
    element("td", { class: "request", title: leaf.request || null }, leaf.request || "\u2013"), verdict,
    cell(answer && leaf.finish !== "unknown" ? leaf.finish : "\u2013"),
    cell(answer ? number(leaf.promptTokens, 0) : "\u2013", "num"), cell(answer ? number(leaf.completionTokens, 0) : "\u2013", "num"),
    element("td", {}, element("code", { title: leaf.leaf }, leaf.leaf.slice(0, 12))), element("td", {}, button));
  button.addEventListener("click", () => prove(leaf, row, button));
  return row;
}

function showRows(rows) {
  const body = at("leaves").tBodies[0];
  const first = lastRow === 0;
  for (const leaf of rows) {
    lastRow = leaf.number;
    const row = rowOf(leaf);
    if (!first) row.className = "new";
    body.prepend(row);
    shown.set(row, leaf);
  }
  const leaves = Array.from(body.children).filter((row) => shown.has(row));
  for (const row of leaves.slice(MOST_ROWS)) {
    if (row.nextElementSibling?.classList.contains("proof")) row.nextElementSibling.remove();
    shown.delete(row);
    row.remove();
  }
  at("no-leaves").hidden = body.children.length > 0;
}

async function proofOf(leaf) {
  const path = `api/proof?origin=${encodeURIComponent(leaf.origin)}&seq=${leaf.seq}`;
  // The next checkpoint is a moment away where none covers the leaf yet.
  for (let tries = 0; ; tries++) {
    const proof = await ask(path);
    if (proof.path || tries === 6) return proof;
    await new Promise((done) => setTimeout(done, 500));
  }
}

async function prove(leaf, row, button) {
  const open = row.nextElementSibling?.classList.contains("proof") ? row.nextElementSibling : null;
  if (open) {
    open.remove();
    button.setAttribute("aria-expanded", "false");
    return;
  }
  // Not disabled meanwhile: that would take the focus away from who uses the keyboard.
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  say(button, "\u2026");
  let result;
  try {
    if (!canVerify()) throw new Error("This browser lends its cryptography to pages over https and on this machine only: open the console so.");
    const proof = await proofOf(leaf);
    if (!schemas.has(proof.fingerprint)) {
      schemas.set(proof.fingerprint, await (await fetch(`api/schema?fingerprint=${proof.fingerprint}`)).text());
    }
    result = await verify(leaf, proof, schemas.get(proof.fingerprint), ownKey || servedKey, ownKey !== "");
  } catch (error) {
    result = { steps: [{ state: "bad", words: error.message }], leaf: null, verified: false };
  }
  const broken = result.steps.some((step) => step.state === "bad");
  const word = result.verified ? "Verified" : broken ? "Failed" : "Partly";
  button.removeAttribute("aria-busy");
  button.dataset.state = result.verified ? "good" : broken ? "bad" : "warn";
  say(button, word);
  button.setAttribute("aria-label", `${word}: leaf ${leaf.seq}. Show or hide its proof`);
  button.setAttribute("aria-expanded", "true");
  row.after(element("tr", { class: "proof" }, element("td", { colspan: "11" }, ...panel(result))));
  say(at("said"), `Leaf ${leaf.seq}: ${word}. ${result.steps.at(-1).words}`);
}

function panel(result) {
  const parts = [element("ol", { class: "steps" }, ...result.steps.map((step) => element("li", { "data-state": step.state },
    element("span", {}, element("span", { class: "hidden" }, `${WORDS[step.state]}: `), step.words))))];
  if (result.leaf) {
    const fields = element("dl", { class: "facts" });
    for (const [name, value] of flat(result.leaf, "")) fields.append(element("dt", {}, name), element("dd", {}, value));
    parts.push(element("details", {}, element("summary", {}, "All fields of the leaf, as these bytes have them"), fields));
  }
  return parts;
}

function* flat(record, prefix) {
  for (const [name, value] of Object.entries(record)) {
    if (value === null || value === "") continue;
    if (value instanceof Uint8Array) yield [prefix + name, value.every((b) => b === 0) ? "zeros" : hex(value)];
    else if (Array.isArray(value)) yield [prefix + name, value.map((each) => each instanceof Uint8Array ? hex(each) : String(each)).join(" ")];
    else if (typeof value === "object") yield* flat(value, `${prefix}${name}.`);
    else yield [prefix + name, String(value)];
  }
}

async function takeOwnKey(text) {
  const words = at("own-key-word");
  if (text.trim() === "") {
    ownKey = "";
    say(words, "");
  } else {
    try {
      const key = await parseKey(text);
      ownKey = text.trim();
      say(words, ownKey === servedKey ? "the key that the service names, too" : `not the key that the service names: only trees that ${key.name}+${key.id} signed will pass`);
    } catch (error) {
      ownKey = "";
      say(words, error.message);
      return;
    }
  }
  remember("millrace-key", ownKey);
}

// ---------------------------------------------------------------- the loop

let paused = false;
let timer = 0;
let asked = 0;

async function once() {
  try {
    const [state, tail] = await Promise.all([ask(`api/state?since=${times.at(-1) ?? 0}`), ask(`api/tail?after=${lastRow}`)]);
    takePoints(state.points);
    drawTiles();
    showChecks(state.checks);
    showIntegrity(state.integrity);
    showPartitions(state.partitions);
    showAlarms(state.alarms);
    showRows(tail.rows);
    asked = Date.now();
    if (!document.documentElement.dataset.ready) {
      document.documentElement.dataset.ready = "true";
      performance.mark("console-ready");
    }
  } catch (error) {
    showStatus("bad", asked ? `no answer since ${clock(asked)}` : `no answer: ${error.message}`);
  }
}

function loop() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  const began = performance.now();
  once().finally(() => { timer = setTimeout(loop, Math.max(100, EVERY - (performance.now() - began))); });
}

function pause() {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  if (paused) showStatus("warn", `paused at ${clock(Date.now())}`);
  loop();
}

const THEMES = ["auto", "light", "dark"];
function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  say(at("theme"), `Theme: ${name}`);
  remember("millrace-theme", name);
}

async function facts() {
  const answer = await ask("api/facts");
  servedKey = answer.vkey;
  say(at("served-key"), servedKey);
  const model = answer.facts.find((fact) => fact.name === "Model")?.value ?? "";
  say(at("model"), model);
  document.title = `${model} \u2013 Millrace console`;
  at("facts").replaceChildren(...answer.facts.map((fact) => element("div", {}, element("dt", {}, fact.name), element("dd", {}, fact.value))));
  at("own-key").value = ownKey;
  if (ownKey) await takeOwnKey(ownKey);
}

buildTiles();
buildIntegrity();
theme(THEMES.includes(remembered("millrace-theme")) ? remembered("millrace-theme") : "auto");
at("pause").addEventListener("click", pause);
at("theme").addEventListener("click", () => {
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length]);
});
at("own-key").addEventListener("input", (event) => takeOwnKey(event.target.value));
document.addEventListener("visibilitychange", loop);
facts().catch((error) => showStatus("bad", `no answer: ${error.message}`));
loop();
