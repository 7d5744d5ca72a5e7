// A field for a file, in the language of the page: browsers label their own in the language of the browser.

import { make } from "./dom.js";
import { joined, T } from "./text.js";

// Goes into a label, which makes all of it clickable; the input itself stays for the keyboard and for screen readers.
export function fileField(input) {
  const name = make("span", { class: "file-name", textContent: T.noFile, dir: "auto" });
  const show = () => { name.textContent = joined(...[...input.files].map((file) => file.name)) || T.noFile; };
  input.classList.add("hidden");
  input.addEventListener("change", show);
  return make("span", { class: "file-field" }, input, make("span", { class: "file-button", "aria-hidden": "true", textContent: T.welcomeChoose }), name);
}
