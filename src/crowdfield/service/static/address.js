// Writes what is shown into the address, so that a copied address shows the same to somebody else. It never contains the key.

import { language } from "./text.js";

const PAUSE = 300; // milliseconds; browsers refuse to change the address too often

const numbers = (text, count) => {
  const found = (text ?? "").split(",").map(Number);
  return found.length === count && found.every(Number.isFinite) ? found : null;
};

// Parameters that cannot be parsed are ignored.
export function readAddress() {
  const given = new URLSearchParams(location.search);
  const at = numbers(given.get("at"), 3);
  const place = numbers(given.get("place"), 2);
  const version = Number(given.get("version"));
  const layer = given.get("layer");
  return {
    situation: given.get("situation"),
    state: given.get("state"),
    layer: ["probability", "uncertainty", "difference"].includes(layer) ? layer : null,
    version: Number.isInteger(version) && version > 0 ? version : null,
    at: at && { latitude: at[0], longitude: at[1], zoom: at[2] },
    place: place && [place[1], place[0]],
    event: given.get("event"),
    embedded: given.get("embed") === "1",
  };
}

export function addressOf({ situation, state, layer, version, at, place, event }, { embedded = false } = {}) {
  const parts = new URLSearchParams();
  const put = (name, value) => { if (value !== null && value !== undefined) parts.set(name, value); };
  put("situation", situation);
  put("layer", layer === "probability" ? null : layer);
  put("state", state);
  put("version", version);
  put("event", event);
  put("at", at && `${at.latitude.toFixed(5)},${at.longitude.toFixed(5)},${at.zoom.toFixed(2)}`);
  put("place", place && `${place[1].toFixed(5)},${place[0].toFixed(5)}`);
  put("lang", language);
  put("embed", embedded ? "1" : null);
  return `${location.origin}${location.pathname}?${parts.toString().replaceAll("%2C", ",").replaceAll("%3A", ":")}`;
}

let timer = null;
export function writeAddress(make) {
  clearTimeout(timer);
  timer = setTimeout(() => history.replaceState(null, "", make()), PAUSE);
}
