"""The contribution of every place and report to the log odds of a state at one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument import responses
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.model import AnyFitted, Fitted
from crowdfield.inference.instrument.several import weights
from crowdfield.inference.instrument.several.fitting import offset_at, pass_reports
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.quadrature import softmax


class Influence(NamedTuple):
    """What each report contributes to the log odds of a state; the log odds are linearised at the mean of the field."""

    prior: float
    by_place: Array  # [N] contribution of all reports about a thing
    by_report: Array  # [R] contribution of each report of the crowd, a part of that
    pull: Array  # [R] gradient of each report, times its count, in the appearance of its own place


def influence(fitted: AnyFitted, x: Array, state: int) -> Influence:
    """Contributions to the log odds of a state at one place x [1, D]."""
    if isinstance(fitted, FittedStates):
        return _of_several(fitted, x, state)
    return _of_one(fitted, x, state)


def _of_one(fitted: Fitted, x: Array, state: int) -> Influence:
    """The contributions with one function: E[f(x)] is linear in η = Σ_r E[∂ log P(c_r | g) / ∂g] + λ m of the sites."""
    problem, at = fitted.problem, fitted.settled.at
    f = fitted.surface.at(x)[0]
    log_odds, slope = _tangent(fitted.link.logits(f)[0][0], fitted.link.theta[0] * fitted.link.scores[:, None], state)
    features = np.hstack([fitted.design.basis.features(x), problem.columns.at(x)])[0]
    reach = slope[0] * fitted.design.evaluate(at.q.covariance @ features)
    pull = _pulls(fitted)
    eta = at.state.eta - at.state.lam * fitted.design.offset
    prior = log_odds - slope[0] * float(f[0] - problem.columns.offset_at(x)[0])
    return Influence(prior, reach * eta, reach[problem.reported.site] * pull, pull)


def _tangent(logits: Array, gradients: Array, state: int) -> tuple[float, Array]:
    """The log odds of a state against all others, and their gradient.   logits [J], gradients [J, F] -> [F]"""
    others = np.arange(len(logits)) != state
    rest = softmax(logits[others][None])[0]
    top = logits[others].max()
    log_odds = logits[state] - top - np.log(np.exp(logits[others] - top).sum())
    return float(log_odds), np.asarray(gradients[state] - rest @ gradients[others])


def _pulls(fitted: Fitted) -> Array:
    """∂ log P(c_r | g) / ∂g at the mean appearance of its place, report by report: [R]."""
    site, source, label, multiplicity = fitted.problem.reported
    scores = fitted.problem.observed.scores
    theta = fitted.state.theta[source, : len(scores)]
    logits = theta[:, :1] * scores * fitted.appearances[site, :1] + theta[:, 1:] @ responses.lean_design(scores).T
    return np.asarray(multiplicity * theta[:, 0] * (scores[label] - softmax(logits) @ scores))


def _of_several(fitted: FittedStates, x: Array, state: int) -> Influence:
    """The contributions where states have no order: one function per contrast."""
    link, F, sites = fitted.link, fitted.observed.functions, fitted.state
    f = fitted.field_at(x)[0][0]
    logits = link.theta[0] * (link.scores @ f) + link.theta[1:]
    log_odds, slope = _tangent(logits, link.theta[0] * link.scores, state)
    direction = fitted.settled.at.q.covariance @ np.kron(slope, fitted.features(x)[0])
    reach = np.empty((len(fitted.places.mean), F))
    for rows in weights.blocks(len(reach)):
        reach[rows] = fitted.design.features(rows) @ direction.reshape(F, -1).T
    # With the nugget summed out, a site η on the appearance is (I + τ² Λ)⁻¹ η on the field.
    nugget = fitted.design.nuggets(sites.variances.smooth, sites.variances.nugget)
    collapse = weights.collapsing(sites.lam, nugget)
    reach = np.einsum("nab,na->nb", collapse.transpose(0, 2, 1), reach)
    eta = sites.eta - np.einsum("nab,nb->na", sites.lam, fitted.offset)
    gradient = pass_reports(fitted.observed, sites, fitted.settled.at.places)
    prior = log_odds - float(slope @ (f - offset_at(fitted.problem.columns, x, F)[0]))
    by_report = (reach[fitted.observed.site] * gradient).sum(1)
    return Influence(prior, (reach * eta).sum(1), by_report, np.sqrt((gradient**2).sum(1)))
