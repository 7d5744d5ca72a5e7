// The reports on the map: dots and clusters, coloured by label.

// Okabe and Ito: eight colours that colour-blind people can distinguish. Without black and yellow, which are hard to see on the tiles.
export const COLOURS = ["#d55e00", "#56b4e9", "#009e73", "#cc79a7", "#e69f00", "#0072b2"];
export const OTHER = "#8a8d94";
// In the preview of a file: the colour of its labels, by their number, and of reports outside the region.
export const OUTSIDE = "#c0142b";
export const previewColour = (label) => COLOURS[(label + 5) % COLOURS.length];
// The two ends of each colour scale: for reports of the other state, and of the chosen state.
const ENDS = { plain: ["#1d4f9c", "#ffe14d"], water: ["#f2d264", "#12397a"], harm: ["#f7e08a", "#8c1030"] };
export function ends(scale = "plain") {
  const [other, said] = ENDS[scale.replace("-reversed", "")] ?? ENDS.plain;
  return scale.endsWith("-reversed") ? [said, other] : [other, said];
}
const LIGHT = ["#ffe14d", "#f2d264", "#f7e08a"];
// The vector tiles of the service, which clusters reports by zoom. A point with an id is one report.
const POINTS = { type: "vector", minzoom: 0, maxzoom: 18 };
const TRUSTED = "trusted: "; // how the names of trusted sources begin
const trusted = ["==", ["slice", ["to-string", ["get", "source"]], 0, TRUSTED.length], TRUSTED];
const radius = ["+", 5, ["min", 12, ["*", 2, ["sqrt", ["get", "count"]]]]];
// The number of a cluster: of its reports, or of the people where one report stands for several.
const short = ["case", [">=", ["get", "count"], 10000], ["concat", ["round", ["/", ["get", "count"], 1000]], "k"], [">=", ["get", "count"], 1000], ["concat", ["/", ["round", ["/", ["get", "count"], 100]], 10], "k"], ["to-string", ["get", "count"]]];
// `said` is the number of the label whose share of a cluster is drawn.
const clusterName = (scale, said) => ["concat", "cluster/", short, "/", ["floor", ["/", ["*", 10, ["coalesce", ["get", `label_${said}`], 0]], ["get", "count"]]], "/", scale];
// The colour of each label, as a style expression.
const byLabel = (colours, of, otherwise) => (colours.length ? ["match", ["to-string", ["get", "label"]], ...colours.flatMap(([label, colour]) => [label, of(colour)]), otherwise] : otherwise);
// Milliseconds for which old reports stay after the new ones are drawn, because numbers fade in.
const LINGER = 300;
const size = ["interpolate", ["linear"], ["zoom"], 6, ["*", 0.45, radius], 13, radius, 17, ["*", 1.6, radius]];
const one = { "circle-radius": size, "circle-stroke-width": ["case", trusted, 2.5, 1] };
// The layers of each kind: cells as readers see them, reports with numbers for those close together, a short list.
const LAYERS = {
  cells: { cells: { type: "circle", paint: { "circle-radius": radius, "circle-opacity": 0.85, "circle-stroke-width": 1 } } },
  reports: {
    reports: { type: "circle", filter: ["has", "id"], paint: one },
    clusters: { type: "symbol", filter: ["has", "points"], layout: { "icon-allow-overlap": true, "icon-ignore-placement": true } },
  },
  listed: { listed: { type: "circle", paint: one } },
};

export class Points {
  // Drawn under the layer `below`.
  constructor(map, below) {
    Object.assign(this, { map, below, number: 0, now: null, before: [], hidden: false, off: true });
  }

  // Shows reports from the tiles of an address: single ones if `exact`, otherwise cells. `listed`: features of a short list to
  // draw instead. `anew`: the same address has a new answer.
  show(url, { listed, exact, colours, scale, said, anew = false }) {
    this.off = !url;
    if (url) {
      const kind = listed ? "listed" : exact ? "reports" : "cells";
      const key = listed ? kind : `${kind} ${url}`;
      const data = listed && { type: "FeatureCollection", features: listed.map((f) => ({ ...f, properties: { ...f.properties, id: f.id } })) };
      if (this.now?.key !== key || (anew && !listed)) this.replace(kind, key, listed ? { type: "geojson", data } : { ...POINTS, tiles: [url] });
      else if (listed) this.map.getSource(this.now.source).setData(data);
      this.paint(colours, scale, said);
    }
    this.reveal();
  }

