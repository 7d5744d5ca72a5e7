// The main page: holds what is selected, and updates everything when a new version of the map is published.

import { addressOf, readAddress, writeAddress } from "./address.js";
import { guarded, said, say } from "./alert.js";
import { call, get, keyFromAddress, listen, newId, post, signedIn, useNoKey } from "./api.js";
import { ChecksPanel } from "./checks.js";
import { checkLegend } from "./check-places.js";
import { $, download, fill, make, options, tabs } from "./dom.js";
import { DistrictsPanel } from "./districts.js";
import { EventTime, momentInWords } from "./events.js";
import { drawable, MapView } from "./map.js";
import { bundled } from "./bundle.js";
import { ImportPreview, showReceipt } from "./import.js";
import { keyDialog } from "./key-dialog.js";
import * as panels from "./panels.js";
import { COLOURS, ends, OTHER } from "./points.js";
import { ManagePanel } from "./manage.js";
import { inside } from "./places.js";
import { Menu } from "./menu.js";
import { ReportsPanel } from "./reports.js";
import { Search } from "./search.js";
import { SentReport } from "./sent-report.js";
import { Sheet } from "./sheet.js";
import { directionOf, isolated, joined, T, translate } from "./text.js";
import { Tour } from "./tour.js";

const ROLES = ["nobody", "reader", "reporter", "trusted", "admin"];
// Outlines of countries are too coarse to cut the sea off a map that is narrower than this, in degrees (`outlines.NARROWEST`).
const OUTLINED = 0.4;
const STILL = 150; // milliseconds for which a slider rests before the service is asked about its position
const chosen = { situation: null, version: null, layer: "probability", state: null, base: null, place: null };
let me = { role: "nobody", name: "" };
let situations = [];
let versions = [];
let view = null;
let stopListening = null;
let online = false;
let exact = false; // whether this key sees reports as they are, or cells
let looks = [];
let showTab = null;
let importing = null;
let reports = null;
let manage = null;
let districts = null;
let checks = null;
let sheet = null;
let events = null;
let notice = ""; // shown until another version or map is chosen
let tour = null;
const sent = new SentReport({ onChange: (version) => { chosen.base = version; choose("difference"); } });
let search = null;
// What the address asks for; applied once, when the page opens.
let linked = readAddress();
const embedded = linked.embedded;

const may = (role) => ROLES.indexOf(me.role) >= ROLES.indexOf(role);
const path = (rest = "") => `/situations/${chosen.situation.id}${rest}`;
const newest = () => versions[0]?.number ?? null;
const shown = () => chosen.version ?? newest();

// The address of what is shown.
const address = (options) => addressOf({
  situation: chosen.situation?.id, state: chosen.state === chosen.situation?.positive ? null : chosen.state, layer: chosen.layer,
  version: chosen.version, place: chosen.place, at: view?.at(), event: events.link(),
}, options);
const remember = () => { if (chosen.situation && !linked) writeAddress(() => address({ embedded })); };

async function start() {
  translate();
  document.body.classList.toggle("embed", embedded);
  // A map embedded in another site shows what everybody may see, and allows no actions.
  if (embedded) useNoKey();
  else keyFromAddress();
  sheet = new Sheet($("panel"), $("sheet-handle"), [$("legend")]);
  showTab = tabs(document.querySelector("[role=tablist]"), () => sheet.open());
  const obstacle = drawable();
  if (obstacle) {
    $("cover").hidden = false;
    $("cover").textContent = T[obstacle];
  } else {
    view = new MapView("map", T.map, { onAsk: guarded((longitude, latitude) => { search?.say(""); return ask(longitude, latitude); }), onReport: guarded((id) => { showTab("tab-reports"); return reports.pick(id); }), onHere: guarded((box) => { showTab("tab-reports"); return reports.here(box); }), onCheck: (id) => { showTab("tab-checks"); checks.pick(id); }, onDistrict: (name) => districts.pick(name), onMove: remember, interactive: !embedded });
    window.crowdfieldMap = view.map; // for scripts and tests
  }
  new Menu({ address, title: () => document.title, view });
  events = new EventTime({ onChange: guarded(moved), drawn: async () => view?.drawn() });
  tour = new Tour();
  $("search-text").placeholder = T.searchExample;
  $("search").hidden = !view || embedded;
  search = view && new Search({ view, region: () => chosen.situation?.region, onPick: guarded(ask) });
  reports = new ReportsPanel({ path, during: () => events.during(), timedOnly: () => !events.moving, onWhy: guarded(ask), onFilter: marks, guarded });
  districts = new DistrictsPanel({ save, guarded, view });
  checks = new ChecksPanel({ save, guarded, onMarks: checkMarks, onPlace: (longitude, latitude) => view?.place(longitude, latitude, { covered: sheet.covers() }) });
  fill($("check-shapes"), ...checkLegend());
  manage = new ManagePanel({ reopen, onCreated: () => showTab("tab-layers"), shown: () => view?.shown() ?? [-180, -90, 180, 90] });
  importing = new ImportPreview({ view, target: () => ($("import-new").checked ? null : chosen.situation?.id), onDone: taken, onShow: () => showTab("tab-files") });
  fill($("exports"), ...Object.entries(T.formats).map(([form, text]) => make("button", { type: "button", class: "quiet", textContent: text, on: { click: guarded(() => save(`/export/${form}?version=${shown()}${atMoment()}`)) } })));
  listenToForms();
  panels.why(null);
  await signIn();
}

