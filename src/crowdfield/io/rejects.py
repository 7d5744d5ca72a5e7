"""Rows that were not used, and why. Reasons are few and rows may be many, so each reason is stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray


class Advised(str):
    """A reason, followed by advice for somebody who can set the reader's options; ``without_advice`` is for others.

    ``choices``: the options that would help, with the values that each could have.
    """

    without_advice: str
    choices: Mapping[str, Sequence[str]]

    def __new__(cls, reason: str, advice: str, choices: Mapping[str, Sequence[str]] | None = None) -> Advised:
        """Join both into one text."""
        made = super().__new__(cls, f"{reason} {advice}")
        made.without_advice, made.choices = reason, choices or {}
        return made


def without_advice(reason: str) -> str:
    """A reason without the advice that follows it."""
    return reason.without_advice if isinstance(reason, Advised) else reason


class Reject(NamedTuple):
    """A row that was not used, and why: its line, the column, and the reason."""

    line: int
    column: str
    reason: str


class Refusal(NamedTuple):
    """One or several rejected rows, by their numbers; their lines in the file are looked up at the end."""

    rows: int | NDArray[np.int64]
    column: str
    reason: str


class Refusals:
    """All rejected rows of a file."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[NDArray[np.uint32]] = []
        self._codes: list[int] = []
        self._reasons: dict[tuple[str, str], int] = {}

    def add(self, refusals: Iterable[Refusal]) -> None:
        """Add more rejected rows."""
        for rows, column, reason in refusals:
            many = np.atleast_1d(np.asarray(rows)).astype(np.uint32)
            self.count += len(many)
            self._rows.append(many)
            self._codes.append(self._reasons.setdefault((column, reason), len(self._reasons)))

    def in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int32], list[tuple[str, str]]]:
        """The rows, rising; which reason each has; and the reasons as (column, reason)."""
        if not self._rows:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), []
        rows = np.concatenate(self._rows)
        codes = np.repeat(np.array(self._codes, dtype=np.int32), [len(part) for part in self._rows])
        order = np.argsort(rows, kind="stable")
        return rows[order].astype(np.int64), codes[order], list(self._reasons)


class Rejects(Sequence[Reject]):
    """The rejected rows in the order of the file; each is created when it is accessed.

    Their lines are counted at the first access, which reads the file once more.
    """

    def __init__(
        self,
        rows: NDArray[np.int64],
        codes: NDArray[np.int32],
        reasons: Sequence[tuple[str, str]],
        lines: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> None:
        self._rows, self._codes, self._reasons, self._line_of = rows, codes, reasons, lines

    @cached_property
    def _lines(self) -> NDArray[np.int64]:
        return self._line_of(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Reject: ...

    @overload
    def __getitem__(self, at: slice) -> list[Reject]: ...

    def __getitem__(self, at: int | slice) -> Reject | list[Reject]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        return Reject(int(self._lines[at]), *self._reasons[self._codes[at]])

    def __repr__(self) -> str:
        return f"<{len(self)} rejected rows>"
