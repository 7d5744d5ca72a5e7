"""Lengths as people write them."""

from __future__ import annotations

import math
import re

from crowdfield.errors import InputError

_METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0, "ft": 0.3048}
_LENGTH = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z]*)\s*")


def parse_length(length: str | float) -> float:
    """Read a length in metres.

    Parameters
    ----------
    length : str or float
        A number of metres, or text with a unit: m, km, mi, nmi or ft.

    Returns
    -------
    float
        Metres.

    Examples
    --------
    >>> from crowdfield import geography
    >>> geography.parse_length("2.5 km"), geography.parse_length(250)
    (2500.0, 250.0)
    """
    if isinstance(length, (int, float)) and not isinstance(length, bool):
        metres = float(length)
    else:
        match = _LENGTH.fullmatch(str(length))
        unit = (match.group(2) or "m").lower() if match else ""
        if match is None or unit not in _METRES:
            raise InputError(f"{length!r} is not a length. Write it like 250m, 2km or 0.5mi.")
        metres = float(match.group(1)) * _METRES[unit]
    if not (math.isfinite(metres) and metres > 0):
        raise InputError(f"a length must be above 0, got {length!r}.")
    return metres


def length_in_words(metres: float) -> str:
    """A length for people, with three significant digits: kilometres from 1,000 m on.

    >>> length_in_words(132_354.0), length_in_words(56.0)
    ('132 km', '56 m')
    """
    whole = float(f"{metres:.3g}")
    return f"{whole / 1000:,g} km" if whole >= 1000 else f"{whole:g} m"