const signIn = guarded(async () => {
  say("");
  me = await get("/me");
  fill($("key"), signedIn() ? isolated(me.name) : T.signIn, signedIn() ? make("span", { class: "wide", textContent: ` · ${isolated(T.roleNames[me.role])}` }) : null);
  situations = may("reader") ? await get("/situations") : [];
  if (!may("reader")) say(T.needKey);
  await open(situations.find((s) => s.id === (chosen.situation?.id ?? linked?.situation)) ?? situations.find((s) => !s.archived) ?? situations[0] ?? null);
});

async function open(situation) {
  importing.close();
  reports.reset();
  notice = "";
  const moment = Date.parse(linked?.event) / 1000;
  events.reset(Number.isFinite(moment) ? moment : null);
  $("tab-reports").hidden = !situation || !may("trusted");
  chosen.situation = situation;
  delete document.body.dataset.version;
  document.body.classList.toggle("no-map", !situation);
  versions = []; // the versions of the previous map do not apply
  chosen.version = chosen.base = chosen.place = null;
  sent.forget();
  stopListening?.();
  options($("situation"), [...situations].sort((a, b) => a.archived - b.archived).map((s) => [s.id, s.archived ? T.archived({ title: s.title }) : s.title]), situation?.id);
  $("situation").disabled = !situations.length;
  $("situation").dir = directionOf(situation?.title ?? ""); // so that a title that is too long is cut at its end, in any language
  panels.empty();
  reports.show();
  $("report").hidden = true;
  $("import-hint").textContent = may("reporter") ? T.importHint : T.importNeedsKey;
  $("file").disabled = !may("reporter");
  $("import-new").checked = !situation;
  $("import-new").disabled = !situation || !may("admin");
  $("legend").hidden = !situation;
  $("tab-manage").hidden = !may("admin");
  if (may("admin")) guarded(() => manage.show(situation, me.maps === null))();
  if (!situation) {
    $("time").hidden = true;
    panels.welcome(may("admin") ? "none" : "key");
    showTab("tab-layers"); // opens the sheet on a phone, so that the instructions are visible
    view?.world();
    districts.update(null);
    checks.update(null, [], false);
    return status();
  }
  document.title = `${situation.title} · crowdfield`;
  const asked = linked?.situation && linked.situation !== situation.id ? null : linked;
  chosen.state = situation.states.includes(asked?.state) ? asked.state : situation.positive;
  options($("state"), situation.states.map((s) => [s, s]), chosen.state);
  options($("report-label"), [["", T.addChoose], ...situation.labels.map((l) => [l, l])], ""); // nothing is said beforehand
  $("report-trusted-row").hidden = !may("trusted");
  await view?.show(situation, asked?.at);
  const [west, , east] = situation.region;
  $("land-only").checked = (east > west ? east - west : east - west + 360) >= OUTLINED;
  chosen.version = asked?.version ?? null;
  chosen.place = asked?.place ?? null;
  if (asked?.layer) mark(asked.layer);
  if (chosen.place && !embedded) showTab("tab-why");
  await refresh();
  linked = null;
  $("embed-open").href = address({});
  // A page inside another one uses no key, so it can show public maps only.
  for (const id of ["embed", "embed-hint"]) $(id).hidden = situation.access !== "public";
  remember();
  stopListening = listen(path("/events"), {
    onState: (on) => {
      online = on;
      status();
      if (on) catchUp();
    },
    onEvent: () => refresh(),
  });
  return undefined;
}

// Versions published before the stream was connected, or while it was interrupted, caused no event here.
const catchUp = guarded(async () => {
  const now = await get(path());
  if (now.id === chosen.situation?.id && JSON.stringify(now) !== JSON.stringify(chosen.situation)) await refresh();
});

