"""From a fitted model to a map of a grid, at one moment if the model has time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid, Heatmap
from crowdfield.inference.blur import SPACE
from crowdfield.models import unknown
from crowdfield.models.reports_model import says_one_thing

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

# So many cells are predicted at once: enough to be fast, few enough to stay small in memory.
BLOCK = 65_536
# So many length-scales from the nearest report it has no influence, whatever the kernel.
FAR = 100.0


def make_map(
    model: HeatmapBCC | AtTime,
    grid: Grid,
    counts: NDArray[np.int64],
    *,
    mask: NDArray[np.bool_] | None = None,
    metadata: Mapping[str, Any] | None = None,
    field_only: bool = False,
) -> Heatmap:
    """Predict every cell of a grid.

    A cell with reports shows the state of the things reported in it; any other cell shows the field at its centre.

    Parameters
    ----------
    model : HeatmapBCC or AtTime
        A fitted model.
    grid : Grid
        Where the map is, in the coordinates that the model was fitted in.
    counts : ndarray [rows, columns] of int
        How many reports lie in each cell: ``grid.counts(places)``.
    mask : ndarray [rows, columns] of bool, optional
        The cells that the map covers; all others are NaN.
    metadata : mapping, optional
        To be kept with the map.
    field_only : bool, default=False
        Show the field everywhere, so that no single report is visible.

    Returns
    -------
    Heatmap
        The probability of each state in each cell, and its standard deviation.

    Examples
    --------
    >>> import crowdfield as cf
    >>> X, y, sources = cf.testing.example_crowd()
    >>> model = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, sources)
    >>> grid = cf.Grid(west=-0.5, east=9.5, south=-0.5, north=9.5, columns=10, rows=10)
    >>> heatmap = cf.pipeline.make_map(model, grid, grid.counts(X))
    >>> heatmap.of(1).shape, int(heatmap.reports.sum())
    ((10, 10), 500)
    """
    wanted = np.ones(grid.size, dtype=bool) if mask is None else np.asarray(mask, dtype=bool).ravel()
    centres = grid.centres()[wanted]
    states = tuple(model.classes_.tolist() if hasattr(model.classes_, "tolist") else model.classes_)
    probability = np.full((grid.size, len(states)), np.nan)
    sd = np.full_like(probability, np.nan)
    rows = np.flatnonzero(wanted)
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        probability[rows[part]], sd[rows[part]] = model.predict_rate(centres[part])
    if not field_only:
        _show_reported_places(model, grid, wanted, probability, sd)
    shape = (*grid.shape, len(states))
    about = {**dict(metadata or {}), "prior_sd": prior_sd(model)}
    return Heatmap(grid, states, probability.reshape(shape), sd.reshape(shape), counts, about)


def _show_reported_places(
    model: Any,
    grid: Grid,
    wanted: NDArray[np.bool_],
    probability: NDArray[np.float64],
    sd: NDArray[np.float64],
) -> None:
    """Into cells with reports: the mean probability of the places in them, and the root mean square deviation."""
    known = model.at_reported_places() if hasattr(model, "at_reported_places") else None
    if known is None or known.places.shape[1] != 2:  # with time, places are of many moments and the map is of one
        return
    cell = grid.index(known.places)
    inside = cell >= 0
    count = np.bincount(cell[inside], minlength=grid.size)
    shown = (count > 0) & wanted
    for j in range(known.probability.shape[1]):
        total = np.bincount(cell[inside], known.probability[inside, j], minlength=grid.size)
        spread = np.bincount(cell[inside], known.sd[inside, j] ** 2, minlength=grid.size)
        probability[shown, j] = total[shown] / count[shown]
        sd[shown, j] = np.sqrt(spread[shown] / count[shown])


def prior_sd(model: Any) -> list[float]:
    """The standard deviation of each ρ_j where nobody reported, to as many digits as a scale of colours shows.

    Where all reports say the same, they teach a level at which everything is almost certain also far from all of them.
    So what is known is then compared with a place that no report reaches, and not with what was known before.
    """
    return [round(float(value), 4) for value in _far_from_reports(model) or unknown.prior_rate_sd(model)]


def _far_from_reports(model: Any) -> list[float] | None:
    """The standard deviation of each ρ_j far from all reports, if they all say the same.

    None otherwise, and where more is known of a place than what was reported near it.
    """
    reports = getattr(model, "reports_", None)
    if reports is None or not says_one_thing(reports):
        return None
    if getattr(model, "covariates", None) is not None or callable(getattr(model, "prior_mean", None)):
        return None
    place = model.places_.max(axis=0)[:SPACE] + FAR * np.max(model.lengthscale_)
    return np.asarray(model.predict_rate(place[None])[1])[0].tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class AtTime:
    """A model of (easting, northing, time), asked about one moment: it can be mapped like any other.

    Parameters
    ----------
    model : HeatmapBCC
        Fitted to places whose last column is time.
    time : float
        The moment, in the units of that column.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> from crowdfield.inference.kernels import space_time
    >>> X, y, sources = cf.testing.example_crowd()
    >>> hours = np.linspace(0, 10, len(X))
    >>> model = cf.HeatmapBCC(kernel=space_time("matern32", 4.0, "matern12", 8.0), reports_model="one_state", tol=0.01)
    >>> model = model.fit(np.column_stack([X, hours]), y, sources)
    >>> cf.pipeline.AtTime(model, 5.0).predict_rate(np.array([[8.0, 5.0]]))[0].shape
    (1, 2)
    """

    model: HeatmapBCC
    time: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def predict_rate(self, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """E[ρ*] and its standard deviation at places [M, 2] at this moment: both [M, J]."""
        return self.model.predict_rate(self.in_time(places))

    def in_time(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Places [M, 2] with this moment as their third column: [M, 3]."""
        return np.column_stack([places, np.full(len(places), self.time)])

    def suggest(self, candidates: NDArray[np.float64], **options: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best places to look at, at this moment; options as for `HeatmapBCC.suggest`."""
        return self.model.suggest(self.in_time(candidates), **options)

    @property
    def lengthscale_(self) -> NDArray[np.float64]:
        """The length-scales of space, in metres: [2]."""
        return np.asarray(self.model.lengthscale_)[:2]
