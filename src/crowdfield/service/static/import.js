// The preview of an import: what was found in the file, which map it would become, and fields to change that.

import { call } from "./api.js";
import { $, dot, fill, make, options } from "./dom.js";
import { count, distance } from "./panels.js";
import { OUTSIDE, previewColour } from "./points.js";
import { isolated, joined, T } from "./text.js";

const ROLES = ["lat", "lon", "label", "source", "time", "accuracy", "count"];
const LONG = 12; // a shared beginning of this many characters or more is left out of a list of names
const PAUSE = 350; // milliseconds without a change before the file is looked at again

export class ImportPreview {
  // target(): the id of the map to import into, or null for a new one. onDone(answer, fresh) is called after the import.
  constructor({ view, target, onDone, onShow }) {
    Object.assign(this, { view, target, onDone, onShow });
    this.file = null;
    this.timer = null;
  }

  async open(file) {
    this.file = file;
    this.plan = {};
    this.offered = {}; // the values of options that the file left open
    this.fitted = false;
    this.onShow();
    document.body.classList.add("previewing");
    document.querySelector("#import .drop").hidden = true;
    $("import-preview").hidden = false;
    fill($("import-preview"), make("p", { role: "status", textContent: T.importBusy }));
    await this.look();
  }

  close() {
    clearTimeout(this.timer);
    this.file = null;
    $("file").value = "";
    document.body.classList.remove("previewing");
    document.querySelector("#import .drop").hidden = false;
    $("import-preview").hidden = true;
    fill($("import-preview"));
    this.view?.preview(null);
  }

  async look() {
    const file = this.file;
    try {
      const answer = await this.send("/import/preview");
      if (this.file !== file) return;
      if (answer.problem) {
        this.unreadable(answer);
        return;
      }
      this.found = answer;
      this.show(answer);
      this.view?.preview(answer, { fit: !this.fitted, fresh: !this.target() });
      this.fitted = true;
    } catch (error) {
      if (this.file === file) this.refused(error);
    }
  }

  async send(rest) {
    const body = new FormData();
    body.append("file", this.file);
    body.append("plan", JSON.stringify(this.plan));
    const id = this.target();
    return (await call(id ? `/situations/${id}${rest}` : rest, { method: "POST", body })).json();
  }

  // Shows the error; the form stays, so that the last change can be corrected.
  refused(error) {
    const said = T.error({ message: error.problem?.faults?.[0]?.what ?? error.message });
    const status = $("preview-status");
    if (status) status.textContent = said;
    else fill($("import-preview"), make("p", { role: "alert", class: "problem", textContent: said }), this.buttons(false));
  }

  // A file that cannot be read as it is: why, and the choices that would help.
  unreadable({ problem, choices }) {
    Object.assign(this.offered, choices);
    this.view?.preview(null);
    const open = Object.entries(choices).map(([option, values]) => this.choice(option, values, ""));
    fill($("import-preview"), ...this.decided(Object.keys(choices)), make("p", { role: "alert", class: "problem", textContent: problem }),
      open.length > 1 ? make("p", { class: "hint", textContent: T.previewChooseOne }) : null, ...open,
      make("p", { id: "preview-status", role: "status" }), this.buttons(false));
  }

  // What was chosen where the file left it open, to be changed; except for `open` options, which are asked about again.
  decided(open = []) {
    const now = (option) => (ROLES.includes(option) ? this.plan.columns?.[option] : this.plan[option]);
    return Object.entries(this.offered).filter(([option]) => now(option) && !open.includes(option)).map(([option, values]) => this.choice(option, values, now(option)));
  }

  // One of several values for an option of the reader: a layer, what polygons stand for, or a column.
  choice(option, values, now) {
    const choose = make("select", { on: { change: () => choose.value && this.change(ROLES.includes(option) ? { columns: { ...this.plan.columns, [option]: choose.value } } : { [option]: choose.value }) } });
    const names = option === "layer" ? shortened(values) : values;
    const shown = (value, at) => ({ polygons: T.previewPolygonsAs, format: T.previewFormats }[option]?.[value] ?? names[at]);
    options(choose, [...(now ? [] : [["", T.previewUnknownLabel]]), ...values.map((value, at) => [value, shown(value, at)])], now);
    return this.field(`preview-${option}`, { layer: T.previewLayer, polygons: T.previewPolygons, format: T.previewFormat, ...T.previewRoles }[option] ?? option, choose);
  }

  change(part) {
    Object.assign(this.plan, part);
    clearTimeout(this.timer);
    $("preview-status").textContent = T.importBusy;
    this.timer = setTimeout(() => this.look(), PAUSE);
  }

  async take() {
    const fresh = !this.target();
    $("preview-status").textContent = T.importStoring;
    try {
      const answer = await this.send("/import");
      this.close();
      await this.onDone(answer, fresh);
    } catch (error) {
      this.refused(error);
    }
  }

