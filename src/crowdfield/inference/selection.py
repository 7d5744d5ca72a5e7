"""What is chosen around a fit: communities and length-scales, all compared by the one objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crowdfield.inference import communities as communities_
from crowdfield.inference import lengthscale as lengthscale_
from crowdfield.inference import solvers
from crowdfield.inference.blur import coordinates
from crowdfield.inference.bound import Bound
from crowdfield.inference.fields.base import Array
from crowdfield.inference.iterate import Fit, Progress
from crowdfield.inference.posed import Posed, thinned
from crowdfield.inference.solvers import Solver

SEARCH_TOL = 2e-2  # of the fits that a search compares: the objective is flat there, so this moves it by far less
SEARCH_SWEEPS = 30
SEARCH_SITES = 10_000  # a length-scale is as well known from these as from millions

LogPrior = Callable[[float], float]
LayOut = Callable[[Posed], Solver]


class Solved(NamedTuple):
    """A solution: the method over its sites, and where its iteration ended."""

    solver: Solver
    fit: Fit


class Learned(NamedTuple):
    """A problem with the length-scale that was learned for it, and how sure that is."""

    posed: Posed
    start: Any | None  # a q to go on from
    log_sd: Array  # [groups of columns learned], of log l; infinite where the data do not say
    tried: Array  # [n, 2] length-scales of the last search, and objective with log prior


def solve(
    posed: Posed,
    earlier: Any | None,
    *,
    max_iter: int,
    tol: float,
    lay_out: LayOut = solvers.here,
    progress: Progress | None = None,
) -> Solved:
    """Inference with the hyperparameters fixed, but for the communities, which are learned along.

    `earlier` is a q of fewer reports or another length-scale to start from. `lay_out` lays the method over the sites;
    those of other processes, for example.
    """
    solver = lay_out(posed)

    def settled(solver: Solver, start: Any | None) -> Solved:
        return Solved(solver, solver.run(start, max_iter, tol, progress))

    if posed.communities is None:
        return settled(solver, None if earlier is None else solver.warm_start(earlier))
    shared = solver.with_communities(communities_.start(1, posed.base, np.zeros_like(posed.prior.alpha0), ~posed.own))
    one = settled(shared, None if earlier is None else shared.warm_start(earlier))
    if posed.communities == 1:
        return one
    if posed.communities != "learn":
        return settled(*_split(posed, one, int(posed.communities)))
    # Only a fit with k communities shows what k explain: it, not the counts that the last one left, is compared.
    best = one
    for k in range(2, communities_.MOST_COMMUNITIES + 1):
        candidate = settled(*_split(posed, one, k))
        if _worth(candidate) <= _worth(best):
            break
        best = candidate
    # Communities must explain more than separate matrices do, or they are not there.
    separate = settled(solver, None if earlier is None else solver.warm_start(earlier))
    return separate if _worth(separate) > _worth(best) else best


def _split(posed: Posed, shared: Solved, k: int) -> tuple[Solver, Any]:
    """k communities, from one. Matrices close to a shared one come first; then the counts say who differs from whom."""
    counts = shared.solver.counts(shared.fit)
    split = communities_.start(k, posed.base, counts, ~posed.own)
    chosen = communities_.update(split, counts, posed.base, communities_.SETTLED_STEPS)
    return shared.solver.with_communities(chosen), shared.fit.state._replace(communities=chosen)


def _worth(solved: Solved) -> float:
    """The objective, less what the parameters of communities cost."""
    found = solved.fit.state.communities
    return solved.fit.bound.total - (0.0 if found is None else communities_.price(found))


def restore(posed: Posed, state: Any) -> Solved:
    """A solution that was found before, from the state it ended in."""
    solver = solvers.here(posed)
    solver = solver.with_communities(state.communities)
    q = solver.in_state(state)
    return Solved(solver, Fit(state, q, Bound(0.0, 0.0, 0.0, 0.0), [], 0, True, 0.0))


def lengthscale(posed: Posed, earlier: Any | None) -> Learned:
    """Maximum likelihood II on the objective, warm-started from one length-scale to the next."""
    search = thinned(posed, SEARCH_SITES)
    search = replace(search, communities=None if posed.communities is None else 1)
    X = coordinates(search.kernel, search.data.X)
    low, high = posed.lengthscale_bounds or lengthscale_.search_range(X)
    best, best_value = earlier, -np.inf

    def value(scales: Array) -> float:
        nonlocal best, best_value
        fit = solve(search.with_lengthscales(scales), best, max_iter=SEARCH_SWEEPS, tol=SEARCH_TOL).fit
        if fit.bound.total > best_value:
            best, best_value = fit.q, fit.bound.total
        return fit.bound.total

    dimension = X.shape[1]
    scales = search.kernel.lengthscales(dimension).copy()
    span = np.ptp(X, axis=0)
    if posed.free == (tuple(range(dimension)),):
        prior = _log_prior(posed.lengthscale_prior, float(np.exp(np.log(np.maximum(span, 1e-300)).mean())))
        found = lengthscale_.maximise(lambda length: value(np.array([length])) + prior(length), low, high)
        mean, sd = lengthscale_.log_moments(found.tried)
        return Learned(posed.with_lengthscales(np.array([np.exp(mean)])), best, np.array([sd]), found.tried)
    log_sd, tried = np.full(len(posed.free), np.inf), np.empty((0, 2))
    for _ in range(2):  # columns in turn; a second round lets each answer the others
        for i, columns in enumerate(posed.free):
            extent = float(span[list(columns)].max())
            if extent == 0.0:
                continue  # all reports share this coordinate: nothing can be learned about it
            prior = _log_prior(posed.lengthscale_prior, extent)
            limits = posed.lengthscale_bounds or (0.01 * extent, extent)

            def along(length: float, columns: tuple[int, ...] = columns, prior: LogPrior = prior) -> float:
                return value(np.where(np.isin(np.arange(dimension), columns), length, scales)) + prior(length)

            found = lengthscale_.maximise(along, *limits)
            mean, log_sd[i] = lengthscale_.log_moments(found.tried)
            scales[list(columns)], tried = np.exp(mean), found.tried
    return Learned(posed.with_lengthscales(scales), best, log_sd, tried)


def _log_prior(gamma: tuple[float, float] | None, extent: float) -> LogPrior:
    if gamma is None:
        return lengthscale_.weak_log_prior(extent)
    shape, rate = gamma
    return lambda length: float((shape - 1.0) * np.log(length) - rate * length)
