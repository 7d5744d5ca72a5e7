"""Learning the length-scale of the one-state model: maximum likelihood II on its objective.

A fit, then the evidence of its sites under other length-scales (`fields.other_kernels`), then a fit at the best of
these, until the length-scale no longer changes: two to four fits as a rule, each started from the last. Where sites
have no evidence in closed form (mean-field VB, fields too large for a matrix) the objectives of about ten fits are
compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline

from crowdfield.inference import lengthscale as lengthscale_
from crowdfield.inference import solvers
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.other_kernels import WeightsLikelihood
from crowdfield.inference.iterate import Fit
from crowdfield.inference.posed import Posed, thinned
from crowdfield.inference.selection import LayOut, solve
from crowdfield.inference.threads import quiet_blas

SEARCH_TOL = 2e-2  # tolerance of the fits of a search; the objective is flat there, so that it changes by far less
SEARCH_SWEEPS = 30
SEARCH_SITES = 10_000  # a length-scale is as well known from these as from millions
ROUNDS = 6  # of a fit and evidences, at most
CLOSE = 0.1  # in log l: the search ends when the length-scale changes by less
CLOSE_SDS = 0.35  # or by less than this many of its standard deviations
STEPS = np.linspace(-1.6, 1.6, 9)  # in log l, from the fit's own length-scale: where the evidence is computed
FARTHEST = 0.7  # largest change of log l from one fit to the next: the sites are accurate only nearby
ROUGH = 1.0  # nats, noise of the objectives of such fits: they are not fully converged, and their features differ
TILT = 3e-4  # nats per site and unit of log l: a typical size of `_tilt`
FINE = 201  # points between these, of the smooth curve through them

LogPrior = Callable[[float], float]
Evidence = Callable[[Array], float]  # of log length-scales, one per group


class Learned(NamedTuple):
    """A problem with its learned length-scale, and the uncertainty of that."""

    posed: Posed
    start: Fit | None  # the fit to continue from
    log_sd: Array  # [groups of columns learned], of log l; infinite where the data do not say
    tried: Array  # [n, 2] length-scales looked at last, and the objective there with the log prior


class Group(NamedTuple):
    """Columns that share a length-scale, its search range and its prior."""

    columns: list[int]
    low: float
    high: float
    log_prior: LogPrior


def learn(posed: Posed, earlier: Fit | None, lay_out: LayOut = solvers.for_search) -> Learned:
    """Learn the length-scales. `earlier`: a fit to start from; `lay_out` lays a fit over its sites."""
    search = thinned(posed, SEARCH_SITES)
    search = replace(search, communities=None if posed.communities is None else 1)
    X = coordinates(search.kernel, search.data.X)
    groups = _groups(posed, X)
    start = search.with_lengthscales(_within(search.kernel.lengthscales(X.shape[1]), groups))
    found = _by_evidence(start, groups, earlier, lay_out)
    if found is None:
        found = _by_fits(search, groups, earlier, lay_out)
    return found._replace(posed=posed.with_lengthscales(found.posed.kernel.lengthscales(X.shape[1])))


def _groups(posed: Posed, X: Array) -> list[Group]:
    """The groups of columns that share a length-scale, each with its search range and prior."""
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
    """The log prior of a length-scale: the user's gamma, or a weak default."""
    if gamma is None:
        return lengthscale_.weak_log_prior(extent)
    shape, rate = gamma
    return lambda length: float((shape - 1.0) * np.log(length) - rate * length)


# --- by the evidence of fits' sites ---------------------------------------------------------------------------------


class Visited(NamedTuple):
    """A fit that was made on the way."""

    log_lengths: Array  # [groups]
    objective: float


def _by_evidence(posed: Posed, groups: list[Group], earlier: Fit | None, lay_out: LayOut) -> Learned | None:
    """Alternate fits and evidences; None where a fit's sites have no evidence in closed form."""
    visited: list[Visited] = []
    found = Learned(posed, earlier, np.full(len(groups), np.inf), np.empty((0, 2)))
    dimension = coordinates(posed.kernel, posed.data.X).shape[1]
    for _ in range(ROUNDS):
        before = found.posed.kernel.lengthscales(dimension)
        solved = solve(found.posed, found.start, max_iter=SEARCH_SWEEPS, tol=SEARCH_TOL, lay_out=lay_out)
        with quiet_blas(solved.solver.sites.engine.size):
            likelihood = solved.solver.weights_likelihood(solved.fit)
            if likelihood is None:
                return None
            evidence = partial(_evidence, found.posed, likelihood, groups)
            here = Visited(np.log([before[group.columns[0]] for group in groups]), solved.fit.bound.total)
            tilt = _tilt(evidence, here, visited, TILT * posed.data.n_sites)
            found = _best_by_evidence(found._replace(start=solved.fit), groups, evidence, here, tilt)
        visited.append(here)
        moved = [abs(np.log(found.posed.kernel.lengthscales(dimension) / before)[group.columns[0]]) for group in groups]
        known = np.where(np.isfinite(found.log_sd), found.log_sd, 0.0)
        if (np.array(moved) <= np.maximum(CLOSE, CLOSE_SDS * known)).all():
            break
    return found


