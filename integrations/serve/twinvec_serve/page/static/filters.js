// Conditions on metadata: keys that the collections index, compared with values. The address of a search names them.

import { ask } from "./api.js";
import { fillSelect, find, make } from "./dom.js";
import { served, whenChanged } from "./served.js";

const RELATIONS = [["=", "is"], ["!=", "is not"], [">=", "is at least"], ["<=", "is at most"]];
const OPERATORS = { "!=": "ne", ">=": "gte", "<=": "lte" };
const CONDITION = /^(.+?) (=|!=|>=|<=) (.*)$/s;
let kinds = {}; // key -> the kind of its values
let asked = null; // of what the server has

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

/** The filter of a request, or null; a number or a date is compared as such if the collections hold such values. */
export async function filterOf(wanted) {
  if (!wanted.length) return null;
  await known();
  return {
    and: wanted.map((each) => {
      const [, key, relation, text] = CONDITION.exec(each);
      const value = valueOf(text, kinds[key]);
      return { [key]: relation === "=" ? value : { [OPERATORS[relation]]: value } };
    }),
  };
}

function valueOf(text, kind) {
  if (kind === "float" && !Number.isNaN(Number(text))) return Number(text);
  if (kind === "bool" && /^(true|false)$/i.test(text)) return text.toLowerCase() === "true";
  return text;
}

/** Ask which keys the collections index, once for what the server has. */
function known() {
  const names = served.collections.filter(({ error }) => !error).map(({ name }) => name);
  asked ??= Promise.all(names.map(infoOf)).then((all) => {
    kinds = Object.assign({}, ...all.map((each) => each.payload_indexes ?? {}));
  });
  asked.catch(() => (asked = null));
  return asked;
}

async function infoOf(name) {
  try {
    return await ask(`/v1/collections/${encodeURIComponent(name)}`);
  } catch (error) {
    if (error.status === 404) return {}; // it was dropped meanwhile
    throw error;
  }
}

async function showKeys() {
  if (!find("search-filters").open) return;
  const hint = find("filter-hint");
  try {
    await known();
    hint.textContent = Object.keys(kinds).length ? "" : "The collections have no metadata.";
  } catch (error) {
    hint.textContent = error.message;
  }
  find("filter-add").disabled = !Object.keys(kinds).length;
  for (const select of document.querySelectorAll("#filter-conditions .key")) fillKeys(select, select.value);
  if (!find("filter-conditions").children.length && Object.keys(kinds).length) added();
}

/** Offer the keys, and the one that an address names, which no collection may have. */
function fillKeys(select, chosen) {
  const keys = Object.keys(kinds).sort();
  fillSelect(select, keys.includes(chosen) || !chosen ? keys : [chosen, ...keys]);
  if (chosen) select.value = chosen;
}

function added(key = "", relation = "=", value = "") {
  const keys = make("select", { class: "key", "aria-label": "Key" });
  fillKeys(keys, key);
  const relations = make("select", { "aria-label": "Relation" });
  fillSelect(relations, RELATIONS);
  relations.value = relation;
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
