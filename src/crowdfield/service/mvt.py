"""Points as Mapbox Vector Tiles (version 2.1): only the part of the format that points need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MEDIA = "application/vnd.mapbox-vector-tile"
# Units along the side of a tile.
EXTENT = 4096
VERSION = 2
# Constants of the format: the geometry type of points, the command "move to one place", and two wire types.
POINT, MOVE_TO_ONE = 1, 9
NUMBER, BYTES = 0, 2

Value = str | int


@dataclass(frozen=True)
class Point:
    """A point in units of the tile, from its north-western corner, and its properties."""

    x: int
    y: int
    properties: Mapping[str, Value] = field(default_factory=dict)


def encode(layer: str, points: Sequence[Point]) -> bytes:
    """A tile of one layer."""
    keys: dict[str, int] = {}
    values: dict[Value, int] = {}
    features = b"".join(_bytes(2, _feature(point, keys, values)) for point in points)
    content = _number(15, VERSION) + _bytes(1, layer.encode()) + features
    content += b"".join(_bytes(3, key.encode()) for key in keys)
    content += b"".join(_bytes(4, _value(value)) for value in values)
    return _bytes(3, content + _number(5, EXTENT))


def _feature(point: Point, keys: dict[str, int], values: dict[Value, int]) -> bytes:
    tags = b"".join(
        _varint(keys.setdefault(key, len(keys))) + _varint(values.setdefault(value, len(values)))
        for key, value in point.properties.items()
    )
    geometry = _varint(MOVE_TO_ONE) + _varint(_zigzag(point.x)) + _varint(_zigzag(point.y))
    return _bytes(2, tags) + _number(3, POINT) + _bytes(4, geometry)


def _value(value: Value) -> bytes:
    return _bytes(1, value.encode()) if isinstance(value, str) else _number(5, value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint((number << 3) | BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint((number << 3) | NUMBER) + _varint(value)


def _zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 31)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
