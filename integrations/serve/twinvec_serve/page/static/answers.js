// Demonstration: questions and answers. The question is encoded as a query, the passages as documents.

import { ask, embed } from "./api.js";
import { find, make } from "./dom.js";
import { ANSWERS } from "./examples.js";
import { cosineFigure, percent, row } from "./scores.js";
import { announce, Mistake, onSubmit, showEmpty } from "./states.js";
import { cosine } from "./vectors.js";

const SAME = 0.99999;

export function start() {
  const form = find("answers-form");
  form.elements.question.value = ANSWERS.question;
  form.elements.passages.value = ANSWERS.passages.join("\n\n");
  showEmpty(find("answers-outcome"), "Ask the example, or a question of your own");
  onSubmit(form, find("answers-outcome"), "Looking for the answer", answer);
}

async function answer(fields, run) {
  const question = fields.get("question").trim();
  const passages = fields.get("passages").split(/\n\s*\n/).map((each) => each.trim()).filter(Boolean);
  if (!question || !passages.length) throw new Mistake("Give a question, and at least one passage.");
  const model = fields.get("model");
  const [[asked], [stated], vectors] = await Promise.all([
    embed(model, [question], "query", run),
    embed(model, [question], "document", { ...run }), // the call above counts its truncation
    embed(model, passages, "document", run),
  ]);
  const rerank = fields.get("rerank");
  const reranked = rerank && (await scoresOf(rerank, question, passages, run.signal));
  const found = passages.map((text, index) => ({ text, cosine: cosine(asked, vectors[index]), reranked: reranked?.[index] }));
  found.sort((a, b) => (rerank ? b.reranked - a.reranked : b.cosine - a.cosine));
  announce(`The best of ${passages.length}: ${found[0].text}`);
  return [make("p", { class: "summary" }, encodingOf(cosine(asked, stated))), results(found, rerank)];
}

async function scoresOf(model, query, documents, signal) {
  const { results } = await ask("/v1/rerank", { model, query, documents, top_n: documents.length }, { signal });
  const scores = [];
  for (const { index, relevance_score } of results) scores[index] = relevance_score;
  return scores;
}

function encodingOf(same) {
  if (same > SAME) return "This model encodes a question and a document in the same way.";
  return `As a query, this question has another vector than as a document: their cosine is ${cosineFigure(same)}.`;
}

function results(found, rerank) {
  if (!rerank) return make("ol", { class: "results ranked bars" }, found.map(({ text, cosine: score }) => row(text, score, cosineFigure(score))));
  return make("ol", { class: "results hits" }, found.map((each) => item(each, rerank)));
}

function item({ text, cosine: score, reranked }, rerank) {
  const rows = [row(`relevance (${rerank})`, reranked, percent(reranked), "lead-row"), row("cosine", score, cosineFigure(score))];
  return make("li", {}, make("article", { class: "hit" }, make("blockquote", { class: "passage" }, text), make("ul", { class: "bars", "aria-label": "Scores" }, rows)));
}
