// When things happened: a slider over the times that reports tell of. It filters the reports on the map and in the list. If the
// state of the map changes over time, the map follows the slider too. It is independent of the versions of the map, which are about
// when the map was made.

import { $ } from "./dom.js";
import { locale, T } from "./text.js";

const DAY = 24 * 3600; // seconds
const ALL = -1; // the slider's first position on maps that do not move: all times, before the first of them
const FRAME = 900; // milliseconds that each position is shown while playing, at least

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const spoken = (seconds, step) => {
  const day = { dateStyle: "medium", timeZone: "UTC" };
  const from = new Date(1000 * seconds);
  return step < DAY ? `${from.toLocaleString(locale, { ...day, timeStyle: "short" })} UTC` : from.toLocaleDateString(locale, day);
};

// The distance of the moments of a version, in seconds.
const stepOf = (moments) => (moments.length > 1 ? moments[1] - moments[0] : 0);

// A moment of a map in words: the day, and the time of day if its moments are closer than days.
export const momentInWords = (moment, moments) => spoken(moment, stepOf(moments));

export class EventTime {
  // onChange() is called when the chosen time has changed; drawn() resolves when the map is drawn.
  constructor({ onChange, drawn }) {
    Object.assign(this, { onChange, drawn });
    this.reset();
    $("event-slider").addEventListener("input", () => { this.stop(); const at = Number($("event-slider").value); this.choose(at === ALL ? null : at); });
    $("event-all").addEventListener("click", () => { this.stop(); this.choose(this.rest()); });
    $("event-play").addEventListener("click", () => (this.playing ? this.stop() : this.play()));
  }

  reset(wanted = null) {
    this.stop();
    // moments: those that the map can show; fixed: the one that an earlier version shows, in words.
    Object.assign(this, { start: 0, step: DAY, position: null, wanted, counts: [], exact: false, moments: [], fixed: null, changes: false });
    $("events").hidden = $("event-note").hidden = true;
  }

  get moving() {
    return this.moments.length > 1;
  }

  // Without a choice: the newest moment of a map that moves, else all times.
  rest() {
    return this.moving ? this.moments.length - 1 : null;
  }

  // Takes the moments of the shown version, null if the map does not move; those of an earlier version cannot be chosen. `changes`:
  // whether the map shows changes.
  follow(moments, { earlier, changes }) {
    const asked = this.asked();
    this.changes = changes;
    this.moments = earlier ? [] : moments ?? [];
    this.fixed = earlier && moments ? momentInWords(moments.at(-1), moments) : null;
    if (this.moving) this.step = stepOf(this.moments);
    this.seek(asked);
  }

  // Takes the counts of reports per time step from the service; steps start at full hours or days of UTC.
  update({ start, step, counts, exact }) {
    const asked = this.asked();
    this.exact = exact;
    if (!this.moving) Object.assign(this, { start: start ?? 0, step, counts });
    this.seek(asked);
    this.wanted = null;
  }

  // The chosen time in seconds, or the one that the address asks for; null for none.
  asked() {
    return this.position === this.rest() ? this.wanted : this.from();
  }

  seek(asked) {
    const count = this.moving ? this.moments.length : this.counts.length;
    $("events").hidden = count < 2;
    const found = asked === null ? -1 : this.moving ? this.nearest(asked) : Math.floor((asked - this.start) / this.step);
    const there = found >= 0 && found < count;
    this.position = there ? found : this.rest();
    this.wanted = there ? null : asked; // the counts of reports may still come
    this.show();
  }

  nearest(asked) {
    return this.moments.reduce((best, moment, at) => (Math.abs(moment - asked) < Math.abs(this.moments[best] - asked) ? at : best), 0);
  }

  from() {
    return this.moving ? this.moments[this.position] : this.start + this.position * this.step;
  }

  // The chosen time for an address, to the minute; null without a choice.
  link() {
    return this.position === this.rest() ? null : `${new Date(1000 * this.from()).toISOString().slice(0, 16)}Z`;
  }

  // The chosen moment of a map that moves, for requests; null for the newest.
  moment() {
    return this.moving && this.position !== this.rest() ? new Date(1000 * this.from()).toISOString() : null;
  }

  // The moment that the map shows: for requests (null for the newest) and in words (null if the map does not move).
  shown() {
    return { moment: this.moment(), when: this.moving ? this.when() : null };
  }

  // The chosen time, from `since` on and before `until`; null for all times.
  during() {
    if (this.position === this.rest()) return null;
    const since = this.moving ? this.from() - this.step / 2 : this.from();
    return { since, until: since + this.step };
  }

  choose(position) {
    this.position = position;
    this.wanted = null;
    this.show();
    this.onChange();
  }

  show() {
    const resting = this.position === this.rest();
    const slider = $("event-slider");
    slider.min = this.moving ? 0 : ALL;
    slider.max = Math.max((this.moving ? this.moments : this.counts).length - 1, 0);
    slider.value = this.position ?? ALL;
    $("event-all").textContent = this.moving ? T.eventNewest : T.eventAll;
    $("event-all").setAttribute("aria-pressed", resting);
    const note = this.note(resting);
    $("event-note").hidden = !note || $("events").hidden;
    $("event-note").textContent = note;
    const words = this.moving ? this.when() : resting ? T.eventAll : (this.exact ? T.eventShown : T.eventShownCells)({ when: this.when(), n: this.counts[this.position] });
    $("event-moment").textContent = words;
    slider.setAttribute("aria-valuetext", words);
  }

  // What follows the slider, and what does not.
  note(resting) {
    const cells = this.exact || resting ? "" : ` ${T.eventNoteCells}`;
    if (this.moving && this.changes) return `${T.eventNoteChanges}${cells}`;
    if (this.moving) return resting ? T.eventNoteNewest : `${T.eventNoteMoving}${cells}`;
    if (this.fixed) return T.eventNoteFixed({ when: this.fixed });
    return resting ? "" : `${T.eventNote}${cells}`;
  }

  when() {
    if (this.moving || this.step <= DAY) return spoken(this.from(), this.step);
    return T.previewTime({ from: spoken(this.from(), this.step), to: spoken(this.from() + this.step - DAY, this.step) });
  }

  async play() {
    const playing = {};
    this.playing = playing;
    $("event-play").textContent = T.eventPause;
    for (let next = this.next() ?? 0; next !== null; next = this.next()) {
      this.choose(next);
      await pause(FRAME);
      await this.drawn();
      if (this.playing !== playing) return;
    }
    this.stop();
  }

  // The next moment, or the next position that has reports, so that empty days are skipped; null after the last.
  next() {
    if (this.moving) return this.position < this.rest() ? this.position + 1 : null;
    const position = this.counts.findIndex((n, at) => at > (this.position ?? -1) && n > 0);
    return position < 0 ? null : position;
  }

  stop() {
    this.playing = null;
    $("event-play").textContent = T.eventPlay;
  }
}
