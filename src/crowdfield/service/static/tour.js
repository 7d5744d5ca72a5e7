// Five hints, shown when the page is used for the first time. They can be closed at once; the menu shows them again.

import { $ } from "./dom.js";
import { keep, recall } from "./kept.js";
import { T } from "./text.js";

// Each hint with the element that it is about.
const HINTS = [["colours", "legend"], ["why", "frame"], ["next", "tab-next"], ["times", "time"], ["files", "tab-files"]];

export class Tour {
  constructor() {
    this.step = 0;
    $("tour-next").addEventListener("click", () => (this.step < HINTS.length - 1 ? this.show(this.step + 1) : this.end()));
    $("tour-back").addEventListener("click", () => this.show(this.step - 1));
    $("tour-skip").addEventListener("click", () => this.end());
    $("tour-again").addEventListener("click", () => { $("menu").hidePopover(); this.show(0); $("tour-next").focus(); });
    addEventListener("keydown", (event) => { if (event.key === "Escape" && !$("tour").hidden) this.end(); });
  }

  welcome() {
    if (recall("tour") === null) this.show(0);
  }

  show(step) {
    this.point(null);
    this.step = step;
    const [name, target] = HINTS[step];
    $("tour").hidden = false;
    $("tour-title").textContent = T.tourTitle({ step: step + 1, steps: HINTS.length });
    $("tour-text").textContent = T.tour[name];
    $("tour-back").hidden = step === 0;
    $("tour-next").textContent = step < HINTS.length - 1 ? T.tourNext : T.tourDone;
    $("tour-skip").hidden = step === HINTS.length - 1;
    this.point(target);
  }

  point(target) {
    document.querySelectorAll(".pointed").forEach((element) => element.classList.remove("pointed"));
    if (target) $(target).classList.add("pointed");
  }

  end() {
    this.point(null);
    $("tour").hidden = true;
    keep("tour", "seen");
  }
}
