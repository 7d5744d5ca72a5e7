"""`crowdfield reproduce real`: every method on real crowds, judged by truth that no crowd made.

A setting is a crowd and how many votes a place keeps; a size is the number of random places whose truth is checked, the
others are judged. Methods that take checked places get them (`gold=`); the log odds of all others are rescaled by a
logistic regression on these places. What is judged with none checked uses no truth at all, the base rate excepted.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from scipy.special import logit

from crowdfield import datasets, metrics, silence
from crowdfield.data import Grid, Reports
from crowdfield.errors import CrowdfieldError
from crowdfield.experiments import crowds
from crowdfield.experiments.crowds import Array, Crowd
from crowdfield.experiments.protocol import BINS, Cell, Plan, Problem
from crowdfield.models.baselines import KernelDensity
from crowdfield.models.gp import GPClassifier
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.models.ibcc import IBCC

CHECKED = (0, 60, 20, 200)  # checked places, the most informative setting first: a run may be stopped at any time
DRAWS = 3  # random choices of the checked places
VOTES = {"all votes": None, "2 votes": 2, "1 vote": 1}
SURE = 0.95
SMALLEST_PROBABILITY = 1e-6  # as in `metrics.cross_entropy`
# Ridge of the rescaling: a slope of 1 and no shift, worth about one place. Twenty places of one state must not end it.
RESCALED_SD = 1.0
AUTO, INSTRUMENT, ONE_STATE = "HeatmapBCC", "HeatmapBCC (instrument)", "HeatmapBCC (one state)"
SHARE, BASE = "share of votes", "base rate"
PEERS = ("Dawid–Skene", "GLAD", "MACE")
# The messages that the paper's filter kept (675), and all that were gathered.
HAITI: dict[str, tuple[str, ...] | None] = {"haiti, 675 messages": datasets.HAITI_KEPT, "haiti, all messages": None}
HAITI_LENGTH, HAITI_EXPOSURE = 16.0, 3.0  # cells; reports to expect of a damaged cell


# What is run at which sizes and how often: draws matter most at sixty places, and slow methods are run where they tell.
REPEATS = {0: 1, 20: 1, 60: DRAWS, 200: 1}
REPEATS_OF_SLOW_METHODS = {AUTO: {0: 1, 60: 1}, ONE_STATE: {0: 1, 60: 1}, "GP": {0: 1}}
RUN_LAST = (AUTO, ONE_STATE, "GLAD", "MACE", "GP")
# Largest number of reports for crowd-kit's slow methods: with more, a single run takes many minutes.
MOST_REPORTS = {"GLAD": 15_000, "MACE": 40_000}


@dataclass(frozen=True)
class RealPlan(Plan):
    """Cells in the order in which they are most worth having: a run may be stopped at any time."""

    def cells(self, seed: int) -> list[Cell]:
        ordered = [
            (_rank(name), bool(repeat), self.sizes.index(n), Cell(self.name, setting, repeat, n, name, seed))
            for n in self.sizes
            for setting in self.settings
            for name in self.methods(setting)
            for repeat in range(min(self.repeats, REPEATS_OF_SLOW_METHODS.get(name, REPEATS).get(n, 0)))
        ]
        return [cell for *_, cell in sorted(ordered, key=lambda item: item[:3])]

    def evaluate(self, cell: Cell) -> dict[str, Any]:
        return evaluate(cell)


def _rank(method: str) -> int:
    return RUN_LAST.index(method) + 1 if method in RUN_LAST else 0


def plan(quick: bool) -> RealPlan:
    """The quick version: one vote per place, no slow methods, one choice of checked places."""
    found = [name for name in crowds.at_hand() if name != "haiti"]
    if quick:
        return RealPlan("real", tuple(f"{name}, 1 vote" for name in found), 1, (0, 60), _no_problem, quick_methods, {})
    settings = tuple(f"{name}, {votes}" for name in found for votes in VOTES)
    if "haiti" in crowds.at_hand():
        settings = (*HAITI, *settings)
    return RealPlan("real", settings, DRAWS, CHECKED, _no_problem, methods, {})


def methods(setting: str) -> Mapping[str, Callable[[], Method]]:
    """Makers by name."""
    if setting in HAITI:
        return {
            BASE: Base, "KDE": Kde, ONE_STATE: Haiti, f"{ONE_STATE}, silence": partial(Haiti, "one_state"),
            f"{INSTRUMENT}, silence": partial(Haiti, "instrument"),
        }  # fmt: skip
    out: dict[str, Callable[[], Method]] = {BASE: Base, SHARE: Share, "IBCC": Ibcc}
    if find_spec("crowdkit") is not None:
        size = len(load(setting).label)
        out |= {name: partial(Peer, name) for name in PEERS if size <= MOST_REPORTS.get(name, size)}
    return out | {
        INSTRUMENT: partial(Heatmap, "instrument"),
        AUTO: partial(Heatmap, "auto"),
        ONE_STATE: partial(Heatmap, "one_state"),
        "GP": Gp,
    }


def quick_methods(setting: str) -> Mapping[str, Callable[[], Method]]:
    """The makers of the fast methods."""
    return {
        name: make for name, make in methods(setting).items() if name not in (*REPEATS_OF_SLOW_METHODS, "GLAD", "MACE")
    }


def load(setting: str) -> Crowd:
    """The crowd of a setting."""
    if setting in HAITI:
        return haiti(setting)
    name, _, votes = setting.partition(", ")
    return crowds.crowd(name, VOTES[votes])


def evaluate(cell: Cell) -> dict[str, Any]:
    """The results of one method with a given number of checked places: one row."""
    crowd = load(cell.setting)
    checked = np.zeros(len(crowd.truth), dtype=bool)
    if cell.n:
        # The same draws for every method, and those of outside checks of these sets.
        checked[np.random.default_rng(cell.seed + cell.repeat).choice(len(checked), cell.n, replace=False)] = True
    row: dict[str, Any] = asdict(cell)
    start = time.process_time()  # of the processor: other work on the machine must not count
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = _fitted(cell.setting, cell.method, checked.tobytes() if checked.any() else b"")
            P = np.asarray(method.probability, dtype=np.float64)
    except (CrowdfieldError, ArithmeticError) as problem:
        return row | {"error": f"{type(problem).__name__}: {problem}"}
    row["seconds"] = round(time.process_time() - start, 3)
    if cell.n and not method.takes_gold:
        P = rescaled(P, crowd.truth, checked)
    return row | judge(P[~checked], crowd.truth[~checked]) | method.about


def _fitted(setting: str, name: str, checked: bytes) -> Method:
    make = methods(setting)[name]
    crowd = load(setting)
    nobody = np.zeros(len(crowd.truth), dtype=bool)
    if make().takes_gold:
        return make().fit(crowd, np.frombuffer(checked, dtype=bool) if checked else nobody)
    # What takes no checked places is the same however many there are.
    return _without_gold(setting, name)


@lru_cache(maxsize=256)
def _without_gold(setting: str, name: str) -> Method:
    crowd = load(setting)
    return methods(setting)[name]().fit(crowd, np.zeros(len(crowd.truth), dtype=bool))


def judge(P: Array, truth: Any) -> dict[str, Any]:
    """Cross entropy, AUC, and how often confident predictions are wrong."""
    hit = np.asarray(truth, dtype=bool)
    sure = np.maximum(P, 1.0 - P) > SURE
    diagram = metrics.reliability(hit.astype(float), P, bins=BINS)
    return {
        "auc": metrics.auc(hit.astype(float), P),
        "cross_entropy": metrics.cross_entropy(hit.astype(float), P, floor=SMALLEST_PROBABILITY),
        "calibration_error": diagram.error,
        "sure": float(sure.mean()),
        "sure_and_wrong": float(((P > 0.5) != hit)[sure].mean()) if sure.any() else 0.0,
        "reliability": [
            [round(float(v), 6) for v in np.nan_to_num(part * diagram.count)]
            for part in (diagram.predicted, diagram.observed)
        ]
        + [diagram.count.tolist()],
    }


def rescaled(P: Array, truth: Any, checked: Any) -> Array:
    """Log odds times a plus c, with a and c fitted to the checked places by Newton's method (penalised)."""
    z = logit(np.clip(P, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY))
    x, y = np.column_stack([z[checked], np.ones(checked.sum())]), np.asarray(truth)[checked].astype(float)
    start = np.array([1.0, 0.0])
    theta, ridge = start.copy(), np.eye(2) / RESCALED_SD**2
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ theta, -30.0, 30.0)))
        slope = x.T @ (y - p) - ridge @ (theta - start)
        step = np.linalg.solve((x * (p * (1.0 - p))[:, None]).T @ x + ridge, slope)
        theta = theta + step * min(1.0, 1.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z * theta[0] + theta[1], -30.0, 30.0))))