def _evidence(posed: Posed, likelihood: WeightsLikelihood, groups: list[Group], log_lengths: Array) -> float:
    """The log evidence of a fit's sites under other length-scales."""
    return likelihood.log_evidence(_with_lengths(posed, groups, log_lengths).field_kernel)


def _with_lengths(posed: Posed, groups: list[Group], log_lengths: Array) -> Posed:
    """The problem with other length-scales, one per group."""
    scales = posed.kernel.lengthscales(coordinates(posed.kernel, posed.data.X).shape[1]).copy()
    for group, log_length in zip(groups, log_lengths, strict=True):
        scales[group.columns] = np.exp(log_length)
    return posed.with_lengthscales(scales)


def _tilt(evidence: Evidence, here: Visited, before: list[Visited], size: float) -> Array:
    """How much steeper the objective is than the evidence of the sites, in the log length-scale of each group.

    q is not exactly at the maximum of the objective, and the resulting error of the slope grows with the number of
    sites. It is estimated from the objectives of the earlier fits; `size` is its prior standard deviation.
    """
    groups = len(here.log_lengths)
    if not before:
        return np.zeros(groups)
    away = np.array([visit.log_lengths - here.log_lengths for visit in before])
    own = evidence(here.log_lengths)
    missed = np.array([v.objective - here.objective - (evidence(v.log_lengths) - own) for v in before])
    return np.asarray(np.linalg.solve(away.T @ away + (ROUGH / size) ** 2 * np.eye(groups), away.T @ missed))


def _best_by_evidence(found: Learned, groups: list[Group], evidence: Evidence, here: Visited, tilt: Array) -> Learned:
    """Each group in turn at the mean of its evidence curve, given the groups before it."""
    log_lengths, log_sd, tried = here.log_lengths.copy(), found.log_sd.copy(), found.tried
    for i, group in enumerate(groups):
        if not group.high > group.low:
            continue
        start = log_lengths[i]
        shift = here.objective - evidence(log_lengths)
        points = []
        for log_l in np.unique(np.clip(start + STEPS, np.log(group.low), np.log(group.high))):
            log_lengths[i] = log_l
            value = shift + evidence(log_lengths) + tilt[i] * (log_l - start) + group.log_prior(float(np.exp(log_l)))
            points.append((np.exp(log_l), value))
        tried = np.array(points)
        mean, log_sd[i] = lengthscale_.log_moments(_smooth(tried))
        log_lengths[i] = np.clip(mean, start - FARTHEST, start + FARTHEST)
    return Learned(_with_lengths(found.posed, groups, log_lengths), found.start, log_sd, tried)


def _smooth(tried: Array) -> Array:
    """A smooth curve through a few points, evaluated at many: a narrow maximum may lie between two of them."""
    log_l = np.log(tried[:, 0])
    fine = np.linspace(log_l[0], log_l[-1], FINE)
    curve = make_interp_spline(log_l, tried[:, 1], k=min(3, len(log_l) - 1))
    return np.column_stack([np.exp(fine), curve(fine)])


# --- by the objectives of fits --------------------------------------------------------------------------------------


def _by_fits(posed: Posed, groups: list[Group], earlier: Fit | None, lay_out: LayOut = solvers.here) -> Learned:
    """Each fit started from the best so far."""
    best, best_value = earlier, -np.inf

    def value(scales: Array) -> float:
        nonlocal best, best_value
        at = posed.with_lengthscales(scales)
        fit = solve(at, best, max_iter=SEARCH_SWEEPS, tol=SEARCH_TOL, lay_out=lay_out).fit
        if fit.bound.total > best_value:
            best, best_value = fit, fit.bound.total
        return fit.bound.total

    dimension = coordinates(posed.kernel, posed.data.X).shape[1]
    scales = posed.kernel.lengthscales(dimension).copy()
    log_sd, tried = np.full(len(groups), np.inf), np.empty((0, 2))
    for _ in range(1 if len(groups) == 1 else 2):  # columns in turn; a second round accounts for changes of the others
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
