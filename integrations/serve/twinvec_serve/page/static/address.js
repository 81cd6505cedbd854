// The hash of the page's address names the part that is shown, the settings of a search and the open document, so that a link
// shows the same again.

/** The part that a hash names; "" for none. */
export const partOf = (hash) => hash.slice(1).split("?")[0];

/** The settings in a hash, as URLSearchParams. */
export const settingsOf = (hash) => new URLSearchParams(hash.split("?").slice(1).join("?"));

/** The hash for a part and its settings (URLSearchParams, or their entries). Empty settings are left out. */
export function addressOf(part, settings) {
  const text = new URLSearchParams([...settings].filter(([, value]) => value)).toString();
  return `#${part}${text && `?${text}`}`;
}

/** The hash with the document of a hit in place of its own; without a hit, with no document. */
export function withDocument(hash, hit) {
  const rest = [...settingsOf(hash)].filter(([name]) => name !== "document" && name !== "collection");
  return addressOf(partOf(hash) || "search", hit ? [...rest, ["collection", hit.collection], ["document", hit.id]] : rest);
}

/** The document that a hash names, as a hit; null for none. */
export function documentOf(hash) {
  const settings = settingsOf(hash);
  const [collection, id] = [settings.get("collection"), settings.get("document")];
  return collection && id ? { collection, id } : null;
}
