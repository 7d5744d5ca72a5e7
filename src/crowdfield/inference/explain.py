"""Additive contributions of the reports to the log odds of a state at one place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdfield.inference import confusion
from crowdfield.inference.fields.base import Array
from crowdfield.inference.solvers import Solver


class Shares(NamedTuple):
    """Parts of the log odds of one state at one place. prior + field + own + uncertainty = the log odds."""

    prior: float  # the prior mean
    field: Array  # [R] through the field, report by report in the order of `data`
    own: Array  # [R] reports at this very place
    uncertainty: float  # effect of averaging over the uncertain f (it pulls towards even odds), and of further states


def of_state(solver: Solver, q: Any, x: Array, site: int, state: int, probability: float, mu: Array) -> Shares:
    """Shares in log p/(1 − p) of a state at x [1, D], which is the given site, or −1.

    E[f(x)] is linear in the sites' η, so the field's part is exact. A site's η is divided among its reports to first
    order: an equal part each, plus how much more a report favours the state than the average report at its site.
    """
    sites = solver.sites
    data, weights = sites.data, confusion.by_report(solver.log_pi(q))
    j, sign = (0, 1.0 if state == 1 else -1.0) if data.n_states == 2 else (state, 1.0)
    field, own = np.zeros(len(data.site)), np.zeros(len(data.site))
    start = 0
    for b, block in enumerate(sites.blocks):
        rows = slice(start, start + len(block.key))
        start = rows.stop
        said = _log_odds(weights[block.key], state)
        if block.sites.start <= site < block.sites.stop:
            own[rows] = np.where(block.site == site - block.sites.start, block.times(said), 0.0)
        local = solver.local(q, b)
        eta = local.eta[:, j] - local.lam[:, j] * block.mean[:, j]
        reach = sites.engine.influence(q.fields[j], x, block.sites)
        count = np.maximum(np.bincount(block.site, block.multiplicity, block.n), 1)
        average = np.bincount(block.site, weights=block.times(said), minlength=block.n) / count
        sensitivity = local.r[:, state] * (1.0 - local.r[:, state])
        share = (sign * reach * eta / count)[block.site]
        share += (reach * sensitivity)[block.site] * (said - average[block.site])
        field[rows] = block.times(share)
    prior = sign * float(mu[j])
    total = float(np.log(probability) - np.log1p(-probability))
    return Shares(prior, field, own, total - prior - float(field.sum()) - float(own.sum()))


def _log_odds(said: Array, state: int) -> Array:
    """The log likelihood ratio of the state against the others, for each report.   [Rb, J] -> [Rb]"""
    return np.asarray(said[:, state] - np.delete(said, state, axis=1).mean(1))