// Updates everything to the newest version; a burst of events causes one refresh.
let refreshing = null;
let again = false;
let lastNews = ""; // the message about the map at its last refresh
function refresh() {
  again = true;
  refreshing ??= guarded(async () => {
    while (again) {
      again = false;
      const [situation, list] = await Promise.all([get(path()), get(path("/versions"))]);
      if (situation.id !== chosen.situation.id) continue;
      chosen.situation = situation;
      versions = list;
      if (chosen.version && !versions.some((v) => v.number === chosen.version)) {
        notice = T.versionGone({ version: chosen.version });
        chosen.version = null;
      }
      const news = situation.failure ? T.failure({ message: situation.failure }) : notice;
      if (news || said(lastNews)) say(news); // otherwise the message is about a failed action
      lastNews = news;
      await redraw();
    }
  })().finally(() => {
    refreshing = null;
    // A version that was removed while it was requested ends the loop; events that arrived meanwhile must not be lost.
    if (again) refresh();
  });
  return refreshing;
}

const infoOf = (number) => versions.find((v) => v.number === number)?.info ?? {};

async function redraw() {
  const situation = chosen.situation;
  const left = () => chosen.situation !== situation; // whether another map was opened meanwhile
  const number = shown();
  panels.welcome(!versions[0]?.reports && !situation.waiting ? "empty" : null, `${location.origin}${path("/reports")}`);
  status();
  slider();
  layer();
  showDistricts();
  if (!embedded) checks.update(situation, versions, may("reporter"));
  if (!number) {
    await view?.clear();
    exact = may("trusted");
    looks = [];
    marks();
    return;
  }
  const info = infoOf(number);
  $("land-row").hidden = !info.land;
  view?.land(Boolean(info.land) && $("land-only").checked);
  fill($("remarks"), ...(info.remarks ?? []).map((remark) => make("li", { textContent: remark })));
  const at = `?version=${number}`;
  const [table, next, times] = await Promise.all([get(path(`/sources${at}`)), get(path(`/next${at}`)), get(path(`/times${at}`))]);
  if (left()) return;
  exact = times.exact;
  looks = next.features;
  $("tab-reports").hidden = !exact;
  events.update(times);
  panels.sources(table, { hidden: !may("trusted"), mayTrust: may("admin"), onTrust: guarded(trust) });
  panels.looks(looks, { onPick: guarded(ask), onDownload: guarded(() => save(`/next${at}`, `next-v${number}.geojson`)) });
  marks();
  // Loaded after the map, because finding doubtful reports among many takes the service a moment.
  if (exact) {
    await reports.update(number);
    if (left()) return;
    if (reports.drawn()) marks();
  }
  if (chosen.place) await ask(...chosen.place, { quiet: true });
  if (left()) return;
  document.body.dataset.version = number; // for scripts and tests
  if (!embedded) tour.welcome();
}

function status() {
  const element = $("status");
  const version = newest();
  const waiting = chosen.situation?.waiting && !chosen.situation?.failure;
  const words = version ? panels.versionWords(versions[0]) : T.statusNone;
  element.textContent = joined(words, waiting ? T.statusWaiting : null, chosen.situation && !online ? T.statusOffline : null);
  element.className = !online ? "" : waiting ? "busy" : "on";
}

function slider() {
  $("time").hidden = !versions.length;
  if (!versions.length) return;
  const input = $("slider");
  input.min = versions.at(-1).number;
  input.max = newest();
  input.disabled = versions.length < 2;
  input.value = shown();
  const version = versions.find((v) => v.number === shown());
  const words = version ? joined(panels.versionWords(version), panels.moment(version.created)) : "";
  fill($("moment"), version ? make("span", { class: "wide", textContent: `${panels.versionWords(version)} · ` }) : null,
    version ? make("span", { class: "on-screen", textContent: panels.moment(version.created) }) : null, version ? make("span", { class: "on-paper", textContent: panels.date(version.created) }) : null);
  input.setAttribute("aria-valuetext", words);
  $("live").setAttribute("aria-pressed", chosen.version === null);
  $("version-note").hidden = chosen.version === null;
  const earlier = versions.filter((v) => v.number < shown());
  if (chosen.base && !earlier.some((v) => v.number === chosen.base)) chosen.base = null;
  options($("base"), earlier.map((v) => [v.number, `${T.version} ${v.number} · ${panels.moment(v.created)}`]), chosen.base);
}

// The chosen moment of a map that moves, for addresses.
const atMoment = () => (events.moment() ? `&moment=${events.moment()}` : "");

