// Demonstration: sentences as a map, in clusters of similar ones, and the nearest to a query.

import { embed } from "./api.js";
import { counted, draw, find, linesOf, make } from "./dom.js";
import { MAP } from "./examples.js";
import { plot, sign } from "./plot.js";
import { cosineFigure, row } from "./scores.js";
import { announce, Mistake, onSubmit, showEmpty } from "./states.js";
import { clustersOf, cosine, kmeans, principal } from "./vectors.js";

const MOST = 1000;
const NEAREST = 5;
const NUMBERS = [2, 3, 4, 5, 6, 7, 8];

export function start() {
  const form = find("map-form");
  form.elements.sentences.value = MAP.sentences.join("\n");
  form.elements.query.value = MAP.query;
  find("map-clusters").append(make("option", { value: "" }, "auto"), ...NUMBERS.map((each) => make("option", {}, String(each))));
  showEmpty(find("map-outcome"), "Draw the examples, or sentences of your own");
  onSubmit(form, find("map-outcome"), "Drawing the map", drawn);
}

/** Show the panel with a map of these texts of hits. */
export function showOnMap(texts) {
  const form = find("map-form");
  form.elements.sentences.value = texts.join("\n");
  form.elements.query.value = find("search-query").value.replace(/"|(^|\s)-\S+/g, "").trim();
  location.hash = "#map";
  form.requestSubmit();
}

async function drawn(fields, run) {
  const sentences = [...new Set(linesOf(fields.get("sentences")))];
  if (sentences.length < 3) throw new Mistake("A map needs at least three different sentences.");
  if (sentences.length > MOST) throw new Mistake(`A map takes at most ${counted(MOST, "sentence")}; these are ${sentences.length.toLocaleString("en")}.`);
  const model = fields.get("model");
  const query = fields.get("query").trim();
  const vectors = await embed(model, sentences, "document", run);
  const [asked] = query ? await embed(model, [query], "query", run) : [];
  const wanted = Number(fields.get("clusters"));
  const { labels, centres } = wanted ? kmeans(vectors, Math.min(wanted, sentences.length)) : clustersOf(vectors);
  const placed = principal(vectors);
  const points = sentences.map((text, index) => ({ text, cluster: labels[index], vector: vectors[index], place: placed(vectors[index]) }));
  const clusters = centres.map((centre, cluster) => membersOf(points, centre, cluster));
  announce(`${counted(sentences.length, "sentence")} in ${counted(clusters.length, "cluster")}`);
  return shown(points, clusters, asked && { query, vector: asked, place: placed(asked) });
}

/** The rows of a cluster's points, the one nearest to its centre first. */
function membersOf(points, centre, cluster) {
  const rows = points.map((_, index) => index).filter((index) => points[index].cluster === cluster);
  return rows.sort((a, b) => cosine(points[b].vector, centre) - cosine(points[a].vector, centre));
}

function shown(points, clusters, asked) {
  const buttons = points.map(({ text }, index) =>
    make("button", { type: "button", class: "sentence", tabindex: "-1", onfocus: () => light(index), onpointerenter: () => light(index) }, make("span", { class: "clamped" }, text)),
  );
  const names = clusters.map((rows) => points[rows[0]].text);
  const { drawing, light: lightPoint } = plot(points, names, asked?.place, (index) => light(index, true));
  const light = (index, fromMap = false) => {
    lightPoint(index);
    buttons.forEach((button, other) => button.classList.toggle("lit", other === index));
    if (fromMap && index >= 0) buttons[index].scrollIntoView({ block: "nearest" });
  };
  const list = make("div", { class: "clusters", "aria-label": "Clusters", role: "group" }, clusters.map((rows, cluster) => section(rows, cluster, buttons)));
  moveByArrows(list);
  drawing.addEventListener("pointerleave", () => light(-1));
  list.addEventListener("pointerleave", () => light(-1));
  const nearest = asked ? [nearestList(points, asked)] : [];
  const hint = make("p", { class: "summary" }, "Point at a sign or at a sentence to see which belong together. The arrow keys move through the list.");
  return [hint, make("div", { class: "results map-and-list" }, make("div", { class: "map-frame" }, drawing, ...nearest), list)];
}

function section(rows, cluster, buttons) {
  const mark = draw("svg", { viewBox: "-9 -9 18 18", class: "legend", "aria-hidden": "true" }, sign(cluster));
  const title = make("h2", {}, mark, `Cluster ${cluster + 1}`, make("small", {}, String(rows.length)));
  return make("section", {}, title, make("ul", {}, rows.map((index) => make("li", {}, buttons[index]))));
}

/** The Tab key stops once for the whole list; the arrow keys, Home and End move within it. */
function moveByArrows(list) {
  const all = [...list.querySelectorAll("button")];
  all[0].tabIndex = 0;
  list.addEventListener("keydown", (event) => {
    const at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined || !all[next]) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    all[next].tabIndex = 0;
    all[next].focus();
  });
}

function nearestList(points, { query, vector }) {
  const scored = points.map(({ text, vector: other }) => [text, cosine(vector, other)]).sort((a, b) => b[1] - a[1]).slice(0, NEAREST);
  const title = make("h2", {}, make("span", { class: "asked-sign", "aria-hidden": "true" }), `Nearest to “${query}”`);
  return make("section", { class: "nearest" }, title, make("ol", { class: "ranked bars" }, scored.map(([text, score]) => row(text, score, cosineFigure(score)))));
}
