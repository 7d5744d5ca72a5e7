// The map itself: MapLibre with our tiles, the reports, the places to look at next, and the selected place.

import { BUSY, get, headers } from "./api.js";
import { checkIcon } from "./check-shapes.js";
import { DistrictShapes } from "./district-shapes.js";
import { LAKES, LAYERS, NAMED, namedPlaces, OVER, paintGround, PLACES, RIVERS } from "./ground.js";
import { arrange, nameIcon } from "./labels.js";
import { clusterIcon, OUTSIDE, Points, previewColour } from "./points.js";
import { language } from "./text.js";

const TOGETHER = 17; // from this zoom on, clicking a cluster lists its reports instead of zooming in
const turned = (longitude) => ((longitude % 360) + 540) % 360 - 180;
const REACH = matchMedia("(pointer: coarse)").matches ? 9 : 2; // tolerance of clicks on a mark in pixels; larger for fingers
// No fading if the device asks for reduced motion; MapLibre then jumps instead of flying.
const FADING = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 1;
const PATIENCE = 6; // how often tiles are asked for again, and after how many milliseconds
const PAUSE = 3000;
const MANY_CHECKS = 100; // with more places to check, marks of full size would hide the map
// Of the ground: what is neither sea nor a landmark.
const LAND = ["all", ["!", ["has", "sea"]], ["!", ["in", ["get", "kind"], ["literal", ["lake", "river", "place"]]]]];
const NOTHING = { type: "FeatureCollection", features: [] };

export function drawable() {
  if (!window.maplibregl) return "noLibrary";
  const canvas = document.createElement("canvas");
  return canvas.getContext("webgl2") || canvas.getContext("webgl") ? null : "noGraphics";
}

