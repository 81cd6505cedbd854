// The names of the server's models and rerankers, and its collections. Listeners are called when the collections change.

import { ask } from "./api.js";
import { fillSelect, find } from "./dom.js";

const listeners = [];
export const served = { models: [], rerankers: [], collections: [] };

export function whenChanged(listener) {
  listeners.push(listener);
}

let loading = null;

/** Load models, then collections, so that only one request asks for a missing key; `loaded` waits for both. */
export function load() {
  loading = loadModels().then(loadCollections);
  return loading;
}

export const loaded = () => loading;

async function loadModels() {
  const { data } = await ask("/v1/models");
  served.models = data.filter((each) => each.type !== "reranking").map((each) => each.id);
  served.rerankers = data.filter((each) => each.type === "reranking").map((each) => each.id);
  for (const select of document.querySelectorAll("select.models")) fillSelect(select, served.models);
  const rerankers = served.rerankers.map((name) => [name, name === "maxsim" ? "token by token" : name]);
  fillSelect(find("search-rerank"), [["", "auto"], ["none", "no"], ...rerankers]); // auto: as the collection is tuned
  fillSelect(find("answers-rerank"), [["", "no"], ...rerankers]);
}

export async function loadCollections() {
  served.collections = (await ask("/v1/collections")).data;
  for (const listener of listeners) listener(served.collections);
}
