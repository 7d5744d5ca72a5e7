"""The known layouts of tables. Each family of layouts has a module that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from crowdfield.errors import InputError
from crowdfield.geography import WGS84, Region
from crowdfield.io.collect import Batch
from crowdfield.io.column_names import MISSING
from crowdfield.io.columns import NONE
from crowdfield.io.opening import Progress
from crowdfield.io.points import Plan
from crowdfield.io.tabular import Tabular
from crowdfield.io.times import Order


@dataclass(frozen=True)
class Options:
    """The options of the user for reading a file; None means that the reader decides."""

    columns: dict[str, str | None] = field(default_factory=dict)  # role -> column
    crs: str | None = None
    region: Region | None = None
    cell: float | None = None  # metres; the cells that a "saw nothing" answer covers
    positive: bool = False  # whether some labels were asked for by name
    dates: Order | None = None
    missing: frozenset[str] = MISSING  # words that stand for an empty cell
    polygons: str | None = None  # what a polygon stands for: "inner-point", or "area"; None: refused
    swap: bool = False  # whether latitude and longitude are exchanged in the file
    all_accuracy: float | None = None  # metres, where one number holds for all reports
    all_reading: str | None = None  # of areas, where all reports say the same of them
    score_columns: str | None = None  # the columns with the probability of every state

    def given(self, role: str) -> str | None:
        return self.columns.get(role)

    def refuse(self, role: str, why: str) -> None:
        """Raise an error if the user named a column that this layout does not use."""
        if self.given(role) is not None:
            raise InputError(f"--{role} {self.given(role)} does not apply to this file: {why}.")

    def plan(self, columns: dict[str, str], **more: object) -> Plan:
        kept: dict[str, object] = {"crs": self.crs or WGS84, "region": self.region, "missing": self.missing}
        kept |= {"polygons": self.polygons, "swap": self.swap, "all_reading": self.all_reading} | more
        if self.score_columns not in (None, NONE) and not kept.get("scores"):
            raise InputError(
                f"--score-columns {self.score_columns} does not apply to this file: its layout has no such columns."
            )
        if (reading := self.given("reading")) is not None and "reading" not in columns:
            raise InputError(f"--reading {reading}: this layout has no such column.")
        return Plan(columns, **kept)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Layout:
    """One layout of a table: delimited text, a sheet, records.

    Most have one report per row and only ``plan`` their columns; those with several reports per row have ``batches``.
    """

    name: str
    title: str
    matches: Callable[[Sequence[str]], bool]
    plan: Callable[[Tabular, Options], Plan]
    batches: Callable[[Tabular, Plan, Options, Progress | None], Iterator[Batch]] | None = None
    labels: tuple[str, ...] | None = None  # fixed names, where a file can only hold one of them
    states: tuple[str, ...] | None = None  # what the labels are about, where there are more labels than states
    notes: tuple[str, ...] = ()


def all_layouts() -> tuple[Layout, ...]:
    """Every layout, the most specific first; the last one, plain, accepts any other table."""
    from crowdfield.io import dyfi, gbif, kobo, mapswipe, plain, ushahidi, zooniverse

    return (
        zooniverse.LAYOUT,
        mapswipe.LAYOUT,
        mapswipe.FULL,
        ushahidi.HAITI_2010,
        ushahidi.VERSION_3,
        ushahidi.VERSION_2,
        kobo.LAYOUT,
        gbif.LAYOUT,
        dyfi.LAYOUT,
        plain.LAYOUT,
    )
