"""What changed between two maps, and how probable it is that the change is real.

Each map gives, in every cell, a posterior of the share ρ of the state in question: its mean and standard deviation,
taken as those of a beta distribution. The two posteriors are taken as independent:

- two moments with different reports: nearly so, except for what the runs share (sources, length-scale);
- a run and the same run with more reports, or one run under two settings: they share reports, so that their errors
  are correlated and the difference is less uncertain than computed here. The test is then conservative: a change that
  it reports is real, but it may miss a small one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

from crowdfield.arrays import Array
from crowdfield.counting import counted
from crowdfield.data import Grid, Heatmap
from crowdfield.data.positive import matching
from crowdfield.errors import InputError

# A change is reported from this probability on.
SURE = 0.9
# Nodes of the quadrature over the later posterior: the error is below 1e-3 for the betas of real maps.
QUADRATURE_NODES = 32
# Pseudo-counts of a beta: fewer than the first is "anything", more than the second a known number.
SMALLEST_BETA_COUNT, LARGEST_BETA_COUNT = 0.05, 1e8
# Cells that are computed at once.
BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class Change:
    """What changed from one map to another, on the grid of the later. `compare` makes one.

    All arrays are [rows, columns], NaN where either map has no value.

    Attributes
    ----------
    grid : Grid
        That of the later map.
    state
        The state whose share is compared.
    before, after : ndarray
        The probability of the state in either map.
    sd : ndarray
        The standard deviation of the difference.
    rose, fell : ndarray
        The probability that the share of the state is larger, or smaller, in the later map by more than ``least``.
    unknown : ndarray of bool
        Where one of the maps says that nobody knows.
    least : float
        The smallest change that counts as one.
    about : dict
        When both maps were made, and from how many reports and sources.

    Examples
    --------
    With `fused` of the example of `fuse`; nothing changes from a map to itself:

    >>> change = cf.pipeline.compare(fused.heatmap, fused.heatmap)
    >>> change.summary()["rose"], change.summary()["fell"]
    (0, 0)
    """

    grid: Grid
    state: Hashable
    before: Array
    after: Array
    sd: Array
    rose: Array
    fell: Array
    unknown: NDArray[np.bool_]
    least: float
    about: dict[str, Any]

    def __repr__(self) -> str:
        words = self.verdict()
        rose, fell = (int((words == word).sum()) for word in ("rose", "fell"))
        cells = counted(int((words != "").sum()), "cell")
        return f"<Change of '{self.state}' in {cells}: rose in {rose:,}, fell in {fell:,}>"

    @property
    def difference(self) -> Array:
        """The later probability minus the earlier."""
        return self.after - self.before

    @property
    def real(self) -> Array:
        """The probability of a change in the direction shown."""
        return np.where(self.difference >= 0, self.rose, self.fell)

    def verdict(self) -> NDArray[np.object_]:
        """One word per cell: rose, fell, unchanged (no change detected) or unknown; empty outside the map."""
        words = np.full(self.grid.shape, "unchanged", dtype=object)
        with np.errstate(invalid="ignore"):
            words[self.rose >= SURE] = "rose"
            words[self.fell >= SURE] = "fell"
        words[self.unknown] = "unknown"
        words[np.isnan(self.after) | np.isnan(self.before)] = ""
        return words

    def layers(self) -> dict[str, Array]:
        """What files hold, under the same names in every format."""
        return {
            "change": self.difference,
            "change_sd": self.sd,
            "probability_rose": self.rose,
            "probability_fell": self.fell,
            "before": self.before,
            "after": self.after,
        }

    def summary(self) -> dict[str, Any]:
        """How many cells rose or fell with high probability, and the mean share of the map before and after."""
        words = self.verdict()
        mapped = words != ""
        cells = int(np.count_nonzero(mapped))
        counts = {word: int(np.count_nonzero(words == word)) for word in ("rose", "fell", "unchanged", "unknown")}
        area = self.grid.cell_width * self.grid.cell_height / 1e6 if self.metres else None
        return {
            "state": str(self.state),
            "least": self.least,
            "cells": cells,
            **counts,
            **({f"{word}_km2": counts[word] * area for word in ("rose", "fell")} if area is not None else {}),
            "mean_before": float(self.before[mapped].mean()) if cells else None,
            "mean_after": float(self.after[mapped].mean()) if cells else None,
            **self.about,
        }

    @property
    def metres(self) -> bool:
        """Whether the grid is in metres, so that areas can be stated."""
        from pyproj import CRS

        return self.grid.crs is not None and not CRS.from_user_input(self.grid.crs).is_geographic


def compare(before: Heatmap, after: Heatmap, *, state: Hashable | None = None, least: float = 0.0) -> Change:
    """Compare two maps: what changed, and how probable it is that the change is real.

    The maps may be on different grids: each cell of the later takes the cell of the earlier that holds its centre.

    Parameters
    ----------
    before, after : Heatmap
        The earlier and the later map.
    state : state, optional
        The state to compare; by default the one in question of the later map.
    least : float, default=0.0
        The smallest change of the share of the state that counts as one.

    Returns
    -------
    Change
        The change in every cell of the later map.

    Examples
    --------
    With `fused` and `places` of the example of `fuse`, and a second map for which the water has gone further west:

    >>> said = np.where(places[:, 0] > -72.38, "flooded", "dry")
    >>> later = cf.pipeline.fuse(cf.Reports.from_arrays(places, said, crs="EPSG:4326"), cell="1km", lengthscale="3km")
    >>> change = cf.pipeline.compare(fused.heatmap, later.heatmap, state="flooded", least=0.1)
    >>> change.summary()["rose"] > 0, change.summary()["fell"]
    (True, 0)
    """
    if not 0.0 <= least < 1.0:
        raise InputError(f"the least change is a share of at least 0 and below 1, not {least!r}.")
    shown = after.positive if state is None else matching(after.states, state)
    try:
        earlier = matching(before.states, shown)
    except InputError as problem:
        raise InputError(
            f"the later map is of {shown!r}, which the earlier one does not have: its states are "
            f"{', '.join(map(str, before.states))}. Compare maps of the same states, or name one of both (--show)."
        ) from problem
    p1, s1, unknown1 = (_resampled(values, before.grid, after.grid) for values in _moments_of(before, earlier))
    p2, s2, unknown2 = _moments_of(after, shown)
    both = np.isfinite(p1) & np.isfinite(p2)
    if not both.any():
        raise InputError("the two maps have no cell in common: they are of different regions.")
    rose, fell = np.full(p2.shape, np.nan), np.full(p2.shape, np.nan)
    rose[both] = probability_above(p2[both], s2[both], p1[both], s1[both], least)
    fell[both] = probability_above(p1[both], s1[both], p2[both], s2[both], least)
    about = {
        name: {"before": before.metadata.get(name), "after": after.metadata.get(name)}
        for name in ("created", "reports", "sources")
    }
    gap = np.where(both, 0.0, np.nan)
    unknown = both & ((np.nan_to_num(unknown1) > 0) | (np.nan_to_num(unknown2) > 0))
    return Change(after.grid, shown, p1 + gap, p2 + gap, np.hypot(s1, s2) + gap, rose, fell, unknown, least, about)


def probability_above(high: Array, high_sd: Array, low: Array, low_sd: Array, least: float = 0.0) -> Array:
    """P(ρ_high > ρ_low + least) for independent betas of these means and standard deviations.   all [M]"""
    out = np.empty(len(high))
    node, weight = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
    share, weight = (node + 1) / 2, weight / 2
    for start in range(0, len(high), BLOCK):
        part = slice(start, start + BLOCK)
        a, b = (counts[:, None] for counts in _beta(high[part], high_sd[part]))
        c, d = (counts[:, None] for counts in _beta(low[part], low_sd[part]))
        # The later posterior at its own quantiles, so that narrow ones need no finer nodes.
        places = np.clip(betaincinv(a, b, share) - least, 0.0, 1.0)
        out[part] = betainc(c, d, places) @ weight
    return out


def write_change(change: Change, path: str | Path) -> Path:
    """Write a change as .tif, .geojson, .gpkg or .csv, with a style for QGIS; or draw it as .png, .svg or .pdf.

    Parameters
    ----------
    change : Change
        As `compare` gives it.
    path : path
        The file; its suffix says the format.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> change = cf.pipeline.compare(fused.heatmap, fused.heatmap)
    >>> cf.pipeline.write_change(change, "change.csv").name
    'change.csv'
    """
    from crowdfield.io.picture import PICTURES, write_figure

    path = Path(path)
    if path.suffix.lower() in PICTURES:
        from crowdfield.plot.changes import change_sheet

        write_figure(change_sheet(change), path)
        return path
    from crowdfield.io.layered import write_layers
    from crowdfield.io.qgis_style import write_change_style

    texts = {"verdict": change.verdict()}
    write_layers(change.grid, change.layers(), path, texts=texts, about=change.summary())
    write_change_style(path)
    return path


def _moments_of(heatmap: Heatmap, state: Hashable) -> tuple[Array, Array, Array]:
    from crowdfield.plot import unknown

    j = heatmap.states.index(state)
    return heatmap.probability[..., j], heatmap.sd[..., j], unknown(heatmap).astype(np.float64)


def _resampled(values: Array, source: Grid, target: Grid) -> Array:
    """Values of one grid at the centres of another; NaN outside."""
    if source == target:
        return values
    centres = target.centres()
    if source.crs != target.crs:
        from crowdfield.geography import transform_visible

        if source.crs is None or target.crs is None:
            raise InputError("one of the maps has no reference system: the two cannot be laid over each other.")
        centres = transform_visible(centres, target.crs, source.crs)
    cell = source.index(centres)
    flat = np.append(values.ravel(), np.nan)
    return flat[cell].reshape(target.shape)


def _beta(mean: Array, sd: Array) -> tuple[Array, Array]:
    """Pseudo-counts of a beta distribution of this mean and standard deviation."""
    inside = np.clip(mean, 1e-9, 1 - 1e-9)  # a share of exactly 0 or 1 is the limit of those beside it
    with np.errstate(divide="ignore"):
        count = np.clip(inside * (1 - inside) / np.square(sd) - 1.0, SMALLEST_BETA_COUNT, LARGEST_BETA_COUNT)
    return inside * count, (1 - inside) * count
