"""How an answer travels: the length of a JSON header, the header, then the bytes of plain arrays.

Nothing here can name a class or run code, so an answer may come from a process that a hostile file has taken over.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")
TYPES = ("<f8", "<f4", "<i8", "<i4", "|b1")
MOST_ARRAYS = 10_000


class Garbled(Exception):
    """Bytes that are no answer."""


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> Iterator[bytes]:
    """The parts of an answer, in order."""
    plain = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    about = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    text = json.dumps({"header": header, "arrays": about}, ensure_ascii=True).encode()
    yield _LENGTH.pack(len(text)) + text
    for array in plain.values():
        yield array.tobytes()


def unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of an answer; every length is checked against what is there."""
    try:
        (length,) = _LENGTH.unpack_from(content)
        whole = json.loads(content[_LENGTH.size : _LENGTH.size + length])
        header, about = whole["header"], whole["arrays"]
        if not isinstance(header, dict) or len(about) > MOST_ARRAYS:
            raise Garbled("no header")
        arrays, at = {}, _LENGTH.size + length
        for name, kind, shape in about:
            if kind not in TYPES or not all(isinstance(side, int) and side >= 0 for side in shape):
                raise Garbled("an array of no known type")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            array = np.frombuffer(content, dtype=kind, count=count, offset=at).reshape(shape)
            arrays[str(name)] = array
            at += array.nbytes
    except (struct.error, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise Garbled(str(error)) from None
    if at != len(content):
        raise Garbled("bytes are left over")
    return header, arrays


def as_codes(values: Sequence[str | None] | NDArray[Any]) -> tuple[NDArray[np.int32], list[str]]:
    """Texts, each different one once: codes into a list, −1 for None."""
    places: dict[str, int] = {}
    codes = np.fromiter(
        (-1 if value is None else places.setdefault(value, len(places)) for value in values),
        dtype=np.int32,
        count=len(values),
    )
    return codes, list(places)


def from_codes(codes: NDArray[Any], values: Sequence[Any]) -> NDArray[np.object_]:
    """What :func:`as_codes` took apart."""
    known = np.array([*(str(value) for value in values), None], dtype=object)
    if len(codes) and not (int(codes.min()) >= -1 and int(codes.max()) < len(values)):
        raise Garbled("a code stands for nothing")
    return np.asarray(known[codes], dtype=object)
