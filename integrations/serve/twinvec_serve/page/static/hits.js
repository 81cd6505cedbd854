// Hits as a list: title, place, passage, scores.

import { openDocument, titleOf } from "./document.js";
import { make } from "./dom.js";
import { passageOf, shortened } from "./passage.js";
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
      make("h2", {}, make("button", { type: "button", class: "title", onclick: open }, make("span", { class: "clamped" }, titleOf(hit)))),
      make("p", { class: "place" }, placeOf(hit).map((part, index) => [index > 0 && " · ", make("span", {}, shortened(part, 120))])),
      make("blockquote", { class: "passage" }, passageOf(hit)),
    ),
    scoreBars(hit, range),
  );
}

/** The known parts of a hit's place: collection, id, headings, page. */
function placeOf(hit) {
  const { payload } = hit;
  const place = [hit.collection];
  if (titleOf(hit) !== hit.id) place.push(hit.id);
  if (typeof payload.heading === "string") place.push(payload.heading.replaceAll(" > ", " › "));
  if (Number.isInteger(hit.page)) place.push(`page ${hit.page}`);
  place.push(hit.described);
  return place.filter((part) => typeof part === "string" && part.trim() && part !== titleOf(hit));
}
