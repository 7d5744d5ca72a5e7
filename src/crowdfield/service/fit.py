"""The one place where the service meets the model: from the standing reports of a situation to a map version."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crowdfield as cf
from crowdfield.plot import NO_IDEA
from crowdfield.service import places
from crowdfield.service.intake import TRUSTED
from crowdfield.service.journal import Entry, Ledger
from crowdfield.service.maps import pack
from crowdfield.service.schemas import finite
from crowdfield.service.settings import Settings
from crowdfield.service.store import Published, Situation

# Counts that a source starts from: right answers on the diagonal, wrong ones beside it.
# "high" is the paper's first responder; "none" says that nothing is expected of a source.
LEVELS = {"none": (1.0, 1.0), "low": (1.2, 1.0), "normal": (2.0, 1.0), "high": (450.0, 1.0)}
SUGGESTIONS = 8
# Where to look next is chosen among at most this many cells, spread evenly.
CANDIDATES = 1024


@dataclass(frozen=True)
class Previous:
    """A model and the log position that it has seen."""

    head: int
    model: Any


def fit_map(
    situation: Situation, ledger: Ledger, previous: Previous | None, settings: Settings
) -> tuple[Published, Any]:
    """Fit the standing reports, from the previous model where there is one; the version to publish, and the model."""
    began = time.perf_counter()
    grid = situation.grid
    reports = list(ledger.reports.values())
    cells = np.zeros(grid.shape, dtype=np.int32)
    metres = _metres(situation, reports)
    model = None
    if reports:
        cells = grid.counts(metres).astype(np.int32)
        model = _fitted(situation, ledger, reports, metres, previous, settings)
    probability, sd = _rate(model, situation)
    published = Published(
        head=ledger.head,
        reports=len(reports),
        seconds=time.perf_counter() - began,
        arrays=pack(probability=probability, sd=sd, reports=cells),
        sources=_sources(model, situation, ledger) if model is not None else [],
        suggestions=_suggestions(model, situation) if model is not None else [],
        info=_about(model, situation),
        model=_saved(model) if model is not None else b"",
    )
    return published, model


def load_model(data: bytes) -> Any:
    """A model as it was saved with a version; None for the map of no reports."""
    if not data:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cf"
        path.write_bytes(data)
        return cf.HeatmapBCC.load(path)


def prior_of(value: Any, situation: Situation) -> list[list[float]]:
    """The confusion counts that a trust entry stands for: its own matrix, or its level's.   [J][L]"""
    if isinstance(value, list):
        return value
    right, wrong = LEVELS[value]
    labels = situation.labels
    # A label that is no state (such as "unsure") tells nothing: it is as likely in every state.
    return [
        [right if label == state else wrong for label in labels]
        if set(situation.states) <= set(labels)
        else [right if column == row else wrong for column in range(len(labels))]
        for row, state in enumerate(situation.states)
    ]


def confusion_prior(situation: Situation, ledger: Ledger, sources: Sequence[str]) -> Any:
    """None, a matrix for all, or a matrix for each source that an admin or a trusted key gave one."""
    own = {name: prior_of(value, situation) for name, value in ledger.trust.items()}
    own |= {name: prior_of("high", situation) for name in sources if name.startswith(TRUSTED)} | own
    everybody = situation.model.get("confusion_prior")
    if not own:
        return everybody
    return {name: own.get(name, everybody or prior_of("normal", situation)) for name in sorted({*sources, *own})}


def _metres(situation: Situation, reports: Sequence[Entry]) -> NDArray[np.float64]:
    return places.to_metres(situation.crs, [(r.longitude, r.latitude) for r in reports])


def _fitted(
    situation: Situation,
    ledger: Ledger,
    reports: Sequence[Entry],
    metres: NDArray[np.float64],
    previous: Previous | None,
    settings: Settings,
) -> Any:
    label = np.array([r.label for r in reports], dtype=object)
    source = np.array([r.source for r in reports], dtype=object)
    new = np.zeros(len(reports), dtype=bool)
    if previous is not None and previous.model is not None:
        new = np.fromiter((ledger.seq[r.id] > previous.head for r in reports), dtype=bool, count=len(reports))
        # A source that was not there before may need a prior of its own, which only a new fit takes up.
        fresh = any(name.startswith(TRUSTED) for name in set(source[new]) - set(source[~new]))
        if not fresh:
            return previous.model.partial_fit(metres[new], label[new], source[new]) if new.any() else previous.model
    options = situation.model
    side = max(situation.grid.east - situation.grid.west, situation.grid.north - situation.grid.south)
    model = cf.HeatmapBCC(
        kernel=options["kernel"],
        lengthscale=options["lengthscale"] or side / 10,
        inference=options["inference"],
        communities=options["communities"],
        confusion_prior=confusion_prior(situation, ledger, sorted(set(source))),
        states=list(situation.states),
        labels=list(situation.labels),
        random_state=0,
    )
    return model.fit(metres, label, source)


def _rate(model: Any, situation: Situation) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Probability and its standard deviation in every cell, [rows, columns, J] each."""
    shape = (*situation.grid.shape, len(situation.states))
    if model is None:
        # No reports: every state is as probable as the others, and nothing is known.
        nobody_knows = np.full(shape, NO_IDEA, dtype=np.float32)
        return np.full(shape, 1.0 / shape[-1], dtype=np.float32), nobody_knows
    mean, sd = model.predict_rate(situation.grid.centres())
    return np.asarray(mean, dtype=np.float32).reshape(shape), np.asarray(sd, dtype=np.float32).reshape(shape)


def _sources(model: Any, situation: Situation, ledger: Ledger) -> list[dict[str, Any]]:
    """How reliable each source turned out to be; numbers that JSON can hold."""
    return []


def _suggestions(model: Any, situation: Situation) -> list[dict[str, Any]]:
    """Where a report would tell most about the map, best first."""
    centres = situation.grid.centres()
    step = max(1, int(np.ceil(np.sqrt(len(centres) / CANDIDATES))))
    rows, columns = situation.grid.shape
    spread = np.arange(rows * columns).reshape(rows, columns)[step // 2 :: step, step // 2 :: step].ravel()
    where, scores = model.suggest(centres[spread], n=SUGGESTIONS)
    return [
        {"easting": float(place[0]), "northing": float(place[1]), "score": float(score)}
        for place, score in zip(where, scores, strict=True)
    ]


def _about(model: Any, situation: Situation) -> dict[str, Any]:
    about: dict[str, Any] = {"software": f"crowdfield {cf.__version__}"}
    for name in ("engine_", "n_iter_", "lengthscale_", "inference_"):
        value = getattr(model, name, None)
        if value is not None:
            about[name.rstrip("_")] = finite(np.asarray(value).tolist())
    return about


def _saved(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cf"
        model.save(path)
        return path.read_bytes()


def explain(model: Any, situation: Situation, metres: NDArray[np.float64], state: int) -> dict[str, Any] | None:
    """Which sources and which reports moved this place, and by how much, in log odds of the state."""
    return None
