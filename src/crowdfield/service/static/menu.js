// The menu: language, theme, copying a link or the code for embedding, printing.

import { $, make, options } from "./dom.js";
import { keep, recall } from "./kept.js";
import { chooseLanguage, language, LANGUAGES, T } from "./text.js";

const PAPER_WIDTH = 680; // pixels between the margins of A4 and of US Letter

export class Menu {
  // address({ embedded }) is the address of what is shown; view is the map, or null if it cannot be drawn.
  constructor({ address, title, view }) {
    Object.assign(this, { address, title, view });
    options($("language"), Object.entries(LANGUAGES), language);
    options($("theme"), Object.entries(T.themes), recall("theme") ?? "auto");
    $("language").addEventListener("change", () => { chooseLanguage($("language").value, address({})); });
    $("theme").addEventListener("change", () => {
      keep("theme", $("theme").value === "auto" ? null : $("theme").value);
      dispatchEvent(new Event("theme-chosen"));
    });
    $("share").addEventListener("click", () => this.copy(address({})));
    $("embed").addEventListener("click", () => this.copy(this.frame()));
    $("print").addEventListener("click", () => { $("menu").hidePopover(); print(); });
    $("menu").addEventListener("toggle", () => { $("menu-outcome").textContent = ""; });
    addEventListener("beforeprint", () => this.paper());
  }

  frame() {
    const frame = make("iframe", { src: this.address({ embedded: true }), title: this.title(), width: "100%", height: "480" });
    frame.setAttribute("loading", "lazy");
    return frame.outerHTML;
  }

  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      $("menu-outcome").textContent = T.shared;
    } catch (error) {
      // The clipboard is missing without https, and browsers may refuse access.
      if (!(error instanceof TypeError) && error.name !== "NotAllowedError") throw error;
      $("menu-outcome").textContent = T.shareFailed;
    }
  }

  // The canvas of the map is empty in print, so a copy of it is printed. An image element would have to be decoded first,
  // and printing does not wait for that.
  paper() {
    $("paper-title").textContent = this.title();
    $("paper-address").textContent = this.address({});
    const { width, height } = $("map").getBoundingClientRect();
    $("stage").style.setProperty("--map-width", `${width}px`);
    $("stage").style.setProperty("--map-height", `${height}px`);
    $("stage").style.setProperty("--map-zoom", Math.min(1, PAPER_WIDTH / width));
    $("paper-map").hidden = !this.view;
    this.view?.copyTo($("paper-map"));
  }
}
