// When things happened: a slider over the times that reports tell of. It filters the reports on the map and in the list. It is
// independent of the versions of the map, which are about when the map was made.

import { $ } from "./dom.js";
import { locale, T } from "./text.js";

const DAY = 24 * 3600; // seconds
const ALL = -1; // the slider's first position: all times, before the first of them
const FRAME = 900; // milliseconds that each position is shown while playing

export class EventTime {
  // onChange() is called when the chosen time has changed.
  constructor({ onChange }) {
    this.onChange = onChange;
    this.reset();
    $("event-slider").addEventListener("input", () => { this.stop(); const at = Number($("event-slider").value); this.choose(at === ALL ? null : at); });
    $("event-all").addEventListener("click", () => { this.stop(); this.choose(null); });
    $("event-play").addEventListener("click", () => (this.timer ? this.stop() : this.play()));
  }

  reset(wanted = null) {
    this.stop();
    Object.assign(this, { start: 0, step: DAY, position: null, wanted, counts: [], exact: false });
    $("events").hidden = $("event-note").hidden = true;
  }

  // Takes the counts of reports per time step from the service; steps start at full hours or days of UTC.
  update({ start, step, counts, exact }) {
    const before = this.position === null ? null : this.from();
    Object.assign(this, { start: start ?? 0, step, counts, exact });
    $("events").hidden = counts.length < 2;
    const asked = before ?? this.wanted;
    this.wanted = null;
    const position = asked === null ? -1 : Math.floor((asked - this.start) / step);
    this.position = position >= 0 && position < counts.length ? position : null;
    this.show();
  }

  from() {
    return this.start + this.position * this.step;
  }

  // The chosen time for an address, to the minute; null for all times.
  link() {
    return this.position === null ? null : `${new Date(1000 * this.from()).toISOString().slice(0, 16)}Z`;
  }

  // The chosen time, from `since` on and before `until`; null for all times.
  during() {
    return this.position === null ? null : { since: this.from(), until: this.from() + this.step };
  }

  choose(position) {
    this.position = position;
    this.show();
    this.onChange();
  }

  show() {
    const all = this.position === null;
    $("event-slider").max = Math.max(this.counts.length - 1, 0);
    $("event-slider").value = all ? ALL : this.position;
    $("event-all").setAttribute("aria-pressed", all);
    $("event-note").hidden = all || $("events").hidden;
    $("event-note").textContent = this.exact ? T.eventNote : `${T.eventNote} ${T.eventNoteCells}`;
    const words = all ? T.eventAll : (this.exact ? T.eventShown : T.eventShownCells)({ when: this.when(), n: this.counts[this.position] });
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

  // The next position that has reports, so that empty days are skipped; null after the last.
  next() {
    const position = this.counts.findIndex((n, at) => at > (this.position ?? -1) && n > 0);
    return position < 0 ? null : position;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    $("event-play").textContent = T.eventPlay;
  }
}
