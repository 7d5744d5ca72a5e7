// What the panel shows: reasons, sources, places to look at next, legend.

import { $, dot, fill, make, meter } from "./dom.js";
import { isolated, joined, locale, signs, T } from "./text.js";

const percentage = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
const decimal = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const signed = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2, signDisplay: "exceptZero" });
export const count = (n) => new Intl.NumberFormat(locale).format(n);
const tenth = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
// A time of today, or a date with its time.
export function moment(seconds) {
  const when = new Date(1000 * seconds);
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  return when.toDateString() === new Date().toDateString() ? when.toLocaleTimeString(locale, clock) : date(seconds);
}

export const date = (seconds) => new Date(1000 * seconds).toLocaleString(locale, { dateStyle: "medium", timeStyle: "short" });

export function percent(p) {
  if (p > 0 && p < 0.01) return signs("<\u00a01\u00a0%");
  if (p > 0.99 && p < 1) return signs(">\u00a099\u00a0%");
  return percentage.format(p).replace(/\s*%/u, "\u00a0%"); // some languages have a space of their own there
}

// Why

export function why(answer) {
  if (!answer) return fill($("why"), make("h2", { textContent: T.whyTitle }), make("p", { class: "hint", textContent: T.whyHint }));
  // If all reports say the same, even many of them do not tell where it is not so: no percentage would mean anything.
  const reported = !answer.unknown && answer.onlyLabel;
  const known = answer.unknown ? (answer.reports_in_cell ? T.whyUnknownHere : T.whyUnknown) : reported ? T.whyReportedHint({ label: answer.onlyLabel }) : answer.known < 0.45 ? T.whyPartly : T.whyKnown;
  const states = make("dl", { class: "states" });
  for (const [state, p] of Object.entries(answer.probability)) {
    // Plus and minus one standard deviation, within 0 and 1.
    const [low, high] = [Math.max(p - answer.sd[state], 0), Math.min(p + answer.sd[state], 1)];
    states.append(make("dt", { textContent: state }), make("dd", {}, meter(p)), make("dd", { textContent: signs(`${percent(p)} (${percent(low)} – ${percent(high)})`) }));
  }
  // No large number for unknown places: somebody would act on it.
  const [headline, about] = answer.unknown
    ? [T.whyUnknownBig, T.whyWhether({ state: answer.state })]
    : reported ? [T.whyReportedBig, T.whyReported({ label: answer.onlyLabel })] : [percent(answer.probability[answer.state]), answer.state];
  const big = make("div", { class: "big" }, make("b", { textContent: headline }), make("span", { textContent: about }));
  const opened = document.querySelector("#why-numbers[open]") !== null;
  fill(
    $("why"),
    big,
    make("p", { class: answer.unknown || reported ? "unknown" : "hint", textContent: known }),
    answer.sea ? make("p", { class: "hint", textContent: T.whySea }) : null,
    answer.when ? make("p", { class: "hint", textContent: T.atMoment({ when: answer.when }) }) : null,
    ...spoken(answer),
    make("p", { class: "hint", textContent: joined(place(answer), answer.reports_in_cell === null ? null : T.whyCell({ n: answer.reports_in_cell })) }),
    make("details", { id: "why-numbers", open: opened }, make("summary", { textContent: T.whyNumbers }), answer.unknown ? make("p", { class: "hint", textContent: T.whyGuess }) : reported ? make("p", { class: "hint", textContent: T.whyAssumed({ label: answer.onlyLabel }) }) : null, states, ...reasons(answer)),
  );
}

// The reasons in words; the numbers are behind them.
function spoken(answer) {
  const why = answer.why;
  if (!why) return [make("p", { class: "hint", textContent: answer.busy ? T.whyBusy : answer.newest ? T.whyNone : T.whyOld })];
  if (why.groups && !why.groups.length) return [make("p", { class: "hint", textContent: T.whyWithheld })];
  const said = why.summary
    ? ["for", "against"].filter((side) => why.summary[side]).map((side) => sentence(side, answer.state, why.summary[side]))
    : why.groups.map((g) => T.whyGrouped[g.group]({ state: answer.state, n: g.reports }));
  if (!answer.unknown && !answer.onlyLabel) said.push(...outweighed(answer));
  return [make("ul", { class: "spoken" }, ...said.map((sentence) => make("li", { textContent: sentence })))];
}

// What outweighs the reports where the number above says the opposite of them: the state is rare, or common, on the map.
function outweighed({ why, probability, state }) {
  const reports = (why.sources ?? why.groups).reduce((sum, each) => sum + each.log_odds, 0);
  const probable = probability[state] > 0.5;
  if (probable === reports > 0) return [];
  return why.prior < 0 === !probable ? [(probable ? T.whyCommon : T.whyRare)({ state })] : [];
}

// Accuracies from which sources count as usually right, or as more often right than wrong.
const [USUALLY, OFTEN] = [0.85, 0.65];

