// What a panel shows when it has nothing, while it waits, and when something failed.

import { Cancelled } from "./api.js";
import { find, make } from "./dom.js";

/** Say something to people who do not see the page. */
export function announce(text) {
  find("announce").textContent = text;
}

export function showEmpty(outcome, title, ...more) {
  outcome.replaceChildren(make("div", { class: "empty" }, make("p", { class: "empty-title" }, title), ...more));
}

/** Grey lines in the place of what comes; older results stay, dimmed, so that the page does not jump. */
export function showLoading(outcome, text) {
  outcome.setAttribute("aria-busy", "true");
  announce(text);
  if (outcome.querySelector(".results")) return;
  const lines = [1, 2, 3].map(() => make("div", { class: "ghost" }, make("i"), make("i"), make("i")));
  outcome.replaceChildren(make("p", { class: "hidden" }, text), ...lines);
}

export function showError(outcome, error, again) {
  const retry = again && make("button", { type: "button", class: "quiet", onclick: again }, "Try again");
  outcome.replaceChildren(make("div", { class: "failed", role: "alert" }, make("p", {}, error.message), retry));
}

/**
 * Let a form do `work(fields, signal)`, which returns nodes; a new submission stops the one before.
 * The outcome shows that it waits, the nodes, or the error with a way to try again.
 */
export function onSubmit(form, outcome, waiting, work) {
  let running = null;
  const run = async () => {
    running?.abort();
    const mine = (running = new AbortController());
    outcome.dataset.used = "";
    showLoading(outcome, waiting);
    try {
      const nodes = await work(new FormData(form), mine.signal);
      if (running === mine) outcome.replaceChildren(...nodes);
    } catch (error) {
      if (running === mine && !(error instanceof Cancelled)) showError(outcome, error, run);
    } finally {
      if (running === mine) outcome.removeAttribute("aria-busy");
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  return run;
}

/** Whether something was asked for whose outcome stands there. */
export const isUsed = (outcome) => "used" in outcome.dataset;

/** A mistake of the person in front of the page, in words for that person. */
export class Mistake extends Error {}
