"""Haiti 2010: text messages about emergencies, a length-scale from another data set, and one trusted responder."""

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from crowdfield import datasets
from crowdfield.data import Reports
from crowdfield.errors import DataWarning
from crowdfield.experiments.protocol import Plan, Problem
from crowdfield.models.baselines import KernelDensity
from crowdfield.models.gp import GPClassifier
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.models.ibcc import IBCC
from crowdfield.models.ibcc_gp import IBCCGP

OURS, PAPER = "HeatmapBCC", "HeatmapBCC (paper: EKF)"
CONFUSION, PROPORTION, LENGTHSCALE = [[100.0, 1.0], [1.0, 100.0]], [2000.0, 1000.0], 16.0
FIELD: dict[str, Any] = {
    "lengthscale": LENGTHSCALE,
    "scale_shape": 1500.0,
    "scale_rate": 1500.0,
    # ν0 says one place in three; the field's prior mean says the same.
    "prior_mean": float(logit(1.0 / 3.0)),
    "states": (0, 1),
}
# Which reports: those that the paper's filter kept (675), or all that were gathered.
READINGS: dict[str, tuple[str, ...] | None] = {"675 reports": datasets.HAITI_KEPT, "all reports": None}
UNOSAT, TRANSFERRED, FREE = "UNOSAT", "GP (ML-II)", "GP (ML-II, scale free)"


@lru_cache
def _gold(setting: str) -> tuple[Reports, NDArray[np.float64], NDArray[np.float64]]:
    """Reports, the cells that have any, and IBCC's probability of an emergency there from all reports."""
    reports = datasets.haiti(READINGS[setting]).reports
    said, who = np.asarray(reports.labels)[reports.label], np.asarray(reports.sources, dtype=object)[reports.source]
    ibcc = IBCC(confusion_prior=CONFUSION, proportion_prior=PROPORTION, states=(0, 1)).fit(reports.places, said, who)
    return reports, ibcc.places_, ibcc.posterior_[:, 1]


def problem(setting: str, rng: np.random.Generator) -> Problem:
    """Judged at the cells with reports, against IBCC on all of them. All of it is positive: there is no AUC."""
    reports, cells, gold = _gold(setting)
    return Problem(reports.take(rng.permutation(len(reports))), cells, gold, ranked=False)


def methods(setting: str) -> Mapping[str, Callable[[], Any]]:
    """The paper's hyperparameters: α0 100/1, ν0 = (2000, 1000), a0 = b0 = 1500, l = 16 from UNOSAT."""
    heatmap = partial(HeatmapBCC, confusion_prior=CONFUSION, random_state=0, **FIELD)
    return {
        OURS: partial(heatmap, inference="collapsed"),
        PAPER: partial(heatmap, inference="vb", linearisation="ekf"),
        "KDE": partial(KernelDensity, states=(0, 1)),
        "GP": partial(GPClassifier, **FIELD),
        "IBCC": partial(IBCC, confusion_prior=CONFUSION, proportion_prior=PROPORTION, states=(0, 1)),
        "IBCC+GP": partial(IBCCGP, confusion_prior=CONFUSION, proportion_prior=PROPORTION, **FIELD),
    }


def plan(quick: bool) -> Plan:
    """Quick: three repeats of the paper's reading."""
    if quick:
        return Plan("haiti", ("675 reports",), 3, (169, 439, 675), problem, methods, {})
    return Plan("haiti", tuple(READINGS), 20, (75, 169, 300, 439, 675), problem, methods, {})


def damage(setting: str, rng: np.random.Generator) -> Problem:
    """UNOSAT's damage grid as reports by one source, in random order: what the length-scale is learned from."""
    data = datasets.unosat()
    reports = Reports.from_arrays(data.cells, data.damaged, labels=(0, 1))
    return Problem(reports.take(rng.permutation(len(reports))), data.cells, data.damaged.astype(float))


def learners(setting: str) -> Mapping[str, Callable[[], Any]]:
    """A GP classifier whose length-scale is learned by ML-II; the paper got 16 cells.

    A length-scale trades with the scale of the field: it is learned under the prior of the scale that the model has to
    which it is transferred, and beside it with the scale free (a0 = b0 = 1).
    """
    tight = {"scale_shape": FIELD["scale_shape"], "scale_rate": FIELD["scale_rate"]}
    return {
        TRANSFERRED: partial(GPClassifier, lengthscale="learn", **tight),
        FREE: partial(GPClassifier, lengthscale="learn"),
    }


def lengthscale_plan(quick: bool) -> Plan:
    """All 10,000 cells; a quarter of them when quick."""
    sizes = (2_500,) if quick else (2_500, 10_000)
    return Plan("unosat", (UNOSAT,), 1, sizes, damage, learners, {FREE: (10_000,)})


def responder() -> dict[str, NDArray[np.float64]]:
    """Port-au-Prince before and after one simulated first responder reports "no emergency" there: maps [100, 100].

    His confusion prior has 450 on the diagonal, so that his one word outweighs many messages.
    """
    data = datasets.haiti(datasets.HAITI_KEPT)
    reports = data.reports
    said = np.asarray(reports.labels)[reports.label]
    who = np.asarray(reports.sources, dtype=object)[reports.source]
    cells = np.stack(np.meshgrid(np.arange(100.0), np.arange(100.0), indexing="ij"), -1).reshape(-1, 2)
    prior = {None: CONFUSION, "first responder": [[450.0, 1.0], [1.0, 450.0]]}
    place = _busiest(reports)
    out: dict[str, NDArray[np.float64]] = {"place": place, "lonlat": data.lonlat, "cells": reports.places}
    for name, (X, y, sources) in {
        "before": (reports.places, said, who),
        "after": (np.vstack([reports.places, place]), np.r_[said, 0], np.append(who, "first responder")),
    }.items():
        with warnings.catch_warnings():
            # That all of the crowd's reports are positive is known: NOTES has it.
            warnings.simplefilter("ignore", DataWarning)
            model = HeatmapBCC(confusion_prior=prior, random_state=0, inference="vb", **FIELD).fit(X, y, sources)
        out[name] = model.predict_proba(cells)[:, 1].reshape(100, 100)
        out[f"{name} rate"] = model.predict_rate(cells)[0][:, 1].reshape(100, 100)
    return out


def _busiest(reports: Reports) -> NDArray[np.float64]:
    """The cell with most reports within three cells but none of its own: where a visit contradicts many messages."""
    cells, site = reports.sites()
    count = np.bincount(site)
    lattice = np.stack(np.meshgrid(np.arange(100.0), np.arange(100.0), indexing="ij"), -1).reshape(-1, 2)
    near = (np.abs(lattice[:, None] - cells[None]).max(axis=2) <= 3) @ count
    taken = (lattice[:, None] == cells[None]).all(axis=2).any(axis=1)
    return np.asarray(lattice[np.argmax(np.where(taken, -1, near))])
