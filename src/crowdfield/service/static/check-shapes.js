// How places to check are drawn, on the map and in lists: a hollow diamond is still to do, a square with a tick is
// answered. They differ in shape, so that colour is not needed to distinguish them.

const INK = "#5b2a86";
const SIDE = 24;
// Each shape as paths in a square of 24: [path, fill, stroke, width of the stroke]; with a white outline, to be visible on any background.
const SHAPES = {
  todo: [["M12 2.5 21.5 12 12 21.5 2.5 12Z", "#ffffff", "#ffffff", 5], ["M12 4 20 12 12 20 4 12Z", "#ffffff", INK, 3]],
  done: [["M3.5 3.5H20.5V20.5H3.5Z", "#ffffff", "#ffffff", 3], ["M4.5 4.5H19.5V19.5H4.5Z", INK, INK, 1], ["M7.5 12.3 10.8 15.6 16.8 8.8", "none", "#ffffff", 2.6]],
};

// As an SVG element for the page.
export function checkShape(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const set = (element, values) => Object.entries(values).forEach(([key, value]) => element.setAttribute(key, value));
  set(svg, { viewBox: `0 0 ${SIDE} ${SIDE}`, width: 20, height: 20, "aria-hidden": "true", class: "check-shape" });
  for (const [d, fill, stroke, width] of SHAPES[name]) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    set(path, { d, fill, stroke, "stroke-width": width });
    svg.append(path);
  }
  return svg;
}

// For the map: an image of twice the size, for sharp screens.
export function checkIcon(name) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 2 * SIDE;
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  for (const [d, fill, stroke, width] of SHAPES[name]) {
    const path = new Path2D(d);
    pen.fillStyle = fill;
    if (fill !== "none") pen.fill(path);
    Object.assign(pen, { strokeStyle: stroke, lineWidth: width });
    pen.stroke(path);
  }
  return pen.getImageData(0, 0, canvas.width, canvas.height);
}
