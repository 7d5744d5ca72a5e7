"""The files of the page, read and compressed once, under addresses that change with their content.

The page asks for its files under ``/static/{digest}/``. Such an address always means the same bytes, so browsers may
cache it forever. The same files without the digest are for people and scripts; browsers revalidate those each time.
"""

import gzip
import hashlib
import threading
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path

from crowdfield.landmarks import PLACES, WATERS
from crowdfield.outlines import OUTLINES
from crowdfield.service import basemap
from crowdfield.service.packing import BEST, Packed, pack

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json; charset=utf-8",
}
# Files that refer to others. They have fixed addresses, and contain the current addresses of the other files.
ENTRY_PAGES = ("index.html", "field.html", "field-worker.js", "field.webmanifest")
LIBRARY = ("maplibre-gl.js", "maplibre-gl.css")
GEOJSON = "application/geo+json"
DIGEST_LENGTH = 16


class Assets:
    """A fixed list of files, so that no requested name can reach another file."""

    def __init__(self) -> None:
        self._own = {path.name: path for path in sorted(STATIC.iterdir()) if path.suffix in TYPES}
        self._library = {name: path for name in LIBRARY if (path := library_file(name)) is not None}
        self._packed: dict[Path, Packed] = {}
        self._lock = threading.Lock()

    def own(self, name: str) -> Packed | None:
        path = self._own.get(name)
        return None if path is None else self._pack(path)

    def library(self, name: str) -> Packed | None:
        """A file of MapLibre GL JS, compressed; None if there is no such file."""
        path = self._library.get(name)
        return None if path is None else self._pack(path)

    @cached_property
    def digest(self) -> str:
        """A hash of all files together: it changes when any of them does."""
        paths = [*self._own.values(), *self._library.values(), OUTLINES, WATERS, PLACES]
        total = hashlib.sha256()
        for path in paths:
            if path.is_file():
                total.update(hashlib.sha256(path.read_bytes()).digest())
        return total.hexdigest()[:DIGEST_LENGTH]

    @cached_property
    def entry_pages(self) -> dict[str, Packed]:
        """The pages and the files with fixed addresses, by file name."""
        return {name: self._entry_page(name) for name in ENTRY_PAGES}

    def _entry_page(self, name: str) -> Packed:
        text = self._own[name].read_text(encoding="utf-8")
        for folder in ("static", "vendor"):
            text = text.replace(f'"/{folder}/', f'"/{folder}/{self.digest}/')
        for marked in ('content="assets"', 'RELEASE = "assets"'):
            text = text.replace(marked, marked.replace("assets", self.digest))
        return pack(text.encode(), TYPES[self._own[name].suffix], level=BEST)

    @cached_property
    def world(self) -> Packed | None:
        """The coarse outlines of the world, made by `make setup`; None without them."""
        if not basemap.WORLD.is_file():
            return None
        return pack(gzip.decompress(basemap.WORLD.read_bytes()), GEOJSON, level=BEST)

    def prepare(self) -> None:
        """Read and compress everything, ahead of the first page."""
        for path in (*self._own.values(), *self._library.values()):
            self._pack(path)
        assert self.entry_pages and (self.world is None or self.world.tag)

    def _pack(self, path: Path) -> Packed:
        with self._lock:
            if path not in self._packed:
                self._packed[path] = pack(path.read_bytes(), TYPES[path.suffix], level=BEST)
            return self._packed[path]


def library_file(name: str) -> Path | None:
    """A file of MapLibre GL JS, found without importing its package; None where that is not installed."""
    spec = find_spec("maplibre")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "srcjs" / name
        if path.is_file():
            return path
    return None


@lru_cache(maxsize=1)
def assets() -> Assets:
    """The files of the page, read once per process."""
    return Assets()