function sentence(side, state, { reports, accuracy, nearest }) {
  const how = accuracy >= USUALLY ? "usually" : accuracy >= OFTEN ? "often" : "little";
  const words = { for: T.whyFor, against: T.whyAgainst }[side][how];
  return words({ n: reports, count: T.numbersInWords[reports] ?? count(reports), nearest: distance(nearest), state });
}

export const place = ({ latitude, longitude }) =>
  `${isolated(`${Math.abs(latitude).toFixed(4)}° ${latitude < 0 ? T.south : T.north}`)}, ${isolated(`${Math.abs(longitude).toFixed(4)}° ${longitude < 0 ? T.west : T.east}`)}`;

function reasons(answer) {
  // Readers see groups of reports, and only if enough people reported.
  if (!answer.why || (answer.why.groups && !answer.why.groups.length)) return [];
  const named = answer.why.sources ?? answer.why.groups.map((g) => ({ source: T.whyGroup[g.group]({ n: g.reports }), log_odds: g.log_odds }));
  const forces = [...named].sort((a, b) => Math.abs(b.log_odds) - Math.abs(a.log_odds));
  const shown = forces.slice(0, 7);
  const rest = forces.slice(7);
  const rows = [{ name: T.whyPrior, value: answer.why.prior + answer.why.uncertainty }, ...shown.map((s) => ({ name: s.source, value: s.log_odds }))];
  if (rest.length) rows.push({ name: T.whyOthers({ n: rest.length }), value: rest.reduce((sum, s) => sum + s.log_odds, 0) });
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), Math.abs(answer.why.total), 0.5);
  const list = make("ol", { class: "forces" }, ...rows.map((row) => force(row, most)), force({ name: T.whyTotal, value: answer.why.total, sum: true }, most));
  const parts = [make("h2", { textContent: T.whySources }), make("p", { class: "hint", textContent: T.whySourcesHint }), list];
  if (answer.why.reports?.length) {
    parts.push(
      make("h2", { textContent: T.whyReports }),
      make("ul", { class: "said" }, ...answer.why.reports.map((r) => make("li", {}, make("b", { textContent: isolated(r.label) }), ` · ${joined(r.source, distance(r.metres), signs(signed.format(r.log_odds)))}`))),
    );
  }
  return parts;
}

function force({ name, value, sum }, most) {
  const bar = make("i", { class: value >= 0 ? "for" : "against" });
  bar.style.width = `${(50 * Math.abs(value)) / most}%`;
  return make("li", { class: sum ? "sum" : "" }, make("span", { textContent: name, dir: "auto" }), make("span", { class: "bar" }, bar), make("span", { textContent: signs(signed.format(value)) }));
}

export const distance = (metres) => (metres < 5 ? T.metres({ value: signs("<\u00a010") }) : metres < 950 ? T.metres({ value: Math.round(metres / 10) * 10 }) : T.kilometres({ value: tenth.format(metres / 1000) }));
// The accuracy of a place; distances under ten metres to the metre.
export const exactDistance = (metres) => (metres < 10 ? T.metres({ value: Math.max(1, Math.round(metres)) }) : distance(metres));

// Sources

export function sources(answer, { hidden, mayTrust, onTrust }) {
  const table = answer?.sources ?? [];
  if (!table.length) return fill($("sources"), make("p", { class: "hint", textContent: T.sourcesEmpty }));
  const open = new Set([...document.querySelectorAll("details.source[open]")].map((d) => d.dataset.source));
  fill(
    $("sources"),
    make("p", { class: "hint", textContent: T.sourcesHint }),
    hidden ? make("p", { class: "hint", textContent: T.sourcesHidden }) : null,
    answer.left_out ? make("p", { class: "hint", textContent: T.sourcesLeftOut({ n: answer.left_out }) }) : null,
    ...table.map((s) => source(s, answer, { mayTrust, onTrust, open: open.has(s.source) })),
  );
}

function source(s, answer, { mayTrust, onTrust, open }) {
  const range = make("i", { class: "range" });
  range.style.left = `${100 * s.accuracy_low}%`;
  range.style.width = `${100 * (s.accuracy_high - s.accuracy_low)}%`;
  const at = make("i", { class: "at" });
  at.style.left = `${100 * s.accuracy}%`;
  const told = s.informativeness === undefined || s.informativeness === null ? null : make("p", { class: "hint", textContent: T.sourceInformative({ bits: decimal.format(s.informativeness) }) });
  const details = make(
    "details",
    { class: "source", open },
    make("summary", {}, make("b", { textContent: s.source, title: s.source }), make("span", { textContent: percent(s.accuracy) }),
      make("small", { textContent: joined(T.reportsFound({ n: s.reports }), `${T.sourceAccuracy} ${signs(`${percent(s.accuracy_low)} – ${percent(s.accuracy_high)}`)}`) }), make("div", { class: "meter" }, range, at)),
    matrix(s, answer),
    ...(told ? [told] : []),
  );
  details.dataset.source = s.source;
  if (mayTrust) {
    const choose = make("select", { on: { change: () => onTrust(s.source, choose.value) } }, ...(s.trust ? [] : [make("option", { value: "", textContent: T.trustLearned, selected: true })]), ...Object.entries(T.trust).map(([value, text]) => make("option", { value, textContent: text, selected: s.trust === value })));
    details.append(make("label", { class: "row" }, make("span", { textContent: T.sourceTrust }), choose));
  }
  return details;
}

