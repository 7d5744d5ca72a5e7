"""Names of sources and ids of reports. Those of a file are left in its Arrow array until somebody asks for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Names = TypeVar("Names", tuple[Any, ...], tuple[Any, ...] | None)


@dataclass(frozen=True)
class LateNames:
    """Names in an Arrow array of strings, of which Python strings are made later."""

    cells: Any  # Arrow array of strings
    rows: NDArray[np.int64] | None = None  # [names] where each name stands in the array; None: all cells, in order

    def __len__(self) -> int:
        return len(self.cells if self.rows is None else self.rows)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> LateNames:
        """Some of the names, by a mask."""
        return LateNames(self.cells, np.flatnonzero(chosen) if self.rows is None else self.rows[chosen])

    def made(self) -> tuple[str | None, ...]:
        """The names as Python strings; None for a missing one."""
        return tuple((self.cells if self.rows is None else self.cells.take(self.rows)).to_pylist())


class NamesField(Generic[Names]):
    """A field of a dataclass with a tuple of names: it may be given `LateNames`, which become one when it is read.

    To dataclasses this is a "descriptor-typed field": the class itself answers with the field's default, if any.
    """

    def __init__(self, *, optional: bool = False) -> None:
        self._optional = optional

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Names:
        if instance is None:
            if self._optional:
                return cast("Names", None)
            raise AttributeError(self._name)  # the field has no default
        held = vars(instance)[self._name]
        if isinstance(held, LateNames):
            held = vars(instance)[self._name] = held.made()
        return cast("Names", held)

    def __set__(self, instance: object, value: Names | Iterable[Hashable] | LateNames) -> None:
        vars(instance)[self._name] = value