export class MapView {
  // onAsk(longitude, latitude) for a place, onReport(id) for a report, onHere(box) for several in one place, onCheck(id)
  // for a place to check; onDistrict(name), which says whether somebody wanted that; onMove() when the visible part of the map has changed.
  constructor(container, label, { onAsk, onReport, onHere, onCheck, onDistrict, onMove, interactive = true }) {
    this.marks = [];
    this.ownGround = null; // the query for the ground of the map that is shown, or of the world
    this.places = []; // with names, of the ground
    this.retry = null; // the timer after which missing tiles are asked for again
    this.retries = 0; // how often that happened since the tiles changed
    this.overlays = []; // the layers of tiles that are drawn, the newest last
    this.arrived = new Set(); // those of them that have been loaded
    this.overlaid = 0; // how many there have been
    this.map = new maplibregl.Map({
      container,
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
      maxZoom: 18,
      fadeDuration: 300 * FADING,
      // Tiles need the key if the map is not public.
      transformRequest: (url) => (url.startsWith(location.origin) ? { url, headers: headers() } : { url }),
      style: {
        version: 8,
        transition: { duration: 0, delay: 0 },
        sources: {
          ground: { type: "geojson", data: NOTHING },
          names: { type: "geojson", data: NOTHING },
          lattice: { type: "geojson", data: lattice() },
          region: { type: "geojson", data: NOTHING },
          preview: { type: "geojson", data: NOTHING },
          checks: { type: "geojson", data: NOTHING },
        },
        layers: [
          { id: "sea", type: "background", paint: { "background-color": "#dbe3ea" } },
          { id: "land", type: "fill", source: "ground", filter: ["all", ["==", ["geometry-type"], "Polygon"], LAND], paint: { "fill-color": "#f6f5f1" } },
          { id: "paper", type: "fill", source: "region", layout: { visibility: "none" }, paint: { "fill-color": "#f6f5f1", "fill-opacity": 0.85 } },
          { id: "unknown", type: "fill", source: "region", layout: { visibility: "none" }, paint: { "fill-pattern": "hatched" } },
          LAKES,
          { id: "lattice", minzoom: 3, type: "line", source: "lattice", paint: { "line-color": "#8fa0b3", "line-opacity": 0.28, "line-width": 0.7 } },
          { id: "sea-over", type: "fill", source: "ground", filter: ["has", "sea"], layout: { visibility: "none" }, paint: { "fill-color": "#dbe3ea" } },
          ...RIVERS,
          ...PLACES,
          { id: "borders", type: "line", source: "ground", filter: LAND, paint: { "line-color": "#7d8793", "line-width": 0.9 } },
          { id: "region", type: "line", source: "region", paint: { "line-color": "#3c4450", "line-width": 1.2, "line-dasharray": [3, 2] } },
          { id: "preview-region", type: "line", source: "preview", filter: ["==", ["geometry-type"], "Polygon"], paint: { "line-color": "#00306f", "line-width": 2.5, "line-dasharray": [3, 1.5] } },
          {
            id: "preview-points", type: "circle", source: "preview", filter: ["==", ["geometry-type"], "Point"],
            paint: { "circle-radius": ["case", ["get", "inside"], 4, 6], "circle-color": ["get", "colour"], "circle-stroke-color": "#ffffff", "circle-stroke-width": 0.8, "circle-opacity": 0.85 },
          },
          {
            // Unanswered places are drawn above answered ones.
            id: "checks", type: "symbol", source: "checks",
            layout: { "icon-image": ["case", ["get", "done"], "check/done", "check/todo"], "icon-allow-overlap": true, "icon-ignore-placement": true, "symbol-sort-key": ["case", ["get", "done"], 0, 1] },
          },
        ],
      },
    });
    this.dots = new Points(this.map, "preview-region");
    this.ready = new Promise((resolve) => this.map.once("load", resolve)).then(() => { this.outlines = new DistrictShapes(this.map, "preview-region"); return this.streets(); }).then(() => this.dress());
    addEventListener("theme-applied", () => this.ready.then(() => this.dress()));
    this.map.on("moveend", onMove);
    this.map.on("error", (event) => this.again(event));
    this.map.on("idle", () => this.arrange());
    // The whole region stays in view until somebody moves the map.
    this.map.on("resize", () => this.fit());
    this.map.on("movestart", (event) => { if (event.originalEvent) this.whole = null; });
    this.map.on("styleimagemissing", ({ id }) => {
      if (this.map.hasImage(id)) return;
      if (id === "hatched") this.map.addImage(id, hatched());
      if (id.startsWith("check/")) this.map.addImage(id, checkIcon(id.slice(6)), { pixelRatio: 2 });
      if (id.startsWith("name/")) this.map.addImage(id, nameIcon(id.split("/")[1], id.split("/").slice(2).join("/")), { pixelRatio: 2 });
      if (id.startsWith("cluster/")) this.map.addImage(id, clusterIcon(...id.split("/").slice(1)), { pixelRatio: 2 });
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.addControl(new maplibregl.NavigationControl({ showCompass: false }), "top-right");
    this.map.addControl(new maplibregl.ScaleControl({ maxWidth: 110 }), "bottom-right");
    const canvas = this.map.getCanvas();
    canvas.setAttribute("aria-label", label);
    if (!interactive) return;
    this.map.on("click", (event) => {
      const { x, y } = event.point;
      const check = this.checkAt(event.point);
      if (check !== null) return onCheck(check);
      const around = [[x - 3, y - 3], [x + 3, y + 3]];
      const [hit] = this.map.queryRenderedFeatures(around, { layers: this.dots.clickable() });
      const district = hit ? null : this.outlines?.find(event.point);
      if (district && onDistrict(district.area)) return undefined;
      if (!hit) return onAsk(event.lngLat.lng, event.lngLat.lat);
      if (hit.properties.id) return onReport(hit.properties.id);
      const { lng, lat } = maplibregl.LngLat.convert(hit.geometry.coordinates);
      if (!hit.properties.one_place && this.map.getZoom() < TOGETHER) return this.map.easeTo({ center: [lng, lat], zoom: Math.floor(this.map.getZoom()) + 2 });
      return onHere(this.around(lng, lat));
    });
    canvas.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return undefined;
      const middle = this.map.getCenter();
      const point = this.map.project(middle);
      const check = this.checkAt(point);
      if (check !== null) return onCheck(check);
      const district = this.outlines?.find(point);
      if (district && onDistrict(district.area)) return this.outlines.point(point);
      return onAsk(middle.lng, middle.lat);
    });
  }

  // Tiles that a busy service did not deliver are asked for again; MapLibre would leave holes.
  again({ error, sourceId }) {
    if (!BUSY.includes(error?.status) || this.retries >= PATIENCE) return console.error(error);
    if (this.retry) return undefined;
    this.retries += 1;
    this.retry = setTimeout(() => {
      this.retry = null;
      const source = this.map.getSource(sourceId);
      if (source?.type === "vector") source.setTiles(source.tiles);
      // Pictures get a new source: MapLibre cannot draw one that failed while it is loaded again.
      else if (sourceId === this.overlays.at(-1)) this.tiles(this.url, this.tiled, { anew: true });
    }, PAUSE);
    return undefined;
  }

