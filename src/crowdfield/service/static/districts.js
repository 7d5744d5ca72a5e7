// Figures of districts, and alerts about them.

import { call, get, post } from "./api.js";
import { $, fill, make, meter, options } from "./dom.js";
import { fileField } from "./file-field.js";
import { percent } from "./panels.js";
import { joined, slug, T } from "./text.js";
import { counted, numbered, weightsForm } from "./weights.js";

const FORMS = ["csv", "xlsx", "geojson", "png"];
const CHECKED = 4000; // milliseconds after which the service has compared a new alert with the map
// Whether nobody knows about more than half of a district.
const unknown = (row) => row.unknown_share > 0.5;

export class DistrictsPanel {
  // save(rest) downloads an address of the map; guarded(act) shows errors on the page; view is the map, or null.
  constructor({ save, guarded, view }) {
    Object.assign(this, { save, guarded, view, outlined: "", sets: [], chosen: null, shown: "", orWorse: false, forms: {}, secret: null });
    $("tab-districts").addEventListener("click", guarded(() => this.load()));
  }

  // The map, the state and the version that the page shows, and whether its owner may change it; if the map moves, the moment, for
  // addresses (null for the newest) and in words; onlyLabel: what every report says, if they all say the same.
  async update(situation, state, version, admin, { moment = null, when = null, onlyLabel = null } = {}) {
    Object.assign(this, { situation, state, version, admin, moment, when, onlyLabel });
    $("tab-districts").hidden = !situation;
    if (!this.outlined.startsWith(`${situation?.id} `)) this.outline(null);
    if (this.outlined || !$("page-districts").hidden) await this.load(); // outlines on the map tell figures too
  }

  // What the panel is about.
  key() {
    return `${this.situation?.id} ${this.chosen} ${this.state} ${this.version} ${this.admin} ${this.moment}`;
  }

  async load(force = false) {
    if (!this.situation) return fill($("districts"));
    if (this.key() === this.shown && !force) return undefined;
    const path = `/situations/${this.situation.id}`;
    if (!this.shown.startsWith(`${this.situation.id} `)) fill($("districts"), make("p", { class: "hint", role: "status", textContent: T.districtsBusy }));
    this.sets = await get(`${path}/districts`);
    if (!this.sets.some((set) => set.name === this.chosen)) this.chosen = this.sets[0]?.name ?? null;
    const query = `districts=${this.chosen}${this.moment ? `&moment=${this.moment}` : ""}`;
    const asked = this.key();
    const figures = this.chosen && this.version ? await get(`${path}/totals?${query}`) : null;
    const [alerts, weights] = this.admin ? await Promise.all([get(`${path}/alerts`), get(`${path}/weights`)]) : [[], null];
    this.unit = figures?.weights ?? (weights?.current ? weights.name : null);
    if (asked !== this.key()) return undefined; // something else was chosen meanwhile, and is being loaded
    this.shown = asked;
    // What somebody is typing stays when a new version is published.
    const focused = document.activeElement;
    const areas = (figures?.areas ?? []).map((one) => one.area);
    const forms = this.admin ? [
      this.chosen ? this.alerts(alerts) : null,
      this.chosen ? this.kept("alert", [this.chosen, this.state, this.unit, ...areas], () => this.newAlert(areas)) : null,
      this.kept("upload", [this.sets.length], () => this.upload()),
      this.kept("weights", [weights?.name, weights?.current, weights?.total], () => weightsForm({ path: `${path}/weights`, weights, guarded: this.guarded, onChange: () => this.changed("weights") })),
    ] : [];
    fill($("districts"), this.choice(), figures && this.table(figures), figures && this.downloads(query), ...forms);
    if (focused !== document.activeElement && $("districts").contains(focused)) focused.focus();
    await this.outline(figures);
    return undefined;
  }

  // Draws the districts on the map; a set that does not change is fetched once.
  async outline(figures) {
    if (!figures || !this.view) {
      this.outlined = "";
      return this.view?.districts(null);
    }
    const now = `${this.situation.id} ${this.chosen} ${this.sets.find((set) => set.name === this.chosen).created}`;
    if (now !== this.outlined) {
      const shapes = await get(`/situations/${this.situation.id}/totals?districts=${this.chosen}&form=geojson`);
      Object.assign(this, { outlined: now, shapes: shapes.features.filter((one) => one.geometry) });
    }
    const words = new Map([...document.querySelectorAll("#districts tbody tr")].map((row) => [row.dataset.area, row.querySelector("td").innerText.trim().replace(/\s*\n\s*/gu, ", ")]));
    const features = this.shapes.map(({ geometry, properties: { area } }) => ({ type: "Feature", geometry, properties: { area, said: words.get(area) ?? "" } }));
    return this.view.districts({ type: "FeatureCollection", features });
  }

