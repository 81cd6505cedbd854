// Add documents: send files to the server, and show its progress and its report.

import { addressOf } from "./address.js";
import { ask, Cancelled, events, send, sentence } from "./api.js";
import { counted, fillSelect, find, make } from "./dom.js";
import { onFiles } from "./dropping.js";
import { loadCollections, whenChanged } from "./served.js";
import { announce, Mistake, showError } from "./states.js";

const NEW = "";
const COUNTS = ["new", "updated", "unchanged", "empty", "failed"];
const FILES_A_REQUEST = 500;
let running = null;

export function start() {
  onFiles(find("add-drop"), [find("add-files"), find("add-folder")], add);
  find("add-form").addEventListener("submit", (event) => event.preventDefault());
  find("add-collection").addEventListener("change", showFields);
  whenChanged((collections) => {
    fillSelect(find("add-collection"), [...collections.map(({ name }) => [name, name]), [NEW, "a new collection"]]);
    showFields();
  });
  showFields();
}

function showFields() {
  const isNew = find("add-collection").value === NEW;
  find("add-name-field").hidden = find("add-model-field").hidden = !isNew;
}

async function add(files) {
  const outcome = find("add-outcome");
  if (running) return refuse();
  if (!files.length) return showError(outcome, new Mistake("The dropped items contain no files."));
  running = new AbortController();
  const shown = progress(outcome, files);
  try {
    const name = await collection(running.signal);
    const report = await uploadAll(name, files, shown, running.signal);
    await loadCollections();
    outcome.replaceChildren(...summary(name, report));
    announce(`Added to ${name}: ${counted(report.new, "new document")}, ${report.failed} failed`);
  } catch (error) {
    const stopped = new Mistake("Stopped. The server still stores the files that it has received; add the files again for the rest.");
    showError(outcome, error instanceof Cancelled ? stopped : error, () => add(files));
  } finally {
    running = null;
    outcome.removeAttribute("aria-busy");
  }
}

/** Say that further files have to wait. */
function refuse() {
  const text = "Other files are being added. Wait for their report, or stop them; then add these.";
  const line = find("add-outcome").querySelector(".later") ?? make("p", { class: "later" });
  line.textContent = text;
  find("add-outcome").querySelector(".progress").append(line);
  announce(text);
}

/** The name of the chosen collection; a new one is made. */
async function collection(signal) {
  const chosen = find("add-collection").value;
  if (chosen !== NEW) return chosen;
  const name = find("add-name").value.trim();
  if (!name) throw new Mistake("Give the new collection a name.");
  await ask("/v1/collections", { name, model: find("add-model").value || undefined }, { signal });
  await loadCollections();
  find("add-collection").value = name;
  showFields();
  return name;
}

/** Send the files in several requests; return the sum of their reports. */
async function uploadAll(name, files, shown, signal) {
  const whole = { failures: [], warnings: [], ...Object.fromEntries(COUNTS.map((each) => [each, 0])) };
  for (let start = 0; start < files.length; start += FILES_A_REQUEST) {
    const report = await upload(name, files.slice(start, start + FILES_A_REQUEST), shown, signal);
    for (const each of COUNTS) whole[each] += report[each] ?? 0;
    whole.failures.push(...report.failures, ...(report.empties ?? []));
    whole.warnings.push(...(report.warnings ?? []));
  }
  return whole;
}

async function upload(name, files, shown, signal) {
  const body = new FormData();
  for (const [path, file] of files) body.append("files", file, path);
  const path = `/v1/collections/${encodeURIComponent(name)}/documents`;
  const response = await send(path, { method: "POST", body, headers: { Accept: "text/event-stream" }, signal });
  for await (const [event, data] of events(response)) {
    if (event === "progress") shown(data);
    else if (event === "report") return data;
    else if (event === "error") throw new Error(sentence(data.error.message));
  }
  if (signal.aborted) throw new Cancelled();
  throw new Error("The connection broke before the report came. Stored documents stay; add the files again for the rest.");
}

/** Show a progress bar; return the function that moves it. */
function progress(outcome, files) {
  const bytes = files.reduce((sum, [, file]) => sum + file.size, 0);
  const line = make("p", { id: "add-progress" }, `Sending ${counted(files.length, "file")}, ${sized(bytes)}`);
  const bar = make("progress", { "aria-labelledby": "add-progress" });
  const stop = make("button", { type: "button", class: "quiet", onclick: () => running?.abort() }, "Stop");
  outcome.setAttribute("aria-busy", "true");
  outcome.replaceChildren(make("div", { class: "progress" }, line, bar, stop));
  announce(line.textContent);
  return ({ done, total, file, waiting }) => {
    if (total) [bar.max, bar.value] = [total, done];
    if (waiting) line.textContent = "Waiting until another ingest of this collection has ended";
    else line.textContent = [`${counted(done, "document")}${total ? ` of ${total.toLocaleString("en")}` : ""}`, file].filter(Boolean).join(" · ");
  };
}

function sized(bytes) {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1000))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function summary(name, report) {
  const counts = COUNTS.filter((each) => report[each]);
  const list = counts.map((each) => make("div", { class: each === "failed" ? "failed-count" : "" }, make("dt", {}, each), make("dd", {}, report[each].toLocaleString("en"))));
  const nothing = !counts.length && make("p", {}, "The files hold no documents.");
  const search = make("a", { href: addressOf("search", [["in", name]]), class: "button" }, "Search them");
  const warnings = report.warnings.map((text) => make("p", { class: "warning" }, sentence(text)));
  return [make("div", { class: "report results" }, make("h2", {}, name), nothing || make("dl", { class: "counts" }, list), search, ...warnings), ...failures(report.failures)];
}

function failures(all) {
  if (!all.length) return [];
  const rows = all.map(([source, reason]) => make("li", {}, make("strong", {}, source), make("span", {}, reason)));
  return [make("section", { class: "failures", "aria-label": "Not stored" }, make("h2", {}, "Not stored"), make("ul", {}, rows))];
}
