// The words of the page in the reader's language. Each language is one file, text.xx.json; all have the same keys and
// placeholders. A text without placeholders is a string; one with {placeholders} is a function of their values; one with
// plural forms ("one", "other" …) also takes n, the number that decides the form.

import { keep, recall } from "./kept.js";

export const LANGUAGES = { en: "English", fr: "Français", es: "Español", ar: "العربية" };
const RIGHT_TO_LEFT = ["ar"];

function known(tag) {
  const found = tag?.toLowerCase().split("-")[0];
  return found in LANGUAGES ? found : null;
}

// The language of the address, else the one chosen in this browser, else the browser's own.
function wanted() {
  const asked = [new URLSearchParams(location.search).get("lang"), recall("language"), ...navigator.languages];
  return asked.map(known).find(Boolean) ?? "en";
}

export const language = wanted();
// Western digits in every language, as in coordinates, scales and exported files.
export const locale = `${language}-u-nu-latn`;
const plural = new Intl.PluralRules(language);
const number = new Intl.NumberFormat(locale);

const rightToLeft = RIGHT_TO_LEFT.includes(language);

// Isolates a part with its own direction, so that it does not reorder the text around it.
const [FIRST_STRONG, LEFT_TO_RIGHT, END] = ["\u2068", "\u2066", "\u2069"];
export const isolated = (text) => (rightToLeft ? `${FIRST_STRONG}${text}${END}` : String(text));
// Signs keep their side of a number: "< 1 %".
export const signs = (text) => (rightToLeft ? `${LEFT_TO_RIGHT}${text}${END}` : text);
// The direction of a user's text, by its first letter.
export const directionOf = (text) => (/^[^\p{L}]*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u.test(text) ? "rtl" : "ltr");
// A name as a part of an address: lower case, without accents.
export const slug = (text, otherwise) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40).replace(/-+$/, "") || otherwise;
// Joins facts into a line; missing ones are left out.
export const joined = (...parts) => parts.filter((part) => part !== null && part !== undefined && part !== "").map(isolated).join(" · ");

function inserted(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => isolated(typeof values[name] === "number" ? number.format(values[name]) : values[name]));
}

function compiled(text) {
  if (Array.isArray(text)) return text;
  if (typeof text === "string") return /\{\w+\}/.test(text) ? (values) => inserted(text, values) : text;
  if ("other" in text) return (values) => inserted(text[plural.select(values.n)] ?? text.other, values);
  return Object.fromEntries(Object.entries(text).map(([key, inner]) => [key, compiled(inner)]));
}

export const T = compiled(await (await fetch(new URL(`text.${language}.json`, import.meta.url))).json());

// Reloads the page in another language, at the same address otherwise.
export function chooseLanguage(value, address = location.href) {
  keep("language", value);
  const next = new URL(address);
  next.searchParams.set("lang", value);
  location.assign(next);
}

// Fills in the texts named by the attributes of the markup.
export function translate() {
  document.documentElement.lang = language;
  document.documentElement.dir = rightToLeft ? "rtl" : "ltr";
  document.querySelectorAll("[data-text]").forEach((element) => { element.textContent = T[element.dataset.text]; });
  document.querySelectorAll("[data-label]").forEach((element) => element.setAttribute("aria-label", T[element.dataset.label]));
}
