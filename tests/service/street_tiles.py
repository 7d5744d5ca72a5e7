"""Small PMTiles files with vector tiles, made by hand."""

import gzip
from pathlib import Path

from pmtiles.tile import Compression, TileType, zxy_to_tileid
from pmtiles.writer import Writer


def write_pmtiles(
    path: Path, tiles: dict[tuple[int, int, int], bytes], kind: str = "MVT", attribution: object = None
) -> Path:
    with path.open("wb") as file:
        writer = Writer(file)
        for place, content in sorted(tiles.items(), key=lambda item: zxy_to_tileid(*item[0])):
            writer.write_tile(zxy_to_tileid(*place), gzip.compress(content))
        zooms = [z for z, _, _ in tiles]
        writer.finalize(
            {
                "tile_type": TileType[kind], "tile_compression": Compression.GZIP,
                "min_zoom": min(zooms), "max_zoom": max(zooms), "min_lon_e7": int(-180e7), "max_lon_e7": int(180e7),
                "min_lat_e7": int(-85e7), "max_lat_e7": int(85e7), "center_zoom": 0, "center_lon_e7": 0,
                "center_lat_e7": 0,
            },
            {} if attribution is None else {"attribution": attribution},
        )  # fmt: skip
    return path


def streets() -> bytes:
    """A tile whose layer "water" is a square in its middle and whose layer "places" has one name there."""
    square = _geometry([(9, 1500, 1500)], [(1000, 0), (0, 1000), (-1000, 0)], close=True)
    water = _layer("water", [_feature(3, square, [])], [], [])
    town = _geometry([(9, 1224, 1840)], [], close=False)
    return water + _layer("places", [_feature(1, town, [0, 0])], ["name"], ["Léogâne"])


def _geometry(moves: list[tuple[int, int, int]], steps: list[tuple[int, int]], *, close: bool) -> bytes:
    numbers = [value for command, x, y in moves for value in (command, _zigzag(x), _zigzag(y))]
    if steps:
        numbers += [(len(steps) << 3) | 2, *(_zigzag(value) for step in steps for value in step)]
    return b"".join(map(_varint, numbers + ([15] if close else [])))


def _feature(kind: int, geometry: bytes, tags: list[int]) -> bytes:
    packed = b"".join(map(_varint, tags))
    return (_field(2, packed) if tags else b"") + _varint(3 << 3) + _varint(kind) + _field(4, geometry)


def _layer(name: str, features: list[bytes], keys: list[str], values: list[str]) -> bytes:
    content = _varint(15 << 3) + _varint(2) + _field(1, name.encode())
    content += b"".join(_field(2, feature) for feature in features)
    content += b"".join(_field(3, key.encode()) for key in keys)
    content += b"".join(_field(4, _field(1, value.encode())) for value in values)
    return _field(3, content + _varint(5 << 3) + _varint(4096))


def _field(number: int, content: bytes) -> bytes:
    return _varint((number << 3) | 2) + _varint(len(content)) + content


def _zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 31)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