class Method:
    """`fit(crowd, checked)` sets `probability` [M]: that of the second state at the crowd's places."""

    takes_gold = False
    probability: Array
    about: dict[str, Any]

    def __init__(self) -> None:
        self.about = {}

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        raise NotImplementedError


class Base(Method):
    """The base rate: of the checked places, or of all places if none is checked (which no user would know)."""

    takes_gold = True

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        known = crowd.truth[checked] if checked.any() else crowd.truth
        extra = 0.5 if checked.any() else 0.0
        self.probability = np.full(len(checked), (known.sum() + extra) / (len(known) + 2.0 * extra))
        return self


class Share(Method):
    """The share of votes for the second state, and one vote of the crowd's mean; "maybe" is half a vote."""

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        vote = np.where(crowd.label == crowd.states[1], 1.0, np.where(crowd.label == crowd.states[0], 0.0, 0.5))
        where = _position(crowd)
        votes = np.bincount(where, minlength=len(checked))
        total = np.bincount(where, vote, minlength=len(checked))
        self.probability = (total + vote.mean()) / (votes + 1.0)
        return self


class Ibcc(Method):
    """IBCC, without a field."""

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        model = IBCC(states=crowd.states, labels=crowd.labels).fit(crowd.X, crowd.label, crowd.source)
        self.probability = model.predict_proba(crowd.places)[:, 1]
        return self