// Another time of events was chosen: reports follow it, and a map that moves does.
let following = null;
async function moved() {
  remember();
  if (events.moving) {
    clearTimeout(following);
    following = setTimeout(guarded(async () => {
      layer();
      showDistricts();
      if (chosen.place) await ask(...chosen.place, { quiet: true });
    }), STILL);
  }
  if (exact) await reports.changed();
  else marks();
}

function showDistricts() {
  guarded(() => districts.update(chosen.situation, chosen.state, newest(), may("admin"), { ...events.shown(), onlyLabel: infoOf(newest()).only_label }))();
}

function layer() {
  const number = shown();
  events.follow(infoOf(number).moments ?? null, { earlier: chosen.version !== null, changes: chosen.layer === "difference" });
  const base = chosen.base ?? (number > 1 ? number - 1 : null);
  $("base-row").hidden = chosen.layer !== "difference";
  // Each version states its largest change; a change below 0.01 is not visible.
  const between = versions.filter((v) => v.number > base && v.number <= number);
  const still = base && between.every((v) => (v.info.moved ?? 1) < 0.005);
  const scale = chosen.situation.scales[chosen.situation.states.indexOf(chosen.state)];
  const { only_label: onlyLabel, unknown_source: unknownSource } = infoOf(number);
  panels.legend(chosen.layer, chosen.state, { from: base, to: number, still, scale, onlyLabel, unknownSource });
  if (!number) return;
  // An address with version and colours always gives the same tile, so it can be cached forever.
  const extra = chosen.layer === "difference" && base ? `&base=${base}` : chosen.layer === "probability" ? `&scale=${scale}` : "";
  const moment = events.changes ? "" : atMoment();
  view?.tiles(path(`/tiles/${chosen.layer}/{z}/{x}/{y}.png?version=${number}&state=${encodeURIComponent(chosen.state)}${extra}${moment}`), chosen.situation.region);
}

// Labels that are states in the order of the states, which for grades is from the least to the worst; then the others.
const inOrder = (labels, states) => [...states.filter((state) => labels.includes(state)), ...labels.filter((label) => !states.includes(label))];

// Reports are coloured by what they say.
function marks({ anew = false } = {}) {
  const { states = [] } = chosen.situation ?? {};
  const labels = inOrder(chosen.situation?.labels ?? [], states);
  // As on the map: the chosen state has the colour of 100 %; with two states, the other has the colour of 0 %.
  const scale = chosen.situation?.scales[chosen.situation.states.indexOf(chosen.state)] ?? "plain";
  const [other, said] = ends(scale);
  const others = labels.filter((label) => label !== chosen.state);
  const colour = (label) => (label === chosen.state ? said : others.length === 1 || (states.length === 2 && states.includes(label)) ? other : COLOURS[others.indexOf(label) % COLOURS.length] ?? OTHER);
  const colours = labels.map((label) => [label, colour(label)]);
  const on = $("show-reports").checked;
  const query = new URLSearchParams({ version: shown(), ...(exact ? reports.query() : events.during()) });
  const url = on && shown() ? `${location.origin}${path("/points/{z}/{x}/{y}.mvt")}?${query}` : null;
  view?.points(url, { listed: on && exact ? reports.drawn() : null, exact, colours, scale, said: (chosen.situation?.labels ?? []).indexOf(chosen.state), anew });
  // Nobody can look at the past.
  view?.looks($("show-next").checked && !events.moment() ? looks : [], T.nextPlace, guarded(ask));
  panels.labelLegend(on ? colours : []);
  const words = exact ? T.privacyExact : T.privacyCells({ n: chosen.situation?.minimum_count ?? 3 });
  $("privacy").textContent = chosen.situation?.access === "trusted" ? `${words} ${T.privacyPrivate}` : words;
}

// Places of the plan that was drawn last.
function checkMarks() {
  const planned = checks?.marks() ?? [];
  $("checks-row").hidden = $("check-shapes").hidden = !planned.length;
  view?.checks($("show-checks").checked ? planned : []);
}

