// Scores as bars. The number is next to each bar, so screen readers skip the bar.

import { make } from "./dom.js";

const NAMES = { dense: "meaning (dense)", sparse: "words (sparse)", fused: "both (fused)", feedback: "meaning, with feedback", maxsim: "token by token (maxsim)" };
const COSINES = new Set(["dense", "feedback", "maxsim"]);

/** Stage -> the scores at the two ends of its bars: 0 and 1 for cosines, else the lowest score (at most 0) and the highest. */
export function ranges(hits) {
  const found = new Map();
  for (const { scores } of hits) {
    for (const [stage, value] of Object.entries(scores)) {
      const [low, high] = found.get(stage) ?? [0, value];
      found.set(stage, COSINES.has(stage) ? [0, 1] : [Math.min(low, value), Math.max(high, value)]);
    }
  }
  return found;
}

/** The relevance of a hit and the score of each stage. */
export function scoreBars(hit, range) {
  const rows = Object.entries(hit.scores).map(([stage, value]) => {
    const [low, high] = range.get(stage);
    const share = high > low ? (value - low) / (high - low) : Number(high < 0); // if all hits have the same negative score, all bars are full
    return row(NAMES[stage] ?? stage, share, figure(value));
  });
  if (hit.relevance !== null && hit.relevance !== undefined) {
    rows.unshift(row("relevance", hit.relevance, percent(hit.relevance), "lead-row"));
  }
  return make("ul", { class: "bars", "aria-label": "Scores" }, rows);
}

/** A score with two decimals, or four if it is below 0.01; only zero is shown as 0.00. */
export function figure(value) {
  if (value && Math.abs(value) < 0.0001) return value > 0 ? "<0.0001" : ">-0.0001";
  return value.toFixed(value && Math.abs(value) < 0.01 ? 4 : 2);
}

/** A cosine with three decimals; if it rounds to zero, it has no sign. */
export function cosineFigure(value) {
  return (Math.round(1000 * value) / 1000 || 0).toFixed(3);
}

/** One bar: its name, the share that is filled (0 to 1), and the text next to it. */
export function row(name, share, shown, kind = "") {
  return make("li", { class: kind }, make("span", { class: "bar-name clamped" }, name), bar(share), make("span", { class: "bar-value" }, shown));
}

export function bar(share) {
  const filled = make("i");
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, filled);
}

/** A share in whole percent; only 1 is shown as 100%, and only 0 as 0%. */
export function percent(share) {
  if (share > 0 && share < 0.01) return "<1%";
  return `${share < 1 ? Math.min(99, Math.round(100 * share)) : 100}%`;
}
