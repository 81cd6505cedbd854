// A map of points as a drawing. The list next to the map says the same in words.

import { draw } from "./dom.js";
import { shortened } from "./passage.js";

const WIDTH = 640;
const MARGIN = 36;
const [LOWEST, HIGHEST] = [320, 560];
const SIZE = 6;
const LINE = 19; // between two labels
const LETTERS = 28;
const NAME = 11; // largest width of a letter in the name of a cluster
const TIP = 9; // width of a letter in the text of the lit point, in pixels
const SHAPES = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0,${-1.25 * r}L${1.2 * r},${0.9 * r}H${-1.2 * r}z`,
  (r) => `M0,${-1.3 * r}L${1.3 * r},0L0,${1.3 * r}L${-1.3 * r},0z`,
];

/** The sign of a cluster, for the map and for the list. */
export function sign(cluster, size = SIZE) {
  return draw("path", { d: SHAPES[cluster % SHAPES.length](size), class: `sign c${cluster % 8}` });
}

/**
 * Draw `points` ({place, cluster, text}), the name of each cluster, and the query's place if there is one.
 * Returns the drawing and `light(row)`, which shows one point with its text; `onPoint(row)` is called when the pointer is on a point.
 */
export function plot(points, names, query, onPoint) {
  const scale = scaleOf([...points.map(({ place }) => place), ...(query ? [query] : [])]);
  const signs = points.map(({ place, cluster }, row) => {
    const [x, y] = scale.to(place);
    return draw("g", { class: "point", transform: `translate(${x} ${y})`, onpointerenter: () => onPoint(row) }, sign(cluster));
  });
  const tip = draw("text", { class: "tip" });
  const label = `Map of ${points.length} sentences in ${names.length} clusters. The list of clusters says the same.`;
  const drawing = draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${scale.height}`, role: "img", "aria-label": label, class: "map" },
    clusterNames(points, names, scale), // drawn first, so that names do not cover signs
    signs,
    query && asked(scale.to(query)),
    tip,
  );
  const light = (row) => {
    signs.forEach((each, index) => each.classList.toggle("lit", index === row));
    drawing.classList.toggle("lighting", row >= 0);
    const unit = WIDTH / (drawing.getBoundingClientRect().width || WIDTH); // units of the drawing per pixel
    tip.textContent = row >= 0 ? shortened(points[row].text, Math.min(60, Math.floor(WIDTH / unit / TIP))) : "";
    if (row >= 0) put(tip, scale.to(points[row].place), unit * TIP);
  };
  return { drawing, light };
}

function scaleOf(places) {
  const [left, right, bottom, top] = [0, 1].flatMap((axis) => {
    const values = places.map((place) => place[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const across = WIDTH - 2 * MARGIN;
  const wanted = (across * (top - bottom)) / (right - left || 1);
  const up = Math.min(HIGHEST, Math.max(LOWEST, wanted + 2 * MARGIN)) - 2 * MARGIN;
  const factor = Math.min(across / (right - left || 1), up / (top - bottom || 1)); // one for both axes: distances stay true
  const [middleX, middleY] = [(left + right) / 2, (bottom + top) / 2];
  const height = up + 2 * MARGIN;
  return { height, to: ([x, y]) => [WIDTH / 2 + factor * (x - middleX), height / 2 - factor * (y - middleY)].map(Math.round) };
}

/** The clusters' names below their points; a name that would cover another moves down. */
function clusterNames(points, names, scale) {
  const taken = [];
  return names.map((name, cluster) => {
    const places = points.filter((point) => point.cluster === cluster).map((point) => scale.to(point.place));
    const x = places.reduce((sum, place) => sum + place[0], 0) / places.length;
    let y = Math.max(...places.map((place) => place[1])) + SIZE + 16;
    while (taken.some((other) => Math.abs(other[1] - y) < LINE && Math.abs(other[0] - x) < 7 * LETTERS)) y += LINE;
    y = Math.min(y, scale.height - 6);
    taken.push([x, y]);
    const text = draw("text", { class: "cluster-name" }, shortened(name, LETTERS));
    put(text, [x, y - 20], NAME);
    return text;
  });
}

/** Put a text below a place; near an edge of the drawing, the text begins or ends at the edge. */
function put(text, [x, y], letter) {
  const half = (letter * text.textContent.length) / 2;
  const anchor = x < half + 8 ? "start" : x > WIDTH - half - 8 ? "end" : "middle";
  text.setAttribute("text-anchor", anchor);
  text.setAttribute("x", { start: 8, middle: x, end: WIDTH - 8 }[anchor]);
  text.setAttribute("y", y + 20);
}

function asked([x, y]) {
  return draw("g", { class: "asked", transform: `translate(${x} ${y})` }, draw("circle", { r: 11 }), draw("circle", { r: 3, class: "dot" }));
}
