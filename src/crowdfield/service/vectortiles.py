"""The operator's own basemap, offline: vector tiles from a PMTiles file."""

import gzip
import html
import json
import logging
import mmap
import re
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from crowdfield.errors import InputError, MissingDependencyError

SUFFIX = ".pmtiles"
# How many directories of the file are cached; the file of a country has dozens.
DIRECTORIES_KEPT = 64
# The most levels of directories that are searched; files have a root directory and leaf directories.
DEEPEST = 4
# The longest metadata that are read, in bytes, and the longest name of a maker that is shown, in characters.
MOST_METADATA, LONGEST = 1 << 20, 200
MARKUP = re.compile(r"<[^>]*>")
log = logging.getLogger("crowdfield.service")


class VectorTiles:
    """Tiles by zoom, column and row. The file is mapped into memory, not read: that of a country may have gigabytes."""

    def __init__(self, path: Path):
        try:
            from pmtiles import tile
        except ImportError as error:
            raise MissingDependencyError(f"{path} needs the package pmtiles: pip install pmtiles") from error
        self._format = tile
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        try:
            self._header = tile.deserialize_header(self._bytes[:127])
            kind, packed = self._header["tile_type"], self._header["tile_compression"]
        except (tile.MagicNumberNotFound, tile.SpecVersionUnsupported, ValueError, IndexError, KeyError) as error:
            raise InputError(f"{path} is not a PMTiles file of version 3.") from error
        if kind != tile.TileType.MVT or packed not in (tile.Compression.GZIP, tile.Compression.NONE):
            raise InputError(f"{path} has tiles of another type; use vector tiles (MVT), uncompressed or gzipped.")
        self._gzipped = packed == tile.Compression.GZIP
        self._maker = self._attribution()
        self._directory = lru_cache(maxsize=DIRECTORIES_KEPT)(self._read_directory)

    @property
    def about(self) -> dict[str, Any]:
        """The zoom levels and bounds, which the page needs to request tiles, and whom to name as the maker."""
        header = self._header
        edges = (header[name] / 1e7 for name in ("min_lon_e7", "min_lat_e7", "max_lon_e7", "max_lat_e7"))
        zooms = {"minzoom": header["min_zoom"], "maxzoom": header["max_zoom"]}
        return zooms | {"bounds": list(edges), "attribution": self._maker}

    def _attribution(self) -> str:
        """The maker of the map by the file's metadata, as text without markup; empty if it does not say."""
        start, length = self._header["metadata_offset"], self._header["metadata_length"]
        if not 0 < length <= MOST_METADATA:
            return ""
        packed = bytes(self._bytes[start : start + length])
        compression = self._header["internal_compression"]
        try:
            text = gzip.decompress(packed) if compression == self._format.Compression.GZIP else packed
            said = json.loads(text).get("attribution")
        except (OSError, EOFError, ValueError, AttributeError, zlib.error):
            log.warning("the metadata of the basemap cannot be read, so its maker is not named", exc_info=True)
            return ""
        return html.unescape(MARKUP.sub("", said)).strip()[:LONGEST] if isinstance(said, str) else ""

    def tile(self, z: int, x: int, y: int) -> bytes | None:
        """A tile, gzipped; None if the file does not have it."""
        number = self._format.zxy_to_tileid(z, x, y)
        offset, length = self._header["root_offset"], self._header["root_length"]
        for _ in range(DEEPEST):
            entry = self._format.find_tile(self._directory(offset, length), number)
            if entry is None:
                return None
            if entry.run_length:
                start = self._header["tile_data_offset"] + entry.offset
                content = bytes(self._bytes[start : start + entry.length])
                return content if self._gzipped else gzip.compress(content, 1)
            offset, length = self._header["leaf_directory_offset"] + entry.offset, entry.length
        return None

    def _read_directory(self, offset: int, length: int) -> Any:
        return self._format.deserialize_directory(bytes(self._bytes[offset : offset + length]))
