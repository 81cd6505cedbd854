// Search over collections.

import { ask } from "./api.js";
import { counted, find, make } from "./dom.js";
import { hitList } from "./hits.js";
import { showOnMap } from "./map.js";
import { loaded, served, whenChanged } from "./served.js";
import { announce, isUsed, Mistake, onSubmit, showEmpty } from "./states.js";

const PAGE = 10;
let limit = PAGE;

export function start() {
  const form = find("search-form");
  const outcome = find("search-outcome");
  const run = onSubmit(form, outcome, "Searching", (fields, signal) => search(fields, signal, more));
  const more = () => {
    limit += PAGE;
    run();
  };
  form.addEventListener("submit", () => (limit = PAGE), { capture: true });
  find("search-relevance").addEventListener("input", showRelevance);
  form.addEventListener("change", (event) => {
    if (event.target.name !== "query" && outcome.querySelector(".results, .empty.none")) form.requestSubmit();
  });
  whenChanged((collections) => showCollections(collections, outcome));
}

function showRelevance() {
  find("search-relevance-shown").textContent = `${find("search-relevance").value}%`;
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
  return make("label", { class: "chip", title: about.join(" · ") }, box, make("span", {}, name, make("small", {}, number)));
}

async function search(fields, signal, more) {
  const query = fields.get("query").trim();
  if (!query) throw new Mistake("Type what to search for.");
  await loaded();
  const names = [...find("search-collections").querySelectorAll("input:checked")].map((each) => each.value);
  if (!names.length) throw new Mistake(served.collections.length ? "Choose at least one collection." : "There are no collections yet. Add documents first.");
  const began = performance.now();
  const { hits, failed } = await hitsOf(names, bodyOf(query, fields), signal);
  const took = `${Math.round(performance.now() - began)} ms`;
  announce(`${counted(hits.length, "hit")} for ${query}`);
  return [...warnings(failed), ...found(hits, took, more)];
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

/** All collections in one request; one in its own; some of them each in its own, merged by relevance. */
async function hitsOf(names, body, signal) {
  if (names.length > 1 && names.length === served.collections.length) {
    const { results, failed } = await ask("/v1/search", body, { signal });
    return { hits: results[0].hits, failed: failed ?? {} };
  }
  const lists = await Promise.all(
    names.map(async (name) => {
      const { results } = await ask(`/v1/collections/${encodeURIComponent(name)}/search`, body, { signal });
      return results[0].hits.map((hit) => ({ ...hit, collection: name }));
    }),
  );
  const hits = lists.flat();
  if (names.length > 1) hits.sort((a, b) => (b.relevance ?? 0) - (a.relevance ?? 0));
  return { hits: hits.slice(0, limit), failed: {} };
}

function warnings(failed) {
  return Object.entries(failed).map(([name, why]) => make("p", { class: "warning", role: "alert" }, `${name} was not searched: ${why}`));
}

function found(hits, took, more) {
  if (!hits.length) {
    return [make("div", { class: "empty none" }, make("p", { class: "empty-title" }, "Nothing found"), make("p", {}, "Try other words, a lower relevance, or another collection."))];
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
