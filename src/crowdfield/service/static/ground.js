// The ground under the map. From the operator's vector tiles: water, vegetation, buildings, roads, borders, places; layers are
// named as Protomaps and OpenMapTiles name them, and other layers are not drawn. Without them: the rivers, lakes and places of
// the service's own ground, or of the operator's GeoJSON file.

const source = "streets";
const line = (id, layer, width, colour, filter) => ({ id, type: "line", source, "source-layer": layer, ...(filter ? { filter } : {}), layout: { "line-cap": "round", "line-join": "round" }, paint: { "line-color": colour, "line-width": ["interpolate", ["exponential", 1.6], ["zoom"], 8, width / 8, 18, width * 3] } });
const fill = (id, layer, colour, filter) => ({ id, type: "fill", source, "source-layer": layer, ...(filter ? { filter } : {}), paint: { "fill-color": colour } });
const LARGE = ["motorway", "trunk", "primary", "highway", "major_road"];
const kind = ["to-string", ["coalesce", ["get", "kind"], ["get", "class"], ""]];

// Layers whose names can be searched, towns before streets.
export const NAMED = ["places", "place", "pois", "poi", "water", "water_name", "roads", "transportation_name"];

// Under the map of probabilities, so that it stays readable.
export const LAYERS = [
  fill("street-earth", "earth", "#f6f5f1", ["==", ["geometry-type"], "Polygon"]),
  fill("street-green", "landcover", "#e9eee0"),
  fill("street-landuse", "landuse", "#eeece4", ["==", ["geometry-type"], "Polygon"]),
  fill("street-water", "water", "#c6d6e3", ["==", ["geometry-type"], "Polygon"]),
  line("street-waterway", "waterway", 2, "#a9c2d6"),
  line("street-rivers", "water", 2, "#a9c2d6", ["==", ["geometry-type"], "LineString"]),
  fill("street-buildings", "buildings", "#dcd7cc"),
  fill("street-building", "building", "#dcd7cc"),
];

// Above it: what helps orientation.
export const OVER = [
  ...["roads", "transportation"].flatMap((layer) => [
    line(`street-small-${layer}`, layer, 2, "#ffffff", ["!", ["in", kind, ["literal", LARGE]]]),
    line(`street-large-${layer}`, layer, 5, "#f2d6a2", ["in", kind, ["literal", LARGE]]),
  ]),
  ...["boundaries", "boundary"].map((layer) => line(`street-${layer}`, layer, 1.5, "#7d8793")),
  ...["places", "place"].map((layer) => ({
    id: `street-${layer}`, type: "symbol", source, "source-layer": layer, filter: ["has", "name"],
    layout: {},
  })),
];

// Lakes are drawn under the map of probabilities; rivers and shores above it, because hardly anything shows through it: thin and
// half transparent, with a fainter edge of another lightness, so that they show on all its colours and hide none.
export const LAKES = { id: "lakes", type: "fill", source: "ground", filter: ["==", ["get", "kind"], "lake"], paint: { "fill-color": "#b4cfe4" } };
const waterway = (id, colour, opacity, more) => ({
  id, type: "line", source: "ground", filter: ["in", ["get", "kind"], ["literal", ["river", "lake"]]], layout: { "line-cap": "round", "line-join": "round" },
  paint: { "line-color": colour, "line-opacity": opacity, "line-width": ["interpolate", ["linear"], ["zoom"], 5, 0.4 + more, 10, 1 + more, 14, 1.8 + more] },
});
export const RIVERS = [waterway("river-edges", "#ffffff", 0.3, 1.4), waterway("rivers", "#2f74b5", 0.65, 0)];

// The names that `labels.js` has found room for, and a dot at each place.
export const PLACES = [
  { id: "place-dots", type: "circle", source: "names", paint: { "circle-radius": 2, "circle-color": "#2a2f36", "circle-stroke-color": "#ffffff", "circle-stroke-width": 1 } },
  { id: "places", type: "symbol", source: "names", layout: { "icon-size": ["get", "size"], "icon-offset": ["get", "offset"], "icon-allow-overlap": true, "icon-ignore-placement": true } },
];

// Letters of Arabic alone, without those that Persian and Urdu add.
const ARABIC = /^[\u0621-\u064a\s-]+$/;

// The places of the ground, the largest first, with the names to draw. GeoNames does not say in which languages its names are, but
// the alphabet of Arabic can be recognised.
export function namedPlaces(features, language) {
  const places = features.filter(({ geometry, properties }) => properties?.kind === "place" && properties.name && geometry?.type === "Point");
  const found = places.map(({ geometry: { coordinates: [longitude, latitude] }, properties: { name, names = [], population = 0 } }) => {
    const label = language === "ar" ? names.find((other) => ARABIC.test(other)) : null;
    return { name: label ?? name, names: [name, ...names], longitude, latitude, inhabitants: population };
  });
  return found.sort((a, b) => b.inhabitants - a.inhabitants);
}

// Colours of the ground at night, by layer: [property, light, dark]. The colours of our own tiles do not change, so that they match the legend.
const AT_NIGHT = [
  ["sea", "background-color", "#dbe3ea", "#1a2430"],
  ["land", "fill-color", "#f6f5f1", "#2b2f33"],
  ["lakes", "fill-color", "#b4cfe4", "#3d5f80"],
  ["river-edges", "line-opacity", 0.3, 0],
  ["rivers", "line-color", "#2f74b5", "#5b93c7"],
  ["place-dots", "circle-color", "#2a2f36", "#f2f4f7"],
  ["place-dots", "circle-stroke-color", "#ffffff", "#141a22"],
  ["sea-over", "fill-color", "#dbe3ea", "#1a2430"],
  ["lattice", "line-color", "#8fa0b3", "#5d6b7c"],
  ["borders", "line-color", "#7d8793", "#98a2ae"],
  ["region", "line-color", "#3c4450", "#c3cad4"],
  ["street-earth", "fill-color", "#f6f5f1", "#2b2f33"],
  ["street-green", "fill-color", "#e9eee0", "#2b352d"],
  ["street-landuse", "fill-color", "#eeece4", "#303337"],
  ["street-water", "fill-color", "#c6d6e3", "#1a2430"],
  ["street-waterway", "line-color", "#a9c2d6", "#31465c"],
  ["street-rivers", "line-color", "#a9c2d6", "#31465c"],
  ["street-buildings", "fill-color", "#dcd7cc", "#3a3d42"],
  ["street-building", "fill-color", "#dcd7cc", "#3a3d42"],
];

const NAMES = ["street-places", "street-place", "places"];

export function paintGround(map, dark) {
  for (const [layer, property, light, night] of AT_NIGHT) if (map.getLayer(layer)) map.setPaintProperty(layer, property, dark ? night : light);
  for (const layer of NAMES) if (map.getLayer(layer)) map.setLayoutProperty(layer, "icon-image", ["concat", dark ? "name/dark/" : "name/light/", ["get", "name"]]);
}
