// The hash of the page's address: the part that is shown, the settings of a search, the open document. A link shows the same again.

/** The part that an address names, "" for none. */
export const partOf = (hash) => hash.slice(1).split("?")[0];

/** The settings in an address. */
export const settingsOf = (hash) => new URLSearchParams(hash.split("?").slice(1).join("?"));

/** The address of a part with settings: URLSearchParams, or their entries; empty ones are left out. */
export function addressOf(part, settings) {
  const text = new URLSearchParams([...settings].filter(([, value]) => value)).toString();
  return `#${part}${text && `?${text}`}`;
}

/** The present address with the document of a hit; without a hit, with no document. */
export function withDocument(hash, hit) {
  const rest = [...settingsOf(hash)].filter(([name]) => name !== "document" && name !== "collection");
  return addressOf(partOf(hash) || "search", hit ? [...rest, ["collection", hit.collection], ["document", hit.id]] : rest);
}

/** The document that an address names, as a hit, or null. */
export function documentOf(hash) {
  const settings = settingsOf(hash);
  const [collection, id] = [settings.get("collection"), settings.get("document")];
  return collection && id ? { collection, id } : null;
}
