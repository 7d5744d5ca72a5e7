"""The paper's synthetic data: unreliable crowds on fields that are known."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.experiments import opponents
from crowdfield.experiments.protocol import Plan, Problem
from crowdfield.models.baselines import KernelDensity
from crowdfield.models.gp import GPClassifier
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.models.ibcc import IBCC
from crowdfield.models.ibcc_gp import IBCCGP
from crowdfield.simulate import Simulation, simulate

OURS, PAPER, VB, GIBBS = "HeatmapBCC", "HeatmapBCC (paper: EKF)", "HeatmapBCC (VB)", "HeatmapBCC (Gibbs)"
CROWDS: dict[str, dict[str, int | bool]] = {
    "25 % noisy": {"reliable": 15, "noisy": 5},
    "50 % noisy": {"reliable": 10, "noisy": 10},
    "75 % noisy": {"reliable": 5, "noisy": 15},
    "50 % biased": {"reliable": 10, "noisy": 0, "biased": 10},
    "continuous": {"reliable": 10, "noisy": 10, "continuous": True},
}
CONFUSION, LENGTHSCALE, REPORTS = [[2.0, 1.0], [1.0, 2.0]], 20.0, 2400


def world(setting: str, rng: np.random.Generator) -> Simulation:
    """A 40 × 40 field (Matérn 3/2, l = 20, inverse scale 1.2), 20 reporters, 2,400 reports."""
    return simulate(REPORTS, rng=rng, lengthscale=LENGTHSCALE, inverse_scale=1.2, **CROWDS[setting])  # type: ignore[arg-type]


def problem(setting: str, rng: np.random.Generator) -> Problem:
    """Judged at every grid point, against the state drawn there and the rate it was drawn with."""
    drawn = world(setting, rng)
    return Problem(drawn.reports, drawn.truth.places, drawn.truth.t.astype(float), drawn.truth.rho[:, 1])


def methods(setting: str) -> Mapping[str, Callable[[], Any]]:
    """The paper's hyperparameters: α0 2/1, a0 = b0 = 1, l = 20, ν0 = 1."""
    field: dict[str, Any] = {"lengthscale": LENGTHSCALE, "scale_shape": 1.0, "scale_rate": 1.0, "states": (0, 1)}
    heatmap = partial(HeatmapBCC, confusion_prior=CONFUSION, random_state=0, **field)
    # The slow ones in the paper's middle setting only.
    slow: dict[str, Callable[[], Any]] = {}
    if setting == "50 % noisy":
        slow = {GIBBS: partial(heatmap, inference="gibbs"), **opponents.available(LENGTHSCALE, CONFUSION, 1.0)}
    return {
        OURS: partial(heatmap, inference="collapsed"),
        PAPER: partial(heatmap, inference="vb", linearisation="ekf"),
        VB: partial(heatmap, inference="vb", linearisation="polya_gamma"),
        "KDE": partial(KernelDensity, states=(0, 1)),
        "GP": partial(GPClassifier, **field),
        "IBCC": partial(IBCC, confusion_prior=CONFUSION, states=(0, 1)),
        "IBCC+GP": partial(IBCCGP, confusion_prior=CONFUSION, **field),
        **slow,
    }


def plan(quick: bool) -> Plan:
    """Quick: fewer data sets and sizes, and nothing that is slow; the same cells as in the full run."""
    names = methods("50 % noisy")
    slow = {
        VB: (400, 2400), GIBBS: (400, 2400), "IBCC → GPBoost": (400,), "Dawid–Skene (crowd-kit)": (400, 2400)
    }  # fmt: skip
    if quick:
        only: dict[str, tuple[int, ...]] = {name: () for name in (VB, *opponents.NEEDS)}
        only |= {GIBBS: (400,), PAPER: (400,)}
        return Plan("synthetic", tuple(CROWDS), 4, (100, 400, 1000), problem, methods, only)
    only = {name: sizes for name, sizes in slow.items() if name in names}
    return Plan("synthetic", tuple(CROWDS), 25, (100, 400, 1000, 1700, 2400), problem, methods, only)


def case_study(seed: int) -> dict[str, NDArray[np.float64]]:
    """One data set with 50 % biased reporters, 1,500 labels: truth, votes, and every method's posterior [40, 40]."""
    drawn = world("50 % biased", np.random.default_rng([seed, 4]))
    reports: Reports = drawn.reports.take(np.arange(1500))
    X, y, sources = reports.places, reports.label, reports.source
    column, row = X.astype(int).T
    votes = np.zeros((40, 40))
    np.add.at(votes, (column, row), np.where(y == 1, 1.0, -1.0))
    maps = {"truth": drawn.truth.t.reshape(40, 40).astype(float), "rate": drawn.truth.rho[:, 1].reshape(40, 40)}
    maps["reports"] = votes
    wanted = (OURS, PAPER, "KDE", "GP", "IBCC", "IBCC+GP")
    for name, make in methods("50 % biased").items():
        if name in wanted:
            maps[name] = make().fit(X, y, sources).predict_proba(drawn.truth.places)[:, 1].reshape(40, 40)
    return maps
