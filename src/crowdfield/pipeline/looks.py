"""Where to look next: the places where a report is most informative."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield import io
from crowdfield.data import Grid, Heatmap
from crowdfield.errors import InputError
from crowdfield.geography import unproject
from crowdfield.io.layers import description
from crowdfield.pipeline.fusing import Fused
from crowdfield.pipeline.shores import land_cells

# More candidates than this say nothing new: the field is smooth between them. With many states there are fewer, so that
# a covariance matrix of all candidates for every state does not take more memory than for these many states.
MOST_CANDIDATES, STATES_OF_MOST = 1_500, 3
# How often somebody sent to look is right.
VISITOR_ACCURACY = 0.95
# Suggested places are at least this part of a length-scale apart, because reports from nearer places tell much the
# same. It is also the default side of the areas that are written.
SPACING = 0.5
# Requests for up to this many places (the default of `crowdfield next`) return the first of one list: the smallest
# distance between places then does not depend on their number.
DEFAULT_PLACES = 10


@dataclass(frozen=True)
class Look:
    """A place worth a visit.

    Attributes
    ----------
    rank : int
        1 is the best.
    easting, northing, longitude, latitude : float
        Where.
    score : float
        The information that a report from there is expected to bring.
    state, probability, sd
        The state in question, and its probability and standard deviation there now.
    reports : int
        Reports in this cell so far.
    most_probable
        The most probable state there now.
    """

    rank: int
    easting: float
    northing: float
    longitude: float
    latitude: float
    score: float
    state: Hashable
    probability: float
    sd: float
    reports: int
    most_probable: Hashable | None = None

    def plain(self) -> dict[str, Any]:
        """The place to look at as values that JSON can hold."""
        return asdict(self)


def next_looks(fused: Fused, n: int = 10, *, by: Hashable | ArrayLike | None = None) -> list[Look]:
    """Give the n places where one more report would be most informative, best first.

    Parameters
    ----------
    fused : Fused
        A run.
    n : int, default=10
        How many places.
    by : source or array_like [J, L], optional
        Who would report: a source, or a confusion matrix; by default a reliable observer.

    Returns
    -------
    list of Look
        The places.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> [look.rank for look in cf.pipeline.next_looks(fused, 3)]
    [1, 2, 3]
    """
    return looks_of(fused.model, fused.heatmap, n, by=by)


def write_looks(fused: Fused, looks: Sequence[Look], path: str | Path, *, size: float | None = None) -> None:
    """Write places to look at as square areas in GeoJSON, for a tasking tool.

    Parameters
    ----------
    fused : Fused
        The run that they are for.
    looks : sequence of Look
        As `next_looks` gives them.
    path : path
        The file.
    size : float, optional
        Side of the squares in metres; by default half a length-scale.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> cf.pipeline.write_looks(fused, cf.pipeline.next_looks(fused, 3), "tasks.geojson", size=500)
    """
    grid = fused.heatmap.grid
    if grid.crs is None:
        raise InputError("areas to look at need a map with a reference system.")
    wide = size or max(float(np.min(fused.model.lengthscale_)) / 2, grid.cell_width)
    io.write_looks(
        [(look.easting, look.northing) for look in looks],
        path,
        crs=grid.crs,
        size=wide,
        properties=[{name: value for name, value in look.plain().items() if name != "rank"} for look in looks],
        metadata=description(fused.heatmap),
    )


def looks_of(model: Any, heatmap: Heatmap, n: int = 10, *, by: Hashable | ArrayLike | None = None) -> list[Look]:
    """The n most informative places for a model and its map; `next_looks` is the same for a run."""
    grid = heatmap.grid
    cells = np.flatnonzero(_reachable(model, heatmap))
    most = MOST_CANDIDATES * min(1.0, (STATES_OF_MOST / len(heatmap.states)) ** 0.5)
    if len(cells) > most:
        # An even lattice of cells, not the first ones: every part of the map stays a candidate.
        step = int(np.ceil(np.sqrt(len(cells) / most)))
        row, column = np.divmod(cells, grid.columns)
        cells = cells[(row % step == step // 2) & (column % step == step // 2)]
    centres = grid.centres()[cells]
    apart = _least_distance(model, len(cells) and min(n, len(cells)), grid)
    if hasattr(model, "suggest"):
        chosen, scores = _suggested(model, centres, min(n, len(cells)), by, apart)
    else:
        doubt = heatmap.sd.reshape(-1, len(heatmap.states))[cells].max(axis=1)
        chosen, scores = most_doubtful(centres, doubt, min(n, len(cells)), apart=apart)
    places = centres[chosen]
    lonlat = unproject(places, grid.crs) if grid.crs is not None else np.full_like(places, np.nan)
    probability = heatmap.probability.reshape(-1, len(heatmap.states))[cells[chosen]]
    sd = heatmap.sd.reshape(-1, len(heatmap.states))[cells[chosen]]
    reports = heatmap.reports.ravel()[cells[chosen]]
    front, best = heatmap.states.index(heatmap.positive), probability.argmax(axis=1)
    return [
        Look(
            rank=i + 1,
            easting=float(places[i, 0]),
            northing=float(places[i, 1]),
            longitude=float(lonlat[i, 0]),
            latitude=float(lonlat[i, 1]),
            score=float(scores[i]),
            state=heatmap.states[front],
            probability=float(probability[i, front]),
            sd=float(sd[i, front]),
            reports=int(reports[i]),
            most_probable=heatmap.states[best[i]],
        )
        for i in range(len(places))
    ]


def _reachable(model: Any, heatmap: Heatmap) -> NDArray[np.bool_]:
    """The cells of the map that somebody can visit: none at sea, unless the reports are from there."""
    places = getattr(model, "places_", None)
    land = None if places is None or heatmap.grid.crs is None else land_cells(heatmap.grid, places)
    shown = heatmap.mask.ravel()
    return shown if land is None or not (shown & land.ravel()).any() else shown & land.ravel()


def most_doubtful(
    places: NDArray[np.float64], doubt: NDArray[np.float64], n: int, *, apart: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The most uncertain places, no two of them close: for models without an information score."""
    left = np.array(doubt, dtype=np.float64)
    chosen = []
    for _ in range(n):
        best = int(np.argmax(left))
        if not np.isfinite(left[best]):
            break
        chosen.append(best)
        left[np.linalg.norm(places - places[best], axis=1) < apart] = -np.inf
    picked = np.array(chosen, dtype=np.int64)
    return picked, np.asarray(doubt)[picked]