  show(found) {
    const fresh = !this.target();
    const focused = document.activeElement?.id;
    const opened = new Set([...document.querySelectorAll("#import-preview details[open]")].map((d) => d.id));
    fill(
      $("import-preview"),
      make("h2", { textContent: T.previewTitle({ name: this.file.name }) }),
      this.rows(found),
      fresh ? this.field("preview-map-title", T.previewName, make("input", { value: found.title, maxLength: 200, on: { change: (e) => e.target.value.trim() && this.change({ title: e.target.value.trim() }) } })) : null,
      // Columns have their own fields below, unless the file has no header.
      ...this.decided(found.header.length ? ROLES : []),
      this.labels(found, fresh),
      fresh ? this.states(found) : null,
      fresh ? this.region(found) : null,
      fresh ? this.access(found) : null,
      fresh && found.silence ? this.silence(found.silence) : null,
      fresh && found.time ? this.moving(found) : null,
      this.columns(found, opened),
      make("p", { id: "preview-status", role: "status" }),
      this.buttons(true, found, fresh),
    );
    if (focused) $(focused)?.focus();
  }

  rows(found) {
    const facts = [T.previewRows({ n: found.read }), T.previewUsable({ n: found.usable })];
    if (found.people > found.usable) facts.push(T.people({ n: found.people }));
    if (found.duplicate) facts.push(T.previewDuplicate({ n: found.duplicate }));
    if (found.rejected) facts.push(T.previewRejected({ n: found.rejected }));
    const about = [T.previewSources({ n: found.sources })];
    if (found.time) about.push(span(...found.time.map((t) => t.slice(0, 10))));
    return make(
      "div",
      {},
      make("p", { id: "preview-rows" }, make("b", { textContent: joined(...facts) })),
      make("p", { class: "hint", textContent: joined(...about) }),
      found.reasons.length ? make("p", { class: "hint", textContent: found.rejected > found.rejects.length ? T.previewReasonsFirst({ n: count(found.rejects.length) }) : T.previewReasons }) : null,
      found.reasons.length ? make("ul", { id: "preview-reasons", class: "notes hint" }, ...found.reasons.map(({ reason, rows }) => make("li", { textContent: T.previewReason({ n: rows, reason: isolated(reason) }) }))) : null,
      found.rejects.length ? make("button", { type: "button", class: "quiet", id: "preview-rejects", textContent: T.previewDownload, on: { click: () => saveRejects(this.file.name, found.rejects) } }) : null,
      make("ul", { class: "notes hint" }, ...found.notes.map((note) => make("li", { textContent: note }))),
    );
  }

