// The basemap from the operator's vector tiles: water, vegetation, buildings, roads, borders, places.
// Layers are named as Protomaps and OpenMapTiles name them; other layers are not drawn.

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
    layout: { "icon-image": ["concat", "name/", ["get", "name"]] },
  })),
];

// Colours of the ground at night, by layer: [property, light, dark]. The colours of our own tiles do not change, so that they match the legend.
const AT_NIGHT = [
  ["sea", "background-color", "#dbe3ea", "#1a2430"],
  ["land", "fill-color", "#f6f5f1", "#2b2f33"],
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

export function paintGround(map, dark) {
  for (const [layer, property, light, night] of AT_NIGHT) if (map.getLayer(layer)) map.setPaintProperty(layer, property, dark ? night : light);
}

// Names are drawn as images, because MapLibre loads fonts from a server.
export function nameIcon(name) {
  const canvas = document.createElement("canvas");
  const font = "600 26px system-ui, sans-serif";
  const measure = canvas.getContext("2d");
  measure.font = font;
  canvas.width = Math.ceil(measure.measureText(name).width) + 16;
  canvas.height = 40;
  const pen = canvas.getContext("2d");
  pen.font = font;
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  pen.lineWidth = 6;
  pen.strokeStyle = "rgba(255,255,255,0.9)";
  pen.strokeText(name, 8, 20);
  pen.fillStyle = "#2a2f36";
  pen.fillText(name, 8, 20);
  return pen.getImageData(0, 0, canvas.width, canvas.height);
}
