// What figures of districts count: people or households, from a raster that an admin stores with the map.

import { call } from "./api.js";
import { make } from "./dom.js";
import { fileField } from "./file-field.js";
import { locale, T } from "./text.js";

const significant = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 });
// Rounded to the digits that an estimate with an interval has.
export const amount = (value) => significant.format(value);

// The amount in a district with its interval.
export function numbered(row) {
  const [share, low, high] = [row.amount, row.amount_low, row.amount_high].map(amount);
  return T.districtsBetween({ share, low, high });
}

// The amount in a district with its unit, its interval, and the total of the district.
export function counted(row, unit, share) {
  return [make("b", { textContent: numbered(row) }), make("small", { textContent: T.weightsOf({ share, total: amount(row.weight), unit }) })];
}

// For admins: what is counted now, a form to upload other weights, and a button to remove them. onChange() after a change.
export function weightsForm({ path, weights, guarded, onChange }) {
  const name = make("input", { required: true, maxLength: 60, pattern: "\\S.*", autocomplete: "off", value: weights?.name ?? T.weightsPeople });
  const file = make("input", { type: "file", required: true, accept: ".tif,.tiff" });
  const send = guarded(async () => {
    const body = new FormData();
    body.append("file", file.files[0]);
    body.append("name", name.value.trim());
    await call(path, { method: "PUT", body });
    await onChange();
  });
  const remove = guarded(async () => { await call(path, { method: "DELETE" }); await onChange(); });
  const row = (text, input) => make("label", { class: "row column" }, make("span", { textContent: text }), input);
  const now = weights && make("p", { textContent: weights.current ? T.weightsNow({ unit: weights.name, total: amount(weights.total) }) : T.weightsOutdated({ unit: weights.name }) });
  const form = make("form", { on: { submit: (event) => { event.preventDefault(); send(); } } },
    make("p", { class: "hint", textContent: T.weightsHint }), row(T.weightsName, name), row(T.districtsFile, fileField(file)),
    make("p", { class: "buttons" }, weights && make("button", { type: "button", class: "quiet danger", textContent: T.weightsRemove, on: { click: remove } }), make("button", { type: "submit", textContent: T.weightsStore })));
  return make("details", { class: "add weights", open: Boolean(weights && !weights.current) }, make("summary", { textContent: T.weightsTitle }), now, form);
}
