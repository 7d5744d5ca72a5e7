// Spot checks: places to check, drawn at random, and what the answers say about the map.

import { call, get } from "./api.js";
import { CheckPlaces } from "./check-places.js";
import { $, fill, make, options } from "./dom.js";
import { fileField } from "./file-field.js";
import { count, percent } from "./panels.js";
import { joined, signs, T } from "./text.js";

const FORMS = ["csv", "geojson", "kml", "xlsx"];
const MOST_PLACES = 10000; // the limit of the service

export class ChecksPanel {
  // save(rest) downloads an address of the map; guarded(act) shows errors on the page; onMarks() is called when the places to
  // mark have changed; onPlace(longitude, latitude) shows one of them on the map.
  constructor({ save, guarded, onMarks, onPlace }) {
    Object.assign(this, { save, guarded, situation: null });
    this.places = new CheckPlaces({ guarded, onMarks, onPlace, onHandIn: guarded(() => this.judge(this.places.file(), this.places.plan.version)) });
    this.size = make("input", { type: "number", min: 2, max: MOST_PLACES, step: 1, placeholder: T.checksSizeAuto, autocomplete: "off" });
    this.seed = make("input", { type: "number", min: 0, max: 2 ** 31 - 1, step: 1, value: 0, required: true, autocomplete: "off" });
    this.file = make("input", { type: "file", required: true, on: { change: () => this.guess() } });
    this.version = make("select", { required: true });
    this.planned = make("div", { id: "checks-planned", role: "status" });
    this.found = make("div", { id: "checks-found", role: "status" });
  }

  // versions: the newest first; whether answers may be uploaded. A plan and its figures stay visible when new versions are
  // published, and are removed when another map is opened.
  update(situation, versions, mayReport) {
    $("tab-checks").hidden = !situation || !versions.length;
    if ($("tab-checks").hidden) {
      this.shown = null;
      this.places.clear();
      return;
    }
    const now = `${situation.id} ${mayReport}`;
    const numbers = versions.map(({ number }) => number);
    const another = now !== this.shown;
    Object.assign(this, { situation, shown: now, newest: numbers[0] });
    if (another) this.open(situation, mayReport, numbers);
    options(this.version, numbers.map((number) => [number, `${T.version} ${number}`]), this.file.files.length && numbers.includes(Number(this.version.value)) ? this.version.value : numbers[0]);
  }

  open(situation, mayReport, numbers) {
    fill(this.planned);
    fill(this.found);
    const row = (text, input) => make("label", { class: "row column" }, make("span", { textContent: text }), input);
    const form = (id, act, ...parts) => make("form", { id, on: { submit: (event) => { event.preventDefault(); act(); } } }, ...parts);
    const send = (text) => make("p", { class: "buttons" }, make("button", { type: "submit", textContent: text }));
    const answers = mayReport
      ? form("checks-answers", this.guarded(() => this.handIn()), make("h2", { textContent: T.checksAnswers }), make("p", { class: "hint", textContent: T.checksAnswersHint({ states: situation.states.join(", ") }) }),
        row(T.checksFile, fileField(this.file)), row(T.checksVersion, this.version), send(T.checksSend))
      : make("p", { class: "hint", textContent: T.checksNeedsKey });
    fill($("checks"), form("checks-plan", this.guarded(() => this.plan()), make("h2", { textContent: T.checksTitle }), make("p", { class: "hint", textContent: T.checksHint }),
      row(T.checksSize, this.size), row(T.checksSeed, this.seed), send(T.checksPlan)), this.planned, this.places.element, answers, this.found);
    // Continue an earlier plan if the version that it was drawn from is still stored.
    this.places.open(situation, mayReport);
    const { last } = this.places.memory;
    if (last && numbers.includes(Number(new URLSearchParams(last).get("version")))) this.guarded(() => this.draw(last))();
    else if (last) this.places.memory.forget(last);
  }

  marks = () => this.places.marks();

  pick = (id) => this.places.pick(id);

  plan() {
    return this.draw(String(new URLSearchParams({ seed: this.seed.value, version: this.newest, ...(this.size.value ? { size: this.size.value } : {}) })));
  }

  async draw(query) {
    const { situation } = this;
    const path = `/situations/${situation.id}/checks/plan?${query}`;
    const [found, places] = await Promise.all([get(path), get(`${path}&form=geojson`)]);
    if (situation.id !== this.situation.id) return;
    const download = (name) => make("button", { type: "button", class: "quiet", textContent: T.checksForms[name], on: { click: this.guarded(() => this.save(`/checks/plan?${query}&form=${name}`)) } });
    const kind = ({ stratum, mapped }) => joined(mapped, T.checksCertainty[stratum.split("-").at(-1)]);
    fill(this.planned,
      make("p", { textContent: T.checksPlanned({ n: found.places, version: found.version, margin: signs(`± ${percent(found.margin)}`) }) }),
      table([T.checksKind, T.checksCells, T.checksPlaces], found.strata.map((one) => [kind(one), count(one.cells), count(one.checks)])),
      make("p", { class: "buttons start" }, ...FORMS.map(download)),
      make("p", { class: "hint", textContent: T.checksBlind }));
    this.places.use(query, { ...places, version: found.version });
  }

  // The name of a plan's file says which version it was drawn from.
  guess() {
    const said = /-v(\d+)-/.exec(this.file.files[0]?.name ?? "")?.[1];
    if ([...this.version.options].some((option) => option.value === said)) this.version.value = said;
  }

  handIn() {
    return this.judge(this.file.files[0], this.version.value);
  }

  async judge(file, version) {
    const body = new FormData();
    body.append("file", file);
    const response = await call(`/situations/${this.situation.id}/checks/result?version=${version}`, { method: "POST", body });
    this.show(await response.json());
    this.found.scrollIntoView({ block: "nearest" });
  }

  show(found) {
    const between = (value, low, high) => (value === null ? T.checksNone : T.districtsBetween({ share: percent(value), low: percent(low), high: percent(high) }));
    const square = (share) => count(Math.round(share * found.square_kilometres));
    const area = (row) => [between(row.area, row.area_low, row.area_high), make("small", { textContent: T.checksSquare({ area: square(row.area), low: square(row.area_low), high: square(row.area_high) }) })];
    const inQuestion = (row) => row.state === this.situation.positive;
    const rows = [...found.states].sort((a, b) => inQuestion(b) - inQuestion(a));
    fill(this.found,
      make("p", { class: "big" }, make("b", { textContent: T.checksRight({ share: percent(found.accuracy.value) }) })),
      make("p", { textContent: T.checksInterval({ low: percent(found.accuracy.low), high: percent(found.accuracy.high) }) }),
      table([T.checksState, T.checksMapped, T.checksReally], rows.map((row) => [row.state, percent(row.mapped_share), area(row)])),
      table([T.checksState, T.checksUsers, T.checksProducers], rows.map((row) => [row.state, between(row.users, row.users_low, row.users_high), between(row.producers, row.producers_low, row.producers_high)])),
      make("p", { class: "hint", textContent: T.checksHow({ n: found.checks, version: found.version, level: percent(found.level) }) }),
      make("ul", { class: "notes hint" }, ...found.notes.map((note) => make("li", { textContent: note }))));
  }
}

// One row per entry, with its name in the first column.
function table(head, rows) {
  const line = ([name, ...cells]) => make("tr", {}, make("th", { scope: "row", textContent: name }), ...cells.map((content) => make("td", {}, ...[content].flat())));
  return make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col", textContent: text })))), make("tbody", {}, ...rows.map(line)));
}
