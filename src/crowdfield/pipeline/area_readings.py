"""Sources that answered about some or all of an area, on their way to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crowdfield import readings
from crowdfield.data import Reports
from crowdfield.pipeline.question import in_question
from crowdfield.pipeline.settings import Settings


def with_area_readings(reports: Reports, settings: Settings) -> Settings:
    """Settings in which sources with a reading start from what it is worth; those of the user go before."""
    if not any(readings.of_source(source) for source in reports.sources):
        return settings
    states = settings.states or reports.labels
    positive = in_question(states, reports, settings).state
    found = readings.priors(reports.sources, states, settings.labels or reports.labels, positive)
    return replace(settings, sources={**found, **settings.sources})


def learn_area_readings(model: Any, reports: Reports, positive: Any) -> None:
    """The same for a model that more reports are added to, some of them by sources that it does not know."""
    new = [source for source in reports.sources if source not in set(model.reports_.sources)]
    found = readings.priors(new, model.classes_.tolist(), model.reports_.labels, positive)
    if not found:
        return
    given = model.confusion_prior
    known: dict[Any, Any] = dict(given) if isinstance(given, Mapping) else {} if given is None else {None: given}
    model.set_params(confusion_prior={**known, **found})
