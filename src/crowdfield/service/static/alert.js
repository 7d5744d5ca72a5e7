// What failed, on the page.

import { signedIn } from "./api.js";
import { $ } from "./dom.js";
import { T } from "./text.js";

export function say(message) {
  $("alert").hidden = !message;
  $("alert").textContent = message || "";
}

// Whether the page shows this message, or none for "".
export const said = (message) => $("alert").textContent === message;

// Every failure is shown on the page until the same action succeeds. The success of another action in the background, or of
// an attempt that began earlier, does not remove it: nobody may have read it yet.
export const guarded = (act) => {
  let fault = null;
  return async (...given) => {
    const before = fault;
    try {
      const answer = await act(...given);
      if (before && before === fault && said(before.text)) say("");
      return answer;
    } catch (error) {
      fault = { text: error.status === 401 ? (signedIn() ? T.keyWrong : T.needKey) : error instanceof TypeError && !error.status ? T.offline : T.error({ message: error.problem?.faults?.[0]?.what ?? error.message }) };
      say(fault.text);
      return undefined;
    }
  };
};
