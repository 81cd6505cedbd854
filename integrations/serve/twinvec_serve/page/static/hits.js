// Hits as a list: title, place, passage, scores.

import { openDocument, titleOf } from "./document.js";
import { make } from "./dom.js";
import { passageOf, shortened } from "./passage.js";
import { ranges, scoreBars } from "./scores.js";

export function hitList(hits) {
  const range = ranges(hits);
  const first = new Map([...hits].reverse().map((hit) => [textOf(hit), hit])); // the first hit with each passage
  return make("ol", { class: "results hits" }, hits.map((hit) => make("li", {}, article(hit, range, first.get(textOf(hit))))));
}

const textOf = ({ passage, text }) => (passage?.text ?? text).trim();

/** A hit; if an earlier hit, `first`, has the same passage, its name stands in place of the passage. */
function article(hit, range, first) {
  const open = () => openDocument(hit);
  return make(
    "article",
    { class: "hit" },
    make(
      "div",
      { class: "hit-text" },
      make("h2", {}, make("button", { type: "button", class: "title", onclick: open }, make("span", { class: "clamped" }, titleOf(hit)))),
      make("p", { class: "place" }, placeOf(hit).map((part, index) => [index > 0 && " · ", make("span", {}, shortened(part, 120))])),
      first === hit
        ? make("blockquote", { class: "passage" }, passageOf(hit))
        : make("p", { class: "place" }, `The same passage as in ${shortened(titleOf(first), 120)}`),
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