  // A district was clicked on the map: its figures are shown if this panel is open.
  pick(name) {
    if ($("page-districts").hidden) return false;
    for (const row of document.querySelectorAll("#districts tbody tr")) {
      const here = row.dataset.area === name;
      row.classList.toggle("chosen", here);
      if (here) row.scrollIntoView({ block: "nearest" });
    }
    return true;
  }

  // A form that is made anew only if something that it is about has changed.
  kept(name, about, makeForm) {
    const now = JSON.stringify([this.situation.id, ...about]);
    if (this.forms[name]?.about !== now) this.forms[name] = { about: now, element: makeForm() };
    return this.forms[name].element;
  }

  // After a form was sent: it is empty again, and its effect is shown.
  async changed(name) {
    delete this.forms[name];
    await this.load(true);
  }

  choice() {
    if (!this.sets.length) return make("p", { class: "hint", textContent: this.admin ? T.districtsNoneAdmin : T.districtsNone });
    const select = make("select", { on: { change: this.guarded(async () => { this.chosen = select.value; await this.load(); }) } });
    options(select, this.sets.map((set) => [set.name, `${set.name} (${set.areas})`]), this.chosen);
    return make("label", { class: "row" }, make("span", { textContent: T.districtsSet }), select);
  }

  // The amount of a district: a number of people if the map has weights, otherwise a share of its area.
  extent(row, unit) {
    if (!row.cells) return [T.districtsNotReached];
    if (unit && row.share === null) return [T.weightsNobody({ unit })];
    const between = T.districtsBetween({ share: percent(row.share), low: percent(row.low), high: percent(row.high) });
    // No large number where little is known, or where nobody could deny: somebody would act on it.
    if (unknown(row) || this.onlyLabel) return [make("b", { textContent: T.districtsMostlyUnknown }), make("small", { textContent: T.districtsGuess({ guess: unit ? numbered(row) : between }) })];
    if (unit) return counted(row, unit, percent(row.share));
    return [meter(row.share), make("small", { textContent: between })];
  }

  table(figures) {
    const unit = figures.weights;
    const found = (area) => area[this.orWorse && area.at_least[this.state] ? "at_least" : "states"][this.state] ?? {};
    const graded = figures.areas.some((area) => area.at_least[this.state]);
    const said = graded && this.orWorse ? T.districtsAtLeast({ state: this.state }) : this.state;
    // What is known comes first, the most of it before the rest; districts outside the map come last.
    const rank = (row) => (row.cells ? Number(unknown(row)) : 2);
    const size = (row) => (unit ? row.amount : row.share) ?? -1;
    const rows = figures.areas.map((area) => ({ ...area, ...found(area) })).sort((a, b) => rank(a) - rank(b) || size(b) - size(a));
    const mark = (name) => () => this.view?.outlines?.mark(name);
    const line = (row) => make("tr", { "data-area": row.area, on: { mouseenter: mark(row.area), mouseleave: mark(null) } },
      make("th", { scope: "row", textContent: row.area, title: row.note }),
      make("td", {}, ...this.extent(row, unit)),
      make("td", { textContent: row.unknown_share === null || this.onlyLabel ? "" : percent(row.unknown_share) }));
    const head = make("tr", {}, ...[T.districtsName, unit ? T.weightsIn({ unit, state: said }) : T.districtsShare({ state: said }), T.districtsUnknown].map((text) => make("th", { scope: "col", textContent: text })));
    return make("div", {},
      graded ? this.worse(figures) : null,
      make("table", { class: "plain" }, make("thead", {}, head), make("tbody", {}, ...rows.map(line))),
      make("p", { class: "hint", textContent: (unit ? T.weightsHow : T.districtsHow)({ unit, level: percent(figures.level), version: figures.version }) }),
      this.onlyLabel ? make("p", { class: "hint", textContent: T.onlyLabel({ label: this.onlyLabel }) }) : null,
      this.when ? make("p", { class: "hint", textContent: T.atMoment({ when: this.when }) }) : null,
      make("ul", { class: "notes hint" }, ...figures.notes.map((note) => make("li", { textContent: note }))));
  }

  // For grades: whether worse states are included in the chosen one.
  worse(figures) {
    const tick = make("input", { type: "checkbox", id: "districts-worse", checked: this.orWorse, on: { change: () => { this.orWorse = tick.checked; tick.closest("label").parentElement.replaceWith(this.table(figures)); $("districts-worse").focus(); this.guarded(() => this.outline(figures))(); } } });
    return make("label", { class: "row check" }, tick, make("span", { textContent: T.districtsOrWorse({ state: this.state }) }));
  }

