// Elements made from data. A text becomes a text node; nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

/** An element with attributes, listeners (`onclick: f`) and children: nodes, texts, lists of them, or nothing. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element; the arguments are those of `make`. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace the options of a select: each is a text, or [value, text]. The choice stays if it is still among them. */
export function fillSelect(select, options) {
  const chosen = select.value;
  select.replaceChildren(
    ...options.map((each) => (Array.isArray(each) ? make("option", { value: each[0] }, each[1]) : make("option", {}, each))),
  );
  if ([...select.options].some((option) => option.value === chosen)) select.value = chosen;
}

/** The non-empty lines of a text field, without the blanks around them. */
export function linesOf(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** "1 hit", "3 hits". */
export function counted(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
