// When things happened: a slider over the times that reports tell of. It picks reports, on the map and in the list; it has
// nothing to do with the versions of the map, which are about when the map was made.

import { $ } from "./dom.js";
import { locale, T } from "./text.js";

const HOUR = 3600;
const DAY = 24 * HOUR;
const STEPS = [HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY]; // seconds
const MOST = 60; // positions of the slider
const FRAME = 900; // milliseconds that each position is shown while playing

export class EventTime {
  // onChange() when other reports are to be shown.
  constructor({ onChange }) {
    this.onChange = onChange;
    this.reset();
    $("event-slider").addEventListener("input", () => { this.stop(); this.choose(Number($("event-slider").value)); });
    $("event-all").addEventListener("click", () => { this.stop(); this.choose(null); });
    $("event-play").addEventListener("click", () => (this.timer ? this.stop() : this.play()));
  }

  reset(wanted = null) {
    this.stop();
    Object.assign(this, { start: 0, step: DAY, count: 0, position: null, wanted, features: [] });
    $("events").hidden = $("event-note").hidden = true;
  }

  // Steps start at full hours, days … of UTC, as times in reports are told.
  update(features) {
    this.features = features;
    const times = features.map((feature) => feature.properties.time).filter((time) => Number.isFinite(time));
    const first = times.reduce((least, time) => Math.min(least, time), Infinity);
    const last = times.reduce((most, time) => Math.max(most, time), -Infinity);
    const before = this.position === null ? null : this.from();
    this.step = STEPS.find((step) => (last - first) / step < MOST - 1) ?? STEPS.at(-1);
    this.start = Math.floor(first / this.step) * this.step;
    this.count = times.length ? Math.floor((last - this.start) / this.step) + 1 : 0;
    $("events").hidden = this.count < 2;
    const asked = before ?? this.wanted;
    this.wanted = null;
    this.position = asked !== null && asked >= this.start && asked <= last ? Math.floor((asked - this.start) / this.step) : null;
    this.show();
  }

  from() {
    return this.start + this.position * this.step;
  }

  // The chosen time for an address, to the minute; null for all times.
  link() {
    return this.position === null ? null : `${new Date(1000 * this.from()).toISOString().slice(0, 16)}Z`;
  }

  holds({ properties: { time } }) {
    return this.position === null || (time >= this.from() && time < this.from() + this.step);
  }

  choose(position) {
    this.position = position;
    this.show();
    this.onChange();
  }

  show() {
    const all = this.position === null;
    $("event-slider").max = Math.max(this.count - 1, 0);
    $("event-slider").value = all ? this.count - 1 : this.position;
    $("event-all").setAttribute("aria-pressed", all);
    $("event-note").hidden = all || $("events").hidden;
    const words = all ? T.eventAll : T.eventShown({ when: this.when(), n: this.features.filter((feature) => this.holds(feature)).length });
    $("event-moment").textContent = words;
    $("event-slider").setAttribute("aria-valuetext", words);
  }

  when() {
    const day = { dateStyle: "medium", timeZone: "UTC" };
    const from = new Date(1000 * this.from());
    if (this.step < DAY) return `${from.toLocaleString(locale, { ...day, timeStyle: "short" })} UTC`;
    if (this.step === DAY) return from.toLocaleDateString(locale, day);
    return T.previewTime({ from: from.toLocaleDateString(locale, day), to: new Date(1000 * (this.from() + this.step - DAY)).toLocaleDateString(locale, day) });
  }

  play() {
    $("event-play").textContent = T.eventPause;
    this.choose(this.next() ?? 0);
    this.timer = setInterval(() => {
      const next = this.next();
      if (next === null) this.stop();
      else this.choose(next);
    }, FRAME);
  }

  // The next position that has reports: nobody waits for empty days. Null after the last.
  next() {
    const taken = new Set(this.features.map((feature) => Math.floor((feature.properties.time - this.start) / this.step)));
    for (let position = (this.position ?? -1) + 1; position < this.count; position += 1) if (taken.has(position)) return position;
    return null;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    $("event-play").textContent = T.eventPlay;
  }
}
