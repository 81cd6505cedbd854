// The dialog with a document: its metadata and its text, in which the passage is marked.

import { documentOf, withDocument } from "./address.js";
import { ask } from "./api.js";
import { find, make } from "./dom.js";
import { readable, shortened } from "./passage.js";
import { showError, showLoading } from "./states.js";

const SHOWN = 20; // entries of the metadata; the others need a click, so that the text is near
const LONG = 300; // characters; longer values need a click
let open = null;

export function start() {
  find("document").addEventListener("close", closed);
  find("document-passage").addEventListener("click", () => find("document-body").querySelector("mark").scrollIntoView({ block: "center" }));
}

/** The title of a hit or a document, else its id. */
export function titleOf(hit) {
  const title = hit.payload?.title;
  return typeof title === "string" && title.trim() ? title : hit.id;
}

/** Open the document of a hit. The address names it, and the browser's Back closes it. */
export function openDocument(hit) {
  history.pushState({ opened: true }, "", withDocument(location.hash, hit));
  return show(hit);
}

/** Show a document; null closes the dialog. */
export function follow(hit) {
  if (!hit) {
    open = null;
    find("document").close();
  } else if (!find("document").open || hit.id !== open.id || hit.collection !== open.collection) show(hit);
}

/** Remove a closed document from the address, unless a new address has closed it or another document is open by now. */
function closed() {
  if (!open || find("document").open || !documentOf(location.hash)) return;
  if (history.state?.opened) history.back();
  else history.replaceState(null, "", withDocument(location.hash, null));
}

async function show(hit) {
  open = hit;
  const body = find("document-body");
  find("document-title").textContent = titleOf(hit);
  if (!find("document").open) find("document").showModal();
  find("document-title").focus();
  find("document-passage").hidden = true;
  body.replaceChildren();
  showLoading(body, "Opening the document");
  try {
    const document_ = await read(hit);
    const shown = readable(document_.text, document_.payload);
    if (open !== hit) return;
    body.replaceChildren(metadata(hit, document_), text(shown, ...placeOf(hit, document_.text)));
    if (!hit.payload) showTitle(hit);
    find("document-passage").hidden = !body.querySelector("mark");
  } catch (error) {
    if (open === hit) showError(body, error, () => show(hit));
  } finally {
    if (open === hit) body.removeAttribute("aria-busy");
  }
}

async function read(hit) {
  const path = `/v1/collections/${encodeURIComponent(hit.collection)}/documents/get`;
  const wanted = [hit.id, hit.payload?.source].filter((id) => typeof id === "string" && id);
  const { documents } = await ask(path, { ids: [...new Set(wanted)] });
  if (!documents.length) throw new Error("This document is no longer in the collection.");
  return documents[0];
}

/** Show the title of a document that a link has opened. Only chunks have a title, so one chunk is searched for. */
async function showTitle(hit) {
  const wanted = { query: hit.id, filter: { id: hit.id }, limit: 1, mode: "dense", rerank: "none", passages: "words" };
  const { results } = await ask(`/v1/collections/${encodeURIComponent(hit.collection)}/search`, wanted).catch(() => ({ results: [] }));
  const [chunk] = results[0]?.hits ?? [];
  if (chunk && open === hit) find("document-title").textContent = titleOf(chunk);
}

function metadata(hit, { id, payload = {} }) {
  const entries = [["collection", hit.collection], ["id", id], ...Object.entries(payload)];
  const more = entries.length - SHOWN;
  const rest = more > 0 && make("details", { class: "more-metadata" }, make("summary", {}, `${more.toLocaleString("en")} more`), list(entries.slice(SHOWN)));
  return make("div", { class: "about" }, list(entries.slice(0, SHOWN), "metadata"), rest);
}

function list(entries, kind) {
  return make("dl", { class: kind }, entries.map(([name, value]) => [make("dt", {}, name), make("dd", {}, shown(value))]));
}

function shown(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text.length <= LONG) return text;
  return make("details", {}, make("summary", {}, `${shortened(text, 80)} (${text.length.toLocaleString("en")} characters)`), text);
}

/** Start and end of a hit's passage in its document. The hit's text is found first, because the passage may occur elsewhere too. */
export function placeOf({ passage, text }, whole) {
  if (!passage?.text) return [0, 0];
  const chunk = whole.indexOf(text);
  const before = Array.from(text).slice(0, passage.start).join("").length; // the server counts characters, not UTF-16 units
  const start = chunk < 0 ? whole.indexOf(passage.text) : chunk + before;
  return start < 0 ? [0, 0] : [start, start + passage.text.length];
}

function text(whole, start, end) {
  const parts = start === end ? [whole] : [whole.slice(0, start), make("mark", {}, whole.slice(start, end)), whole.slice(end)];
  return make("div", { class: "document-text", tabindex: "0", role: "region", "aria-label": "Text of the document" }, parts);
}
