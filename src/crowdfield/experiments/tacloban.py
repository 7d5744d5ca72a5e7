"""Planetary Response Network: damaged buildings in Tacloban after Typhoon Haiyan, from volunteers' eyes on images."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from crowdfield import datasets
from crowdfield.experiments import opponents
from crowdfield.experiments.protocol import Plan, Problem
from crowdfield.models.baselines import SVM, KernelDensity, MajorityVote, NearestNeighbours
from crowdfield.models.gp import GPClassifier
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.models.ibcc import IBCC
from crowdfield.models.ibcc_gp import IBCCGP

COMMUNITIES, SEPARATE, PAPER = "HeatmapBCC (communities)", "HeatmapBCC", "HeatmapBCC (paper: EKF)"
CONFUSION, PROPORTION = [[2.0, 1.0], [1.0, 2.0]], [100.0, 100.0]
SETTING = "structural damage"


def problem(setting: str, rng: np.random.Generator) -> Problem:
    """All positive labels and a random fifth of the negative ones, in random order; judged at the 572 gold cells."""
    data = datasets.tacloban()
    keep = (data.reports.label == 1) | (rng.random(len(data.reports)) < 0.2)
    order = rng.permutation(np.flatnonzero(keep))
    return Problem(data.reports.take(order), data.cells[data.confident], data.gold[data.confident])


def methods(setting: str) -> Mapping[str, Callable[[], Any]]:
    """The paper's hyperparameters: α0 2/1, a0 = .5, b0 = 5, ν0 = 100; l by ML-II on the bound, at every size."""
    field: dict[str, Any] = {"lengthscale": "learn", "scale_shape": 0.5, "scale_rate": 5.0, "states": (0, 1)}
    heatmap = partial(HeatmapBCC, confusion_prior=CONFUSION, random_state=0, **field)
    return {
        COMMUNITIES: partial(heatmap, communities="learn"),
        SEPARATE: partial(heatmap, inference="collapsed"),
        PAPER: partial(heatmap, inference="vb", linearisation="ekf"),
        "KDE": partial(KernelDensity, states=(0, 1)),
        "SVM": partial(SVM, states=(0, 1)),
        "NN": partial(NearestNeighbours, states=(0, 1)),
        "MV": partial(MajorityVote, states=(0, 1)),
        "IBCC": partial(IBCC, confusion_prior=CONFUSION, proportion_prior=PROPORTION, states=(0, 1)),
        "GP": partial(GPClassifier, **field),
        "IBCC+GP": partial(IBCCGP, confusion_prior=CONFUSION, proportion_prior=PROPORTION, **field),
        **opponents.available(20.0, CONFUSION, PROPORTION),
    }


def plan(quick: bool) -> Plan:
    """Quick: one repeat, two sizes."""
    slow = {"IBCC → GPBoost": (700,)}
    if quick:
        only: dict[str, tuple[int, ...]] = {name: () for name in (PAPER, *opponents.NEEDS)}
        return Plan("tacloban", (SETTING,), 1, (178, 700), problem, methods, only)
    only = {name: sizes for name, sizes in slow.items() if name in methods(SETTING)}
    return Plan("tacloban", (SETTING,), 20, (178, 700, 1785), problem, methods, only)