  labels(found, fresh) {
    const given = found.labels.map((l) => l.label);
    const meanings = fresh ? [...new Set([...given, ...found.states])] : found.states;
    const rows = found.labels.map((l, at) => {
      const choose = make("select", { "aria-label": T.previewMeans({ label: l.label }), on: { change: () => this.change({ labels: { ...this.plan.labels, [l.label]: choose.value || null }, positive: undefined }) } });
      const meaning = (m) => (m === l.label && !found.states.includes(m) ? T.previewOwnLabel : m);
      const entries = [...(fresh || l.state !== null ? [] : [["?", T.previewUnknownLabel]]), ...meanings.map((m) => [m, meaning(m)]), ["", T.previewLeaveOut]];
      options(choose, entries, l.state ?? (this.plan.labels?.[l.label] === null ? "" : fresh ? "" : "?"));
      return make("tr", { class: l.state === null ? "left-out" : "" }, make("th", { scope: "row" }, dot(previewColour(at)), l.label), make("td", { textContent: count(l.reports) }), make("td", {}, choose));
    });
    return make("div", {}, make("h3", { textContent: T.previewLabels }), make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...[T.previewLabel, T.previewReports, T.previewMeaning].map((t) => make("th", { scope: "col", textContent: t })))), make("tbody", {}, ...rows)),
      found.labels.some((l) => l.state !== null && !found.states.includes(l.state)) ? make("p", { class: "hint", textContent: T.previewOwnLabelHint }) : null);
  }

  states(found) {
    const choose = make("select", { on: { change: () => this.change({ positive: choose.value }) } });
    options(choose, found.states.map((s) => [s, s]), found.positive);
    return this.field("preview-positive", T.previewPositive, choose);
  }

  region(found) {
    const open = found.undecided.includes("region");
    const input = make("input", { value: open ? "" : found.region.map((d) => Number(d.toFixed(5))).join(", "), spellcheck: false, autocomplete: "off", on: { change: () => {
      const region = input.value.split(/[,\s]+/).filter(Boolean).map(Number);
      this.fitted = false;
      this.change({ region });
    } } });
    const view = make("button", { type: "button", class: "quiet", textContent: T.regionView, on: { click: () => { input.value = this.view?.shown().join(", ") ?? ""; input.dispatchEvent(new Event("change")); } } });
    const all = make("button", { type: "button", class: "quiet", textContent: T.previewBulk, on: { click: () => { this.fitted = false; this.change({ region: undefined }); } } });
    return make("div", {}, make("h3", { textContent: T.previewRegion }), this.field("preview-region", T.regionLabel, input),
      make("p", { class: "hint", id: "preview-outside", textContent: open ? T.previewRegionOpen : found.outside ? T.previewOutside({ n: found.outside }) : T.previewNoneOutside }, !open && found.outside ? dot(OUTSIDE) : null),
      open ? null : make("p", { class: "hint", textContent: T.previewCell({ side: distance(found.cell) }) }), make("p", { class: "buttons start" }, view, open ? null : all));
  }

  access(found) {
    const choose = make("select", { on: { change: () => this.change({ access: choose.value }) } });
    options(choose, Object.entries(T.access), found.access);
    return make("div", {}, this.field("preview-access", T.manageAccess, choose), make("p", { class: "hint", textContent: T.accessHint }));
  }

  // Offered where reports have times. Silence cannot count on a map that moves.
  moving(found) {
    const box = make("input", { type: "checkbox", id: "preview-moving", checked: found.moving, on: { change: () => this.change({ moving: box.checked || undefined, silence: undefined }) } });
    return make("div", { class: "offer" }, make("label", { class: "row check" }, box, make("span", { textContent: T.moving })), make("p", { class: "hint", textContent: T.movingHint }));
  }

  silence(offer) {
    const on = this.plan.silence != null;
    const box = make("input", { type: "checkbox", id: "preview-silence", checked: on, on: { change: () => this.change({ silence: box.checked ? offer.suggested : undefined }) } });
    const number = make("input", { type: "number", min: "0.1", max: "1000", step: "0.1", value: String(this.plan.silence ?? offer.suggested), id: "preview-silence-count", on: { change: () => number.value > 0 && this.change({ silence: Number(number.value) }) } });
    return make("div", { class: "offer" }, make("h3", { textContent: T.previewSilence(offer) }), make("p", { class: "hint", textContent: T.previewSilenceWhy(offer) }),
      make("label", { class: "row check" }, box, make("span", { textContent: T.previewSilenceUse(offer) })),
      on ? make("label", { class: "row" }, make("span", { textContent: T.previewSilenceCount }), number) : null);
  }

  columns(found, opened) {
    if (!found.header.length) return make("p", { class: "hint", textContent: found.statement });
    const selects = ROLES.map((role) => {
      const choose = make("select", { on: { change: () => this.change({ columns: choose.value ? { ...this.plan.columns, [role]: choose.value } : without(this.plan.columns, role), labels: role === "label" ? undefined : this.plan.labels, positive: role === "label" ? undefined : this.plan.positive }) } });
      const now = found.columns[role] ?? "";
      const listed = found.header.includes(now);
      options(choose, [...(listed ? [] : [["", now || T.previewNoColumn]]), ...found.header.map((h) => [h, h])], listed ? now : "");
      return this.field(`preview-${role}`, T.previewRoles[role], choose);
    });
    return make("details", { id: "preview-columns", open: opened.has("preview-columns") }, make("summary", { textContent: T.previewColumns }), make("p", { class: "hint", textContent: found.statement }), ...selects);
  }

  field(id, label, input) {
    input.id = id;
    return make("label", { class: "row column" }, make("span", { textContent: label }), input);
  }

  buttons(ready, found, fresh) {
    return make("p", { class: "buttons sticky" }, make("button", { type: "button", class: "quiet", id: "preview-cancel", textContent: T.cancel, on: { click: () => this.close() } }),
      ready ? make("button", { type: "button", id: "preview-take", disabled: !found.usable || found.undecided.length > 0, textContent: fresh ? T.previewStart : T.previewAdd({ n: found.usable }), on: { click: () => this.take() } }) : null);
  }
}

// Names without a long common beginning, of which a list on a phone would show nothing else.
function shortened(names) {
  let shared = 0;
  while (names.length > 1 && shared < names[0].length && names.every((name) => name[shared] === names[0][shared])) shared += 1;
  return shared < LONG ? names : names.map((name) => `…${name.slice(shared)}`);
}

const span = (from, to) => (from === to ? from : T.previewTime({ from, to }));

const without = (table = {}, name) => Object.fromEntries(Object.entries(table).filter(([key]) => key !== name));

function saveRejects(name, rejects) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""').replace(/^([=+\-@])/, "'$1")}"`;
  const lines = ["line,reason", ...rejects.map((r) => `${r.row},${quoted(r.reason)}`)];
  const link = make("a", { href: URL.createObjectURL(new Blob([lines.join("\r\n")], { type: "text/csv" })), download: `${name}.rejects.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The outcome of an import, with the first few rejected rows and the reasons.
export function showReceipt(receipt, started = "") {
  const outside = receipt.outside ? ` ${T.importOutside({ n: receipt.outside })}` : "";
  const rejects = receipt.rejects.slice(0, 5).map((r) => make("small", { textContent: T.importReject(r) }));
  const note = receipt.note ? make("small", { textContent: receipt.note }) : null;
  fill($("import-outcome"), make("b", { textContent: `${started} ${T.importDone(receipt)}${outside}`.trim() }), ...rejects, note);
  $("page-files").scrollTop = 0;
}
