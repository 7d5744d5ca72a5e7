"""Coordinate reference systems as files state them. A file is not trusted: it may name a system by its number or define
one, but never point to another file or to an address."""

from __future__ import annotations

import json
import re
from typing import Any

from crowdfield.geography import WGS84

LONGEST = 100_000  # characters of a definition; the longest in the EPSG registry has some 20,000
_NUMBER = re.compile(r"(?:urn:ogc:def:crs:)?(EPSG|ESRI):(?:[\d.]*:)?(\d{1,7})", re.IGNORECASE)
_CRS84 = re.compile(r"(?:urn:ogc:def:crs:)?OGC:(?:[\d.]*:)?CRS84h?", re.IGNORECASE)
# What makes PROJ open another file. Web Mercator is often written with "nadgrids=@null", which opens none.
_REACHES_OUT = re.compile(r"grids\s*=\s*(?!@null)|parameterfile|pipeline|init\s*=|proj-based", re.IGNORECASE)


class UnknownSystem(ValueError):
    """Says what is wrong with a system, in a few words for a longer message."""


def by_name(name: Any) -> str:
    """A system from its name: EPSG:32618, urn:ogc:def:crs:EPSG::32618, urn:ogc:def:crs:OGC:1.3:CRS84."""
    stated = str(name).strip()
    if _CRS84.fullmatch(stated):
        return WGS84
    match = _NUMBER.fullmatch(stated)
    if match is None:
        raise UnknownSystem(f"'{stated[:60]}' is not the name of a coordinate reference system, like EPSG:32618")
    return by_number(match[1].upper(), int(match[2]))


def by_number(authority: str, code: int) -> str:
    """A system from the number that an authority gives it."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        known = CRS.from_authority(authority, code)
    except CRSError:
        raise UnknownSystem(f"there is no coordinate reference system {authority}:{code}") from None
    return _flat(known)


def by_definition(stated: str | dict[str, Any]) -> str:
    """A system from its definition in well-known text or PROJJSON."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    text = stated if isinstance(stated, str) else json.dumps(stated)
    if len(text) > LONGEST:
        raise UnknownSystem("its coordinate reference system is defined by too long a text")
    if _REACHES_OUT.search(text):
        raise UnknownSystem("its coordinate reference system refers to another file")
    try:
        known = CRS.from_json(text) if text.lstrip().startswith("{") else CRS.from_wkt(text)
    except (CRSError, ValueError, RecursionError):
        raise UnknownSystem("its coordinate reference system cannot be understood") from None
    return _flat(known)


def _flat(known: Any) -> str:
    """The horizontal part, as a number where it has one."""
    for _ in range(4):
        if known.is_bound:
            known = known.source_crs
        elif known.is_compound:
            known = known.sub_crs_list[0]
    if not (known.is_geographic or known.is_projected):
        raise UnknownSystem("its coordinate reference system is not one of places on Earth")
    authority = known.to_authority()
    if authority == ("OGC", "CRS84"):
        return WGS84
    if authority is not None and authority[0] in ("EPSG", "ESRI"):
        return ":".join(authority)
    return str(known.to_wkt())
