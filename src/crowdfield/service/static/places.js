// Places as people type them, and whether they lie on a map.

// "18.51, -72.63" is latitude and longitude, in this order; null for other texts.
export function typedPlace(text) {
  const parts = text.split(/[\s,;]+/).filter(Boolean).map(Number);
  const [latitude, longitude] = parts;
  return parts.length === 2 && Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180 ? { longitude, latitude } : null;
}

// A region whose west is greater than its east crosses the antimeridian.
export function inside([west, south, east, north], { longitude, latitude }) {
  const across = west <= east ? longitude >= west && longitude <= east : longitude >= west || longitude <= east;
  return across && latitude >= south && latitude <= north;
}
