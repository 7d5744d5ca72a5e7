// The tab with the reports, for those who may see them: filters, single reports in full, and the lists for moderation.
// The service does the filtering; the page loads only what it shows.

import { call, get } from "./api.js";
import { $, fill, make, options } from "./dom.js";
import { date, exactDistance, percent, place } from "./panels.js";
import { joined, T } from "./text.js";

const LISTED = 100; // reports in the list; filters find the others
const DRAWN = 500; // reports of a short list on the map, the limit of one request
// Lists that are short, and drawn as they are; the others are drawn from tiles.
const SHORT = ["doubtful", "accepted", "retracted"];
const DAY = 86400; // seconds
const NOTHING = { features: [], numberMatched: 0, sources: [], labels: [] };

export class ReportsPanel {
  // path(rest) is the address of the map; during() the chosen time of events as {since, until}, or null; timedOnly() whether it
  // leaves out reports that do not say when; onWhy(place) explains a place; onFilter() redraws the map.
  constructor({ path, during, timedOnly, onWhy, onFilter, guarded }) {
    Object.assign(this, { path, during, timedOnly, onWhy, onFilter, guarded });
    this.turn = 0;
    this.reset();
    for (const id of ["filter-source", "filter-label", "filter-trust", "filter-from", "filter-until"]) $(id).addEventListener("change", this.guarded(() => this.changed()));
    document.querySelectorAll("input[name=list]").forEach((input) => input.addEventListener("change", this.guarded(() => this.changed())));
  }

  reset() {
    Object.assign(this, { found: NOTHING, chosen: null, box: null, version: null });
  }

  // Called when the list, the filters or the time have changed.
  async changed() {
    if (!this.short()) this.onFilter();
    await this.load();
    if (this.short()) this.onFilter();
  }

  async update(version) {
    this.version = version;
    await this.load();
  }

  // Only the answer to the last request is used.
  async load() {
    if (!this.version) return;
    this.turn += 1;
    const { turn } = this;
    const query = { ...this.query(), list: this.list(), version: this.version, limit: this.short() ? DRAWN : LISTED, ...(this.box ? { bbox: this.box.join(",") } : {}) };
    const found = await get(this.path(`/reports?${new URLSearchParams(query)}`));
    if (turn !== this.turn) return;
    this.found = found;
    const anew = this.chosen && found.features.find((feature) => feature.id === this.chosen.id);
    if (anew) this.chosen = anew;
    for (const [name, counts] of [["source", found.sources], ["label", found.labels]]) {
      const now = $(`filter-${name}`).value;
      const offered = now && !counts.some(([value]) => value === now) ? [[now, 0], ...counts] : counts;
      options($(`filter-${name}`), [["", T.filterAll], ...offered.map(([value, n]) => [value, `${value} (${n})`])], now);
    }
    this.show();
  }

  list() {
    return document.querySelector("input[name=list]:checked").value;
  }

  short() {
    return SHORT.includes(this.list());
  }

  // The filters as parameters of an address, for the list and for the tiles: the map shows the same as the list.
  query() {
    const day = (id, end) => ($(id).value ? Date.parse($(id).value) / 1000 + (end ? DAY : 0) : null);
    const during = this.during();
    const [from, until] = [day("filter-from", false), day("filter-until", true)];
    const query = Object.fromEntries(["source", "label", "trust"].map((name) => [name, $(`filter-${name}`).value]));
    query.since = Math.max(from ?? -Infinity, during?.since ?? -Infinity);
    query.until = Math.min(until ?? Infinity, during?.until ?? Infinity);
    if (during && this.timedOnly()) query.timed = true;
    if (this.list() === "new") query.list = "new";
    return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== "" && Math.abs(value) !== Infinity));
  }

  // The features of a short list; null for lists that are drawn from tiles.
  drawn() {
    return this.short() ? this.found.features : null;
  }

  pick = async (id) => {
    this.chosen = this.found.features.find((feature) => feature.id === id) ?? await get(this.path(`/reports/${encodeURIComponent(id)}?version=${this.version}`));
    this.show();
    $("report-chosen").scrollIntoView({ block: "nearest" });
  };

  // Only the reports in a box of the map (west, south, east, north); null for all of them again.
  here = async (box) => {
    this.box = box;
    this.chosen = null;
    await this.load();
  };

  show() {
    const { features, numberMatched: n } = this.found;
    const shown = features.slice(0, LISTED);
    fill($("report-chosen"), this.chosen ? this.full(this.chosen) : null);
    const words = n ? (n > shown.length ? T.reportsFoundFirst({ n, shown: shown.length }) : T.reportsFound({ n })) : T.reportsNone[this.list()] ?? T.reportsNone.all;
    fill($("report-count"), words, this.box ? make("button", { type: "button", class: "quiet", id: "report-everywhere", textContent: T.reportsEverywhere, on: { click: this.guarded(() => this.here(null)) } }) : null);
    fill($("report-list"), ...shown.map(({ id, properties: p }) => make("li", {}, make("button", { type: "button", class: "quiet", "aria-pressed": String(id === this.chosen?.id), on: { click: this.guarded(() => this.pick(id)) } },
      make("b", { textContent: p.label }), make("small", { textContent: joined(p.source, date(p.time ?? p.received), p.doubt !== null ? T.reportDoubt({ probability: percent(p.doubt) }) : null) }),
      p.text ? make("q", { textContent: p.text.slice(0, 120) }) : null))));
  }

  full({ id, geometry, properties: p }) {
    const act = (rest, method) => this.guarded(async () => { await call(this.path(rest), { method }); await this.refresh(); });
    const [longitude, latitude] = geometry.coordinates;
    const facts = [[T.reportSource, p.source], [T.reportWhen, p.time ? date(p.time) : T.reportNoTime], [T.reportReceived, date(p.received)], [T.reportPlace, place({ longitude, latitude })]];
    if (Number.isFinite(p.accuracy)) facts.push([T.reportAccuracy, T.reportAccuracyAbout({ distance: exactDistance(p.accuracy) })]);
    if (p.count > 1) facts.push([T.reportCount, T.reportCountOf({ n: p.count })]);
    if (p.scores) facts.push([T.reportScores, joined(...Object.entries(p.scores).map(([state, probability]) => `${state} ${percent(probability)}`))]);
    const judged = p.retracted ? T.reportRetracted : p.accepted ? T.reportAccepted : p.doubt !== null ? T.reportSurprise({ probability: percent(p.doubt) }) : T.reportFits;
    return make("article", { class: "offer" }, make("h3", { textContent: p.label }), p.text ? make("blockquote", { textContent: p.text }) : null,
      make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })])),
      make("p", { class: "hint", textContent: judged }),
      make("p", { class: "buttons start" }, make("button", { type: "button", class: "quiet", textContent: T.reportWhy, on: { click: () => this.onWhy(longitude, latitude) } }),
        p.retracted || p.accepted ? null : make("button", { type: "button", class: "quiet", id: "report-accept", textContent: T.reportAccept, on: { click: act(`/reports/${encodeURIComponent(id)}/accepted`, "PUT") } }),
        p.retracted ? null : make("button", { type: "button", class: "quiet danger", id: "report-retract", textContent: T.reportRetract, on: { click: act(`/reports/${encodeURIComponent(id)}`, "DELETE") } })));
  }

  // Called after the chosen report was accepted or retracted.
  async refresh() {
    const { id } = this.chosen;
    this.chosen = null;
    await this.load();
    await this.pick(id);
    this.onFilter({ anew: true });
  }
}
