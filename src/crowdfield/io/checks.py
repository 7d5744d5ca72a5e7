"""Answers to spot checks: a file of places, with a column `state` for the true state of each."""

from __future__ import annotations

import csv
import io as textio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io import features, kinds

MOST_BYTES = 2**26  # of a file of answers
# Zooniverse hides columns whose name begins with this character from volunteers, and keeps them in its exports.
HIDDEN = "#"


def read_checked(path: str | Path) -> pd.DataFrame:
    """A plan with answers, from CSV, or from GeoJSON and other files of points; all columns but the places are text."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path} is larger than {MOST_BYTES >> 20} MB, too large for a list of checks.")
    try:
        found = kinds.look(path)
    except ReportFormatError as problem:
        raise InputError(f"the checks {problem}") from None
    if found.kind.name in kinds.FEATURES:
        read = features.read(path, found)
        return pd.DataFrame({_column(name): values for name, values in read.columns.items()})
    if found.kind is not kinds.TEXT or found.member is not None or found.gzipped:
        raise InputError(f"the checks {path} are {found.kind.title}. Save them as CSV or GeoJSON.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8. Save it as 'CSV UTF-8'.") from None
    dialect = ";" if text.split("\n", 1)[0].count(";") > text.split("\n", 1)[0].count(",") else ","
    rows: list[Mapping[str, Any]] = list(csv.DictReader(textio.StringIO(text), delimiter=dialect))
    frame = pd.DataFrame(rows)
    return frame.rename(columns={name: _column(name) for name in frame.columns})


def _column(name: Any) -> str:
    """The name of a column in lower case, without the character that hides it from Zooniverse's volunteers."""
    return str(name).strip().lower().removeprefix(HIDDEN)