  // In the dark theme the basemap is dark, except under our own tiles: their paler colours would differ from the legend.
  dress(dark = document.documentElement.dataset.theme === "dark") {
    paintGround(this.map, dark);
    this.map.setLayoutProperty("paper", "visibility", dark ? "visible" : "none");
  }

  // The operator's basemap, if there is one.
  async streets() {
    const { attribution, ...own } = (await get("/basemap/about.json").catch(() => null)) ?? {};
    if (!own.bounds) return;
    this.credit(attribution);
    this.map.addSource("streets", { type: "vector", tiles: [`${location.origin}/basemap/{z}/{x}/{y}.mvt`], ...own });
    LAYERS.forEach((layer) => this.map.addLayer(layer, "paper"));
    // Names are drawn above the sea, so that those of coastal towns are not cut off.
    OVER.forEach((layer) => this.map.addLayer(layer, layer.type === "symbol" ? "borders" : "sea-over"));
    this.overlayBelow = OVER[0].id;
  }

  // The maker of the basemap, whose licence usually asks to be named; as text, because the file may contain anything.
  credit(text) {
    this.credited?.remove();
    if (!text) return;
    this.credited = document.createElement("p");
    this.credited.id = "basemap-credit";
    this.credited.textContent = text;
    this.map.getContainer().append(this.credited);
  }

  // Shows a place at a zoom, or the whole region.
  async show({ id, region, layout_tag }, at = null) {
    await this.ready;
    const [west, south, east0, north] = region;
    const east = east0 > west ? east0 : east0 + 360;
    this.map.getSource("region").setData({
      type: "Feature", properties: {},
      geometry: { type: "Polygon", coordinates: [[[west, south], [east, south], [east, north], [west, north], [west, south]]] },
    });
    // The address changes with the outlines and with the region, so that browsers can cache them.
    const assets = document.querySelector("meta[name=crowdfield-assets]").content;
    this.ownGround = `?${new URLSearchParams({ situation: id, at: `${assets}-${layout_tag}` })}`;
    this.ground(this.ownGround);
    this.whole = at ? null : [[west, south], [east, north]];
    if (at) this.map.jumpTo({ center: [at.longitude, at.latitude], zoom: at.zoom });
    else this.fit();
  }

  // The outlines of the world, while there is no map.
  world() {
    this.ownGround = "";
    return this.ground("");
  }

  // The ground around a map, or, without a query, the outlines of the world.
  async ground(query) {
    await this.ready;
    if (this.grounded === query) return;
    this.grounded = query;
    try {
      const found = await get(`/basemap.json${query}`);
      if (this.grounded !== query) return;
      this.places = namedPlaces(found.features ?? [], language);
      this.map.getSource("ground").setData(found);
      if (!this.map.getSource("streets")) this.credit(found.attribution);
    } catch {
      if (this.grounded === query) this.grounded = null; // the map is usable without outlines; the next call tries again
    }
  }

  // Whenever the map has come to rest: what was drawn elsewhere may hide something here.
  arrange() {
    const layers = this.dots.clusters();
    const clusters = layers.length ? this.map.queryRenderedFeatures({ layers }) : [];
    const names = arrange(this.map, { clusters, marks: this.marks, places: this.places });
    const key = JSON.stringify(names);
    if (key === this.named) return; // drawing the same again would never come to rest
    this.named = key;
    this.map.getSource("names").setData({ type: "FeatureCollection", features: names });
  }

  // The search field lies over the top of the map.
  fit() {
    if (this.whole) this.map.fitBounds(this.whole, { padding: { top: 58, left: 14, right: 46, bottom: 30 }, animate: false });
  }