function matrix(s, { states, labels }) {
  const rows = s.confusion.map((row, j) =>
    make("tr", {}, make("th", { scope: "row", textContent: states[j] }), ...row.map((p, l) => {
      const cell = make("td", { textContent: percent(p) });
      cell.style.setProperty("--share", 0.06 + 0.84 * p);
      cell.classList.toggle("strong", p > 0.5);
      if (s.confusion_low) cell.append(make("small", { textContent: signs(`${percent(s.confusion_low[j][l])} – ${percent(s.confusion_high[j][l])}`) }));
      return cell;
    })));
  return make("table", { class: "matrix" }, make("caption", { textContent: T.sourceMatrix }),
    make("thead", {}, make("tr", {}, make("td", {}), ...labels.map((label) => make("th", { scope: "col", textContent: label })))), make("tbody", {}, ...rows));
}

// Nothing of a map: another one is opened, which may not have a version yet.
export function empty() {
  why(null);
  sources(null, {});
  looks([], {});
  fill($("remarks"));
}

// Look next

export function looks(features, { onPick, onDownload }) {
  if (!features.length) return fill($("next"), make("p", { class: "hint", textContent: T.nextEmpty }));
  // Scores have a meaning only in comparison with each other.
  const best = features[0].properties.score;
  const rows = features.map(({ properties: { rank, score, longitude, latitude } }) =>
    make("li", {}, make("button", { type: "button", class: "quiet", on: { click: () => onPick(longitude, latitude) } },
      make("span", { class: "rank", textContent: rank }), make("span", {}, make("b", { textContent: T.nextPlace({ rank }) }), make("br"), make("small", { textContent: joined(place({ longitude, latitude }), score < best ? T.nextScore({ share: percent(score / best) }) : null) })))));
  fill($("next"), make("p", { class: "hint", textContent: T.nextHint }), make("ol", { class: "looks" }, ...rows),
    make("button", { type: "button", class: "quiet", textContent: T.nextDownload, on: { click: onDownload } }));
}

// Legend

const reversed = (scale) => (scale.endsWith("-reversed") ? scale.slice(0, -"-reversed".length) : `${scale}-reversed`);

export function legend(layer, state, { from, to, scale, still, onlyLabel, unknownSource }) {
  // Where nobody could deny, colours that mean “almost 100 %” would promise what nobody knows.
  const kind = layer === "probability" && onlyLabel ? "reported" : layer;
  const flat = kind !== "probability";
  $("legend-title").textContent = { probability: T.legendProbability, reported: T.legendReported, uncertainty: T.legendUncertainty, difference: T.legendDifference }[kind]({ state, label: onlyLabel });
  $("legend-image").src = `/legend/${kind}.png?scale=${kind === "reported" && state !== onlyLabel ? reversed(scale) : scale}`;
  $("legend-image").alt = $("legend-title").textContent;
  $("legend-image").classList.toggle("flat", flat);
  $("legend-side").classList.toggle("flat", flat);
  fill($("legend-side"), make("span", { textContent: T.legendKnown }), make("span", { textContent: T.legendUnknown }));
  const [low, high] = { probability: ["0 %", "100 %"], reported: [T.legendFar, T.legendNear], uncertainty: [T.legendSure, T.legendNoIdea], difference: ["− 100 %", "+ 100 %"] }[kind];
  $("legend-low").textContent = low;
  $("legend-high").textContent = high;
  $("legend-note").textContent = { probability: unknownSource ? T.unknownSource : T.legendHatched, reported: T.onlyLabel({ label: onlyLabel }), uncertainty: "", difference: !from ? T.noEarlier : still ? T.noDifference({ from, to }) : T.legendChange({ from, to }) }[kind];
}

export function labelLegend(entries) {
  $("label-colours").hidden = !entries.length;
  fill($("label-colours"), ...entries.map(([name, colour]) => make("li", {}, dot(colour), name)));
}

// An empty map explains what to do.
export function welcome(kind, path) {
  $("welcome").hidden = !kind;
  if (kind === "none") fill($("welcome"), make("h2", { textContent: T.welcomeNone }), make("p", { textContent: T.welcomeNoneHow }),
    make("p", { class: "buttons start" }, make("button", { type: "button", textContent: T.welcomeChoose, on: { click: () => $("file").click() } })));
  if (kind === "key") fill($("welcome"), make("h2", { textContent: T.welcomeNone }), make("p", { textContent: T.welcomeKey }));
  if (kind === "empty") fill($("welcome"), make("h2", { textContent: T.welcomeEmpty }), make("p", { textContent: T.welcomeEmptyHow }), make("code", { textContent: `POST ${path}` }));
}

// "Version 3 · 84 reports · 768 people" where reports stand for several people each.
export function versionWords({ number, reports: n, info }) {
  return joined(T.status({ version: number, n }), info.people > n ? T.people({ n: info.people }) : null);
}