  // One source per address: changing the address of a source while it loads logs an error. Old reports stay until the new
  // ones are loaded, so that none disappear for a moment.
  replace(kind, key, source) {
    if (this.now) this.before.push(this.now);
    this.number += 1;
    const name = `points-${this.number}`;
    const from = source.type === "vector" ? { source: name, "source-layer": "points" } : { source: name };
    const layers = Object.entries(LAYERS[kind]).map(([id, layer]) => ({ id: `${id}-${this.number}`, ...layer, ...from }));
    const stop = () => { this.map.off("sourcedata", wait); this.map.off("idle", wait); };
    this.now = { key, source: name, layers: layers.map(({ id }) => id), stop };
    this.map.addSource(name, source);
    layers.forEach((layer) => this.map.addLayer(layer, this.below));
    const wait = (event) => {
      if (event.type === "sourcedata" && (event.sourceId !== name || !this.map.isSourceLoaded(name))) return;
      stop();
      setTimeout(() => { if (this.now.source === name) this.drop(); }, LINGER);
    };
    this.map.on("sourcedata", wait);
    this.map.on("idle", wait); // also if a tile could not be loaded
  }

  // Removes the old reports.
  drop() {
    for (const { source, layers, stop } of this.before.splice(0)) {
      stop();
      layers.forEach((id) => this.map.removeLayer(id));
      this.map.removeSource(source);
    }
  }

  paint(colours, scale, said) {
    const rim = byLabel(colours, (colour) => (LIGHT.includes(colour) ? "#5c5320" : "#ffffff"), "#ffffff");
    for (const id of this.now.layers) {
      if (id.startsWith("clusters")) this.map.setLayoutProperty(id, "icon-image", clusterName(scale, said));
      else {
        this.map.setPaintProperty(id, "circle-color", byLabel(colours, (colour) => colour, OTHER));
        this.map.setPaintProperty(id, "circle-stroke-color", id.startsWith("cells") ? rim : ["case", trusted, "#1d1d1f", rim]);
      }
    }
  }

  // Hides the reports while something else is shown, or shows them again.
  hide(hidden) {
    this.hidden = hidden;
    this.reveal();
  }

  reveal() {
    const visible = !this.off && !this.hidden;
    if (!visible) this.drop();
    for (const id of this.now?.layers ?? []) this.map.setLayoutProperty(id, "visibility", visible ? "visible" : "none");
  }

  // The layers whose features can be clicked.
  clickable = () => (this.now?.layers ?? []).filter((id) => !id.startsWith("cells"));

  // The layers of numbers.
  clusters = () => (this.now?.layers ?? []).filter((id) => id.startsWith("clusters"));
}

// The image of a cluster: its number in a ring that shows the share of the chosen state. Drawn here, because MapLibre loads fonts from a server.
export function clusterIcon(count, tenths, scale, side = 64) {
  const [other, said] = ends(scale);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const pen = canvas.getContext("2d");
  const arc = (radius, from, to) => { pen.beginPath(); pen.arc(side / 2, side / 2, radius, from - Math.PI / 2, to - Math.PI / 2); };
  arc(side / 2 - 2, 0, 2 * Math.PI);
  pen.fillStyle = "#ffffff";
  pen.fill();
  pen.lineWidth = 7;
  pen.strokeStyle = other;
  arc(side / 2 - 6, 0, 2 * Math.PI);
  pen.stroke();
  pen.strokeStyle = said;
  arc(side / 2 - 6, 0, (Math.PI * Number(tenths)) / 5);
  pen.stroke();
  pen.fillStyle = "#1d1d1f";
  pen.font = `600 ${count.length > 3 ? 19 : 24}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(count, side / 2, side / 2 + 1);
  return pen.getImageData(0, 0, side, side);
}
