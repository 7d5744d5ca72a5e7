"""All settings of a run: both the command line and a TOML file are turned into these.

[read]
positive = "collapsed structure"

[map]
cell = "250m"
region = [-72.6, 18.2, -72.0, 18.8]

[model]
lengthscale = "2km"

[sources.fire-brigade]
trust = "high"

[sources.rumours]
confusion = [[5, 5], [5, 5]]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from crowdfield.data.region import Region, parse_region
from crowdfield.errors import InputError
from crowdfield.io.toml_files import read_toml

# Pseudo-counts for a right label and for each wrong one: as if the source had been checked that often before.
TRUST = {
    "certain": (450.0, 1.0),  # the paper's first responder: its single report decides
    "high": (50.0, 2.0),
    "medium": (8.0, 2.0),
    "low": (1.2, 1.0),
}

TABLES = {
    "read": ("format", "lat", "lon", "label", "source", "time", "id", "text", "place", "accuracy", "count", "score",
             "score_columns", "crs", "dates", "encoding", "layer", "polygons", "reading", "swap", "missing",
             "positive", "map_labels", "duplicates"),
    "map": ("region", "cell", "mask", "projection", "snap", "positive", "moment"),
    "model": (
        "lengthscale", "kernel", "states", "grades", "labels", "inference", "engine", "communities", "prior_mean",
        "scale_shape", "scale_rate", "max_iter", "tol", "seed", "covariates", "silence",
        "moving",
    ),
}  # fmt: skip


_CHOICES = {
    "kernel": ("matern12", "matern32", "matern52", "rbf"),
    "inference": ("auto", "vb", "collapsed", "gibbs"),
    "engine": ("auto", "exact", "inducing", "spectral"),
}


@dataclass(frozen=True)
class Settings:
    """How to read reports, where to map, and the model's priors. Lengths are metres, or text such as "2km".

    Parameters
    ----------
    read : mapping
        Options of `crowdfield.io.read`.
    region : str, sequence or mapping, optional
        West, south, east, north in degrees; by default around the bulk of the reports.
    cell : str or float, optional
        Side of a cell; by default such that the longer side has about a hundred.
    mask : str, optional
        A file of polygons; the map covers the cells inside.
    projection : str, optional
        A coordinate reference system in metres; by default the one that suits the region.
    snap : bool, default=False
        Move every report to the centre of its cell.
    positive : state, optional
        The state in question, which every output shows first; by default it is chosen by the names of the states and
        by how rare they are.
    lengthscale : str or float, default="learn"
        The distance over which places say something about each other.
    kernel, states, labels, inference, engine, communities, prior_mean, scale_shape, scale_rate, max_iter, tol
        As for `crowdfield.HeatmapBCC`.
    grades : "auto", "none" or sequence, default="auto"
        The states in their order, from the least to the worst, where they are grades; by default where their names say
        so (docs/grades.md).
    seed : int, optional
        Random seed.
    covariates : sequence of str
        GeoTIFF files.
    silence : float, optional
        If silence is to count as evidence: the number of reports expected from a cell in the reported state.
    moving : bool, default=False
        The state of a place changes over time, so the times of events are used (docs/space-time.md).
    moment : str, optional
        Of a map that moves, the moment to show, in ISO 8601; by default that of the newest report.
    sources : mapping
        What is known of sources: "certain", "high", "medium" or "low", or pseudo-counts with one row per state and one
        column per label.
    others : sequence [J, L], optional
        Prior pseudo-counts of every other source, one row per state and one column per label; by default the model
        learns them from all sources, starting where a source is a little better than guessing.

    Examples
    --------
    >>> import crowdfield as cf
    >>> settings = cf.pipeline.Settings(cell="250m", sources={"fire-brigade": "high"})
    >>> settings.changed()
    {'cell': '250m', 'sources': {'fire-brigade': 'high'}}
    """

    read: Mapping[str, Any] = field(default_factory=dict)

    region: Sequence[float] | Mapping[str, float] | str | None = None  # west, south, east, north in degrees
    cell: str | float | None = None
    mask: str | None = None
    projection: str | None = None
    snap: bool = False
    # The state that every output shows first; by a rule of thumb if not given (data/positive.py).
    positive: Hashable | None = None

    lengthscale: str | float = "learn"
    kernel: str = "matern32"
    states: Sequence[Hashable] | None = None
    grades: str | Sequence[Hashable] = "auto"
    labels: Sequence[Hashable] | None = None
    inference: str = "auto"
    engine: str = "auto"
    communities: int | str | None = None
    prior_mean: float | Sequence[float] = 0.0
    scale_shape: float = 1.0
    scale_rate: float | None = None
    max_iter: int = 200
    tol: float = 1e-4
    seed: int | None = None
    covariates: Sequence[str] = ()  # GeoTIFF files
    silence: float | None = None  # number of reports expected from a cell in the reported state (docs/silence.md)

    moving: bool = False  # whether the state of a place changes over time
    moment: str | None = None  # of a map that moves: the moment to show, by default that of the newest report

    # name: "certain" | "high" | "medium" | "low", or pseudo-counts, one row per state and one column per label
    sources: Mapping[str, Any] = field(default_factory=dict)
    # Pseudo-counts that every other source starts from, one row per state and one column per label; the model's own
    # weakly diagonal ones by default
    others: Sequence[Sequence[float]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view of a dictionary cannot be pickled; the constructor makes it again.
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _from_values, ({name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in values.items()},)

    def __post_init__(self) -> None:
        for name in ("read", "sources"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if isinstance(self.covariates, str) or not all(isinstance(name, str) for name in self.covariates):
            raise InputError('covariates is a list of files, for example covariates = ["elevation.tif"].')
        object.__setattr__(self, "covariates", tuple(self.covariates))
        if self.silence is not None and not (isinstance(self.silence, int | float) and 0 < self.silence < np.inf):
            raise InputError(f"silence is the number of reports to expect of a cell, above 0; not {self.silence!r}.")
        if self.moment is not None and not self.moving:
            raise InputError("a moment can be shown of maps that move only. Add moving, or leave out moment.")
        self._check_names()
        if self.region is not None:
            object.__setattr__(self, "region", parse_region(self.region))
        for source, trust in self.sources.items():
            if isinstance(trust, str) and trust not in TRUST:
                raise InputError(
                    f"the trust of source {source!r} is {trust!r}; it can be {', '.join(TRUST)}, or a matrix."
                )

    def _check_names(self) -> None:
        """Raise an error for a misspelt choice at once, before any file is read."""
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} is {getattr(self, name)!r}{_suggestion(str(getattr(self, name)), known)}")
        if isinstance(self.grades, str) and self.grades not in ("auto", "none"):
            raise InputError(
                f"grades are a list of states from the least to the worst, auto or none; not {self.grades!r}."
            )
        if not isinstance(self.grades, str) and len(set(self.grades)) < 2:
            raise InputError(f"grades are two states at least, from the least to the worst; not {list(self.grades)!r}.")
        if self.states is not None and len(set(self.states)) < 2:
            raise InputError(f"a map needs two states at least, not {list(self.states)!r}.")
        number = isinstance(self.communities, int) and not isinstance(self.communities, bool) and self.communities > 0
        if self.communities not in (None, "learn") and not number:
            raise InputError(f"communities is a whole number above 0, or learn; not {self.communities!r}.")
        if not (isinstance(self.max_iter, int) and self.max_iter > 0):
            raise InputError(f"max_iter is a whole number above 0, not {self.max_iter!r}.")

    def confusion_prior(
        self, states: Sequence[Hashable], labels: Sequence[Hashable]
    ) -> dict[Hashable, Sequence[Sequence[float]]] | Sequence[Sequence[float]] | None:
        """Pseudo-counts of the named sources and of all others, as `HeatmapBCC(confusion_prior=...)` wants them."""
        named: dict[Hashable, Sequence[Sequence[float]]] = {
            source: trusted(trust, states, labels) for source, trust in self.sources.items()
        }
        if self.others is None or not named:
            return named or self.others
        return {None: self.others, **named}

    def plain(self) -> dict[str, Any]:
        """All settings as JSON values, for a file that must be read again."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _as_json(value) for name, value in values.items()}

    def changed(self) -> dict[str, Any]:
        """Only what differs from the defaults: what a reader of the map wants to know."""
        standard = Settings()
        return {
            name: value
            for name, value in self.plain().items()
            if value != standard.plain()[name] and name not in ("read",)
        }


