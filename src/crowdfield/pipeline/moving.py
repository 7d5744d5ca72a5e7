"""Maps whose state changes over time: their reports as a fit in space and time uses them, and the moment shown."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.errors import DataWarning, InputError
from crowdfield.pipeline.settings import Settings

HOUR = 3600.0
SCORES_NOT_READ = "Maps that move read labels and not scores."


def timed(reports: Reports, settings: Settings) -> Reports:
    """The reports that have a time, without scores, which a fit in space and time does not read."""
    if settings.silence is not None or settings.covariates or not isinstance(settings.grades, str):
        raise InputError(
            "a map that moves uses neither silence, nor covariates, nor grades. Leave out these or moving."
        )
    known = np.zeros(len(reports), dtype=bool) if reports.time is None else np.isfinite(reports.time)
    if not known.any():
        raise InputError(
            "no report has a time, so the map cannot follow events. Name the column with --time, or leave out --moving."
        )
    if missing := int((~known).sum()):
        warnings.warn(f"{missing:,} reports without a time are not used by a map that moves.", DataWarning, 2)
        reports = reports.take(known)
    if reports.is_score.any():
        warnings.warn(SCORES_NOT_READ, DataWarning, 2)
        reports = replace(reports, score=None)
    return reports


def with_hours(reports: Reports) -> Reports:
    """The reports with the hour of their event, since 1970, as a third coordinate."""
    return replace(reports, places=np.column_stack([reports.places, times_of(reports) / HOUR]))


def moment_of(reports: Reports, settings: Settings) -> float:
    """The moment that the map shows, in seconds since 1970: the one asked for, else that of the newest report."""
    first, last = float(times_of(reports).min()), float(times_of(reports).max())
    if settings.moment is None:
        return last
    asked = parse_moment(settings.moment)
    if not first <= asked <= last:
        raise InputError(
            f"the moment {settings.moment} is outside the time of the reports, {moment_in_words(first)} to "
            f"{moment_in_words(last)}."
        )
    return asked


def parse_moment(text: str) -> float:
    """A moment in ISO 8601, in seconds since 1970; without a time zone it is UTC."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise InputError(f"{text!r} is not a moment. Write it as 2010-01-14 or 2010-01-14T18:00.") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def moment_in_words(moment: float) -> str:
    """A moment as ISO 8601, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def times_of(reports: Reports) -> NDArray[np.float64]:
    """When the events happened, in seconds since 1970, of reports that all have a time."""
    assert reports.time is not None
    return reports.time
