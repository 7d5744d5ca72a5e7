// The search for places: by names in the loaded part of the basemap, by latitude and longitude, or by the position of this
// device.

import { $, fill, make } from "./dom.js";
import { distance, place as named } from "./panels.js";
import { inside, typedPlace } from "./places.js";
import { language, T } from "./text.js";

const LISTED = 8;
const CLOSE = 13; // the least zoom at which a found place is shown
const PATIENCE = 20000; // milliseconds that a device may take to find out where it is

// Accents and case are ignored.
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

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
    const names = this.view.names(language);
    if (!names.length) return this.say(T.searchNoNames);
    const wanted = plain(text);
    const found = names.filter(({ name }) => plain(name).includes(wanted)).sort((a, b) => plain(a.name).indexOf(wanted) - plain(b.name).indexOf(wanted) || a.name.length - b.name.length).slice(0, LISTED);
    return this.say(found.length ? T.searchFound({ n: found.length }) : T.searchNone, found);
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
