// Texts as they are shown: with marked words, shortened, and without the line breaks of Markdown.

import { make } from "./dom.js";

const BEGINNING = 320; // characters

/** The nodes of a text whose `matches` are marked: pairs of start and end in characters, as Python counts them. */
export function marked(text, matches = []) {
  const points = Array.from(text); // a character beyond the basic plane is two units of a JavaScript string
  const nodes = [];
  let at = 0;
  for (const [start, end] of matches) {
    if (start < at || end <= start) continue;
    nodes.push(points.slice(at, start).join(""), make("mark", {}, points.slice(start, end).join("")));
    at = end;
  }
  nodes.push(points.slice(at).join(""));
  return nodes.filter((node) => node !== "");
}

const LONG = 60; // characters: the break after a longer line has no meaning
const STARTS_ANEW = /^(\s{4}|\t|\s*$|\s*([-*+]\s|[>#|]|```|~~~|\d+[.)]\s))/;
const FENCE = /^\s*(```|~~~)/;

/** The text of a document as it is shown: in Markdown, a break after a long line becomes a space. Offsets stay the same. */
export function readable(text, payload) {
  return payload?.format === "markdown" ? flowed(text) : text;
}

function flowed(text) {
  let fenced = false;
  return text.split("\n").reduce((whole, line, index, lines) => {
    const before = lines[index - 1];
    if (FENCE.test(before)) fenced = !fenced;
    const soft = !fenced && before.length >= LONG && !/^[#|]/.test(before) && !STARTS_ANEW.test(line);
    return `${whole}${soft ? " " : "\n"}${line}`;
  });
}

/** A text, cut to this number of letters with "…" at the end if it is longer. */
export function shortened(text, letters) {
  const points = Array.from(text);
  return points.length <= letters ? text : `${points.slice(0, letters - 1).join("").trimEnd()}…`;
}

/** The text with blanks in place of all but one blank line in a row, so that offsets stay the same. */
function closed(text) {
  return text.replace(/(?<=\n[^\S\n]*\n)\s+/g, (blanks) => " ".repeat(blanks.length));
}

/** A hit's passage with the words of the query marked, or the beginning of its text. */
export function passageOf(hit) {
  const { passage, text, payload } = hit;
  if (passage) return marked(closed(readable(passage.text, payload)), passage.matches);
  return [closed(readable(shortened(text, BEGINNING), payload))];
}
