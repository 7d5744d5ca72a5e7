// The outlines of districts on the map. The one under the pointer is emphasised, with its figures in a few words.

const NOTHING = { type: "FeatureCollection", features: [] };
const LINE = { "line-color": "#4a2f7a", "line-width": 1.4 };

export class DistrictShapes {
  // Drawn under the layer `below`.
  constructor(map, below) {
    Object.assign(this, { map, pointer: null, marked: null });
    this.bubble = new maplibregl.Popup({ closeButton: false, closeOnClick: false, className: "district", maxWidth: "16rem" });
    map.addSource("districts", { type: "geojson", data: NOTHING });
    // An invisible area, so that a district is found under the pointer.
    map.addLayer({ id: "district-areas", type: "fill", source: "districts", paint: { "fill-color": "#4a2f7a", "fill-opacity": 0 } }, below);
    map.addLayer({ id: "district-casing", type: "line", source: "districts", paint: { "line-color": "#ffffff", "line-width": 3, "line-opacity": 0.7 } }, below);
    map.addLayer({ id: "district-lines", type: "line", source: "districts", paint: LINE }, below);
    map.addLayer({ id: "district-chosen", type: "line", source: "districts", filter: ["==", ["get", "area"], ""], paint: { ...LINE, "line-width": 4 } }, below);
    map.on("mousemove", ({ point }) => this.point(point));
    map.on("click", ({ point }) => this.point(point)); // a tap does not move a pointer
    map.on("mouseout", () => this.point(null));
    // Shapes and figures also come, and the map also moves, under a pointer that rests.
    map.on("idle", () => { if (this.pointer) this.point(this.pointer); });
  }

  // GeoJSON features with `area`, the name, and `said`, the figures in words.
  show(collection) {
    this.map.getSource("districts").setData(collection ?? NOTHING);
  }

  // Emphasises the district at a point of the screen and tells its figures; null for no point.
  point(point) {
    this.pointer = point;
    const found = point && this.find(point);
    this.mark(found?.area ?? null);
    if (!found) this.bubble.remove();
    else this.bubble.setLngLat(this.map.unproject(point)).setText(`${found.area}: ${found.said}`).addTo(this.map);
  }

  // Emphasises the outline of a district; null for none.
  mark(name) {
    if (name === this.marked) return; // every change draws the map again
    this.marked = name;
    this.map.setFilter("district-chosen", ["==", ["get", "area"], name ?? ""]);
  }

  // The district at a point of the screen, or undefined.
  find(point) {
    return this.map.queryRenderedFeatures(point, { layers: ["district-areas"] })[0]?.properties;
  }
}
