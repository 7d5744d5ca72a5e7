// Keeps the field page usable without a network. Its own files are stored when it is opened for the first time; answers
// of the service are never stored here, and reports wait in the page's own queue.

const RELEASE = "assets"; // replaced by the server with the digest of the files
const PREFIX = "crowdfield-field-";
const PATIENCE = 4000; // milliseconds to wait for a network that may never answer
const NAMES = [
  "field.js", "queue.js", "sending.js", "api.js", "dom.js", "file-field.js", "kept.js", "key-dialog.js", "panels.js", "places.js", "text.js", "theme.js", "base.css", "field.css", "icon.svg", "icon-192.png",
  "text.en.json", "text.fr.json", "text.es.json", "text.ar.json",
];
const FILES = ["/field/", "/field/manifest.webmanifest", ...NAMES.map((name) => `/static/${RELEASE}/${name}`)];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(PREFIX + RELEASE).then((store) => store.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (names) => names.filter((name) => name.startsWith(PREFIX) && name !== PREFIX + RELEASE);
  event.waitUntil(caches.keys().then((names) => Promise.all(old(names).map((name) => caches.delete(name)))).then(() => self.clients.claim()));
});

// The newest page if the network answers in time, otherwise the stored one.
async function page(request) {
  try {
    return await fetch(request, { signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    const stored = await caches.match("/field/");
    if (!stored) throw error;
    return stored;
  }
}

self.addEventListener("fetch", (event) => {
  const { pathname, origin } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== self.location.origin) return;
  if (event.request.mode === "navigate" && pathname === "/field/") event.respondWith(page(event.request));
  else if (FILES.includes(pathname)) event.respondWith(caches.match(pathname).then((stored) => stored ?? fetch(event.request)));
});
