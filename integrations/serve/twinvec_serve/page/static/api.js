// Requests to the server. Errors become messages, a missing key is asked for once, and Retry-After is obeyed.

import { askForKey, currentKey } from "./key.js";

const SILENT = "The server does not answer. It may have been stopped, or the connection is lost.";
const TRIES = 4;
const LONGEST_PAUSE = 15; // seconds
const TEXTS_A_CALL = 64;

/** An answer that is an error. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The request was stopped, such as by a newer one. */
export class Cancelled extends Error {}

/** The answer to a request, as JSON. */
export async function ask(path, body, { signal } = {}) {
  const response = await send(path, body === undefined ? { signal } : posted(body, signal));
  return contentOf(response);
}

/** The JSON of an answer. A proxy in front of the server may answer with a page of its own. */
async function contentOf(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw new Cancelled();
    throw new Refused(0, error instanceof SyntaxError ? "The answer does not come from this server, but perhaps from a proxy or a login page." : SILENT);
  }
}

function posted(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

/** The answer to a request; an answer with an error is thrown. A 401 asks for a key. A 429 or 503 with Retry-After waits and tries again. */
export async function send(path, options = {}) {
  for (let tried = 1; ; tried += 1) {
    const response = await reach(path, options);
    if (response.ok) return response;
    const error = await refusal(response);
    const pause = Number(response.headers.get("Retry-After"));
    if (response.status === 401 && (await askForKey())) continue;
    if (![429, 503].includes(response.status) || !(pause <= LONGEST_PAUSE) || tried === TRIES) throw error;
    await waiting(Math.max(pause, 0.2), options.signal);
  }
}

async function reach(path, options) {
  const key = currentKey();
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  try {
    return await fetch(`.${path}`, { ...options, headers }); // a proxy may serve the page below a path of its own
  } catch (error) {
    if (error.name === "AbortError") throw new Cancelled();
    throw new Refused(0, SILENT);
  }
}

async function refusal(response) {
  let message = `the server answered ${`${response.status} ${response.statusText}`.trim()}`;
  try {
    message = (await response.json()).error.message || message;
  } catch {
    // an answer of a proxy, which has another form
  }
  return new Refused(response.status, sentence(message));
}

/** A message of the server as a sentence. */
export function sentence(message) {
  return message.charAt(0).toUpperCase() + message.slice(1) + (/[.?!]$/.test(message) ? "" : ".");
}

function waiting(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new Cancelled());
    });
  });
}

/**
 * Vectors of texts, as unit vectors in Float32Arrays; `kind` is "query" or "document". `run.told` is called with
 * the number of texts done, and `run.truncated` counts the truncated texts.
 */
export async function embed(model, texts, kind, run) {
  const vectors = [];
  for (let start = 0; start < texts.length; start += TEXTS_A_CALL) {
    const input = texts.slice(start, start + TEXTS_A_CALL);
    if (start) run.told(start, texts.length);
    const body = { model: model || undefined, input, input_type: kind, encoding_format: "float" };
    const response = await send("/v1/embeddings", posted(body, run.signal));
    run.truncated += Number(response.headers.get("Twinvec-Truncated"));
    const answer = await contentOf(response);
    vectors.push(...answer.data.sort((a, b) => a.index - b.index).map((each) => Float32Array.from(each.embedding)));
  }
  return vectors;
}

/** Yield [event, data] of a response that is a stream of server-sent events. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    buffer = (buffer + value).replaceAll("\r\n", "\n");
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const event = read(block);
      if (event) yield event;
    }
  }
}

function read(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trim());
  }
  return data.length ? [name, JSON.parse(data.join("\n"))] : null;
}
