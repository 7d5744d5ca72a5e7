// The page for reporting from the field. A report is stored on the phone first, and sent when the service can be reached.

import { get, keyFromAddress, keyName, newId, signedIn, useKey } from "./api.js";
import { $, fill, make, options } from "./dom.js";
import { fileField } from "./file-field.js";
import { keep, recall } from "./kept.js";
import { keyDialog } from "./key-dialog.js";
import { date, exactDistance, place as named } from "./panels.js";
import { inside, typedPlace } from "./places.js";
import { Queue } from "./queue.js";
import { Sender } from "./sending.js";
import { chooseLanguage, joined, language, LANGUAGES, T, translate } from "./text.js";

const GOOD = 25; // metres: a position that is good enough to stop looking for a better one
const POOR = 100; // metres: from here on the page says that a position is not exact
const LOOKING = 20000; // milliseconds to look for a better position

let queue = null;
let latest = null; // the id of the report that was made last, until it has arrived
let sender = null;
let maps = [];
let position = null; // { longitude, latitude, accuracy } as the phone said; null if the place was typed
let watching = null;

const chosenMap = () => maps.find((map) => map.id === $("situation").value) ?? null;

async function start() {
  translate();
  document.title = `${T.fieldTitle} · crowdfield`;
  $("insecure").hidden = isSecureContext;
  if ("serviceWorker" in navigator) await navigator.serviceWorker.register("/field/worker.js", { scope: "/field/" });
  keyFromAddress();
  if (!signedIn() && recall("field-key")) useKey(recall("field-key"));
  queue = await Queue.open();
  sender = new Sender(queue, { onChange: show, onReach: reach });
  options($("language"), Object.entries(LANGUAGES), language);
  listen();
  addEventListener("online", () => whose().catch(() => reach(false)));
  maps = await queue.maps();
  showMaps();
  await show();
  await greet();
}

function reach(reached) {
  $("reach").textContent = reached ? T.fieldOnline : T.fieldOffline;
  $("reach").classList.toggle("on", reached);
}

async function whose() {
  const me = await get("/me");
  if (signedIn()) $("key").textContent = me.name;
  return me;
}

// Loads the role of the key and the list of maps; without a network, what was loaded last.
async function greet() {
  $("key").textContent = signedIn() ? T.keyTitle : T.signIn; // without a network the name of the key is not known
  try {
    const me = await whose();
    reach(true);
    $("need-key").hidden = ["reporter", "trusted", "admin"].includes(me.role);
    maps = (await get("/situations")).filter((map) => !map.archived);
    await queue.setMaps(maps);
    showMaps();
  } catch (error) {
    if (error.status === undefined && !(error instanceof TypeError)) throw error;
    reach(error.status !== undefined);
    $("need-key").hidden = signedIn() && error.status !== 401;
  }
  await sender.send();
  await show();
}

function showMaps() {
  const wanted = $("situation").value || new URLSearchParams(location.search).get("situation") || recall("field-map");
  options($("situation"), maps.map((map) => [map.id, map.title]), wanted);
  $("no-maps").hidden = maps.length > 0;
  $("send").disabled = !maps.length;
  showLabels();
}

// No label is preselected: a report made by mistake is worse than none.
function showLabels() {
  fill($("label-choices"), ...(chosenMap()?.labels ?? []).map((label) =>
    make("label", {}, make("input", { type: "radio", name: "label", value: label, required: true }), make("span", { textContent: label, dir: "auto" }))));
}

function say(id, text, wrong = false) {
  $(id).textContent = text;
  $(id).classList.toggle("wrong", wrong);
}

function locate() {
  if (!isSecureContext) return say("place-said", T.locateInsecure, true);
  if (!navigator.geolocation) return say("place-said", T.locateFailed, true);
  stopLooking();
  position = null;
  say("place-said", T.locateBusy);
  const seen = ({ coords: { longitude, latitude, accuracy } }) => {
    if (position && accuracy >= position.accuracy) return;
    position = { longitude, latitude, accuracy };
    $("place").value = `${latitude.toFixed(5)}, ${longitude.toFixed(5)}`;
    say("place-said", (accuracy > POOR ? T.fieldPoor : T.fieldLocated)({ distance: exactDistance(accuracy) }), accuracy > POOR);
    if (accuracy <= GOOD) stopLooking();
  };
  const failed = (error) => {
    if (position) return;
    stopLooking();
    say("place-said", error.code === error.PERMISSION_DENIED ? T.locateRefused : T.locateFailed, true);
  };
  const watch = navigator.geolocation.watchPosition(seen, failed, { enableHighAccuracy: true, timeout: LOOKING, maximumAge: 0 });
  watching = { watch, end: setTimeout(stopLooking, LOOKING) };
  return undefined;
}

function stopLooking() {
  if (!watching) return;
  navigator.geolocation.clearWatch(watching.watch);
  clearTimeout(watching.end);
  watching = null;
}

