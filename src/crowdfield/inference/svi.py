"""Stochastic variational inference: minibatch natural-gradient steps in place of sweeps over all sites.

The state of `vb` (pseudo-counts, the field's statistics) holds the natural parameters of q, and one plain update
replaces them by what a sweep adds up to. So a natural-gradient step of length ρ on a minibatch of sites is

    state ← (1 − ρ) state + ρ (prior-free update, from the minibatch times N / its size),

for f, ς (in log) and the confusion counts alike (Hoffman et al. 2013; Hensman et al. 2015 for the field). Steps shrink
as ρ_t = (t + delay)^−forgetting with ½ < forgetting ≤ 1: Σ ρ = ∞ and Σ ρ² < ∞, the Robbins–Monro conditions.

An epoch visits every minibatch once, in random order. It has converged when from the end of one epoch to the next,
twice in a row, nothing that a user sees moved by `tol` or more: log odds at watched sites and entries of E[π] (root
mean square), and log ς. A sweep over all sites then gives the bound and q(t): the result is an `iterate.Fit` as any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import InputError
from crowdfield.inference import confusion, vb
from crowdfield.inference.data import Data, Prior
from crowdfield.inference.fields.base import Array, Statistics
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.iterate import Fit
from crowdfield.inference.sites import Sites

BATCH = 512  # sites
MIN_EPOCHS = 3
PATIENCE = 2
WATCHED = 1024


class Schedule(NamedTuple):
    """ρ_t = (t + delay)^−forgetting."""

    delay: float = 10.0
    forgetting: float = 0.6

    def step(self, t: int) -> float:
        """The step length ρ_t."""
        return float((t + self.delay) ** -self.forgetting)


def shuffle(data: Data, prior: Prior, rng: np.random.Generator) -> tuple[Data, Prior, NDArray[np.int64]]:
    """The same sites and reports with the sites in random order, so that any run of sites is a fair sample.

    Also the order: site i of the result is site order[i] of the data.
    """
    order = rng.permutation(data.n_sites)
    rank = np.empty(data.n_sites, np.int32)
    rank[order] = np.arange(data.n_sites, dtype=np.int32)
    site = rank[data.site]
    rows = np.argsort(site, kind="stable")
    shuffled = data._replace(
        X=data.X[order],
        site=site[rows],
        source=data.source[rows],
        label=data.label[rows],
        known=data.known[order],
        repeats=None if data.repeats is None else data.repeats[rows],
        multiplicity=None if data.multiplicity is None else data.multiplicity[rows],
    )
    return shuffled, prior._replace(mean=prior.mean[order]), order


def _times(summary: vb.Summary, factor: float) -> vb.Summary:
    """The sums of a minibatch, scaled to all sites."""
    statistics = tuple(Statistics(factor * s.linear, factor * s.quadratic) for s in summary.statistics)
    return summary._replace(counts=factor * summary.counts, statistics=statistics, targets=factor * summary.targets)


class Snapshot(NamedTuple):
    """The user-visible part of a q, to be compared between epochs."""

    latent: Array
    log_scale: float
    pi: Array

    def change(self, other: Snapshot) -> float:
        """The largest change between two epochs."""
        latent, pi = (np.sqrt(np.mean((a - b) ** 2)) for a, b in ((self.latent, other.latent), (self.pi, other.pi)))
        return float(max(latent, pi, abs(self.log_scale - other.log_scale)))


def run(
    data: Data,
    prior: Prior,
    basis: Basis,
    scheme: vb.Scheme,
    *,
    rng: np.random.Generator,
    batch: int = BATCH,
    schedule: Schedule = Schedule(),  # noqa: B008 - a named tuple of numbers cannot change
    max_epochs: int = 50,
    tol: float = 1e-2,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Fit, Array]:
    """Fit by minibatches of `batch` sites, and q(t) at the sites in the data's own order [N, J]."""
    if not 0.5 < schedule.forgetting <= 1.0 or schedule.delay < 0.0 or batch < 1:
        raise InputError("a step-size schedule needs ½ < forgetting ≤ 1 and delay ≥ 0, and a batch at least one site.")
    data, prior, order = shuffle(data, prior, rng)
    engine = FeatureEngine(basis, data.X, block=batch)
    sites = Sites(data, prior, engine)
    whole = vb.Iteration.over(sites, scheme)
    watched = data.X[: min(WATCHED, data.n_sites)]
    state, t = whole.start(), 0
    before: Snapshot | None = None
    quiet, change, epoch = 0, np.inf, 0
    while epoch < max_epochs and quiet < PATIENCE:
        for b in rng.permutation(len(sites.blocks)):
            factor = data.n_sites / sites.blocks[b].n

            def minibatch(q: vb.Posterior, b: int = int(b), factor: float = factor) -> vb.Summary:
                return _times(vb.sweep(sites, scheme, q, only=[b]), factor)

            image = replace(whole, sweep=minibatch).evaluate(state).image
            rho = schedule.step(t)
            state = state.unpack((1.0 - rho) * state.pack() + rho * image.pack())
            t += 1
        epoch += 1
        q = whole.assemble(state)
        latent = np.stack([f.at(watched)[0] for f in q.fields], 1)
        now = Snapshot(latent, float(np.log(q.scale.mean)), confusion.expected_pi(q.alpha))
        change = np.inf if before is None else now.change(before)
        before = now
        quiet = quiet + 1 if change < tol and epoch >= MIN_EPOCHS else 0
        if progress is not None:
            progress(epoch, change)
    final = whole.evaluate(state)
    found = vb.responsibilities(sites, scheme, final.q)
    targets = np.empty_like(found)
    targets[order] = found
    history = [final.bound.total]
    return Fit(state, final.q, final.bound, history, epoch, quiet >= PATIENCE, change), targets
