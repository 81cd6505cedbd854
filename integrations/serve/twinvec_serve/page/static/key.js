// The API key: kept in this tab, asked for when the server wants one.

import { find } from "./dom.js";

const PLACE = "twinvec-key";
let asking = null;

export const currentKey = () => sessionStorage.getItem(PLACE) || "";

/** Ask for a key; true if there is one to try. A key that is there already is one that the server did not take. Requests that wait at the same time share one question. */
export function askForKey(unknown = Boolean(currentKey())) {
  asking ??= new Promise((resolve) => {
    const dialog = find("key");
    find("key-hint").textContent = `${unknown ? "The server does not take this key. " : ""}The key stays in this tab and is forgotten when the tab is closed.`;
    find("key-value").value = currentKey();
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(use(dialog.returnValue)), { once: true });
    find("key-cancel").onclick = () => dialog.close("");
    dialog.showModal();
  }).finally(() => {
    asking = null;
  });
  return asking;
}

function use(chosen) {
  const value = find("key-value").value.trim();
  find("key-value").value = "";
  if (chosen !== "use") return false;
  if (value) sessionStorage.setItem(PLACE, value);
  else sessionStorage.removeItem(PLACE);
  return Boolean(value);
}
