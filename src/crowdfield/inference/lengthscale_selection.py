"""Learning the length-scale of the one-state model: maximum likelihood II on its objective.

A fit, then the evidence of its sites under other length-scales (`fields.other_kernels`), then a fit at the best of
these, until it stays where it is: two or three fits in all, each started from the last. Where sites have no evidence in
closed form (mean-field VB, fields too large for a matrix) the objectives of fits are compared, ten or so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline

from crowdfield.inference import lengthscale as lengthscale_
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.other_kernels import WeightsLikelihood
from crowdfield.inference.posed import Posed, thinned
from crowdfield.inference.selection import Solved, solve
from crowdfield.inference.solvers import quiet_blas

SEARCH_TOL = 2e-2  # of the fits of a search: the objective is flat there, so this moves it by far less
SEARCH_SWEEPS = 30
SEARCH_SITES = 10_000  # a length-scale is as well known from these as from millions
ROUNDS = 6  # of a fit and evidences, at the most
CLOSE = 0.1  # in log l: a length-scale that moves by less has been found. Less than reports can tell
STEPS = np.linspace(-1.6, 1.6, 9)  # in log l, around the fit's own: where the evidence is looked at
FARTHEST = 0.7  # in log l, from one fit to the next: the sites say less and less of length-scales far away
FINE = 201  # points between these, of the smooth curve through them

LogPrior = Callable[[float], float]


class Learned(NamedTuple):
    """A problem with the length-scale that was learned for it, and how sure that is."""

    posed: Posed
    start: Any | None  # a q to go on from
    log_sd: Array  # [groups of columns learned], of log l; infinite where the data do not say
    tried: Array  # [n, 2] length-scales looked at last, and the objective there with the log prior


class Group(NamedTuple):
    """Columns that share a length-scale, and what is known of it beforehand."""

    columns: list[int]
    low: float
    high: float
    log_prior: LogPrior


def learn(posed: Posed, earlier: Any | None) -> Learned:
    """With `earlier`, a q of fewer reports or another length-scale, to start from."""
    search = thinned(posed, SEARCH_SITES)
    search = replace(search, communities=None if posed.communities is None else 1)
    X = coordinates(search.kernel, search.data.X)
    groups = _groups(posed, X)
    scales = _within(search.kernel.lengthscales(X.shape[1]), groups)
    log_sd, tried, q = np.full(len(groups), np.inf), np.empty((0, 2)), earlier
    for _ in range(ROUNDS):
        solved = solve(search.with_lengthscales(scales), q, max_iter=SEARCH_SWEEPS, tol=SEARCH_TOL)
        with quiet_blas(solved.solver.sites.engine):
            likelihood = solved.solver.weights_likelihood(solved.fit)
            if likelihood is None:
                return _by_fits(posed, search, groups, earlier)
            q, before, scales = solved.fit.q, scales, scales.copy()
            for i, group in enumerate(groups):
                if group.high > group.low:
                    scales, log_sd[i], tried = _best_by_evidence(search, likelihood, solved, scales, group)
        if np.abs(np.log(scales / before)).max(initial=0.0) < CLOSE:
            break
    return Learned(posed.with_lengthscales(scales), q, log_sd, tried)


def _groups(posed: Posed, X: Array) -> list[Group]:
    span, dimension = np.ptp(X, axis=0), X.shape[1]
    if posed.free == (tuple(range(dimension)),):
        low, high = posed.lengthscale_bounds or lengthscale_.search_range(X)
        typical = float(np.exp(np.log(np.maximum(span, 1e-300)).mean()))
        return [Group(list(range(dimension)), low, high, _log_prior(posed.lengthscale_prior, typical))]
    groups = []
    for columns in posed.free:
        extent = float(span[list(columns)].max())
        # Where all reports share a coordinate nothing can be learned about it: it stays what it is.
        low, high = posed.lengthscale_bounds or (0.01 * extent, extent)
        groups.append(Group(list(columns), low, high if extent else low, _log_prior(posed.lengthscale_prior, extent)))
    return groups


def _within(scales: Array, groups: list[Group]) -> Array:
    """Length-scales to start from, in the range of each group."""
    out = scales.copy()
    for group in groups:
        if group.high > group.low:
            out[group.columns] = np.clip(out[group.columns], group.low, group.high)
    return out


def _log_prior(gamma: tuple[float, float] | None, extent: float) -> LogPrior:
    if gamma is None:
        return lengthscale_.weak_log_prior(extent)
    shape, rate = gamma
    return lambda length: float((shape - 1.0) * np.log(length) - rate * length)


# --- by the evidence of one fit's sites -----------------------------------------------------------------------------


def _best_by_evidence(
    search: Posed, likelihood: WeightsLikelihood, solved: Solved, scales: Array, group: Group
) -> tuple[Array, float, Array]:
    """The length-scales with that of one group learned, its log deviation, and the curve that says so."""

    def with_length(length: float) -> Array:
        return np.where(np.isin(np.arange(len(scales)), group.columns), length, scales)

    def evidence(length: float) -> float:
        return likelihood.log_evidence(search.with_lengthscales(with_length(length)).field_kernel)

    own = float(scales[group.columns[0]])
    log_l = np.unique(np.clip(np.log(own) + STEPS, np.log(group.low), np.log(group.high)))
    shift = solved.fit.bound.total - evidence(own)
    tried = np.array(
        [[np.exp(x), shift + evidence(float(np.exp(x))) + group.log_prior(float(np.exp(x)))] for x in log_l]
    )
    mean, sd = lengthscale_.log_moments(_smooth(tried))
    mean = float(np.clip(mean, np.log(own) - FARTHEST, np.log(own) + FARTHEST))
    return with_length(float(np.exp(mean))), sd, tried


def _smooth(tried: Array) -> Array:
    """Many points of a smooth curve through a few: a narrow top may lie between two of them."""
    log_l = np.log(tried[:, 0])
    fine = np.linspace(log_l[0], log_l[-1], FINE)
    curve = make_interp_spline(log_l, tried[:, 1], k=min(3, len(log_l) - 1))
    return np.column_stack([np.exp(fine), curve(fine)])


# --- by the objectives of fits --------------------------------------------------------------------------------------


def _by_fits(posed: Posed, search: Posed, groups: list[Group], earlier: Any | None) -> Learned:
    """Each fit started from the best so far."""
    best, best_value = earlier, -np.inf

    def value(scales: Array) -> float:
        nonlocal best, best_value
        fit = solve(search.with_lengthscales(scales), best, max_iter=SEARCH_SWEEPS, tol=SEARCH_TOL).fit
        if fit.bound.total > best_value:
            best, best_value = fit.q, fit.bound.total
        return fit.bound.total

    dimension = coordinates(search.kernel, search.data.X).shape[1]
    scales = search.kernel.lengthscales(dimension).copy()
    log_sd, tried = np.full(len(groups), np.inf), np.empty((0, 2))
    for _ in range(1 if len(groups) == 1 else 2):  # columns in turn; a second round lets each answer the others
        for i, group in enumerate(groups):
            if group.low == group.high and len(groups) > 1:
                continue

            def along(length: float, group: Group = group) -> float:
                return value(np.where(np.isin(np.arange(dimension), group.columns), length, scales)) + group.log_prior(
                    length
                )

            found = lengthscale_.maximise(along, group.low, group.high)
            mean, log_sd[i] = lengthscale_.log_moments(found.tried)
            scales[group.columns], tried = np.exp(mean), found.tried
    return Learned(posed.with_lengthscales(scales), best, log_sd, tried)
