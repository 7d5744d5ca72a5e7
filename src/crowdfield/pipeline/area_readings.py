"""Priors for sources whose labels are true of some or all of an area (docs/accuracy.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crowdfield import readings
from crowdfield.data import Reports
from crowdfield.pipeline.question import in_question
from crowdfield.pipeline.settings import Settings


def with_area_readings(reports: Reports, settings: Settings) -> Settings:
    """The settings with a confusion prior for every source that has a reading; the user's own priors take
    precedence."""
    if not any(readings.of_source(source) for source in reports.sources):
        return settings
    states = settings.states or reports.labels
    positive = in_question(states, reports, settings).state
    found = readings.priors(reports.sources, states, settings.labels or reports.labels, positive)
    return replace(settings, sources={**{str(source): prior for source, prior in found.items()}, **settings.sources})


def learn_area_readings(model: Any, reports: Reports, positive: Any) -> None:
    """Give a fitted model confusion priors for new sources with a reading, before `partial_fit` adds their reports."""
    new = [source for source in reports.sources if source not in set(model.reports_.sources)]
    found = readings.priors(new, model.classes_.tolist(), model.reports_.labels, positive)
    if not found:
        return
    given = model.confusion_prior
    known: dict[Any, Any] = dict(given) if isinstance(given, Mapping) else {} if given is None else {None: given}
    model.set_params(confusion_prior={**known, **found})
