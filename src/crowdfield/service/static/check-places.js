// The places of a spot-check plan and the answers for each, stored in this browser until they are uploaded.

import { checkShape } from "./check-shapes.js";
import { download, fill, make } from "./dom.js";
import { keep, recall } from "./kept.js";
import { place as coordinates } from "./panels.js";
import { joined, T } from "./text.js";

const PLANS_KEPT = 5; // of each map, with their answers

// The plans of a map that this browser has stored: the query of the last one, and the answers by plan and place.
class Memory {
  constructor({ id, created }) {
    this.name = `checks-${id}-${created}`;
    this.plans = JSON.parse(recall(this.name) ?? "[]"); // the newest first
  }

  get last() {
    return this.plans[0]?.query ?? null;
  }

  answers(query) {
    return this.plans.find((plan) => plan.query === query)?.answers ?? {};
  }

  keep(query, answers) {
    this.plans = [{ query, answers }, ...this.plans.filter((plan) => plan.query !== query)].slice(0, PLANS_KEPT);
    keep(this.name, JSON.stringify(this.plans));
  }

  forget(query) {
    this.plans = this.plans.filter((plan) => plan.query !== query);
    keep(this.name, this.plans.length ? JSON.stringify(this.plans) : null);
  }
}

export class CheckPlaces {
  // onMarks() is called when the marks have changed; onPlace(longitude, latitude) shows a place on the map; onHandIn() uploads
  // the answers.
  constructor({ guarded, onMarks, onPlace, onHandIn }) {
    Object.assign(this, { guarded, onMarks, onPlace, onHandIn, places: [], answers: {}, chosen: null });
    this.element = make("div", { id: "checks-places" });
    this.here = make("section", { id: "check-here", hidden: true, tabIndex: -1 });
    this.count = make("p", { role: "status" });
    this.list = make("ol", { id: "check-list" });
  }

  open(situation, mayReport) {
    Object.assign(this, { situation, mayReport, memory: new Memory(situation) });
    this.clear();
  }

  clear() {
    Object.assign(this, { places: [], answers: {}, chosen: null, query: null });
    fill(this.element);
    this.onMarks();
  }

  // The plan of a query, as GeoJSON of the service.
  use(query, plan) {
    Object.assign(this, { query, plan, places: plan.features, answers: this.memory.answers(query), chosen: null });
    this.memory.keep(query, this.answers);
    this.handIn = make("button", { type: "button", on: { click: this.onHandIn } });
    const saving = make("button", { type: "button", class: "quiet", textContent: T.checksSaveAnswers, on: { click: () => download(this.file(), `${this.situation.id}-checks-v${plan.version}-answers.geojson`) } });
    fill(this.element, this.count, make("ul", { class: "check-legend" }, ...checkLegend()), this.here,
      make("details", {}, make("summary", { textContent: T.checksList }), this.list),
      this.mayReport && make("p", { class: "buttons start" }, this.handIn, saving));
    this.show();
  }

  done = (place) => place.id in this.answers;

  // For the map: places and whether they are answered, never the probabilities there, which would influence the answers.
  marks() {
    return this.places.map((place) => ({ type: "Feature", properties: { id: place.id, done: this.done(place) }, geometry: place.geometry }));
  }

  // The plan with the answers filled in, as it is uploaded.
  file() {
    const features = this.places.map((place) => ({ ...place, properties: { ...place.properties, state: this.answers[place.id] ?? null } }));
    return new Blob([JSON.stringify({ ...this.plan, features })], { type: "application/geo+json" });
  }

  show() {
    const answered = this.places.filter(this.done).length;
    this.count.textContent = T.checksCount({ done: answered, n: this.places.length });
    this.handIn.textContent = T.checksFromMap({ n: answered });
    this.handIn.disabled = answered < 2;
    fill(this.list, ...this.places.map((place) => make("li", {}, make("button", { type: "button", class: "quiet", "aria-pressed": place === this.chosen, on: { click: () => this.pick(place.id) } },
      checkShape(this.done(place) ? "done" : "todo"), make("span", { textContent: joined(T.checksPlace({ number: place.id }), this.done(place) ? this.answers[place.id] : T.checksToDo) })))));
    this.showHere();
    this.onMarks();
  }

  pick(id) {
    this.chosen = this.places.find((place) => place.id === id) ?? null;
    if (!this.chosen) return;
    this.show();
    this.onPlace(...this.chosen.geometry.coordinates);
    this.here.scrollIntoView({ block: "nearest" });
    this.here.focus({ preventScroll: true });
  }

  showHere() {
    this.here.hidden = !this.chosen;
    if (!this.chosen) return;
    const [longitude, latitude] = this.chosen.geometry.coordinates;
    const now = this.answers[this.chosen.id];
    const one = (state, text) => make("button", { type: "button", class: "quiet", textContent: text, "aria-pressed": state === now, on: { click: () => this.answer(state) } });
    const next = make("button", { type: "button", class: "quiet", textContent: T.checksNext, on: { click: () => this.next() } });
    const rest = this.places.some((place) => place !== this.chosen && !this.done(place));
    fill(this.here, make("h3", { textContent: T.checksPlace({ number: this.chosen.id }) }), make("p", { class: "hint", textContent: coordinates({ longitude, latitude }) }),
      ...(this.mayReport ? [make("p", { textContent: T.checksHere }), make("p", { class: "buttons start" }, ...this.situation.states.map((state) => one(state, state)), one(undefined, T.checksClear)), make("p", { class: "hint", textContent: T.checksHereHint })] : [make("p", { class: "hint", textContent: T.checksNeedsKey })]),
      rest ? make("p", { class: "buttons start" }, next) : make("p", { textContent: T.checksAllDone }));
  }

  answer(state) {
    const { [this.chosen.id]: _, ...others } = this.answers;
    this.answers = state === undefined ? others : { ...others, [this.chosen.id]: state };
    this.memory.keep(this.query, this.answers);
    this.show();
    this.here.querySelector("[aria-pressed=true]").focus();
  }

  // The nearest place that is still to do.
  next() {
    const [x, y] = this.chosen.geometry.coordinates;
    const across = Math.cos((y * Math.PI) / 180);
    const away = ({ geometry: { coordinates: [u, v] } }) => Math.hypot((u - x) * across, v - y);
    const [nearest] = this.places.filter((place) => place !== this.chosen && !this.done(place)).sort((a, b) => away(a) - away(b));
    if (nearest) this.pick(nearest.id);
  }
}

export const checkLegend = () => [["todo", T.checksToDo], ["done", T.checksDone]].map(([name, text]) => make("li", {}, checkShape(name), text));