  // The preview of a file: the proposed region and the reports, those outside in red.
  async preview(found, { fit = false, fresh = false } = {}) {
    await this.ready;
    for (const layer of this.map.getStyle().layers) {
      if (layer.id.startsWith("overlay-")) this.map.setLayoutProperty(layer.id, "visibility", found ? "none" : "visible");
    }
    this.dots.hide(Boolean(found));
    this.map.setLayoutProperty("checks", "visibility", found ? "none" : "visible");
    this.marks.forEach((mark) => { mark.getElement().hidden = Boolean(found); });
    // Outlines are clipped to their map, and a new map may be elsewhere; without a region yet, the coarse outlines of the world are shown.
    // Before any map is shown there is nothing to go back to.
    const ground = !found || !fresh ? this.ownGround : found.undecided.includes("region") ? "" : `?${new URLSearchParams({ around: found.region.join(",") })}`;
    if (ground !== null) this.ground(ground);
    if (!found) return this.map.getSource("preview").setData(NOTHING);
    const [west, south, east0, north] = found.region;
    const east = east0 > west ? east0 : east0 + 360;
    const ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
    this.map.getSource("preview").setData({
      type: "FeatureCollection",
      features: [
        { type: "Feature", properties: {}, geometry: { type: "Polygon", coordinates: [ring] } },
        ...found.points.map(([lon, lat, label, inside]) => ({ type: "Feature", properties: { inside, colour: inside ? previewColour(label) : OUTSIDE }, geometry: { type: "Point", coordinates: [lon, lat] } })),
      ],
    });
    this.whole = null;
    if (fit) this.map.fitBounds([[west, south], [east, north]], { padding: 40, animate: false });
    return undefined;
  }

  // West, south, east, north of the visible part, to about a metre.
  shown() {
    const bounds = this.map.getBounds();
    const round = (value) => Math.round(value * 1e5) / 1e5;
    return [turned(bounds.getWest()), Math.max(-90, bounds.getSouth()), turned(bounds.getEast()), Math.min(90, bounds.getNorth())].map(round);
  }

  // The names of the ground, each with its place; `partial` if more are in tiles that are not loaded.
  names() {
    if (!this.map.getSource("streets")) return { places: this.places, partial: false };
    const found = new Map();
    for (const sourceLayer of NAMED) {
      for (const { properties, geometry } of this.map.querySourceFeatures("streets", { sourceLayer })) {
        const name = properties[`name:${language}`] ?? properties.name;
        const [longitude, latitude] = geometry.coordinates.flat(Infinity);
        if (name && !found.has(name)) found.set(name, { name, longitude, latitude });
      }
    }
    return { places: [...found.values()], partial: true };
  }

  come(longitude, latitude, zoom) {
    this.whole = null;
    this.map.jumpTo({ center: [longitude, latitude], zoom: Math.max(zoom, this.map.getZoom()) });
  }

  at() {
    const { lng, lat } = this.map.getCenter();
    return { longitude: turned(lng), latitude: lat, zoom: this.map.getZoom() };
  }

  // A copy of the map for paper, in light colours. The canvas can be copied only immediately after drawing.
  copyTo(canvas) {
    this.dress(false);
    this.map.redraw();
    const drawn = this.map.getCanvas();
    canvas.width = drawn.width;
    canvas.height = drawn.height;
    canvas.getContext("2d").drawImage(drawn, 0, 0);
    this.dress();
  }

  // The old tiles are removed only when the new ones are loaded, so that the map does not flicker.
  async tiles(url, region, { anew = false } = {}) {
    await this.ready;
    if (url === this.url && !anew) return;
    if (!anew) this.retries = 0;
    this.url = url;
    this.tiled = region;
    this.map.setLayoutProperty("unknown", "visibility", "none");
    // Tiles that were not drawn yet are not wanted any more.
    this.removeOverlays(this.overlays.filter((one) => !this.arrived.has(one)));
    this.overlaid += 1;
    const name = `overlay-${this.overlaid}`;
    const [west, south, east, north] = region;
    const bounds = west < east ? { bounds: [west, south, east, north] } : {};
    this.map.addSource(name, { type: "raster", tiles: [location.origin + url], tileSize: 256, ...bounds });
    this.map.addLayer({ id: name, type: "raster", source: name, paint: { "raster-fade-duration": 150 * FADING, "raster-resampling": "nearest" } }, this.overlayBelow ?? "sea-over");
    this.overlays.push(name);
    const wait = (event) => {
      const removed = !this.overlays.includes(name);
      if (!removed && (event.sourceId !== name || !this.map.isSourceLoaded(name))) return;
      this.map.off("sourcedata", wait);
      if (removed) return;
      this.arrived.add(name);
      setTimeout(() => this.removeOverlays(this.overlays.slice(0, Math.max(this.overlays.indexOf(name), 0))), 200);
    };
    this.map.on("sourcedata", wait);
  }

