// On a phone the panel is a sheet over the lower part of the map. It stands at one of three heights: "peek" (legend and
// tabs), "half" or "full"; it is moved by dragging, by a tap on its handle, or with the arrow keys.

import { T } from "./text.js";

const STATES = ["peek", "half", "full"];
const DRAGGED = 6; // pixels that a finger may move in a tap
const FLICK = 0.4; // pixels per millisecond; a faster drag, however short, moves the sheet to the next height

export class Sheet {
  constructor(panel, handle, grips) {
    Object.assign(this, { panel, handle });
    this.narrow = matchMedia("(max-width: 760px)");
    this.put("peek");
    handle.addEventListener("click", () => { if (!this.moved) this.put(STATES[(STATES.indexOf(this.state) + 1) % STATES.length]); });
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.put(STATES[Math.min(Math.max(STATES.indexOf(this.state) + step, 0), 2)]);
    });
    for (const grip of [handle, ...grips]) grip.addEventListener("pointerdown", (event) => this.drag(grip, event));
    // Elements that get the keyboard focus must be visible.
    panel.addEventListener("focusin", (event) => { if (event.target.closest("[role=tabpanel]")) this.open(); });
    const top = panel.querySelector("[role=tablist]");
    const measure = () => document.documentElement.style.setProperty("--peek", `${top.offsetTop + top.offsetHeight}px`);
    [top, ...grips].forEach((element) => new ResizeObserver(measure).observe(element));
  }

  put(state) {
    this.state = state;
    document.body.dataset.sheet = state;
    this.panel.style.height = "";
    this.handle.setAttribute("aria-expanded", state !== "peek");
    this.handle.setAttribute("aria-label", T.sheet[state]);
  }

  open() {
    if (this.state === "peek") this.put("half");
  }

  // How many pixels of the lower part of the stage lie behind the open sheet.
  covers() {
    if (!this.narrow.matches || this.state === "peek") return 0;
    return Math.max(0, 0.5 * this.panel.parentElement.clientHeight - this.lowest()); // the stage ends above the closed sheet
  }

  // The height of the closed sheet.
  lowest() {
    return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--peek"));
  }

  drag(grip, event) {
    this.moved = false;
    if (!this.narrow.matches || event.button) return;
    const from = { y: event.clientY, height: this.panel.offsetHeight };
    let last = { y: event.clientY, at: event.timeStamp, speed: 0 };
    grip.setPointerCapture(event.pointerId);
    const move = (now) => {
      if (Math.abs(now.clientY - from.y) > DRAGGED) this.moved = true;
      const passed = Math.max(now.timeStamp - last.at, 1);
      last = { y: now.clientY, at: now.timeStamp, speed: (last.y - now.clientY) / passed };
      if (this.moved) this.panel.style.height = `${Math.max(from.height + from.y - now.clientY, 40)}px`;
    };
    const end = () => {
      for (const name of ["pointermove", "pointerup", "pointercancel"]) grip.removeEventListener(name, name === "pointermove" ? move : end);
      if (this.moved) this.put(this.nearest(this.panel.offsetHeight, last.speed));
    };
    grip.addEventListener("pointermove", move);
    grip.addEventListener("pointerup", end);
    grip.addEventListener("pointercancel", end);
  }

  nearest(height, speed) {
    if (Math.abs(speed) > FLICK) return STATES[Math.min(Math.max(STATES.indexOf(this.state) + Math.sign(speed), 0), 2)];
    const whole = this.panel.parentElement.clientHeight;
    const heights = [this.lowest(), whole / 2, whole];
    return STATES[heights.reduce((best, h, i) => (Math.abs(h - height) < Math.abs(heights[best] - height) ? i : best), 0)];
  }
}
