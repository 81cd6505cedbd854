// Conditions on metadata: keys that the collections index, compared with values. The address of a search names them.

import { ask } from "./api.js";
import { fillSelect, find, make } from "./dom.js";
import { served, whenChanged } from "./served.js";

const RELATIONS = [["=", "is"], ["!=", "is not"], [">=", "is at least"], ["<=", "is at most"]];
const OPERATORS = { "!=": "ne", ">=": "gte", "<=": "lte" };
const CONDITION = /^(.+?) (=|!=|>=|<=) (.*)$/s;
const LIMITS = [">=", "<="];
const UNORDERED = ["bool", "text", "geo", "uuid"]; // keywords are not among them: they may be dates
let kinds = new Map(); // key -> the kinds of its values in the collections
let asked = null; // the request for the keys

export function start() {
  find("filter-add").addEventListener("click", () => added().querySelector("select").focus());
  find("search-filters").addEventListener("toggle", showKeys);
  whenChanged(() => {
    asked = null;
    if (find("search-filters").open) showKeys();
  });
}

/** The conditions that are complete, as the address names them: "year >= 2020". */
export function conditions() {
  const rows = [...find("filter-conditions").children].map((row) => [...row.querySelectorAll("select, input")].map((field) => field.value.trim()));
  return rows.filter(([key, , value]) => key && value).map((each) => each.join(" "));
}

/** Show the conditions of an address. */
export function fillConditions(wanted) {
  if (wanted.join() === conditions().join()) return;
  find("filter-conditions").replaceChildren();
  for (const each of wanted) {
    const [, key, relation, value] = CONDITION.exec(each) ?? [];
    if (key) added(key, relation, value);
  }
  if (find("filter-conditions").children.length) find("search-filters").open = true;
}

/** The filter of a request, or null. */
export function filterOf(wanted) {
  if (!wanted.length) return null;
  return { and: wanted.map((each) => conditionOf(...CONDITION.exec(each).slice(1))) };
}

/** The filter for one condition. A collection may store a number or a boolean as text, so equality compares with each form. */
function conditionOf(key, relation, text) {
  const number = Number.isFinite(Number(text)) ? [Number(text)] : [];
  const truth = /^(true|false)$/i.test(text) ? [text.toLowerCase() === "true"] : [];
  const values = [text, ...number, ...truth];
  if (relation === "=") return { [key]: { in: values } };
  if (relation === "!=") return { and: values.map((value) => ({ [key]: { ne: value } })) };
  return { [key]: { [OPERATORS[relation]]: number[0] ?? text } };
}

/** Ask once which keys the collections index, and again when the collections change; return the first error. */
function known() {
  const names = served.collections.filter(({ error }) => !error).map(({ name }) => name);
  asked ??= Promise.all(names.map(infoOf)).then((all) => {
    kinds = new Map();
    for (const [key, kind] of all.flatMap((each) => Object.entries(each.payload_indexes ?? {}))) {
      kinds.set(key, [...(kinds.get(key) ?? []), kind]);
    }
    const failed = all.find(({ error }) => error);
    if (failed) asked = null;
    return failed?.error;
  });
  return asked;
}

async function infoOf(name) {
  try {
    return await ask(`/v1/collections/${encodeURIComponent(name)}`);
  } catch (error) {
    return { error };
  }
}

async function showKeys() {
  if (!find("search-filters").open) return;
  const error = await known();
  find("filter-hint").textContent = kinds.size ? "" : (error?.message ?? "The collections have no metadata.");
  find("filter-add").disabled = !kinds.size;
  for (const row of find("filter-conditions").children) {
    const [keys, relations] = row.querySelectorAll("select");
    fillKeys(keys, keys.value);
    fillRelations(relations, keys.value, relations.value);
  }
  if (!find("filter-conditions").children.length && kinds.size) added();
}

/** Offer the keys of the collections, and the key that the address names. */
function fillKeys(select, chosen) {
  const keys = [...kinds.keys()].sort();
  fillSelect(select, keys.includes(chosen) || !chosen ? keys : [chosen, ...keys]);
  if (chosen) select.value = chosen;
}

/** Offer the relations that the values of a key permit, and the relation that the address names. */
function fillRelations(select, key, chosen) {
  const limited = (kinds.get(key) ?? [""]).some((kind) => !UNORDERED.includes(kind));
  fillSelect(select, RELATIONS.filter(([each]) => limited || each === chosen || !LIMITS.includes(each)));
  if (chosen) select.value = chosen;
}

function added(key = "", relation = "=", value = "") {
  const keys = make("select", { class: "key", "aria-label": "Key" });
  fillKeys(keys, key);
  const relations = make("select", { "aria-label": "Relation" });
  fillRelations(relations, keys.value, relation);
  keys.addEventListener("change", () => fillRelations(relations, keys.value));
  const field = make("input", { "aria-label": "Value", value, autocomplete: "off" });
  const remove = make("button", { type: "button", class: "link" }, "Remove");
  const row = make("div", { class: "condition", role: "group", "aria-label": "Condition" }, keys, relations, field, remove);
  remove.addEventListener("click", () => {
    row.remove();
    find("filter-add").focus();
    find("search-form").dispatchEvent(new Event("change", { bubbles: true }));
  });
  find("filter-conditions").append(row);
  return row;
}