  downloads(query) {
    const one = (form) => make("button", { type: "button", class: "quiet", textContent: T.districtsForms[form], on: { click: this.guarded(() => this.save(`/totals?${query}&form=${form}`)) } });
    return make("p", { class: "buttons start" }, ...FORMS.map(one));
  }

  upload() {
    const name = make("input", { required: true, maxLength: 60, autocomplete: "off" });
    const file = make("input", { type: "file", required: true });
    const send = this.guarded(async () => {
      const body = new FormData();
      body.append("file", file.files[0]);
      const set = slug(name.value, "districts");
      await call(`/situations/${this.situation.id}/districts/${set}`, { method: "PUT", body });
      this.chosen = set;
      await this.changed("upload");
    });
    const form = make("form", { on: { submit: (event) => { event.preventDefault(); send(); } } },
      make("p", { class: "hint", textContent: T.districtsAddHint }),
      make("label", { class: "row column" }, make("span", { textContent: T.districtsSetName }), name),
      make("label", { class: "row column" }, make("span", { textContent: T.districtsFile }), fileField(file)),
      make("p", { class: "buttons" }, make("button", { type: "submit", textContent: T.districtsStore })));
    return make("details", { open: !this.sets.length, class: "add" }, make("summary", { textContent: T.districtsAdd }), form);
  }

  alerts(found) {
    const line = (alert) => {
      const words = (this.unit ? T.weightsAlertRule : T.alertRule)({ unit: this.unit, area: alert.area ?? T.alertEach, state: alert.state, probability: percent(alert.probability), share: percent(alert.share) });
      const message = alert.messages[0];
      const remove = this.guarded(async () => { await call(`/situations/${this.situation.id}/alerts/${alert.id}`, { method: "DELETE" }); await this.load(true); });
      return make("li", {}, make("div", {}, make("b", { textContent: words }), make("small", { textContent: joined(alert.webhook ?? alert.email, alert.over.length ? T.alertOver({ areas: alert.over.map((one) => one.area).join(", ") }) : T.alertQuiet, message ? T.alertMessages[message.state] : null, message?.error) })),
        make("button", { type: "button", class: "quiet danger", textContent: T.alertRemove, "aria-label": `${T.alertRemove}: ${words}`, on: { click: remove } }));
    };
    const secret = this.secret?.situation === this.situation.id && found.some((alert) => alert.id === this.secret.alert)
      ? make("p", { class: "offer", role: "status" }, T.alertSecret, " ", make("code", { textContent: this.secret.value, dir: "ltr" })) : null;
    return make("section", {}, make("h2", { textContent: T.alertTitle }), make("p", { class: "hint", textContent: T.alertHint }), make("ul", { class: "alerts" }, ...found.map(line)), secret);
  }

  newAlert(areas) {
    const area = make("select");
    options(area, [["", T.alertEach], ...areas.map((one) => [one, one])], "");
    const number = (value) => make("input", { type: "number", min: 0, max: 100, step: 1, value, required: true });
    const [probability, share] = [number(70), number(5)];
    const to = make("input", { required: true, maxLength: 2000, autocomplete: "off", placeholder: "https://…", pattern: "\\s*(https?://\\S+|[^\\s@]+@[^\\s@]+)\\s*", title: T.alertTo });
    const send = this.guarded(async () => {
      const rule = { districts: this.chosen, area: area.value || null, state: this.state, probability: probability.value / 100, share: share.value / 100 };
      const made = await post(`/situations/${this.situation.id}/alerts`, { ...rule, [/^\s*https?:/.test(to.value) ? "webhook" : "email"]: to.value.trim() });
      // Shown until the page is closed: a new version must not take it away before it was copied.
      if (made.webhook) this.secret = { situation: this.situation.id, alert: made.id, value: made.secret };
      await this.changed("alert");
      setTimeout(this.guarded(() => ($("page-districts").hidden ? undefined : this.load(true))), CHECKED);
    });
    const row = (text, input) => make("label", { class: "row column" }, make("span", { textContent: text }), input);
    return make("form", { class: "alert", on: { submit: (event) => { event.preventDefault(); send(); } } },
      make("h3", { textContent: T.alertNew({ state: this.state }) }), row(T.alertArea, area), row(T.alertProbability, probability), row(this.unit ? T.weightsAlertShare({ unit: this.unit }) : T.alertShare, share), row(T.alertTo, to),
      make("p", { class: "buttons" }, make("button", { type: "submit", textContent: T.alertSet })));
  }
}
