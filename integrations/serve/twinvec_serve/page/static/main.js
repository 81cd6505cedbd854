// Starts the page: shows the panel that the address names, and loads the names of models and collections.

import { documentOf, partOf } from "./address.js";
import * as add from "./add.js";
import * as answers from "./answers.js";
import * as bias from "./bias.js";
import * as document_ from "./document.js";
import { find } from "./dom.js";
import { askForKey } from "./key.js";
import * as map from "./map.js";
import * as search from "./search.js";
import { load } from "./served.js";
import * as similarity from "./similarity.js";
import { announce, isUsed, showError, showLoading } from "./states.js";

const PANELS = ["search", "add", "similarity", "answers", "map", "bias"];
const ASKING = "Asking the server what it has";
let shown = null;

/** Show the panel that the address names. If another panel was shown before, the focus goes to the new title. */
function show() {
  const wanted = PANELS.includes(partOf(location.hash)) ? partOf(location.hash) : PANELS[0];
  if (wanted === shown) return;
  for (const name of PANELS) find(`panel-${name}`).hidden = name !== wanted;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = find(`title-${wanted}`);
  document.title = `${title.textContent} · twinvec`;
  if (shown) {
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
  }
  shown = wanted;
}

/** Show the search and the document that the address names. */
function follow() {
  if (shown === "search") search.follow();
  document_.follow(documentOf(location.hash));
}

/** Load the names of models and collections. Before the first search, the panel of the search shows the progress or the error. */
async function begin() {
  const outcome = find("search-outcome");
  if (!isUsed(outcome)) showLoading(outcome, ASKING);
  try {
    await load();
    follow();
  } catch (error) {
    if (!isUsed(outcome)) showError(outcome, error, begin);
  } finally {
    if (!isUsed(outcome)) {
      outcome.removeAttribute("aria-busy");
      if (find("announce").textContent === ASKING) announce(outcome.querySelector(".empty-title")?.textContent ?? "");
    }
  }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  find("main").focus();
});
find("key-open").addEventListener("click", async () => (await askForKey(false)) && begin());
for (const part of [search, document_, add, similarity, answers, map, bias]) part.start();
addEventListener("hashchange", () => {
  show();
  follow();
});
show();
begin();
