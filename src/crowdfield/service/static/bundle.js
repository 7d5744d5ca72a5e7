// Several files that belong together (a Shapefile is at least three) as one zip file, not compressed.

const encoder = new TextEncoder();
const CRC = Uint32Array.from({ length: 256 }, (_, n) => { let c = n; for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1; return c >>> 0; });
const UTF8 = 0x0800; // flag: names are UTF-8
const JANUARY_1980 = 0x21; // the earliest date in a zip file; modification times do not matter here

function crc32(bytes) {
  let c = 0xffffffff;
  for (const byte of bytes) c = CRC[(c ^ byte) & 255] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

// Little-endian numbers one after the other: [value, bytes], …
function packed(...fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [, size]) => sum + size, 0)));
  let at = 0;
  for (const [value, size] of fields) {
    if (size === 4) view.setUint32(at, value, true);
    else view.setUint16(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

export async function bundled(files) {
  if (files.length === 1) return files[0];
  const parts = [];
  const directory = [];
  let at = 0;
  for (const file of files) {
    const name = encoder.encode(file.name);
    const bytes = new Uint8Array(await file.arrayBuffer());
    const about = [[20, 2], [UTF8, 2], [0, 2], [0, 2], [JANUARY_1980, 2], [crc32(bytes), 4], [bytes.length, 4], [bytes.length, 4], [name.length, 2], [0, 2]];
    const local = packed([0x04034b50, 4], ...about);
    directory.push(packed([0x02014b50, 4], [20, 2], ...about, [0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), name);
    parts.push(local, name, bytes);
    at += local.length + name.length + bytes.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  parts.push(...directory, packed([0x06054b50, 4], [0, 2], [0, 2], [files.length, 2], [files.length, 2], [size, 4], [at, 4], [0, 2]));
  return new File(parts, `${files[0].name.replace(/\.[^.]*$/, "")}.zip`, { type: "application/zip" });
}
