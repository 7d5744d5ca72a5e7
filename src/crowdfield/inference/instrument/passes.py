"""One pass over the places: sums of the expected reports under q(f), for sources, link and variances.

These are sums over places, so that blocks of places in several processes add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdfield.inference.instrument import link, places, responses, scoring
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.link import Link

if TYPE_CHECKING:
    from crowdfield.inference.instrument.fitting import State, Variances
    from crowdfield.inference.instrument.observed import Observed


class Sums(NamedTuple):
    """The sums of one pass over all places."""

    expected: float
    eta: Array  # [N]
    lam: Array  # [N]
    nugget_energy: float
    nugget_informed: float
    lost_energy: float
    lost_informed: float
    answers: Array  # [S, L, K] how often every source said what at which appearance
    checked: Array  # [J, K] how often checked places were in which state at which appearance
    scored: Array  # [S, 6] of scores (`scoring.moments`)

    @classmethod
    def joined(cls, parts: Sequence[Sums]) -> Sums:
        """Join the sums of consecutive blocks of places: arrays over places are concatenated, others added."""
        nowhere = np.empty(0)
        sums: list[Any] = [part._replace(eta=nowhere, lam=nowhere) for part in parts]
        whole = cls(*(sum(values[1:], values[0]) for values in zip(*sums, strict=True)))
        return whole._replace(eta=np.concatenate([p.eta for p in parts]), lam=np.concatenate([p.lam for p in parts]))


def pass_over(observed: Observed, state: State, mean: Array, variance: Array, nugget: Array) -> Sums:
    """Appearances of all places under q(f), block by block, so that memory stays flat."""
    table = responses.log_responses(state.theta, observed.scores).reshape(-1, len(APPEARANCES))
    eta, lam = np.empty(observed.n_sites), np.empty(observed.n_sites)
    answers, totals = np.zeros_like(table), np.zeros(5)
    checked, scored = np.zeros((len(observed.state_scores), len(APPEARANCES))), np.zeros((observed.n_sources, 6))
    for rows in observed.blocks():
        likelihood = observed.likelihood(rows, table, state.link, state.theta)
        local = places.integrate(likelihood, mean[rows], variance[rows], nugget[rows])
        eta[rows], lam[rows] = local.eta, local.lam
        answers += observed.votes_at(rows).T @ local.posterior
        if observed.readings is not None:
            scored += scoring.moments(observed.readings.within(rows), local.posterior, observed.n_sources)
        checks = observed.checks.within(rows)
        checked += link.answers(state.link, checks, local.posterior[checks.site])
        totals += local.expected, *shares(local.energy, local.informed, nugget[rows], state.variances)
    shape = observed.n_sources, len(observed.scores), len(APPEARANCES)
    return Sums(
        float(totals[0]), eta, lam, totals[1], totals[2], totals[3], totals[4], answers.reshape(shape), checked, scored
    )


def shares(energy: Array, informed: Array, nugget: Array, variances: Variances) -> tuple[float, float, float, float]:
    """Energy and information of the independent noise of places, divided between its two parts: the nugget, and the
    variance lost by averaging over inexact places.   energy, informed, nugget (of both) [n]
    """
    share = variances.nugget / nugget
    lost = variances.smooth * (nugget - variances.nugget) / nugget**2  # squared share over the lost variance
    return float(share**2 @ energy), float(share @ informed), float(lost @ energy), float((1.0 - share) @ informed)


def at_sites(
    observed: Observed, state: State, mean: Array, variance: Array, nugget: Array, truth_link: Link
) -> tuple[Array, Array]:
    """P(t = j) [N, J], and mean and variance of the appearance [N, 2]."""
    table = responses.log_responses(state.theta, observed.scores).reshape(-1, len(APPEARANCES))
    truth, appearances = np.empty((len(mean), len(truth_link.scores))), np.empty((len(mean), 2))
    by_appearance = truth_link.truth
    for rows in observed.blocks():
        likelihood = observed.likelihood(rows, table, state.link, state.theta)
        posterior = places.integrate(likelihood, mean[rows], variance[rows], nugget[rows]).posterior
        truth[rows], appearances[rows] = posterior @ by_appearance.T, _moments(posterior)
        checks = observed.checks.within(rows)
        known = np.einsum("gjk,gk->gj", link.state_given_appearance(state.link, checks), posterior[checks.site])
        settled = np.isfinite(checks.said)  # gold is certain, whatever rounding says
        truth[rows.start + checks.site] = np.where(checks.certain[:, None], settled, known)
    return truth, appearances


def _moments(posterior: Array) -> Array:
    """Mean and variance of g.   posterior [n, K] -> [n, 2]"""
    mean = posterior @ APPEARANCES
    return np.stack([mean, posterior @ APPEARANCES**2 - mean**2], axis=1)
