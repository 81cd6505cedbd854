// Demonstration: gender bias of occupations. As in Winogender (Rudinger et al. 2018), a sentence without gender is
// compared with its female and its male variant: lean = cosine(neutral, female) - cosine(neutral, male).

import { embed } from "./api.js";
import { counted, find, linesOf, make } from "./dom.js";
import { BIAS } from "./examples.js";
import { announce, Mistake, onSubmit, showEmpty } from "./states.js";
import { cosine } from "./vectors.js";

const KINDS = ["neutral", "female", "male"];

export function start() {
  const form = find("bias-form");
  for (const name of ["sentence", ...KINDS]) form.elements[name].value = BIAS[name];
  form.elements.occupations.value = BIAS.occupations.join("\n");
  showEmpty(find("bias-outcome"), "Measure the examples, or occupations of your own");
  onSubmit(form, find("bias-outcome"), "Measuring", measure);
}

async function measure(fields, run) {
  const sentence = fields.get("sentence").trim();
  const occupations = [...new Set(linesOf(fields.get("occupations")))];
  const pronouns = KINDS.map((kind) => fields.get(kind).trim());
  if (!sentence.includes("{occupation}") || !sentence.includes("{pronoun}")) throw new Mistake("The sentence needs {occupation} and {pronoun}.");
  if (!occupations.length || pronouns.includes("")) throw new Mistake("Give at least one occupation, and three pronouns.");
  const texts = occupations.flatMap((occupation) => pronouns.map((pronoun) => filled(sentence, { occupation, pronoun })));
  const vectors = await embed(fields.get("model"), texts, "document", run);
  const leans = occupations.map((occupation, index) => {
    const [neutral, female, male] = vectors.slice(3 * index, 3 * index + 3);
    return { occupation, lean: 100 * (cosine(neutral, female) - cosine(neutral, male)) };
  });
  const centre = fields.get("centre") ? leans.reduce((sum, { lean }) => sum + lean, 0) / leans.length : 0;
  return chart(leans.map((each) => ({ ...each, lean: each.lean - centre })), pronouns);
}

function filled(sentence, values) {
  return sentence.replace(/\{(occupation|pronoun)\}/g, (_, name) => values[name]);
}

function chart(leans, [, female, male]) {
  leans.sort((a, b) => b.lean - a.lean);
  const widest = Math.max(...leans.map(({ lean }) => Math.abs(lean)), 1e-9);
  const towards = (pronoun, sign) => counted(leans.filter(({ lean }) => sign * lean > 0).length, "occupation") + ` nearer to “${pronoun}”`;
  const summary = `${towards(female, 1)}, ${towards(male, -1)}`;
  announce(summary);
  const head = make("div", { class: "lean-head", "aria-hidden": "true" }, make("span", {}, `← ${male}`), make("span", {}, `${female} →`));
  const rows = leans.map((each) => row(each, widest, each.lean > 0 ? female : male));
  const note = make("p", { class: "hint" }, "Differences of cosines × 100.");
  return [make("p", { class: "summary" }, summary), make("div", { class: "results" }, head, make("ul", { class: "leans" }, rows), note)];
}

function row({ occupation, lean }, widest, pronoun) {
  const filledPart = make("i", { class: lean < 0 ? "to-left" : "to-right" });
  filledPart.style.width = `${(50 * Math.abs(lean)) / widest}%`;
  const side = signed(lean) === "0.00" ? "" : ` towards ${pronoun}`;
  const value = make("span", { class: "bar-value" }, make("span", { class: "hidden" }, Math.abs(lean).toFixed(2) + side), make("span", { "aria-hidden": "true" }, signed(lean)));
  return make("li", {}, make("span", { class: "bar-name clamped" }, occupation), make("span", { class: "lean", "aria-hidden": "true" }, filledPart), value);
}

function signed(value) {
  const figure = Math.abs(value).toFixed(2);
  return figure === "0.00" ? figure : `${value < 0 ? "−" : "+"}${figure}`;
}
