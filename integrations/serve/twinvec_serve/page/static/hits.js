// Hits as a list: title, place, passage, scores.

import { openDocument } from "./document.js";
import { make } from "./dom.js";
import { passageOf } from "./passage.js";
import { ranges, scoreBars } from "./scores.js";

export function hitList(hits) {
  const range = ranges(hits);
  return make("ol", { class: "results hits" }, hits.map((hit) => make("li", {}, article(hit, range))));
}

function article(hit, range) {
  const open = () => openDocument(hit);
  return make(
    "article",
    { class: "hit" },
    make(
      "div",
      { class: "hit-text" },
      make("h2", {}, make("button", { type: "button", class: "title", onclick: open }, titleOf(hit))),
      make("p", { class: "place" }, placeOf(hit).join(" · ")),
      make("blockquote", { class: "passage" }, passageOf(hit)),
    ),
    scoreBars(hit, range),
  );
}

export function titleOf(hit) {
  const title = hit.payload?.title;
  return typeof title === "string" && title.trim() ? title : hit.id;
}

/** What is known of where a hit stands: collection, id, headings, page. */
function placeOf(hit) {
  const { payload } = hit;
  const place = [hit.collection];
  if (titleOf(hit) !== hit.id) place.push(hit.id);
  if (typeof payload.heading === "string") place.push(payload.heading.replaceAll(" > ", " › "));
  if (Number.isInteger(payload.page)) place.push(`page ${payload.page}`);
  place.push(hit.described);
  return place.filter((part) => typeof part === "string" && part && part !== titleOf(hit));
}
