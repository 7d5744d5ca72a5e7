"""What reports of one label or of one source cannot tell, and silence as evidence if the settings ask for it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import silence
from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError
from crowdfield.pipeline.settings import Settings
from crowdfield.pipeline.shores import land_cells

# In a live map whose reports all said the same at first, silence counts while this share of them still does.
PREVAILING = 0.75


def only_label(reports: Reports) -> Any | None:
    """The label that all reports have; None where they differ."""
    said = np.unique(reports.label)
    return reports.labels[int(said[0])] if len(said) == 1 else None


def prevailing_label(reports: Reports) -> Any | None:
    """The label that at least three quarters of the reports have; None where there is no such label."""
    counts = np.bincount(reports.label, minlength=len(reports.labels))
    most = int(counts.argmax()) if len(reports) else 0
    return reports.labels[most] if len(reports) and counts[most] >= PREVAILING * len(reports) else None


def offer(reports: Reports, settings: Settings) -> list[str]:
    """Notes on what a map of such reports cannot tell, and what to do; none if labels differ."""
    label = only_label(reports)
    if label is None or len(reports) < 2 or settings.silence is not None:
        return []
    return [
        f"All reports say {str(label)!r}: nothing can be learned about where all is well. At best the map shows where "
        f"reports are dense, not how likely {str(label)!r} is. If people everywhere could have reported, silence can "
        "count as evidence: --silence N, with N the reports to expect of a cell where something is the matter."
    ]


def one_source(reports: Reports, settings: Settings) -> list[str]:
    """A note where all reports come from one source that nobody vouches for; else none."""
    if len(reports) < 2 or len(present := np.unique(reports.source)) > 1:
        return []
    name = str(reports.sources[int(present[0])])
    if name in settings.sources:
        return []
    return [
        "All reports come from one source, and nothing in them tells how reliable it is, so how sure the map is "
        "rests on an assumption. If the source is known to be reliable (experts, a survey), say so: "
        f"--trust {shlex.quote(f'{name}=high')}. If it stands for many people, read a file that names them."
    ]


def with_silence(
    reports: Reports,
    grid: Grid,
    mask: NDArray[np.bool_] | None,
    settings: Settings,
    positive: Any | None = None,
) -> tuple[Reports, Settings]:
    """The reports with those of silence, and settings with a prior for its source; both unchanged if not asked for.

    Cells without a report of the label `positive` are silent; by default it is the label that all reports have."""
    if settings.silence is None:
        return reports, settings
    positive = only_label(reports) if positive is None else positive
    if positive is None:
        raise InputError(
            "silence is for reports that all say the same; these differ, and tell by themselves where all is well."
        )
    negative = opposite(positive, settings.states or reports.labels)
    exposure = np.full(grid.shape, float(settings.silence))
    for allowed in (mask, None if grid.crs is None else land_cells(grid, reports.places)):
        if allowed is not None:
            exposure[~allowed] = 0.0  # nobody lives there who could have spoken
    calls = reports.take(reports.label == reports.labels.index(positive))
    augmented = silence.as_reports(
        calls, grid, negative=negative, positive=positive, exposure=exposure, least=0.0,
        # Without a seed too, the same file gives the same map.
        rng=np.random.default_rng(settings.seed or 0),
    )  # fmt: skip
    silent = augmented.take(np.arange(len(calls), len(augmented)))
    known = {silence.SOURCE: silence.PRIOR, **settings.sources}
    return reports.join(silent), replace(settings, states=(negative, positive), sources=known)


def without_silence(reports: Reports) -> Reports:
    """Only what people said."""
    if silence.SOURCE not in reports.sources:
        return reports
    gone = reports.sources.index(silence.SOURCE)
    said = reports.take(reports.source != gone)
    others = tuple(name for name in reports.sources if name != silence.SOURCE)
    return replace(said, source=said.source - (said.source > gone), sources=others)


def opposite(positive: Any, known: Sequence[Any]) -> Any:
    """The state that a quiet cell stands for: the other one of two that are known, else the absence of what is said."""
    others = [state for state in known if state != positive]
    if len(others) > 1:
        raise InputError(f"silence needs two states, but there are {', '.join(map(str, known))}.")
    return others[0] if others else f"no {positive}"