// The first problem of the form and its field; null if the report is complete.
function fault(map, place, label) {
  if (!place) return ["place-said", T.fieldPlaceBad, $("place")];
  const [west, south, east, north] = map.region;
  const region = `${named({ latitude: south, longitude: west })} – ${named({ latitude: north, longitude: east })}`;
  if (!inside(map.region, place)) return ["place-said", T.fieldOutside({ region }), $("place")];
  if (!label) return ["outcome", T.fieldWhatMissing, document.querySelector("input[name=label]")];
  return null;
}

async function submit() {
  const map = chosenMap();
  const place = typedPlace($("place").value);
  const label = document.querySelector("input[name=label]:checked")?.value;
  const wrong = fault(map, place, label);
  if (wrong) {
    say(wrong[0], wrong[1], true);
    return wrong[2]?.focus();
  }
  stopLooking();
  const photo = $("photo").files[0] ?? null;
  const words = [
    $("words").value.trim(),
    photo && $("photo-mention").checked ? T.fieldPhotoWords : null,
  ].filter(Boolean).join(" ");
  const id = `field-${newId()}`;
  const created = Date.now();
  await queue.put({
    id, created, photo, situation: map.id, title: map.title, state: "waiting", key: null, unsure: false, reason: null,
    report: { ...place, label, id, text: words || null, time: created / 1000, accuracy: position?.accuracy ?? null },
  });
  await navigator.storage?.persist?.();
  keep("field-map", map.id);
  clear();
  say("outcome", T.fieldKept);
  latest = id;
  await sender.send();
  return show();
}

function clear() {
  const map = $("situation").value;
  $("report").reset();
  $("photo").dispatchEvent(new Event("change"));
  $("situation").value = map;
  position = null;
  $("photo-more").hidden = true;
  say("place-said", "");
}

function stateOf(entry) {
  if (entry.id === sender.sending) return "sending";
  if (entry.state !== "waiting") return entry.state;
  if (!signedIn() || sender.blocked === "key") return "key";
  return entry.key && entry.key !== keyName() ? "otherKey" : "waiting";
}

async function show() {
  const entries = await queue.reports();
  // Say when a stored report has been received, even if that is much later.
  if (entries.find((entry) => entry.id === latest)?.state === "sent") {
    say("outcome", T.fieldSentNow);
    latest = null;
  }
  const waiting = entries.filter((entry) => entry.state === "waiting").length;
  $("queue-said").textContent = !entries.length ? T.fieldQueueEmpty : waiting ? T.fieldWaiting({ n: waiting }) : T.fieldAllSent;
  $("retry").hidden = !waiting;
  document.querySelectorAll("#queue img").forEach((image) => URL.revokeObjectURL(image.src));
  fill($("queue"), ...entries.reverse().map(row));
}

function row(entry) {
  const state = stateOf(entry);
  const unsent = entry.state !== "sent";
  return make("li", { class: state },
    make("div", {}, make("b", { textContent: entry.report.label }), make("small", { textContent: joined(entry.title, date(entry.created / 1000)) }),
      entry.report.text ? make("small", { textContent: entry.report.text, dir: "auto" }) : null,
      entry.report.accuracy != null ? make("small", { textContent: T.fieldAccuracy({ distance: exactDistance(entry.report.accuracy) }) }) : null),
    make("span", { textContent: entry.reason ? `${T.fieldStates[state]}: ${entry.reason}` : T.fieldStates[state] }),
    entry.photo ? make("img", { src: URL.createObjectURL(entry.photo), alt: T.fieldPhotoAlt }) : null,
    removing(entry, unsent));
}

// A report that was not sent exists only here, so the button asks for confirmation.
function removing(entry, unsent) {
  let asked = !unsent;
  const button = make("button", { type: "button", class: unsent ? "quiet danger" : "quiet", textContent: unsent ? T.fieldRemoveUnsent : T.fieldRemove, on: { click: async () => {
    if (asked) {
      await queue.remove(entry.id);
      return show();
    }
    asked = true;
    button.textContent = T.fieldRemoveSure;
    return undefined;
  } } });
  return button;
}

function listen() {
  $("locate").addEventListener("click", locate);
  $("place").addEventListener("input", () => { stopLooking(); position = null; say("place-said", ""); });
  $("situation").addEventListener("change", showLabels);
  $("photo").parentElement.append(fileField($("photo")));
  $("photo").addEventListener("change", () => { $("photo-more").hidden = !$("photo").files.length; });
  $("report").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  $("retry").addEventListener("click", () => greet());
  $("language").addEventListener("change", () => chooseLanguage($("language").value));
  const kept = make("input", { type: "checkbox", id: "key-keep" });
  keyDialog({
    hint: T.fieldKeyHint,
    rows: [make("label", { class: "row check" }, kept, " ", make("span", { textContent: T.fieldKeyKeep }))],
    onOpen: () => { kept.checked = Boolean(recall("field-key")); },
    onChange: (key) => {
      keep("field-key", key && kept.checked ? key : null);
      sender.blocked = null;
      greet();
    },
  });
}

start();
