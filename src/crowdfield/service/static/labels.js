// Where names of places and the numbers of places to look at are drawn, so that they hide neither each other nor the numbers of
// reports.

// Up to each zoom, places with fewer inhabitants are not named; beyond the last one all are, as far as there is room.
const NAMED_FROM = [[5, 1e6], [7, 1e5], [9, 1e4], [11, 2e3]];
// By inhabitants: the size of names, and the gaps in pixels between a place and its name that are tried in turn. The second clears a
// number of reports at the place; names of cities may be further away, rather than missing.
const STYLES = [[1e6, 1.15, [4, 18, 34]], [1e5, 1, [4, 18, 34]], [1e4, 0.9, [4, 18]], [0, 0.8, [4, 18]]];
const HEIGHT = 18; // of a name of size 1, in pixels
const CLUSTER = 34; // the diameter of a number of reports, in pixels
// How far places to look at are moved aside, in pixels: enough to clear a number of reports at the place.
const REACH = 34;
const ASIDE = [[0, 0], [0, -1], [1, 0], [-1, 0], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]].map(([right, down]) => [REACH * right, REACH * down]);
const FONT = "600 26px system-ui, sans-serif"; // twice the size that is drawn, for sharp screens

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

// The width of a name of size 1, in pixels.
function width(name) {
  if (!widths.has(name)) {
    pen.font = FONT;
    widths.set(name, Math.ceil(pen.measureText(name).width) / 2 + 8);
  }
  return widths.get(name);
}

// Names are drawn as images, because MapLibre loads fonts from a server.
export function nameIcon(theme, name) {
  const [ink, halo] = theme === "dark" ? ["#f2f4f7", "rgba(20,26,34,0.85)"] : ["#2a2f36", "rgba(255,255,255,0.9)"];
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width(name);
  canvas.height = 40;
  const own = canvas.getContext("2d");
  own.font = FONT;
  own.textAlign = "center"; // the same place from left to right and from right to left
  own.textBaseline = "middle";
  own.lineJoin = "round";
  own.lineWidth = 6;
  own.strokeStyle = halo;
  own.strokeText(name, canvas.width / 2, 20);
  own.fillStyle = ink;
  own.fillText(name, canvas.width / 2, 20);
  return own.getImageData(0, 0, canvas.width, canvas.height);
}

const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

// The first of several offsets from a point at which a box of this size overlaps nothing; it is then taken.
function place({ x, y }, [wide, high], offsets, taken) {
  for (const [dx, dy] of offsets) {
    const box = [x + dx - wide / 2, y + dy - high / 2, x + dx + wide / 2, y + dy + high / 2];
    if (!taken.some((other) => overlap(box, other))) {
      taken.push(box);
      return [dx, dy];
    }
  }
  return null;
}

// How far the line from a marker that was moved aside leads to its place: not over a number of reports there, which could not be
// read (a 3 under it looks like an 8).
function lineLength({ x, y }, [dx, dy], numbers) {
  const whole = Math.hypot(dx, dy);
  const hides = (back) => numbers.some((at) => Math.hypot(at.x - x - (dx * back) / whole, at.y - y - (dy * back) / whole) < CLUSTER / 2);
  let back = 0;
  while (back < whole && hides(back)) back += 1;
  return whole - back;
}

// Moves markers aside, but not out of sight, if they would hide a number of reports or each other; a line leads to their places.
function arrangeMarks(map, marks, numbers, taken) {
  const { clientWidth, clientHeight } = map.getContainer();
  for (const mark of marks) {
    const element = mark.getElement();
    const side = element.offsetWidth;
    const at = map.project(mark.getLngLat());
    const within = (x, y) => x > side / 2 && y > side / 2 && x < clientWidth - side / 2 && y < clientHeight - side / 2;
    const offsets = ASIDE.filter(([right, down]) => (!right && !down) || within(at.x + right, at.y + down));
    const [dx, dy] = place(at, [side, side], offsets, taken) ?? [0, 0];
    mark.setOffset([dx, dy]);
    element.style.setProperty("--reach", `${lineLength(at, [dx, dy], numbers)}px`);
    element.style.setProperty("--turn", `${Math.atan2(-dy, -dx)}rad`);
  }
}

// Names below, above, right or left of their places, the largest first; those without room are left out until a higher zoom.
function arrangeNames(map, places, taken) {
  const { clientWidth, clientHeight } = map.getContainer();
  const zoom = map.getZoom();
  const least = NAMED_FROM.find(([upTo]) => zoom < upTo)?.[1] ?? 0;
  const features = [];
  for (const { name, longitude, latitude, inhabitants } of places) {
    const at = map.project([longitude, latitude]);
    if (inhabitants < least || at.x < 0 || at.y < 0 || at.x > clientWidth || at.y > clientHeight) continue;
    const [, size, gaps] = STYLES.find(([from]) => inhabitants >= from);
    const [wide, high] = [size * width(name), size * HEIGHT];
    const sides = gaps.flatMap((gap) => [[0, gap + high / 2], [0, -gap - high / 2], [gap + wide / 2, 0], [-gap - wide / 2, 0]]);
    const offset = place(at, [wide, high], sides, taken);
    if (offset) features.push({ type: "Feature", properties: { name, size, offset: offset.map((pixels) => pixels / size) }, geometry: { type: "Point", coordinates: [longitude, latitude] } });
  }
  return features;
}

// Arranges everything anew; returns the names that are drawn, as GeoJSON features.
export function arrange(map, { clusters, marks, places }) {
  const numbers = clusters.map(({ geometry }) => map.project(geometry.coordinates));
  const taken = numbers.map(({ x, y }) => [x - CLUSTER / 2, y - CLUSTER / 2, x + CLUSTER / 2, y + CLUSTER / 2]);
  arrangeMarks(map, marks, numbers, taken);
  return arrangeNames(map, places, taken);
}
