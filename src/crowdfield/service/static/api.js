// Talking to the service: requests with the key, and the stream of new versions.

import { keepHere, recallHere } from "./kept.js";

let key = recallHere("key") || "";

export function useKey(value) {
  key = value.trim();
  keepHere("key", key || null);
}

export function useNoKey() {
  key = "";
}

// The service prints an address that ends in #key=…; the key is read and immediately removed from the address bar.
export function keyFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!found) return;
  useKey(found);
  history.replaceState(null, "", location.pathname + location.search);
}

export const headers = () => (key ? { Authorization: `Bearer ${key}` } : {});
export const signedIn = () => Boolean(key);
// The public part of the key, which says whose it is.
export const keyName = () => key.split("_").slice(0, 2).join("_");

// A unique id; `crypto.randomUUID` is missing over plain http.
export const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export class Refused extends Error {
  constructor(status, problem, retry = null) {
    super(problem.detail || problem.title || String(status));
    this.status = status;
    this.problem = problem;
    this.retry = retry; // seconds after which to ask again, if the service says so
  }
}

export async function call(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  if (!response.ok) {
    const problem = await response.json().catch(() => ({ detail: response.statusText }));
    throw new Refused(response.status, problem, Number(response.headers.get("Retry-After")) || null);
  }
  return response;
}

// Answers of a service that has too much to do at the moment: the same question gets an answer a little later.
export const BUSY = [429, 503, 504];
const PATIENCE = 6; // how often a question is asked
const PAUSE = 2; // seconds between, unless the service says otherwise

export async function get(path) {
  for (let asked = 1; ; asked += 1) {
    try {
      return await (await call(path)).json();
    } catch (error) {
      if (!BUSY.includes(error.status) || asked === PATIENCE) throw error;
      await new Promise((resume) => setTimeout(resume, 1000 * (error.retry ?? PAUSE)));
    }
  }
}

export const post = async (path, body) =>
  (await call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

// Server-sent events over fetch, because the browser's own EventSource cannot send a key.
export function listen(path, { onEvent, onState }) {
  const stop = new AbortController();
  let last = "";
  let pause = 1000;
  (async () => {
    while (!stop.signal.aborted) {
      try {
        const response = await call(path, { signal: stop.signal, headers: last ? { "Last-Event-ID": last } : {} });
        let connected = false;
        for await (const event of frames(response.body)) {
          // Connected only after the first frame: the headers are sent before the service subscribes to events.
          if (!connected) onState(true);
          connected = true;
          pause = 1000;
          if (event.id) last = event.id;
          if (event.data) onEvent(event.kind, JSON.parse(event.data));
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof Refused && error.status < 500 && error.status !== 429) return onState(false, error);
      }
      if (stop.signal.aborted) return;
      onState(false);
      await new Promise((resume) => setTimeout(resume, pause));
      pause = Math.min(pause * 2, 15000);
    }
  })();
  return () => stop.abort();
}

async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { kind: "message", data: "", id: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        const name = line.slice(0, at);
        const text = line.slice(at + 2);
        if (name === "event") event.kind = text;
        else if (name === "data") event.data += text;
        else if (name === "id") event.id = text;
      }
      yield event;
    }
  }
}
