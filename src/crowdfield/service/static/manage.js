// What admins do: change, archive and delete a map, start an empty one, make and revoke keys.

import { call, get, keyName, post } from "./api.js";
import { $, fill, make, options } from "./dom.js";
import { joined, locale, slug, T } from "./text.js";

const DAY = 86400;

function described({ role, maps, state, expires }) {
  const until = state !== "valid" ? T.keyStates[state] : expires ? T.keyUntil({ date: new Date(1000 * expires).toLocaleDateString(locale) }) : null;
  return joined(T.roleNames[role], maps ? maps.join(", ") : T.keyAllMaps, until);
}

export class ManagePanel {
  // reopen(id) shows a map with all that has changed; shown() is the region that the map shows; onCreated() is called when an
  // empty map was started.
  constructor({ reopen, shown, onCreated }) {
    Object.assign(this, { reopen, shown, onCreated });
    options($("new-key-role"), Object.entries(T.roles), "reporter");
    const on = (id, event, act, outcome) => $(id).addEventListener(event, (given) => {
      given.preventDefault();
      act().catch((error) => { $(outcome).textContent = T.error({ message: error.problem?.faults?.[0]?.what ?? error.message }); });
    });
    on("settings", "submit", () => this.change(this.settings(), "manage-outcome", () => T.manageSaved), "manage-outcome");
    on("region", "submit", () => this.change({ region: $("region-value").value.split(/[,\s]+/).filter(Boolean).map(Number) }, "region-outcome", ({ outside }) => (outside ? T.regionDone({ n: outside }) : T.regionDoneAll)), "region-outcome");
    on("create", "submit", () => this.create(), "create-outcome");
    on("new-key", "submit", () => this.makeKey(), "new-key-outcome");
    $("manage-positive").addEventListener("change", () => this.showColours());
    $("region-view").addEventListener("click", () => { $("region-value").value = this.shown().join(", "); });
    $("manage-delete").addEventListener("click", () => this.askDelete());
    $("delete-name").addEventListener("input", () => { $("delete-sure").disabled = $("delete-name").value.trim() !== this.situation.title; });
    $("delete-dialog").addEventListener("close", () => { if ($("delete-dialog").returnValue === "delete") this.remove(); });
  }

  // Admins of some maps only cannot manage keys or start maps.
  async show(situation, ofAll) {
    this.situation = situation;
    for (const id of ["settings", "region"]) $(id).hidden = !situation;
    for (const id of ["manage-outcome", "region-outcome", "create-outcome"]) $(id).textContent = "";
    $("new-key-map").disabled = !situation;
    $("new-key-map").checked = Boolean(situation);
    if (situation) {
      $("manage-title").value = situation.title;
      options($("manage-positive"), situation.states.map((s) => [s, s]), situation.positive);
      $("manage-archived").checked = situation.archived;
      $("manage-moving").checked = situation.moving;
      options($("manage-access"), Object.entries(T.access), situation.access);
      this.showColours();
      $("region-value").value = situation.region.map((degrees) => Number(degrees.toFixed(5))).join(", ");
    }
    for (const element of document.querySelectorAll("#page-manage .of-all")) element.hidden = !ofAll;
    if (ofAll) await this.keys();
  }

  // The scale of the state that is shown first.
  showColours() {
    const scale = this.situation.scales[this.situation.states.indexOf($("manage-positive").value)];
    options($("manage-colours"), Object.entries(T.colours), scale);
  }

  // Colours are sent only if they were changed, so that default colours remain defaults.
  settings() {
    const positive = $("manage-positive").value;
    const before = this.situation.scales[this.situation.states.indexOf(positive)];
    const scale = $("manage-colours").value;
    return {
      title: $("manage-title").value.trim(), positive, archived: $("manage-archived").checked, moving: $("manage-moving").checked, access: $("manage-access").value,
      ...(scale && scale !== before ? { colours: { [positive]: scale } } : {}),
    };
  }

  async change(values, outcome, words) {
    const answer = await (await call(`/situations/${this.situation.id}`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) })).json();
    await this.reopen(answer.id);
    $(outcome).textContent = words(answer);
  }

  async create() {
    const states = $("create-states").value.split(/[,،;]/).map((s) => s.trim()).filter(Boolean);
    if (new Set(states).size < 2) {
      $("create-outcome").textContent = T.createStatesFew;
      return;
    }
    const title = $("create-title").value.trim();
    const taken = new Set((await get("/situations")).map((one) => one.id));
    const name = slug(title, "map");
    let id = name;
    for (let n = 2; taken.has(id); n += 1) id = `${name}-${n}`;
    const [west, south, east, north] = this.shown();
    const made = await post("/situations", { id, title, states, region: { west, south, east, north }, model: { moving: $("create-moving").checked } });
    $("create").reset();
    await this.reopen(made.id);
    this.onCreated();
  }

  askDelete() {
    $("delete-hint").textContent = T.deleteHint({ title: this.situation.title, n: this.situation.reports });
    $("delete-name").value = "";
    $("delete-sure").disabled = true;
    $("delete-dialog").showModal();
  }

  async remove() {
    try {
      await call(`/situations/${this.situation.id}`, { method: "DELETE" });
      await this.reopen(null);
    } catch (error) {
      $("manage-outcome").textContent = T.error({ message: error.message });
    }
  }

  async keys() {
    const found = await get("/keys");
    const order = [...found].sort((a, b) => (a.state === "valid" ? 0 : 1) - (b.state === "valid" ? 0 : 1) || b.created - a.created);
    fill($("keys"), ...order.map((key) => make("li", {}, make("div", {}, make("b", { textContent: key.name }), make("small", { textContent: described(key) })),
      keyName() === `cf_${key.id}` ? make("small", { textContent: T.keyOwn }) : key.state === "valid" ? this.revoking(key) : null)));
  }

  // A key cannot revoke itself. Revoking cannot be undone and locks out the holder, so the button asks for confirmation.
  revoking(key) {
    let asked = false;
    const button = make("button", { type: "button", class: "quiet danger", textContent: T.keyRevoke, "aria-label": `${T.keyRevoke}: ${key.name}`, on: { click: async () => {
      if (!asked) {
        asked = true;
        button.textContent = T.keyRevokeSure;
        button.setAttribute("aria-label", `${T.keyRevokeSure} ${key.name}`);
        return;
      }
      try {
        await call(`/keys/${key.id}`, { method: "DELETE" });
        await this.keys();
      } catch (error) {
        $("new-key-outcome").textContent = T.error({ message: error.message });
      }
    } } });
    return button;
  }

  async makeKey() {
    const name = $("new-key-name").value.trim();
    const days = Number($("new-key-days").value);
    const made = await post("/keys", {
      name, role: $("new-key-role").value, any_source: $("new-key-others").checked,
      expires: days ? Date.now() / 1000 + days * DAY : null,
      maps: $("new-key-map").checked && this.situation ? [this.situation.id] : null,
    });
    fill($("new-key-outcome"), T.keyMade({ name }), make("code", { textContent: made.key, dir: "ltr" }));
    $("new-key").reset();
    $("new-key-role").value = "reporter"; // resetting the form would select the first role
    await this.keys();
  }
}
