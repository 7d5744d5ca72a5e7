"""The map: the probability of each state in every cell, and its standard deviation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data.grid import Grid
from crowdfield.data.knowledge import joint_sd
from crowdfield.data.positive import decide, display_order, matching, theme
from crowdfield.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    import geopandas
    import xarray
    from matplotlib.figure import Figure

# A cell is "unknown" if its standard deviation is above this share of the prior standard deviation.
UNKNOWN_SHARE = 0.85


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A map: the probability of each state in every cell, and its standard deviation; row 0 is the northernmost.

    `crowdfield.pipeline.fuse` and `crowdfield.pipeline.make_map` make one; `crowdfield.io.write` writes it.

    Parameters
    ----------
    grid : Grid
        Where the cells are.
    states : tuple
        What the last axis of ``probability`` and ``sd`` stands for.
    probability : array_like [rows, columns, J]
        The probability of each state; NaN in cells that a mask leaves out.
    sd : array_like [rows, columns, J]
        Its standard deviation; NaN in the same cells.
    reports : array_like [rows, columns]
        How many reports lie in each cell.
    metadata : mapping, optional
        How the map was made.

    Examples
    --------
    >>> import crowdfield as cf
    >>> grid = cf.Grid(west=0, east=2, south=0, north=1, columns=2, rows=1)
    >>> p = [[[0.9, 0.1], [0.3, 0.7]]]
    >>> heatmap = cf.Heatmap(grid, ("dry", "flooded"), p, [[[0.1, 0.1], [0.2, 0.2]]], [[4, 2]])
    >>> heatmap.of("flooded")
    array([[0.1, 0.7]])
    >>> heatmap.most_probable
    array([[0., 1.]])
    """

    grid: Grid
    states: tuple[Hashable, ...]
    probability: NDArray[np.float64]  # [rows, columns, J]
    sd: NDArray[np.float64]  # [rows, columns, J]
    reports: NDArray[np.int64]  # [rows, columns]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(s.item() if isinstance(s, np.generic) else s for s in self.states))
        if len(set(self.states)) != len(self.states) or len(self.states) < 2:
            raise InputError(f"a heatmap needs at least two different states, got {self.states!r}.")
        shape = (*self.grid.shape, len(self.states))
        probability, sd = _copied(self.probability, shape, "probability"), _copied(self.sd, shape, "sd")
        left_out = np.isnan(probability)
        if (left_out.any(axis=-1) != left_out.all(axis=-1)).any() or (np.isnan(sd) != left_out).any():
            raise InputError("cells outside the mask must have NaN as all probabilities and standard deviations.")
        inside = ~left_out
        if not (np.isfinite(sd[inside]).all() and (sd[inside] >= 0).all()):
            raise InputError("standard deviations must be finite and at least 0.")
        # float32 rounding is welcome; a probability of 1.01 is a mistake upstream, and is not clipped away here.
        if ((probability[inside] < -1e-5) | (probability[inside] > 1 + 1e-5)).any():
            raise InputError("probabilities must lie in [0, 1].")
        if (np.abs(probability.sum(axis=-1)[~left_out.any(axis=-1)] - 1) > 1e-4).any():
            raise InputError("the probabilities of the states must add up to 1 in every cell.")
        reports = np.array(self.reports)
        if reports.shape != self.grid.shape or not np.issubdtype(reports.dtype, np.integer) or (reports < 0).any():
            raise InputError(f"reports must count the reports of each cell: integers ≥ 0 of shape {self.grid.shape}.")
        reports = reports.astype(np.int64)
        for name, array in (("probability", probability), ("sd", sd), ("reports", reports)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """True in the cells that the map covers, False where a mask leaves them out.   [rows, columns]"""
        return ~np.isnan(self.probability[..., 0])

    @property
    def entropy(self) -> NDArray[np.float64]:
        """The entropy of each cell in bits: 0 is certain, 1 a coin flip between two states.   [rows, columns]"""
        p = np.clip(self.probability, 0.0, 1.0)
        # p log p → 0 as p → 0; NaN cells stay NaN.
        bits = np.zeros_like(p)
        np.log2(p, out=bits, where=p > 0)
        return np.where(self.mask, np.abs((p * bits).sum(axis=-1)), np.nan)

    @property
    def most_probable(self) -> NDArray[np.float64]:
        """The index into ``states`` of the most probable one, NaN outside the mask.   [rows, columns]"""
        best = np.argmax(np.where(np.isnan(self.probability), -1.0, self.probability), axis=-1)
        return np.where(self.mask, best.astype(np.float64), np.nan)

    @property
    def positive(self) -> Hashable:
        """The state the map is about, shown first everywhere: the one its makers named, else by `data.positive`."""
        named = self.metadata.get("positive")
        if named is not None:
            return matching(self.states, named)
        common = np.nanmean(self.probability, axis=(0, 1)) if self.mask.any() else None
        return decide(self.states, common).state

    @property
    def order(self) -> tuple[int, ...]:
        """Indices of ``states`` in the order in which they are shown: the state in question, then from bad to good."""
        return tuple(self.states.index(state) for state in display_order(self.states, self.positive))

    @property
    def grades(self) -> tuple[Hashable, ...] | None:
        """The states from the least grade to the worst, where they are grades; else None."""
        return self.states if self.metadata.get("ordered") and len(self.states) > 2 else None

    def expected_grade(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The expected grade of every cell, 0 for the least, and its standard deviation.   both [rows, columns]

        Examples
        --------
        >>> import crowdfield as cf
        >>> grid = cf.Grid(west=0, east=1, south=0, north=1, columns=1, rows=1)
        >>> p, states = [[[0.5, 0.5, 0.0]]], ("none", "minor", "major")
        >>> heatmap = cf.Heatmap(grid, states, p, [[[0.1, 0.1, 0.1]]], [[4]], {"ordered": True})
        >>> mean, sd = heatmap.expected_grade()
        >>> float(mean[0, 0])
        0.5
        """
        step = np.arange(len(self._graded()), dtype=np.float64)
        mean = self.probability @ step
        return mean, np.sqrt(np.maximum(self.probability @ step**2 - mean**2, 0.0))

    def at_least(self, state: Hashable) -> Heatmap:
        """The map of two states, "at least STATE" and "less than STATE", of a map of grades.

        The standard deviation is exact for the second grade and for the worst. In between it is approximate: the
        variances of the grades on one side are added up as if independent, and the smaller of the two sides is used.

        Examples
        --------
        >>> import crowdfield as cf
        >>> grid = cf.Grid(west=0, east=1, south=0, north=1, columns=1, rows=1)
        >>> p, states = [[[0.5, 0.25, 0.25]]], ("none", "minor", "major")
        >>> heatmap = cf.Heatmap(grid, states, p, [[[0.1, 0.1, 0.1]]], [[4]], {"ordered": True})
        >>> heatmap.at_least("minor").of("at least minor")
        array([[0.5]])
        """
        k = self._graded().index(matching(self.states, state))
        if k == 0:
            raise InputError(f"every place is at least {self.states[0]!r}, the lowest grade. Name a higher one.")
        above, below = self.probability[..., k:].sum(axis=-1), self.probability[..., :k].sum(axis=-1)
        names = (f"less than {self.states[k]}", f"at least {self.states[k]}")
        # "at least minor" names no theme of its own: its colours are those of the worst grade.
        metadata = {**self.metadata, "positive": names[1], "theme": theme(self.positive)}
        metadata.pop("ordered", None)
        if "prior_sd" in metadata:
            metadata["prior_sd"] = [float(joint_sd(np.ravel(metadata["prior_sd"]), k))] * 2
        sd = joint_sd(self.sd, k)
        both = np.stack([below, above], axis=-1)
        return Heatmap(self.grid, names, both, np.stack([sd, sd], axis=-1), self.reports, metadata)

    def _graded(self) -> tuple[Hashable, ...]:
        if self.grades is None:
            raise InputError("the states of this map have no order. Name it with --grades A,B,C (grades= in Python).")
        return self.grades

    def of(self, state: Hashable) -> NDArray[np.float64]:
        """The probability of one state.   [rows, columns]

        Examples
        --------
        With `heatmap` of the class's example:

        >>> heatmap.of("dry")
        array([[0.9, 0.3]])
        """
        if state not in self.states:
            raise InputError(f"there is no state {state!r}; the map has {self.states!r}.")
        return self.probability[..., self.states.index(state)]

    def to_xarray(self) -> xarray.Dataset:
        """An ``xarray.Dataset`` with dimensions (state, y, x), its CRS by the CF convention in ``spatial_ref``.

        Examples
        --------
        With `heatmap` of the class's example:

        >>> sorted(heatmap.to_xarray().sizes)
        ['state', 'x', 'y']
        """
        xarray = _need("xarray", "geo")
        each, cells = ("state", "y", "x"), ("y", "x")
        layers: dict[str, Any] = {
            "probability": (each, np.moveaxis(self.probability, -1, 0), _named("probability of each state", "1")),
            "sd": (each, np.moveaxis(self.sd, -1, 0), _named("standard deviation of the probability", "1")),
            "entropy": (cells, self.entropy, _named("how undecided the state is", "bit")),
            "most_probable": (cells, self.most_probable, _named("number of the most probable state", "1")),
            "reports": (cells, self.reports, _named("number of reports in the cell", "1")),
        }
        if self.grades is not None:
            grade, spread = self.expected_grade()
            layers["expected_grade"] = (cells, grade, _named("expected grade, 0 for the least", "1"))
            layers["sd_grade"] = (cells, spread, _named("standard deviation of the grade", "1"))
        axes: dict[str, Any] = {
            "state": ("state", [str(state) for state in self.states], {"long_name": "state"}),
            "y": ("y", self.grid.northings(), {"axis": "Y", **_axis(self.grid.crs, "y")}),
            "x": ("x", self.grid.eastings(), {"axis": "X", **_axis(self.grid.crs, "x")}),
        }
        dataset = xarray.Dataset(layers, coords=axes, attrs=_file_attributes(self.metadata))
        if self.grid.crs is not None:
            from pyproj import CRS

            cf = {"long_name": "reference system", **CRS.from_user_input(self.grid.crs).to_cf()}
            dataset = dataset.assign_coords(spatial_ref=((), 0, cf))
            for name in layers:
                dataset[name].attrs["grid_mapping"] = "spatial_ref"
        return dataset

    def to_geodataframe(self) -> geopandas.GeoDataFrame:
        """A ``geopandas.GeoDataFrame`` with one polygon per cell; cells outside the mask are left out.

        Examples
        --------
        With `heatmap` of the class's example:

        >>> len(heatmap.to_geodataframe())
        2
        """
        geopandas = _need("geopandas", "geo")
        import shapely

        keep = self.mask.ravel()
        centre = self.grid.centres()[keep]
        half = np.array([self.grid.cell_width, self.grid.cell_height]) / 2
        low, high = centre - half, centre + half
        columns: dict[str, Any] = {}
        for j in self.order:
            state = self.states[j]
            columns[f"probability_{state}"] = self.probability[..., j].ravel()[keep]
            columns[f"sd_{state}"] = self.sd[..., j].ravel()[keep]
        if self.grades is not None:
            columns["expected_grade"], columns["sd_grade"] = (a.ravel()[keep] for a in self.expected_grade())
            for state in self.grades[1:-1]:
                columns[f"at_least_{state}"] = self.at_least(state).probability[..., 1].ravel()[keep]
        columns["entropy"] = self.entropy.ravel()[keep]
        names = np.array([str(state) for state in self.states], dtype=object)
        columns["most_probable"] = names[self.most_probable.ravel()[keep].astype(np.int64)]
        columns["reports"] = self.reports.ravel()[keep]
        cells = shapely.box(low[:, 0], low[:, 1], high[:, 0], high[:, 1])
        return geopandas.GeoDataFrame(columns, geometry=cells, crs=self.grid.crs)

    def __repr__(self) -> str:
        grid = self.grid
        return (
            f"<Heatmap of {self.positive!r}: {grid.columns} × {grid.rows} cells of {grid.cell_width:.6g}"
            f" ({grid.crs or 'no reference system'}), states {', '.join(str(state) for state in self.states)},"
            f" {int(self.reports.sum())} reports>"
        )

    def _repr_html_(self) -> str:
        """The interactive page, in a frame: what a notebook shows."""
        return str(import_module("crowdfield.io.page").framed(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view of a dictionary cannot be pickled; a copy is built by the constructor, which also validates
        # it.
        parts = (self.grid, self.states, self.probability, self.sd, self.reports, dict(self.metadata))
        return Heatmap, parts

    def plot(self, **options: Any) -> Figure:
        """Draw the map; see :func:`crowdfield.plot.heatmap` for the options.

        Examples
        --------
        With `heatmap` of the class's example:

        >>> type(heatmap.plot()).__name__
        'Figure'
        """
        # Imported by name, because plotting belongs to a higher layer.
        figure: Figure = import_module("crowdfield.plot").heatmap(self, **options)
        return figure


def _named(long_name: str, units: str) -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def _axis(crs: str | None, axis: str) -> dict[str, str]:
    """What the CF convention says of an axis: what it measures, and in which unit."""
    if crs is None:
        return {"long_name": "easting" if axis == "x" else "northing"}
    from pyproj import CRS

    if CRS.from_user_input(crs).is_geographic:
        name, units = ("longitude", "degrees_east") if axis == "x" else ("latitude", "degrees_north")
        return {"standard_name": name, "long_name": name, "units": units}
    long_name = "easting" if axis == "x" else "northing"
    return {"standard_name": f"projection_{axis}_coordinate", "long_name": long_name, "units": "m"}


def _copied(array: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    copy = np.array(array, dtype=np.float64)
    if copy.shape != shape:
        raise InputError(f"{name} must have shape {shape} (rows, columns, states), got {copy.shape}.")
    return copy


def _need(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingDependencyError(
            f"{module} is needed for this and is not installed. Install it with: pip install 'crowdfield[{extra}]'"
        ) from None


def _file_attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Only what a file's attributes can hold; anything else as text."""
    return {
        k: v if isinstance(v, (str, int, float)) and not isinstance(v, bool) else str(v) for k, v in metadata.items()
    }
