// The API key: kept in this tab, asked for when the server needs one.

import { find } from "./dom.js";

const PLACE = "twinvec-key";
let asking = null;

export const currentKey = () => sessionStorage.getItem(PLACE) || "";

/** Ask for a key in a dialog, which requests at the same time share; true if the person gave a key. `unknown` says that the server has refused the present key. */
export function askForKey(unknown = Boolean(currentKey())) {
  asking ??= new Promise((resolve) => {
    const dialog = find("key");
    find("key-hint").textContent = `${unknown ? "The server refuses this key. " : ""}The key stays in this tab and is forgotten when the tab is closed.`;
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
