// The dialog for entering a key, the same on every page. The button with the id "key" opens it.

import { signedIn, useKey } from "./api.js";
import { $, make } from "./dom.js";
import { T } from "./text.js";

// hint: what the key is for; rows: what else the page asks; onOpen(); onChange(key): a key was given, or forgotten ("").
export function keyDialog({ hint, rows = [], onOpen, onChange }) {
  const value = make("input", { id: "key-value", type: "password", autocomplete: "off", spellcheck: false });
  // Only the button "use" submits the form, so that the Enter key does the same.
  const closing = (act, text) => make("button", { type: "button", value: act, class: "quiet", textContent: text, on: { click: () => dialog.close(act) } });
  const forgetting = closing("forget", T.keyForget);
  const dialog = make("dialog", { id: "key-dialog", "aria-labelledby": "key-title" },
    make("form", { id: "key-form", method: "dialog" },
      make("h2", { id: "key-title", textContent: T.keyTitle }),
      make("p", { textContent: hint }),
      make("label", { class: "row column" }, make("span", { textContent: T.keyLabel }), value),
      ...rows,
      make("p", { class: "buttons" }, forgetting, closing("cancel", T.cancel), make("button", { value: "use", textContent: T.keyUse }))));
  dialog.addEventListener("close", () => {
    const given = value.value.trim();
    value.value = "";
    const forget = dialog.returnValue === "forget";
    if (!forget && !(dialog.returnValue === "use" && given)) return;
    useKey(forget ? "" : given);
    onChange(forget ? "" : given);
  });
  document.body.append(dialog);
  $("key").addEventListener("click", () => {
    dialog.returnValue = ""; // the Escape key would leave the result of the previous visit
    forgetting.hidden = !signedIn();
    onOpen?.();
    dialog.showModal();
  });
}
