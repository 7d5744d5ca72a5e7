// Functions for DOM elements. Text is always set as text, never as markup, because reports may contain anything.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name === "on") Object.entries(value).forEach(([event, act]) => element.addEventListener(event, act));
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const fill = (element, ...children) => element.replaceChildren(...children.filter(Boolean));

export function options(select, entries, chosen) {
  fill(select, ...entries.map(([value, text]) => make("option", { value, textContent: text, selected: String(value) === String(chosen) })));
}

// A plain link cannot send the key, so the file is fetched or created first and then saved.
export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function dot(colour) {
  const mark = make("i", { class: "dot" });
  mark.style.background = colour;
  return mark;
}

export function meter(share) {
  const bar = make("i");
  bar.style.width = `${Math.round(1000 * Math.min(Math.max(share, 0), 1)) / 10}%`;
  return make("div", { class: "meter" }, bar);
}

// Arrow keys move between tabs, as the ARIA Authoring Practices recommend.
export function tabs(list, onChange) {
  const all = [...list.querySelectorAll("[role=tab]")];
  const choose = (tab, focus = false) => {
    for (const other of all) {
      const on = other === tab;
      other.setAttribute("aria-selected", on);
      other.tabIndex = on ? 0 : -1;
      $(other.getAttribute("aria-controls")).hidden = !on;
    }
    if (focus) tab.focus();
    onChange?.(tab.id);
  };
  all.forEach((tab) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const offered = all.filter((other) => other.checkVisibility());
      // In languages written from right to left the next tab is to the left.
      const next = getComputedStyle(list).direction === "rtl" ? -1 : 1;
      const step = { ArrowRight: next, ArrowLeft: -next }[event.key];
      if (step) choose(offered.at((offered.indexOf(tab) + step) % offered.length), true);
    });
  });
  return (id) => choose($(id));
}
