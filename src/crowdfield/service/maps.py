"""Map versions as arrays: packed into bytes for the database, unpacked and cached for tiles, points and exports."""

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid, Heatmap
from crowdfield.service.moments import MOMENTS, as_text, newest
from crowdfield.service.records import LAYOUT, Situation, VersionInfo
from crowdfield.service.store import Store, Unknown

V = TypeVar("V")
# The most bytes of cached map versions: dozens of ordinary ones, or five with 1,024² cells and twelve states.
KEPT_BYTES = 512 * 2**20
JUST_CHANGED = "this map has just been changed; try again in a moment"


class RecentCache(Generic[V]):
    """A cache of the least recently used kind. It is thread-safe; at worst two threads compute the same value.

    `size` is the most values, or, with a `weight`, the largest sum of their weights."""

    def __init__(self, size: float, weight: Callable[[V], float] = lambda value: 1.0):
        self._size, self._weight = size, weight
        self._held, self._lock = OrderedDict[Hashable, V](), threading.Lock()
        self._total = 0.0

    def cached(self, key: Hashable) -> V | None:
        with self._lock:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        value = self.cached(key)
        if value is None:
            value = make()
            with self._lock:
                if key not in self._held:
                    self._total += self._weight(value)
                self._held[key] = value
                while self._total > self._size and len(self._held) > 1:
                    self._total -= self._weight(self._held.popitem(last=False)[1])
        return value


class Frame(NamedTuple):
    """A version of a map that moves at another moment than its newest, in seconds since 1970, and the file of its
    arrays, which a helper process wrote."""

    version: int
    moment: float
    path: str


@dataclass(frozen=True)
class MapArrays:
    """One version of a map; of a map that moves, at one moment."""

    situation: Situation
    info: VersionInfo
    probability: NDArray[np.float32]  # [rows, columns, J]
    sd: NDArray[np.float32]  # [rows, columns, J]
    reports: NDArray[np.int32]  # [rows, columns]
    moment: float | None = None  # seconds since 1970; None if the map does not move

    @property
    def grid(self) -> Grid:
        return self.situation.grid

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.probability.nbytes + self.sd.nbytes + self.reports.nbytes

    def heatmap(self, **metadata: Any) -> Heatmap:
        about = {
            "title": self.situation.title,
            "situation": self.situation.id,
            "version": self.info.number,
            "positive": self.situation.positive,
            **{name: value for name, value in self.info.info.items() if name not in (LAYOUT, MOMENTS)},
            **({} if self.moment is None else {"moment": as_text(self.moment)}),
            **metadata,
        }
        p = self.probability.astype(np.float64)
        return Heatmap(
            self.grid, self.situation.states, p / p.sum(axis=-1, keepdims=True), self.sd.astype(np.float64),
            self.reports.astype(np.int64), about,
        )  # fmt: skip


def pack(**arrays: NDArray[Any]) -> bytes:
    """Arrays as bytes for the database."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


# NumPy reads the headers of arrays with `ast.literal_eval`, and in CPython 3.11 two threads that parse at the same time
# can fail with "AST constructor recursion depth mismatch" (python/cpython#106905).
_PARSING = threading.Lock()


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a version. A map that was computed in larger cells is interpolated to its own cells."""
    with _PARSING, np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    shape = arrays["reports"].shape
    return {name: a if a.shape[:2] == shape else interpolated(a, shape) for name, a in arrays.items()}


def interpolated(coarse: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Linear interpolation between the centres of cells, along each axis.   [r, c, J] -> [rows, columns, J]"""
    for axis, size in enumerate(shape):
        cells = coarse.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
        below = np.minimum(at.astype(int), max(cells - 2, 0))
        above = np.minimum(below + 1, cells - 1)
        weight = (at - below).astype(np.float32).reshape(-1, *[1] * (coarse.ndim - axis - 1))
        low, high = np.take(coarse, below, axis=axis), np.take(coarse, above, axis=axis)
        coarse = low + weight * (high - low)
    return coarse


def check_layout(situation: Situation, info: VersionInfo) -> None:
    """Raise an error if a version has another layout than its situation: the server may have read the situation just
    before it was changed, and the version just after."""
    if info.info.get(LAYOUT, situation.layout) != situation.layout:
        raise Unknown(JUST_CHANGED)


class Maps:
    """Map versions, read from the database and kept in memory."""

    def __init__(self, store: Store, size: int = KEPT_BYTES):
        self._store = store
        self._recent: RecentCache[MapArrays] = RecentCache(size, lambda arrays: arrays.size)

    def info(self, situation: Situation, number: int | None = None) -> VersionInfo:
        """The description of a version, the newest by default."""
        info = self._store.version(situation.id, number)
        if info is not None:
            check_layout(situation, info)
            return info
        if number is not None:
            raise Unknown(f"there is no version {number} of '{situation.id}'; GET versions lists those that are kept")
        raise Unknown(f"'{situation.id}' has no map yet; it appears when the first reports have come in")

    def load(self, situation: Situation, number: int | None = None, frame: Frame | None = None) -> MapArrays:
        """The arrays of a version, the newest by default; if the map moves, at the newest moment or that of `frame`."""
        info = self.info(situation, number)

        def make() -> MapArrays:
            stored = self._store.blob(situation.id, info.number, "arrays") if frame is None else _read(frame)
            arrays = unpack(stored)
            moment = newest(info.info) if frame is None else frame.moment
            return MapArrays(situation, info, arrays["probability"], arrays["sd"], arrays["reports"], moment)

        # The time of creation distinguishes a situation from a removed one of the same name.
        return self._recent.get((situation.id, situation.created, info.number, frame), make)


def _read(frame: Frame) -> bytes:
    try:
        return Path(frame.path).read_bytes()
    except FileNotFoundError:
        raise Unknown(JUST_CHANGED) from None  # it was deleted to make room for others
