// A document in a sheet: its metadata and its text, with the passage that was found.

import { ask } from "./api.js";
import { find, make } from "./dom.js";
import { readable } from "./passage.js";
import { showError, showLoading } from "./states.js";

export function start() {
  find("document-passage").addEventListener("click", () => find("document-body").querySelector("mark").scrollIntoView({ block: "center" }));
}

/** Open the document of a hit. */
export async function openDocument(hit) {
  const body = find("document-body");
  find("document-title").textContent = hit.payload?.title || hit.id;
  if (!find("document").open) find("document").showModal();
  find("document-title").focus();
  find("document-passage").hidden = true;
  body.replaceChildren();
  showLoading(body, "Opening the document");
  try {
    const document_ = await read(hit);
    const shown = (part) => readable(part ?? "", document_.payload);
    body.replaceChildren(metadata(hit, document_), text(shown(document_.text), shown(hit.passage?.text)));
    find("document-passage").hidden = !body.querySelector("mark");
  } catch (error) {
    showError(body, error, () => openDocument(hit));
  } finally {
    body.removeAttribute("aria-busy");
  }
}

async function read(hit) {
  const path = `/v1/collections/${encodeURIComponent(hit.collection)}/documents/get`;
  const wanted = [hit.id, hit.payload?.source].filter((id) => typeof id === "string" && id);
  const { documents } = await ask(path, { ids: [...new Set(wanted)] });
  if (!documents.length) throw new Error("This document is no longer in the collection.");
  return documents[0];
}

function metadata(hit, { id, payload = {} }) {
  const entries = [["collection", hit.collection], ["id", id], ...Object.entries(payload)];
  return make("dl", { class: "metadata" }, entries.map(([name, value]) => [make("dt", {}, name), make("dd", {}, shown(value))]));
}

function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function text(whole, passage) {
  const start = passage ? whole.indexOf(passage) : -1;
  const parts = start < 0 ? [whole] : [whole.slice(0, start), make("mark", {}, passage), whole.slice(start + passage.length)];
  return make("div", { class: "document-text", tabindex: "0", role: "region", "aria-label": "Text of the document" }, parts);
}