class Gp(Method):
    """A Gaussian process over votes taken at their word; votes that name no state are left out."""

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        kept = np.isin(crowd.label, crowd.states)
        model = GPClassifier(lengthscale="learn", states=crowd.states)
        model.fit(crowd.X[kept], crowd.label[kept], crowd.source[kept])
        self.probability = model.predict_proba(crowd.places)[:, 1]
        return self


class Peer(Method):
    """crowd-kit's aggregations, at the places that have reports; elsewhere the mean of these."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        import pandas as pd
        from crowdkit.aggregation import GLAD, MACE, DawidSkene

        makers = {"Dawid–Skene": lambda: DawidSkene(n_iter=100), "GLAD": GLAD, "MACE": lambda: MACE(random_state=0)}
        table = pd.DataFrame({"task": _position(crowd), "worker": crowd.source, "label": crowd.label})
        proba = makers[self.name]().fit_predict_proba(table).reindex(columns=list(crowd.states), fill_value=0.0)
        two = proba.to_numpy(dtype=float)
        second = two[:, 1] / np.maximum(two.sum(1), 1e-12)
        self.probability = np.full(len(checked), second.mean())
        self.probability[proba.index.to_numpy()] = second
        return self


class Heatmap(Method):
    """Ours, at its defaults, length-scale learned."""

    takes_gold = True

    def __init__(self, reports_model: str) -> None:
        super().__init__()
        self.reports_model = reports_model

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        model = HeatmapBCC(
            lengthscale="learn", reports_model=self.reports_model, states=list(crowd.states), labels=list(crowd.labels)
        )
        model.fit(crowd.X, crowd.label, crowd.source, gold=_gold(crowd, checked))
        self.probability = model.predict_proba(crowd.places)[:, 1]
        self.about = {"took": model.reports_model_, "lengthscale": np.round(np.ravel(model.lengthscale_), 2).tolist()}
        return self


class Kde(Method):
    """Kernel density estimation of the votes."""

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        model = KernelDensity(states=list(crowd.states)).fit(crowd.X, crowd.label, crowd.source)
        self.probability = model.predict_proba(crowd.places)[:, 1]
        return self


class Haiti(Method):
    """Messages that all say the same: as they are, or with silence as evidence under one of the models."""

    takes_gold = True

    def __init__(self, silent_model: str | None = None) -> None:
        super().__init__()
        self.silent_model = silent_model

    def fit(self, crowd: Crowd, checked: Any) -> Self:
        said = Reports.from_arrays(crowd.X, crowd.label, crowd.source, labels=crowd.states)
        prior = None
        if self.silent_model is not None:
            size = datasets.HAITI_CELLS
            grid = Grid(west=-0.5, east=size - 0.5, south=-0.5, north=size - 0.5, columns=size, rows=size)
            said = silence.as_reports(
                said, grid, negative=crowd.states[0], positive=crowd.states[1], exposure=HAITI_EXPOSURE,
                rng=np.random.default_rng(0),
            )  # fmt: skip
            prior = {silence.SOURCE: silence.PRIOR}
        model = HeatmapBCC(
            lengthscale=HAITI_LENGTH, states=list(crowd.states), labels=list(crowd.states), confusion_prior=prior,
            reports_model=self.silent_model or "one_state",
        )  # fmt: skip
        label = np.asarray(said.labels, dtype=object)[said.label]
        source = np.asarray(said.sources, dtype=object)[said.source]
        model.fit(said.places, label, source, gold=_gold(crowd, checked))
        # The rate of a cell, not the state of what was reported in it: messages do not speak of the same buildings.
        self.probability = model.predict_rate(crowd.places)[0][:, 1]
        return self


def _gold(crowd: Crowd, checked: Any) -> Any:
    if not checked.any():
        return None
    return crowd.places[checked], np.array(crowd.states, dtype=object)[crowd.truth[checked].astype(int)]


def haiti(setting: str) -> Crowd:
    """Messages, and what satellites saw of every cell."""
    reports, damage = datasets.haiti(HAITI[setting]).reports, datasets.unosat()
    states = ("no damage", "damage")
    label = np.full(len(reports), states[1], dtype=object)
    source = np.asarray(reports.sources, dtype=object)[reports.source]
    return Crowd(reports.places, label, source, damage.cells, damage.damaged > 0, states, states)


def _position(crowd: Crowd) -> Any:
    """The row of `places` of every report."""
    row = {place: i for i, place in enumerate(map(tuple, crowd.places.tolist()))}
    return np.array([row[place] for place in map(tuple, crowd.X.tolist())])


def _no_problem(setting: str, rng: np.random.Generator) -> Problem:
    raise NotImplementedError("a plan of real crowds evaluates its own cells")
