"""What reading a file gives: the reports, and an account of every row."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data.reports import Reports
from crowdfield.errors import InputError
from crowdfield.io.rejects import Rejects
from crowdfield.io.table import write_rows


@dataclass(frozen=True, eq=False)
class ReadResult:
    """What was in a file. ``read == used + duplicate + rejected``, counted in rows; a row may hold many reports.

    Attributes
    ----------
    file, layout, statement : str
        The file, its layout, and one line that says what was found and how it was read.
    columns : mapping
        Which column each role was taken from.
    reports : Reports
        In degrees: places are (longitude, latitude).
    read, used, duplicate, rejected : int
        Counts of rows.
    rejects : Rejects
        A sequence of (line, column, reason).
    region : Region
        Around the reports; west > east across the antimeridian.
    notes : tuple of str
        Remarks on the file.
    events : ndarray [R] or None
        Reports with the same number are one message, copied; −1 for the others.
    grades : tuple or None
        The states from the least to the worst, where labels and the name of their column say that they are grades.
    states : tuple of str or None
        What the labels are about, where the layout knows.
    row : ndarray [R]
        The row of the file that each report is from, counted from 0.
    """

    file: str
    layout: str
    columns: Mapping[str, str]  # role -> the column it was taken from
    statement: str  # one line: what was found, and how it was read
    reports: Reports  # places are (longitude, latitude)
    read: int
    used: int
    duplicate: int
    rejected: int
    rejects: Rejects  # a sequence of (line, column, reason)
    region: geography.Region  # around the reports but those far off; west > east across the antimeridian
    notes: tuple[str, ...]  # what a careful reader should know
    events: NDArray[np.int64] | None  # [R] reports with the same number are one message, copied; −1 for the others
    states: tuple[str, ...] | None  # what the labels are about, where the layout knows
    grades: tuple[Any, ...] | None  # the states from the least to the worst, where they are grades
    row: NDArray[np.int64]  # [R] the row of the file that each report is from, counted from 0
    suspected_swap: str  # why latitude and longitude are probably exchanged; empty if they are not
    _lines: Callable[[NDArray[np.int64]], NDArray[np.int64]]

    def lines(self) -> NDArray[np.int64]:
        """[R] where in the file each report is: a line of a table, the number of a feature. Reads a table again."""
        rows, place = np.unique(self.row, return_inverse=True)
        return self._lines(rows)[place]

    @property
    def copied(self) -> int:
        """How many reports repeat the words of another within minutes."""
        if self.events is None:
            return 0
        named = self.events[self.events >= 0]
        return len(named) - len(np.unique(named))

    def summary(self) -> dict[str, Any]:
        """All of it in plain values, as ``crowdfield inspect --json`` prints it."""
        reports = self.reports
        counts = np.bincount(reports.label, weights=reports.count, minlength=len(reports.labels))
        found = {
            "file": self.file,
            "layout": self.layout,
            "statement": self.statement,
            "columns": dict(self.columns),
            "read": self.read,
            "used": self.used,
            "duplicate": self.duplicate,
            "rejected": self.rejected,
            "reports": reports.n_reports,
            "labels": {str(name): int(n) for name, n in zip(reports.labels, counts, strict=True)},
            "sources": reports.n_sources,
            "region": list(self.region),
            "crs": reports.crs,
            "time": _span(reports.time),
            "copied": self.copied,
            "notes": list(self.notes),
            "rejects": [reject._asdict() for reject in self.rejects[:10]],
        }
        return found

    def write_rejects(
        self, path: str | os.PathLike[str] | None = None, *, instead: str | os.PathLike[str] | None = None
    ) -> Path | None:
        """Write the rejected rows to ``<name>.rejects.csv`` beside the file, or to ``path``; None if there are none.

        Where the file's folder cannot be written to they go to the folder ``instead``, if not given to the current one.
        """
        if not self.rejects:
            return None
        name = f"{Path(self.file).name}.rejects.csv"
        # The data are often in a read-only folder: then the rejects are written next to the results.
        other = Path.cwd() if instead is None else Path(instead)
        targets = [Path(path)] if path is not None else [Path(self.file).with_name(name), other / name]
        for target in targets:
            try:
                write_rows(("line", "column", "reason"), self.rejects, target)
            except OSError as error:
                problem = InputError(f"cannot write the rejected rows to {target}: {error.strerror}.")
                continue
            return target
        raise problem


def _span(time: NDArray[np.float64] | None) -> list[str] | None:
    if time is None or np.isnan(time).all():
        return None
    return [
        datetime.fromtimestamp(float(t), UTC).isoformat(timespec="seconds") for t in (np.nanmin(time), np.nanmax(time))
    ]