  // Resolves when everything is loaded and drawn.
  async drawn() {
    await this.ready;
    if (!this.map.loaded()) await new Promise((resolve) => this.map.once("idle", resolve));
  }

  removeOverlays(names) {
    this.overlays = this.overlays.filter((name) => !names.includes(name));
    for (const name of names) {
      this.arrived.delete(name);
      this.map.removeLayer(name);
      this.map.removeSource(name);
    }
  }

  // Maps of the land do not cover the sea.
  async land(only) {
    await this.ready;
    this.map.setLayoutProperty("sea-over", "visibility", only ? "visible" : "none");
  }

  // Without a version yet, the whole region is hatched as unknown places are.
  async clear() {
    await this.ready;
    this.map.setLayoutProperty("unknown", "visibility", "visible");
    this.removeOverlays(this.overlays);
    this.url = null;
  }

  // Arguments as for `Points.show`.
  async points(url, options) {
    await this.ready;
    this.dots.show(url, options);
  }

  // The box of a few pixels around a place.
  around(longitude, latitude, pixels = 3) {
    const { x, y } = this.map.project([longitude, latitude]);
    const [sw, ne] = [this.map.unproject([x - pixels, y + pixels]), this.map.unproject([x + pixels, y - pixels])];
    return [turned(sw.lng), sw.lat, turned(ne.lng), ne.lat];
  }

  // Places to check; if there are many, they are drawn smaller at low zoom.
  async checks(features) {
    await this.ready;
    const small = features.length > MANY_CHECKS ? 0.55 : 0.9;
    this.map.setLayoutProperty("checks", "icon-size", ["interpolate", ["linear"], ["zoom"], 9, small, 13, 1.1]);
    this.map.getSource("checks").setData({ type: "FeatureCollection", features });
  }

  // The id of the place to check that is drawn at a point, or null.
  checkAt({ x, y }) {
    const [hit] = this.map.queryRenderedFeatures([[x - REACH, y - REACH], [x + REACH, y + REACH]], { layers: ["checks"] });
    return hit?.properties.id ?? null;
  }

  // The outlines of districts; nothing removes them.
  async districts(collection) {
    await this.ready;
    this.outlines.show(collection);
  }

  async looks(features, label, onPick) {
    await this.ready;
    this.marks.forEach((mark) => mark.remove());
    this.marks = features.map((feature) => {
      const { rank, longitude, latitude } = feature.properties;
      const element = document.createElement("button");
      element.type = "button";
      element.className = "look";
      element.textContent = rank;
      element.setAttribute("aria-label", label({ rank }));
      element.addEventListener("click", (event) => {
        event.stopPropagation();
        onPick(longitude, latitude);
      });
      return new maplibregl.Marker({ element }).setLngLat([longitude, latitude]).addTo(this.map);
    });
    this.map.triggerRepaint(); // so that they are arranged
  }

  // Sets a pin; if it would be within the lowest `covered` pixels, the map is moved up.
  async place(longitude, latitude, { covered = 0 } = {}) {
    await this.ready;
    if (!this.here) {
      const element = document.createElement("div");
      element.className = "here";
      element.setAttribute("role", "img");
      this.here = new maplibregl.Marker({ element });
    }
    this.here.setLngLat([longitude, latitude]).addTo(this.map);
    const { x, y } = this.map.project([longitude, latitude]);
    const { clientWidth: width, clientHeight: height } = this.map.getContainer();
    const free = height - covered;
    if (x < 0 || x > width || y < 0 || y > free - 20) this.map.easeTo({ center: [longitude, latitude], offset: [0, -covered / 2] });
  }
}

// The hatching of unknown places, as in the tiles.
function hatched(side = 8) {
  const image = new ImageData(side, side);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const grey = (x + y) % side ? 222 : 176;
      image.data.set([grey, grey, grey, 255], 4 * (y * side + x));
    }
  }
  return image;
}

// Meridians and parallels every ten degrees and every degree: for orientation without a basemap.
function lattice() {
  const lines = [];
  for (let degree = -180; degree <= 180; degree += 1) lines.push([[degree, -85], [degree, 85]]);
  for (let degree = -85; degree <= 85; degree += 1) lines.push([[-180, degree], [180, degree]]);
  return { type: "Feature", properties: {}, geometry: { type: "MultiLineString", coordinates: lines } };
}
