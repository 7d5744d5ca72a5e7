// The search for places: by names of the ground, by latitude and longitude, or by the position of this device.

import { $, fill, make } from "./dom.js";
import { distance, place as named } from "./panels.js";
import { inside, typedPlace } from "./places.js";
import { T } from "./text.js";

const LISTED = 8;
const CLOSE = 13; // the least zoom at which a found place is shown
const PATIENCE = 20000; // milliseconds that a device may take to find out where it is

// Accents, case and punctuation are ignored.
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

export class Search {
  // region(): the region of the map; onPick(longitude, latitude) is called with the chosen place.
  constructor({ view, region, onPick }) {
    Object.assign(this, { view, region, onPick });
    $("search").addEventListener("submit", (event) => { event.preventDefault(); this.find($("search-text").value.trim()); });
    $("search-text").addEventListener("input", () => { if (!$("search-text").value) this.say(""); });
    $("search").addEventListener("keydown", (event) => { if (event.key === "Escape") this.say(""); });
    $("locate").addEventListener("click", () => this.locate());
  }

  say(text, found = []) {
    $("search-said").textContent = text;
    fill($("search-found"), ...found.map((place) => make("li", {}, make("button", { type: "button", class: "quiet", textContent: place.name, dir: "auto", on: { click: () => { this.say(""); this.go(place); } } }))));
  }

  find(text) {
    if (!text) return this.say("");
    const typed = typedPlace(text);
    if (typed) {
      this.say("");
      return this.go(typed);
    }
    const { places, partial } = this.view.names();
    if (!places.length) return this.say(T.searchNoNames);
    const found = this.matching(plain(text), places).slice(0, LISTED);
    if (!found.length) return this.say(partial ? T.searchNone : T.searchNonePlaces);
    return this.say((partial ? T.searchFound : T.searchFoundPlaces)({ n: found.length }), found);
  }

  // Places one of whose names contains the wanted text: those on the map first, then those that begin with it, then the largest.
  matching(wanted, places) {
    const region = this.region() ?? [-180, -90, 180, 90];
    const found = [];
    for (const place of wanted ? places : []) {
      const said = [place.name, ...(place.names ?? [])].find((name) => plain(name).includes(wanted));
      if (said) found.push({ ...place, name: said === place.name ? said : `${place.name} (${said})`, away: !inside(region, place), at: plain(said).indexOf(wanted) });
    }
    return found.sort((a, b) => a.away - b.away || a.at - b.at || (b.inhabitants ?? 0) - (a.inhabitants ?? 0) || a.name.length - b.name.length);
  }

  go({ longitude, latitude }) {
    this.view.come(longitude, latitude, CLOSE);
    this.onPick(longitude, latitude);
  }

  locate() {
    if (!isSecureContext) return this.say(T.locateInsecure);
    if (!navigator.geolocation) return this.say(T.locateFailed);
    this.say(T.locateBusy);
    const here = ({ coords: { longitude, latitude, accuracy } }) => {
      if (!inside(this.region() ?? [-180, -90, 180, 90], { longitude, latitude })) return this.say(T.locateOutside({ place: named({ longitude, latitude }) }));
      this.go({ longitude, latitude });
      return this.say(T.locateFound({ distance: distance(accuracy) }));
    };
    const failed = (error) => this.say(error.code === error.PERMISSION_DENIED ? T.locateRefused : T.locateFailed);
    return navigator.geolocation.getCurrentPosition(here, failed, { enableHighAccuracy: true, timeout: PATIENCE });
  }
}
