// What a panel shows when it has nothing, while it waits, and when something failed.

import { Cancelled } from "./api.js";
import { counted, find, make } from "./dom.js";

/** Say something to people who do not see the page. */
export function announce(text) {
  find("announce").textContent = text;
}

export function showEmpty(outcome, title, ...more) {
  outcome.replaceChildren(make("div", { class: "empty" }, make("p", { class: "empty-title" }, title), ...more));
}

/** Show grey lines until results come. Older results stay, dimmed, so that the page does not jump. */
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
 * Let a form do `work(fields, run)`, which returns nodes; a new submission stops the one before.
 * The outcome shows the text `waiting`, then the nodes, or the error with a button to try again; a Mistake has no button.
 * A run has `signal`, by which it is stopped, `told(done, total)`, which shows its progress, and `truncated`, the number of truncated texts.
 */
export function onSubmit(form, outcome, waiting, work) {
  let running = null;
  let stop = null;
  const submit = async () => {
    stop?.abort();
    stop = new AbortController();
    const told = (done, total) => run === running && showProgress(outcome, `${waiting}: ${done.toLocaleString("en")} of ${counted(total, "text")}`);
    const run = (running = { signal: stop.signal, told, truncated: 0 });
    outcome.dataset.used = "";
    showLoading(outcome, waiting);
    try {
      const nodes = await work(new FormData(form), run);
      if (running === run) outcome.replaceChildren(...truncation(run.truncated), ...nodes);
    } catch (error) {
      if (running === run && !(error instanceof Cancelled)) showError(outcome, error, error instanceof Mistake ? null : submit);
    } finally {
      if (running === run) outcome.removeAttribute("aria-busy");
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return submit;
}

/** Whether the form of this outcome was submitted. */
export const isUsed = (outcome) => "used" in outcome.dataset;

function showProgress(outcome, text) {
  const line = outcome.querySelector(".told") ?? make("p", { class: "summary told" });
  line.textContent = text;
  if (!line.isConnected) outcome.prepend(line);
}

function truncation(count) {
  return count ? [make("p", { class: "warning" }, `${counted(count, "text is", "texts are")} longer than the model reads; the rest is ignored.`)] : [];
}

/** A mistake of the person in front of the page; its message says what to do. */
export class Mistake extends Error {}
