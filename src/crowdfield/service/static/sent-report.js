// The report that was just sent from the page, and what it changed at its place.

import { $, fill, make } from "./dom.js";
import { percent } from "./panels.js";
import { T } from "./text.js";

const spoken = (answer) => (answer.unknown ? T.unknown : percent(answer.probability[answer.state]));

export class SentReport {
  // onChange(version) shows what has changed since a version.
  constructor({ onChange }) {
    Object.assign(this, { onChange, pending: null });
  }

  forget() {
    this.pending = null;
  }

  // The answer about the place before the report was sent; null without a map yet.
  begin(version, before) {
    this.pending = { version: version ?? 0, said: before ? spoken(before) : null };
    $("report-outcome").textContent = "";
  }

  // The probability before and after, once a version includes the report.
  answered(answer) {
    if (!this.pending || answer.version <= this.pending.version) return;
    const { version, said: before } = this.pending;
    const now = spoken(answer);
    const text = before !== now ? T.addResult({ state: answer.state, before: before ?? "–", after: now }) : answer.unknown ? T.addStillUnknown({ state: answer.state }) : T.addNoChange({ state: answer.state, now });
    fill($("report-outcome"), make("b", { textContent: text }), " ", version ? make("button", {
      type: "button", class: "quiet", textContent: T.addShowChange, on: { click: () => this.onChange(version) },
    }) : null);
    this.forget();
  }
}
