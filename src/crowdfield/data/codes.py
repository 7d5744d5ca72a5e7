"""Labels and sources as integer codes, and the name that each code stands for."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.columns import frozen
from crowdfield.errors import InputError


def distinct_names(names: Iterable[Hashable], what: str) -> tuple[Any, ...]:
    """The names as plain Python values; an error where one is given twice or cannot be hashed."""
    given: tuple[Any, ...] = tuple(names)
    kinds = set(map(type, given))
    if kinds == {str} and all(map(operator.lt, given, given[1:])):
        return given  # each is greater than the one before: cheaper to see than that none is in a set already
    if any(issubclass(kind, np.generic) for kind in kinds):
        given = tuple(name.item() if isinstance(name, np.generic) else name for name in given)
    try:
        distinct = len(set(given)) == len(given)
    except TypeError:
        raise InputError(f"{what} must be hashable (strings or numbers).") from None
    if not distinct:
        raise InputError(f"{what} must be distinct, got {listed(given)}.")
    return given


def checked_codes(codes: ArrayLike, what: str, names: int, count: int) -> NDArray[np.int64]:
    """Codes below the number of ``names``, one per report; an error where one has no name."""
    given = np.asarray(codes)
    if given.shape != (count,):
        raise InputError(f"{count} places but {what}s of shape {given.shape}: give one per report.")
    if not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"{what} must hold integer codes; Reports.from_arrays makes them from values.")
    if count and not (given.min() >= 0 and given.max() < names):
        raise InputError(f"{what} codes must lie in 0..{names - 1}, got {int(given.min())}..{int(given.max())}.")
    return frozen(given.astype(np.int64))


def encode(
    values: ArrayLike | Iterable[Hashable], names: Iterable[Hashable] | None, what: str, count: int
) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """One code per value, and the names that the codes stand for: those given, or all values in order."""
    import pandas as pd

    if isinstance(values, (str, bytes)):
        raise InputError(f"{what} must hold one value per report, got the single value {values!r}.")
    given: Any = values
    if not isinstance(values, (np.ndarray, pd.Series, pd.Categorical)):
        # An object array keeps what was given: numpy would make strings of ["a", 1], and a matrix of pairs.
        rows = list(values)  # type: ignore[arg-type]
        given = np.empty(len(rows), dtype=object)
        given[:] = rows
    if getattr(given, "ndim", 1) != 1 or len(given) != count:
        raise InputError(f"{count} places but {what}s of shape {given.shape}: give one per report.")
    if isinstance(given, np.ndarray) and given.dtype.kind in "US":
        given = given.astype(object)
    try:
        codes, found = pd.factorize(given)
    except TypeError:
        raise InputError(f"{what} must hold hashable values (strings or numbers).") from None
    if count and codes.min() < 0:
        raise InputError(f"report {int(np.argmin(codes))} has no {what}. Leave it out, or say what it is.")
    seen = distinct_names(found.tolist(), f"{what}s")
    order = _in_order(seen) if names is None else distinct_names(names, f"{what}s")
    position = {name: code for code, name in enumerate(order)}
    unknown = [name for name in seen if name not in position]
    if unknown:
        row = int(np.argmax(codes == seen.index(unknown[0])))
        raise InputError(f"report {row} has {what} {unknown[0]!r}, which is not among the {what}s {listed(order)}.")
    recode = np.array([position[name] for name in seen], dtype=np.int64)
    return frozen(recode[codes] if count else np.empty(0, dtype=np.int64)), order


def _in_order(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sorted, or in the order of first appearance where the names cannot be compared."""
    try:
        return tuple(sorted(names))
    except TypeError:
        return names


def listed(names: Sequence[Any], most: int = 8) -> str:
    """The first names, and how many more there are, for an error message."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"[{shown}, … {len(names) - most} more]" if len(names) > most else f"[{shown}]"