async function ask(longitude, latitude, { quiet = false } = {}) {
  if (!chosen.situation) return undefined;
  chosen.place = [longitude, latitude];
  const wrapped = ((((longitude + 180) % 360) + 360) % 360) - 180;
  remember();
  if (!quiet) {
    sent.forget();
    $("report-outcome").textContent = "";
    $("report-trusted").checked = false; // trust applies to one report and is not carried over to the next
    showTab("tab-why");
  }
  view?.place(longitude, latitude, { covered: sheet.covers() });
  $("report").hidden = !may("reporter");
  if (!inside(chosen.situation.region, { longitude: wrapped, latitude })) return outside();
  if (!shown()) return undefined;
  try {
    const answer = await get(path(`/point/${wrapped},${latitude}?version=${shown()}&state=${encodeURIComponent(chosen.state)}${atMoment()}`));
    const { moments = [], only_label: onlyLabel } = infoOf(shown());
    panels.why({ ...answer, newest: shown() === newest(), onlyLabel, when: answer.moment && momentInWords(answer.moment, moments) });
    sent.answered(answer);
  } catch (error) {
    if (error.status !== 404) throw error;
    outside();
  }
  return undefined;
}

function outside() {
  $("report").hidden = true;
  fill($("why"), make("p", { class: "hint", textContent: T.outside }));
}

function mark(name) {
  chosen.layer = name;
  document.querySelector(`input[name=layer][value=${name}]`).checked = true;
}

function choose(name) {
  mark(name);
  slider();
  layer();
  remember();
}

async function send() {
  const [longitude, latitude] = chosen.place;
  const before = newest() ? await get(path(`/point/${longitude},${latitude}?state=${encodeURIComponent(chosen.state)}`)) : null;
  sent.begin(newest(), before);
  chosen.version = null;
  if (events.moving) events.choose(events.rest()); // it is about now
  await post(path("/reports"), {
    longitude, latitude, label: $("report-label").value, text: $("report-text").value || null,
    trusted: may("trusted") && $("report-trusted").checked, time: Date.now() / 1000, id: `page-${newId()}`,
  });
  $("report-outcome").textContent = T.addSent;
  $("page-why").scrollTop = 0;
  $("report-text").value = $("report-label").value = "";
  $("report-trusted").checked = false;
  await refresh();
}

async function trust(source, level) {
  await call(path(`/sources/${encodeURIComponent(source)}/trust`), { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ level }) });
  await refresh();
}

async function save(rest, name) {
  const response = await call(path(rest));
  const given = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  download(await response.blob(), name ?? given ?? "map");
}

async function upload(files) {
  if (!files.length) return;
  $("import-outcome").textContent = "";
  importing.open(await bundled([...files]));
}

async function taken(answer, fresh) {
  if (fresh) {
    situations = await get("/situations");
    await open(situations.find((s) => s.id === answer.id));
    showReceipt(answer.receipt, T.importStarted({ title: answer.title }));
  } else {
    showReceipt(answer);
    await refresh();
  }
}

async function reopen(id) {
  situations = await get("/situations");
  await open(situations.find((s) => s.id === id) ?? situations[0] ?? null);
}

function listenToForms() {
  $("situation").addEventListener("change", guarded((event) => open(situations.find((s) => s.id === event.target.value))));
  document.querySelectorAll("input[name=layer]").forEach((input) => input.addEventListener("change", () => choose(input.value)));
  $("base").addEventListener("change", () => { chosen.base = Number($("base").value); layer(); });
  $("state").addEventListener("change", guarded(async () => {
    chosen.state = $("state").value;
    remember();
    layer();
    marks();
    showDistricts();
    if (chosen.place) await ask(...chosen.place, { quiet: true });
  }));
  $("show-reports").addEventListener("change", () => marks());
  $("land-only").addEventListener("change", () => view?.land($("land-only").checked));
  $("show-next").addEventListener("change", () => marks());
  $("show-checks").addEventListener("change", checkMarks);
  let sliding = null;
  $("slider").addEventListener("input", () => {
    // The stored version whose number is nearest to the slider.
    const wanted = Number($("slider").value);
    notice = "";
    const found = versions.reduce((best, v) => (Math.abs(v.number - wanted) < Math.abs(best.number - wanted) ? v : best));
    chosen.version = found.number === newest() ? null : found.number;
    slider();
    layer();
    remember();
    clearTimeout(sliding);
    sliding = setTimeout(guarded(redraw), STILL);
  });
  $("live").addEventListener("click", guarded(async () => { chosen.version = null; notice = ""; say(""); remember(); await redraw(); }));
  $("time").addEventListener("submit", (event) => event.preventDefault());
  $("import").addEventListener("submit", (event) => event.preventDefault());
  $("report").addEventListener("submit", (event) => { event.preventDefault(); guarded(send)(); });
  $("file").addEventListener("change", () => guarded(upload)($("file").files));
  $("import-new").addEventListener("change", () => { if (importing.file) importing.open(importing.file); });
  keyDialog({ hint: T.keyHint, onChange: signIn });
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (may("reporter")) guarded(upload)(event.dataTransfer.files);
  });
}

start();
