// Search over collections.

import { addressOf, documentOf, settingsOf, withDocument } from "./address.js";
import { ask } from "./api.js";
import { counted, find, make } from "./dom.js";
import { conditions, fillConditions, filterOf, start as startFilters } from "./filters.js";
import { hitList } from "./hits.js";
import { showOnMap } from "./map.js";
import { loaded, served, whenChanged } from "./served.js";
import { announce, isUsed, Mistake, onSubmit, showEmpty } from "./states.js";

const PAGE = 10;
let limit = PAGE;
let address = null; // the hash of the search that is shown
let following = false; // whether a search begins because the address names it

export function start() {
  const form = find("search-form");
  const outcome = find("search-outcome");
  const run = onSubmit(form, outcome, "Searching", (fields, { signal }) => search(fields, signal, more));
  const more = () => {
    limit += PAGE;
    run();
  };
  form.addEventListener("submit", begun, { capture: true });
  find("search-relevance").addEventListener("input", showRelevance);
  form.addEventListener("change", (event) => {
    if (event.target.name !== "query" && outcome.querySelector(".results, .empty.none")) form.requestSubmit();
  });
  whenChanged((collections) => showCollections(collections, outcome));
  startFilters();
}

/** Write the settings of a new search into the address. Only a new query makes an entry in the browser's history. */
function begun({ target: form }) {
  limit = PAGE;
  const fields = new FormData(form);
  const query = fields.get("query").trim();
  if (!query) return;
  const some = form.querySelector("[name=collection]:not(:checked)"); // without names, a link includes later collections
  const names = some ? fields.getAll("collection").map((name) => ["in", name]) : [];
  const relevance = fields.get("relevance");
  const rest = [["mode", fields.get("mode")], ["rerank", fields.get("rerank")], ["relevance", relevance === "0" ? "" : relevance]];
  const where = conditions().map((each) => ["where", each]);
  address = addressOf("search", [["query", query], ...names, ...rest, ...where]);
  if (address === withDocument(location.hash, null)) return;
  const same = query === settingsOf(location.hash).get("query");
  if (following || same) history.replaceState(history.state, "", withDocument(address, documentOf(location.hash)));
  else history.pushState(null, "", address);
}

/** Run the search that the address names, unless it is shown already. An address without settings gets the settings of the shown search. */
export function follow() {
  const wanted = withDocument(location.hash, null);
  if (wanted === address) return;
  const settings = settingsOf(wanted);
  if (![...settings].length) {
    if (address && !documentOf(location.hash)) history.replaceState(null, "", address);
    return;
  }
  const form = find("search-form");
  fill(form, settings);
  if (!form.elements.query.value.trim() || !(settings.has("query") || isUsed(find("search-outcome")))) return;
  following = true;
  form.requestSubmit();
  following = false;
}

function fill(form, settings) {
  const names = settings.getAll("in");
  for (const box of form.querySelectorAll("[name=collection]")) box.checked = !names.length || names.includes(box.value);
  if (!settings.has("query")) return;
  form.elements.query.value = settings.get("query");
  for (const mode of form.elements.mode) mode.checked = mode.value === (settings.get("mode") ?? "");
  form.elements.rerank.value = settings.get("rerank") ?? "";
  form.elements.relevance.value = Number(settings.get("relevance")) || 0;
  if (find("search-rerank").selectedIndex < 0) find("search-rerank").value = "";
  fillConditions(settings.getAll("where"));
  showRelevance();
}

function showRelevance() {
  const slider = find("search-relevance");
  find("search-relevance-shown").textContent = `${slider.value}%`;
  slider.setAttribute("aria-valuetext", `${slider.value}%`);
}

function showCollections(collections, outcome) {
  const chips = find("search-collections");
  const off = new Set([...chips.querySelectorAll("input:not(:checked)")].map((each) => each.value));
  chips.hidden = !collections.length;
  chips.replaceChildren(chips.firstElementChild, ...collections.map((each) => chip(each, !off.has(each.name))));
  if (isUsed(outcome)) return;
  if (collections.length) {
    const total = collections.reduce((sum, each) => sum + (each.documents ?? 0), 0);
    showEmpty(outcome, total ? `${counted(total, "document")} to search` : "The collections are empty", hintOf(total));
  } else showEmpty(outcome, "There are no collections yet", make("a", { href: "#add", class: "button" }, "Add documents"));
}

function hintOf(total) {
  return total ? null : make("a", { href: "#add", class: "button" }, "Add documents");
}

function chip({ name, documents, model, error, descriptions }, checked) {
  const box = make("input", { type: "checkbox", name: "collection", value: name, checked });
  const about = error ? [error] : [counted(documents, "document"), `model ${model}`, ...Object.values(descriptions ?? {})];
  const number = error ? "cannot be opened" : documents.toLocaleString("en");
  return make("label", { class: "chip", title: about.join(" · ") }, box, make("span", {}, make("bdi", {}, name), make("small", {}, number)));
}

async function search(fields, signal, more) {
  const query = fields.get("query").trim();
  if (!query) throw new Mistake("Type what to search for.");
  await loaded();
  const names = [...find("search-collections").querySelectorAll("input:checked")].map((each) => each.value);
  if (!names.length) throw new Mistake(served.collections.length ? "Choose at least one collection." : "There are no collections yet. Add documents first.");
  const began = performance.now();
  const filter = filterOf(conditions());
  const { hits, failed } = await hitsOf(names, { ...bodyOf(query, fields), filter }, signal);
  const took = `${Math.round(performance.now() - began)} ms`;
  announce(`${counted(hits.length, "hit")} for ${query}`);
  return [...warnings(failed), ...found(hits, took, more, filter)];
}

function bodyOf(query, fields) {
  const least = Number(fields.get("relevance")) / 100;
  return {
    query,
    limit,
    mode: fields.get("mode") || null,
    syntax: true,
    passages: "words", // ten times as fast as by token states
    rerank: fields.get("rerank") || null,
    ...(least ? { min_relevance: least } : {}),
  };
}

/** Search the chosen collections. If all are chosen, the request names none, so that a collection dropped meanwhile is no error. */
async function hitsOf(names, body, signal) {
  const some = names.length < served.collections.length ? { collections: names } : {};
  const { results, failed } = await ask("/v1/search", { ...body, ...some }, { signal });
  return { hits: results[0].hits, failed: failed ?? {} };
}

function warnings(failed) {
  return Object.entries(failed).map(([name, why]) => make("p", { class: "warning", role: "alert" }, `${name} was not searched: ${why}`));
}

function found(hits, took, more, filter) {
  if (!hits.length) {
    const advice = filter ? "Try other words, fewer conditions, or another collection." : "Try other words, a lower relevance, or another collection.";
    return [make("div", { class: "empty none" }, make("p", { class: "empty-title" }, "Nothing found"), make("p", {}, advice))];
  }
  const texts = hits.map((hit) => (hit.passage?.text ?? hit.text).replace(/\s+/g, " "));
  const summary = make(
    "p",
    { class: "summary" },
    `${counted(hits.length, "hit")} in ${took}`,
    hits.length > 2 && make("button", { type: "button", class: "link", onclick: () => showOnMap(texts) }, "Show them on the map"),
  );
  const next = hits.length === limit && make("button", { type: "button", class: "quiet", onclick: more }, "More hits");
  return [summary, hitList(hits), ...(next ? [next] : [])];
}
