"""Who said what, where: one row per report, checked once and never changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.codes import checked_codes, distinct_names, encode, listed
from crowdfield.data.columns import (
    accuracies,
    aligned_scores,
    counts_of,
    places_of,
    scored_rows,
    scores,
    times,
    whole_areas,
)
from crowdfield.data.names import LateNames, NamesField
from crowdfield.data.sites import Sites, distinct_places
from crowdfield.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from crowdfield.data.grid import Grid

# Names of the two coordinate columns of a table, in order of preference.
COORDINATES = (("easting", "northing"), ("lon", "lat"), ("longitude", "latitude"), ("x", "y"))
SCORE_PREFIX = "p_"  # prefix of the columns with the probability of every label
WHOLE_AREA = "whole_area"  # the column that says which reports are about areas
_GEOGRAPHIC = ("EPSG:4326", "OGC:CRS84")


@dataclass(frozen=True, eq=False)
class Reports:
    """A table of reports, one row per report: who said what, where. Checked once, and never changed.

    Build one with :meth:`from_arrays` or :meth:`from_frame`; `crowdfield.io.read` makes one from a file.

    Parameters
    ----------
    places : array_like [R, D]
        Where: (easting, northing) in metres, or (longitude, latitude) when ``crs`` is geographic.
    label : array_like [R] of int
        What is said, as codes into ``labels``.
    source : array_like [R] of int
        Who says it, as codes into ``sources``.
    labels, sources : tuple
        What the codes stand for.
    time : array_like [R], optional
        Seconds since 1970, UTC; NaN where it is not known.
    id : tuple, optional
        A name for every report.
    crs : str, optional
        The coordinate reference system of ``places``, for example "EPSG:4326".
    accuracy : array_like [R], optional
        Accuracy of each place in metres: the radius around it that contains the true place with a probability of 68 %;
        NaN where it is not known (docs/accuracy.md).
    area : array_like [R] of bool, optional
        Which reports are about all of the area that their accuracy reaches (a tile, a village), rather than about one
        place somewhere in it.
    score : array_like [R] or [R, L], optional
        How sure the report is of its label, a probability; or the probability of every label, one column for each of
        ``labels``. NaN where a report just says its label (docs/scores.md).
    count : array_like [R] of int, optional
        How many identical reports each row stands for, as in "seen by 12" (docs/counts.md).

    Examples
    --------
    >>> import crowdfield as cf
    >>> reports = cf.Reports.from_arrays([[0, 0], [0, 0], [5, 1]], ["wet", "dry", "wet"], ["ann", "bob", "ann"])
    >>> len(reports), reports.labels, reports.sources
    (3, ('dry', 'wet'), ('ann', 'bob'))
    >>> reports.sites().places  # the distinct places
    array([[0., 0.],
           [5., 1.]])
    """

    places: NDArray[np.float64]  # [R, D]
    label: NDArray[np.int64]  # [R], codes into labels
    source: NDArray[np.int64]  # [R], codes into sources
    labels: tuple[Any, ...]
    sources: NamesField[tuple[Any, ...]] = NamesField()  # noqa: RUF009 (a descriptor)
    time: NDArray[np.float64] | None = None  # [R]
    id: NamesField[tuple[Any, ...] | None] = NamesField(optional=True)  # noqa: RUF009
    crs: str | None = None
    accuracy: NDArray[np.float64] | None = None  # [R], metres
    score: NDArray[np.float64] | None = None  # [R], or [R, L]
    count: NDArray[np.int64] | None = None  # [R]
    area: NDArray[np.bool_] | None = None  # [R]

    def __post_init__(self) -> None:
        places = places_of(self.places)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "labels", distinct_names(self.labels, "labels"))
        if not isinstance(vars(self)["sources"], LateNames):
            object.__setattr__(self, "sources", distinct_names(self.sources, "sources"))
        for name, names in (("label", len(self.labels)), ("source", self.n_sources)):
            object.__setattr__(self, name, checked_codes(getattr(self, name), name, names, len(places)))
        if self.time is not None:
            object.__setattr__(self, "time", times(self.time, len(places)))
        if self.accuracy is not None:
            object.__setattr__(self, "accuracy", accuracies(self.accuracy, len(places)))
        if self.area is not None:
            object.__setattr__(self, "area", whole_areas(self.area, self.accuracy, len(places)))
        if self.score is not None:
            object.__setattr__(self, "score", scores(self.score, len(places), len(self.labels)))
        if self.count is not None:
            object.__setattr__(self, "count", counts_of(self.count, len(places)))
        if (ids := vars(self)["id"]) is not None:
            if not isinstance(ids, LateNames):
                object.__setattr__(self, "id", ids := tuple(ids))
            if len(ids) != len(places):
                raise InputError(f"{len(places)} places but {len(ids)} ids: give one per report.")

    @classmethod
    def from_arrays(
        cls,
        places: ArrayLike,
        label: ArrayLike | Iterable[Hashable],
        source: ArrayLike | Iterable[Hashable] | None = None,
        *,
        time: ArrayLike | None = None,
        id: Iterable[Hashable] | None = None,
        labels: Iterable[Hashable] | None = None,
        sources: Iterable[Hashable] | None = None,
        crs: str | None = None,
        accuracy: ArrayLike | None = None,
        score: ArrayLike | None = None,
        count: ArrayLike | None = None,
        area: ArrayLike | None = None,
    ) -> Reports:
        """Build a table with one row per report.

        ``labels`` and ``sources`` fix the order of the codes, and may name some that nobody used.

        By default the order is sorted, or that of first appearance where the values cannot be sorted. Without a
        ``source`` all reports are taken to come from one, called ``"all"``.

        >>> len(cf.Reports.from_arrays([[0, 0], [5, 1]], ["wet", "dry"]))
        2
        """
        where = places_of(places)
        label_codes, label_names = encode(label, labels, "label", len(where))
        if source is None:
            source_names = ("all",) if sources is None else distinct_names(sources, "sources")
            if len(source_names) != 1:
                raise InputError(f"{len(source_names)} sources are named, but no source is given for each report.")
            source_codes = np.zeros(len(where), dtype=np.int64)
        else:
            source_codes, source_names = encode(source, sources, "source", len(where))
        return cls(
            places=where,
            label=label_codes,
            source=source_codes,
            labels=label_names,
            sources=source_names,
            time=None if time is None else times(time, len(where)),
            id=None if id is None else tuple(id),
            crs=crs,
            accuracy=None if accuracy is None else accuracies(accuracy, len(where)),
            score=None if score is None else scores(score, len(where), len(label_names)),
            count=None if count is None else counts_of(count, len(where)),
            area=None if area is None else np.array(area),
        )

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        places: Sequence[str] | None = None,
        label: str = "label",
        source: str | None = "source",
        time: str | None = "time",
        id: str | None = "id",
        labels: Iterable[Hashable] | None = None,
        sources: Iterable[Hashable] | None = None,
        crs: str | None = None,
        accuracy: str | None = "accuracy",
        score: str | None = "score",
        count: str | None = None,
    ) -> Reports:
        """From a table with a column for each coordinate and for the label.

        Source, time, id, accuracy, score and ``whole_area`` are taken where there are any; counts only from a column
        that is named.

        >>> cf.Reports.from_frame(reports.to_frame()).labels
        ('dry', 'wet')
        """
        columns = list(places) if places is not None else _coordinate_columns(list(frame.columns))
        missing = [name for name in [*columns, label, *([count] if count else [])] if name not in frame.columns]
        if missing:
            raise InputError(f"the table has no column {missing[0]!r}; it has {listed(list(frame.columns))}.")

        def optional(name: str | None) -> Any:
            return frame[name].to_numpy() if name is not None and name in frame.columns else None

        ids = optional(id)
        if labels is None:
            labels = _scored_labels(frame, label)
        return cls.from_arrays(
            frame[columns].to_numpy(),
            frame[label].to_numpy(),
            optional(source),
            time=optional(time),
            id=None if ids is None else ids.tolist(),
            labels=labels,
            sources=sources,
            crs=crs,
            accuracy=optional(accuracy),
            score=optional(score),
            count=optional(count),
            area=optional(WHOLE_AREA),
        )._with_score_columns(frame)

    def _with_score_columns(self, frame: pd.DataFrame) -> Reports:
        """With the probability of every label, from columns that are named after all of them."""
        names = [f"{SCORE_PREFIX}{label}" for label in self.labels]
        if self.score is not None or not names or not set(names) <= set(frame.columns):
            return self
        return replace(self, score=frame[names].to_numpy(dtype=np.float64))

    def to_frame(self) -> pd.DataFrame:
        """A table that :meth:`from_frame` reads back (with ``count="count"`` if rows have counts).

        >>> reports.to_frame()["label"].tolist()
        ['wet', 'dry', 'wet']
        """
        import pandas as pd

        columns: dict[str, Any] = {name: self.places[:, d] for d, name in enumerate(self._coordinate_names())}
        # from_codes, not a list of names: ten million reports share a handful of labels.
        columns["label"] = pd.Categorical.from_codes(self.label, categories=pd.Index(self.labels, tupleize_cols=False))
        columns["source"] = pd.Categorical.from_codes(
            self.source, categories=pd.Index(self.sources, tupleize_cols=False)
        )
        if self.time is not None:
            columns["time"] = self.time
        if self.id is not None:
            columns["id"] = list(self.id)
        if self.accuracy is not None:
            columns["accuracy"] = self.accuracy
        if self.area is not None:
            columns[WHOLE_AREA] = self.area
        if self.score is not None and self.score.ndim == 1:
            columns["score"] = self.score
        if self.score is not None and self.score.ndim == 2:
            for name, column in zip(self.labels, self.score.T, strict=True):
                columns[f"{SCORE_PREFIX}{name}"] = column
        if self.count is not None:
            columns["count"] = self.count
        return pd.DataFrame(columns)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        where = f", crs={self.crs!r}" if self.crs else ""
        return f"Reports({len(self)} reports, {self.n_sources} sources, labels={listed(self.labels)}{where})"

    @property
    def n_reports(self) -> int:
        """The number of reports, counting each row as often as its ``count`` says."""
        return len(self) if self.count is None else int(self.count.sum())

    @property
    def n_sources(self) -> int:
        """The number of ``sources``, also of those without a report."""
        return len(vars(self)["sources"])

    @property
    def is_score(self) -> NDArray[np.bool_]:
        """Which reports are scores rather than just labels: [R]."""
        return scored_rows(self.score, len(self))

    def tally(self, codes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """How many reports have each code, counting rows by their ``count``: [R] of 0 … size − 1 -> [size].

        >>> reports.tally(reports.label, 2)
        array([1, 2])
        """
        return np.bincount(codes, self.count, size).astype(np.int64)

    def one_row_per_report(self, rows: ArrayLike | None = None) -> Reports:
        """Each row repeated as often as its ``count`` says; rows [R]: which to repeat, all by default.

        >>> len(reports.one_row_per_report())
        3
        """
        if self.count is None:
            return self
        repeated = np.ones(len(self), dtype=bool) if rows is None else np.asarray(rows, dtype=bool)
        given = np.repeat(np.arange(len(self)), np.where(repeated, self.count, 1))
        kept = np.where(repeated, 1, self.count)[given]
        return replace(self.take(given), count=kept if kept.max(initial=1) > 1 else None)

    def sites(self) -> Sites:
        """The distinct places, sorted by their coordinates, and the site of each report.

        >>> reports.sites().site
        array([0, 0, 1])
        """
        return distinct_places(self.places)

    def snap(self, grid: Grid, *, outside: Literal["raise", "drop"] = "raise") -> Reports:
        """Each report moved to the centre of its cell; those outside the grid are an error, or dropped.

        >>> reports.snap(cf.Grid(west=-1, east=9, south=-1, north=9, columns=1, rows=1)).places[0]
        array([4., 4.])
        """
        if outside not in ("raise", "drop"):
            raise InputError(f"outside must be 'raise' or 'drop', got {outside!r}.")
        if self.crs is not None and grid.crs is not None and self.crs != grid.crs:
            raise InputError(f"the reports are in {self.crs} and the grid in {grid.crs}. Project the reports first.")
        cell = grid.index(self.places)
        kept = cell >= 0
        if not kept.all() and outside == "raise":
            first = int(np.argmin(kept))
            raise InputError(
                f"{int((~kept).sum())} of {len(self)} reports lie outside the grid (the first is report {first}, at "
                f"{tuple(self.places[first].tolist())}). Pass outside='drop' to leave them out, or a larger grid."
            )
        row, column = np.divmod(cell[kept], grid.columns)
        centres = np.column_stack([grid.eastings()[column], grid.northings()[row]])
        return replace(self.take(kept), places=centres, crs=self.crs or grid.crs)

    def in_time(self, *, since: float | None = None, unit: float = 3600.0) -> NDArray[np.float64]:
        """Places with the time as one more column, for a model of space and time: [R, D + 1].

        Times are counted from ``since`` (seconds since 1970; by default the first report) in units of an hour.

        >>> timed = cf.Reports.from_arrays([[0, 0], [5, 1]], ["wet", "dry"], time=[0.0, 7200.0])
        >>> timed.in_time()[1]
        array([5., 1., 2.])
        """
        if self.time is None or not np.isfinite(self.time).all():
            missing = len(self) if self.time is None else int((~np.isfinite(self.time)).sum())
            raise InputError(f"{missing} of {len(self)} reports have no time. Leave them out, or map space alone.")
        if not (np.isfinite(unit) and unit > 0):
            raise InputError(f"unit must be a positive number of seconds, not {unit!r}.")
        start = float(self.time.min()) if since is None and len(self) else float(since or 0.0)
        return np.column_stack([self.places, (self.time - start) / unit])

    def join(self, other: Reports) -> Reports:
        """These reports, then the others. Sources and labels keep their codes; new ones come after.

        >>> len(reports.join(reports))
        6
        """
        sources = (*self.sources, *(s for s in other.sources if s not in set(self.sources)))
        labels = (*self.labels, *(x for x in other.labels if x not in set(self.labels)))
        source_code = {name: i for i, name in enumerate(sources)}
        label_code = {name: i for i, name in enumerate(labels)}
        new_source = np.array([source_code[s] for s in other.sources], dtype=np.int64)[other.source]
        new_label = np.array([label_code[x] for x in other.labels], dtype=np.int64)[other.label]
        timed = self.time is not None and other.time is not None
        named = self.id is not None and other.id is not None
        return Reports(
            places=np.concatenate([self.places, other.places]),
            label=np.concatenate([self.label, new_label]),
            source=np.concatenate([self.source, new_source]),
            labels=labels,
            sources=sources,
            time=np.concatenate([self.time, other.time]) if timed else None,
            id=(*self.id, *other.id) if named else None,  # type: ignore[misc]
            crs=self.crs,
            accuracy=_joined(self.accuracy, other.accuracy, len(self), len(other)),
            score=_joined_scores(self, other, labels),
            count=_joined_counts(self, other),
            area=_joined_areas(self, other),
        )

    def take(self, rows: ArrayLike) -> Reports:
        """The chosen reports (a mask or positions), with labels and sources unchanged.

        >>> len(reports.take([0, 2]))
        2
        """
        chosen = np.arange(len(self))[np.asarray(rows)]
        return replace(
            self,
            places=self.places[chosen],
            label=self.label[chosen],
            source=self.source[chosen],
            time=None if self.time is None else self.time[chosen],
            id=None if self.id is None else tuple(self.id[i] for i in chosen.tolist()),
            accuracy=None if self.accuracy is None else self.accuracy[chosen],
            score=None if self.score is None else self.score[chosen],
            count=None if self.count is None else self.count[chosen],
            area=None if self.area is None else self.area[chosen],
        )

    def _coordinate_names(self) -> list[str]:
        dimensions = self.places.shape[1]
        if dimensions != 2:
            return [f"x{d + 1}" for d in range(dimensions)]
        return ["lon", "lat"] if self.crs in _GEOGRAPHIC else ["easting", "northing"]


def _joined_scores(first: Reports, then: Reports, labels: tuple[Any, ...]) -> NDArray[np.float64] | None:
    if all(reports.score is None or reports.score.ndim == 1 for reports in (first, then)):
        return _joined(first.score, then.score, len(first), len(then))
    return np.concatenate([aligned_scores(r.score, r.label, r.labels, labels) for r in (first, then)])


def _scored_labels(frame: pd.DataFrame, label: str) -> tuple[str, ...] | None:
    """The labels that have a column of probabilities, if these include all labels of the reports."""
    named = [str(column).removeprefix(SCORE_PREFIX) for column in frame if str(column).startswith(SCORE_PREFIX)]
    return tuple(sorted(named)) if len(named) > 1 and set(frame[label].unique()) <= set(named) else None


def _joined_counts(first: Reports, then: Reports) -> NDArray[np.int64] | None:
    if first.count is None and then.count is None:
        return None
    return np.concatenate([np.ones(len(r), np.int64) if r.count is None else r.count for r in (first, then)])


def _joined_areas(first: Reports, then: Reports) -> NDArray[np.bool_] | None:
    if first.area is None and then.area is None:
        return None
    return np.concatenate([np.zeros(len(r), dtype=bool) if r.area is None else r.area for r in (first, then)])


def _joined(
    first: NDArray[np.float64] | None, then: NDArray[np.float64] | None, n: int, m: int
) -> NDArray[np.float64] | None:
    """A column of two tables; NaN for the one that lacks it."""
    if first is None and then is None:
        return None
    return np.concatenate(
        [np.full(n, np.nan) if first is None else first, np.full(m, np.nan) if then is None else then]
    )


def _coordinate_columns(columns: list[Any]) -> list[str]:
    for pair in COORDINATES:
        if all(name in columns for name in pair):
            return list(pair)
    numbered = [f"x{d + 1}" for d in range(len(columns))]
    found = [name for name in numbered if name in columns]
    if found and found == numbered[: len(found)]:
        return found
    raise InputError(
        f"no coordinate columns among {listed(columns)}. Name them with places=(easting column, northing column)."
    )