def _least_distance(model: Any, n: int, grid: Grid) -> float:
    """The smallest distance between places: part of a length-scale, but small enough that n of them fit on the map."""
    room = np.sqrt((grid.east - grid.west) * (grid.north - grid.south) / max(n, DEFAULT_PLACES)) / 2
    return float(min(SPACING * np.min(model.lengthscale_), room))


def _suggested(
    model: Any, centres: NDArray[np.float64], n: int, by: Any, apart: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The best places, no two closer than `apart`: one that is too close is replaced by the next best."""
    if by is None:
        # Somebody sent to look is reliable; and only an informative report makes the next place lie elsewhere.
        states, labels = model.classes_.tolist(), model.labels_seen_.tolist()
        wrong = (1.0 - VISITOR_ACCURACY) / max(len(labels) - 1, 1)
        by = np.array([[VISITOR_ACCURACY if label == state else wrong for label in labels] for state in states])
    chosen: list[int] = []
    scores: list[float] = []
    left = np.arange(len(centres))
    while len(chosen) < n and len(left):
        # One more than is missing, so that a place too close to the last one does not need another round; and not fewer
        # for a smaller n, whose places are the first of those of a larger one.
        missing = max(n, DEFAULT_PLACES) - len(chosen) + 1
        rows, worth = model.suggest(centres[left], n=min(missing, len(left)), source=by, score="map")
        for at, score in zip(left[np.asarray(rows)].tolist(), np.asarray(worth).tolist(), strict=True):
            far = np.linalg.norm(centres[chosen] - centres[at], axis=1) >= apart
            if len(chosen) < n and far.all():
                chosen.append(at)
                scores.append(score)
        near = np.linalg.norm(centres[left][:, None] - centres[chosen][None], axis=2).min(axis=1) < apart
        left = left[~near & ~np.isin(left, chosen)]
    return np.array(chosen, dtype=np.int64), np.array(scores)
