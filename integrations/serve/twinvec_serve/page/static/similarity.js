// Demonstration: how similar a text is to others.

import { embed } from "./api.js";
import { find, linesOf, make } from "./dom.js";
import { SIMILARITY } from "./examples.js";
import { cosineFigure, row } from "./scores.js";
import { announce, Mistake, onSubmit, showEmpty } from "./states.js";
import { cosine } from "./vectors.js";

export function start() {
  const form = find("similarity-form");
  form.elements.text.value = SIMILARITY.text;
  form.elements.others.value = SIMILARITY.others.join("\n");
  showEmpty(find("similarity-outcome"), "Compare the examples, or texts of your own");
  onSubmit(form, find("similarity-outcome"), "Comparing", compare);
}

async function compare(fields, run) {
  const text = fields.get("text").trim();
  const others = linesOf(fields.get("others"));
  if (!text || !others.length) throw new Mistake("Give a text, and at least one other.");
  const [first, ...rest] = await embed(fields.get("model"), [text, ...others], "document", run);
  const scored = others.map((other, index) => [other, cosine(first, rest[index])]).sort((a, b) => b[1] - a[1]);
  announce(`The nearest of ${others.length}: ${scored[0][0]}`);
  return [make("ol", { class: "results ranked bars" }, scored.map(([other, score]) => row(other, score, cosineFigure(score))))];
}
