"""Coordinates whose hemisphere is in a separate column: 72.3 in one cell, W in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdfield.io.column_names import canonical
from crowdfield.io.columns import is_missing
from crowdfield.io.points import numbers

# The letters and words of each role, and which of them make a coordinate negative. O is west in French and Spanish and
# east in German, so that a column with it is not understood (`places.why_not_degrees` says so of a cell).
_WORDS = {"lat": {"n", "s", "north", "south"}, "lon": {"e", "w", "east", "west"}}
_NEGATIVE = ("s", "w", "south", "west")
_NAMED = {"lat": ("lat", "ns", "hem", "dir", "north"), "lon": ("lon", "lng", "ew", "hem", "dir", "east")}


def find(header: Sequence[str], samples: Mapping[str, Sequence[str]], taken: Sequence[str]) -> dict[str, str]:
    """The column of the hemisphere for each role that has one. Its name must agree: N may also mean "no"."""
    found: dict[str, str] = {}
    for role, words in _WORDS.items():
        for name in header:
            plain = canonical(name).replace("_", "")
            if name in taken or not any(part in plain for part in _NAMED[role]):
                continue
            said = {cell.strip().casefold() for cell in set(samples.get(name, ())) if not is_missing(cell)}
            if said and said <= words:
                found.setdefault(role, name)
    return found


def in_names(columns: Mapping[str, str], samples: Mapping[str, Sequence[str]]) -> dict[str, None]:
    """The roles whose column is called west or south ("Longitude (W)") and has no negative numbers."""
    roles = {"lat": ("s", "south"), "lon": ("w", "west")}
    called = [role for role, words in roles.items() if canonical(columns[role]).rsplit("_", 1)[-1] in words]
    return {
        role: None
        for role in called
        if not any(cell.strip()[:1] in ("-", "−") for cell in samples.get(columns[role], ()))
    }


def signing(columns: Mapping[str, str], found: Mapping[str, str | None]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A `prepare` function that adds columns "<lat>" and "<lon>" with the sign of the hemisphere."""

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        made = {}
        for role, letters in found.items():
            cells = frame[columns[role]]
            values = numbers(cells)
            negative: Any = True
            if letters is not None:
                negative = frame[letters].fillna("").astype(str).str.strip().str.casefold().isin(_NEGATIVE)
            signed = np.where(negative, -np.abs(values), values)
            # Cells that are not numbers are kept, for the message that rejects them.
            made[f"<{role}>"] = pd.Series(signed, index=frame.index).astype(object).where(np.isfinite(values), cells)
        return frame.assign(**made)

    return prepare
