// The reports themselves, for those who may see them: filters, one report in full, and what somebody should look at.

import { call, get } from "./api.js";
import { $, fill, make, options } from "./dom.js";
import { date, exactDistance, percent, place } from "./panels.js";
import { joined, T } from "./text.js";

const LISTED = 100; // reports in the list; filters find the others
const NEW_SECONDS = 86400; // a report counts as new for a day
const TRUSTED = "trusted: "; // how the names of trusted sources begin

export class ReportsPanel {
  // path(rest) is the address of the map; during(report) says whether it is of the chosen time; onWhy(place) explains a
  // place; onFilter() draws the map anew.
  constructor({ path, during, onWhy, onFilter, guarded }) {
    Object.assign(this, { path, during, onWhy, onFilter, guarded });
    this.reset();
    for (const id of ["filter-source", "filter-label", "filter-trust", "filter-from", "filter-until"]) $(id).addEventListener("change", () => this.changed());
    document.querySelectorAll("input[name=list]").forEach((input) => input.addEventListener("change", () => this.changed()));
  }

  reset() {
    this.features = [];
    this.chosen = null;
    this.moderation = { doubtful: [], accepted: [], retracted: [] };
  }

  changed() {
    this.show();
    this.onFilter();
  }

  async update(features) {
    this.features = features;
    const count = (name) => {
      const table = new Map();
      for (const { properties } of features) table.set(properties[name], (table.get(properties[name]) ?? 0) + 1);
      return [...table].sort((a, b) => b[1] - a[1]);
    };
    for (const name of ["source", "label"]) {
      const now = $(`filter-${name}`).value;
      options($(`filter-${name}`), [["", T.filterAll], ...count(name).map(([value, n]) => [value, `${value} (${n})`])], now);
    }
    this.moderation = await get(this.path("/moderation"));
    this.doubt = new Map(this.moderation.doubtful.map((d) => [d.id, d.probability]));
    this.accepted = new Set(this.moderation.accepted);
    this.newest = Math.max(0, ...features.map((f) => f.properties.received ?? 0));
    this.show();
  }

  list() {
    return document.querySelector("input[name=list]:checked").value;
  }

  // The reports that pass the filters; the map shows the same as the list.
  filtered() {
    const [source, label, trust] = ["source", "label", "trust"].map((name) => $(`filter-${name}`).value);
    const day = (id, end) => ($(id).value ? Date.parse($(id).value) / 1000 + (end ? 86400 : 0) : null);
    const [from, until] = [day("filter-from", false), day("filter-until", true)];
    const list = this.list();
    const all = list === "retracted" ? this.moderation.retracted : this.features;
    return all.filter((report) => {
      const { id, properties: p } = report;
      if (!this.during(report)) return false;
      const when = p.time ?? p.received;
      return (!source || p.source === source) && (!label || p.label === label) && (from === null || when >= from) && (until === null || when < until) &&
        (!trust || (trust === "trusted") === p.source.startsWith(TRUSTED)) &&
        (list === "all" || list === "retracted" || (list === "new" && p.received >= this.newest - NEW_SECONDS) || (list === "doubtful" && this.doubt?.has(id)) || (list === "accepted" && this.accepted?.has(id)));
    });
  }

  pick(id) {
    this.chosen = id;
    this.show();
    $("report-chosen").scrollIntoView({ block: "nearest" });
  }

  show() {
    const found = this.filtered();
    const order = this.list() === "doubtful" ? (a, b) => this.doubt.get(a.id) - this.doubt.get(b.id) : (a, b) => (b.properties.received ?? 0) - (a.properties.received ?? 0);
    const shown = [...found].sort(order).slice(0, LISTED);
    const chosen = [...this.features, ...this.moderation.retracted].find((f) => f.id === this.chosen);
    fill($("report-chosen"), chosen ? this.full(chosen) : null);
    $("report-count").textContent = found.length ? (found.length > shown.length ? T.reportsFoundFirst({ n: found.length, shown: shown.length }) : T.reportsFound({ n: found.length })) : T.reportsNone[this.list()] ?? T.reportsNone.all;
    fill($("report-list"), ...shown.map((f) => make("li", {}, make("button", { type: "button", class: "quiet", "aria-pressed": String(f.id === this.chosen), on: { click: () => this.pick(f.id) } },
      make("b", { textContent: f.properties.label }), make("small", { textContent: joined(f.properties.source, date(f.properties.time ?? f.properties.received), this.doubt?.has(f.id) ? T.reportDoubt({ probability: percent(this.doubt.get(f.id)) }) : null) }),
      f.properties.text ? make("q", { textContent: f.properties.text.slice(0, 120) }) : null))));
  }

  full({ id, geometry, properties: p }) {
    const gone = this.moderation.retracted.some((f) => f.id === id);
    const act = (rest, method) => this.guarded(async () => { await call(this.path(rest), { method }); await this.refresh(method === "DELETE" ? id : null); });
    const [longitude, latitude] = geometry.coordinates;
    const facts = [[T.reportSource, p.source], [T.reportWhen, p.time ? date(p.time) : T.reportNoTime], [T.reportReceived, date(p.received)], [T.reportPlace, place({ longitude, latitude })]];
    if (Number.isFinite(p.accuracy)) facts.push([T.reportAccuracy, T.reportAccuracyAbout({ distance: exactDistance(p.accuracy) })]);
    if (p.count > 1) facts.push([T.reportCount, T.reportCountOf({ n: p.count })]);
    const judged = gone ? T.reportRetracted : this.accepted?.has(id) ? T.reportAccepted : this.doubt?.has(id) ? T.reportSurprise({ probability: percent(this.doubt.get(id)) }) : T.reportFits;
    return make("article", { class: "offer" }, make("h3", { textContent: p.label }), p.text ? make("blockquote", { textContent: p.text }) : null,
      make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })])),
      make("p", { class: "hint", textContent: judged }),
      make("p", { class: "buttons start" }, make("button", { type: "button", class: "quiet", textContent: T.reportWhy, on: { click: () => this.onWhy(longitude, latitude) } }),
        gone || this.accepted?.has(id) ? null : make("button", { type: "button", class: "quiet", id: "report-accept", textContent: T.reportAccept, on: { click: act(`/reports/${encodeURIComponent(id)}/accepted`, "PUT") } }),
        gone ? null : make("button", { type: "button", class: "quiet danger", id: "report-retract", textContent: T.reportRetract, on: { click: act(`/reports/${encodeURIComponent(id)}`, "DELETE") } })));
  }

  async refresh(gone) {
    await this.update(this.features.filter((f) => f.id !== gone));
    this.onFilter();
  }
}