def _from_values(values: Mapping[str, Any]) -> Settings:
    return Settings(**values)


def trusted(trust: Any, states: Sequence[Any], labels: Sequence[Any]) -> list[list[float]]:
    """A word of `TRUST` as a matrix of pseudo-counts [J, L]; a matrix stays as it is."""
    if not isinstance(trust, str):
        return [[float(count) for count in row] for row in trust]
    right, wrong = TRUST[trust]
    return [[right if label == state else wrong for label in labels] for state in states]


def read_settings(path: str | Path) -> dict[str, Any]:
    """Read the keywords of `Settings` from a TOML file. A name it does not know is an error.

    Parameters
    ----------
    path : path
        The file, with the tables [read], [map], [model] and [sources.NAME].

    Returns
    -------
    dict
        Keywords of `Settings`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import crowdfield as cf
    >>> _ = Path("flood.toml").write_text('[map]' + chr(10) + 'cell = "250m"')
    >>> cf.pipeline.read_settings("flood.toml")
    {'cell': '250m'}
    """
    path = Path(path)
    out: dict[str, Any] = {}
    for table, content in read_toml(path).items():
        if table not in (*TABLES, "sources"):
            raise InputError(f"{path}: no table [{table}]{_suggestion(table, (*TABLES, 'sources'))}")
        if not isinstance(content, Mapping):
            raise InputError(f"{path}: '{table}' must be a table: write [{table}] on a line of its own.")
        if table == "sources":
            out["sources"] = {name: _trust(path, name, entry) for name, entry in content.items()}
            continue
        for name in content:
            if name not in TABLES[table]:
                raise InputError(f"{path}: [{table}] has no '{name}'{_suggestion(name, TABLES[table])}")
        if table == "read":
            out["read"] = dict(content)
        else:
            out.update(content)
    return out


def from_plain(values: Mapping[str, Any]) -> Settings:
    """What `Settings.plain` gave."""
    known = {item.name for item in fields(Settings)}
    given = {name: value for name, value in values.items() if name in known}
    if isinstance(given.get("region"), list):
        # Runs saved before regions had names hold a list in the order of that time.
        west, east, south, north = given["region"]
        given["region"] = Region(west, south, east, north)
    return Settings(**given)


def _trust(path: Path, source: str, entry: Any) -> Any:
    if not isinstance(entry, Mapping) or set(entry) not in ({"trust"}, {"confusion"}):
        raise InputError(
            f'{path}: [sources.{source}] needs either trust = "high" (or {", ".join(TRUST)}) '
            "or confusion = [[..], [..]], one row per state and one column per label."
        )
    return entry["trust"] if "trust" in entry else entry["confusion"]


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(known)}."


def _as_json(value: Any) -> Any:
    if isinstance(value, Region):
        return value._asdict()  # with names, so that no reader can take one edge for another
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
