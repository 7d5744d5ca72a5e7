"""Solving a posed problem: variational inference, and the hyperparameters that are learned around it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from crowdfield.errors import NumericalError
from crowdfield.inference import communities, coupling, settle, vb
from crowdfield.inference import lengthscale as lengthscale_
from crowdfield.inference.bound import Bound
from crowdfield.inference.communities import Communities
from crowdfield.inference.data import Data
from crowdfield.inference.fields.base import Engine
from crowdfield.models.base import Array
from crowdfield.models.problem import Posed

SEARCH_TOL = 3e-3  # of the fits that a search compares: the bound is flat there, so this moves it by far less
SEARCH_SWEEPS = 40
ADRIFT = 10.0  # times the tolerance: what still moves so far after the last sweep is not settling
SMALL = 2_000  # rows of a matrix that one thread factorises before two have woken up
SEARCH_SITES = 20_000  # a length-scale is as well known from these as from millions


LogPrior = Callable[[float], float]
Progress = Callable[[int, float, float], None]


class Solved(NamedTuple):
    sites: vb.Sites
    iteration: vb.Iteration
    fit: settle.Fit


class Earlier(NamedTuple):
    """What an earlier solution, of fewer reports or another length-scale, offers to start from."""

    q: vb.Posterior
    r: Array | None  # [N, J] its q(t) at this problem's sites, 0 where it had none; None if not known


class Learned(NamedTuple):
    posed: Posed
    start: Earlier | None  # to go on from
    log_sd: Array  # [groups of columns learned], of log l; infinite where the data do not say
    tried: Array  # [n, 2] length-scales of the last search, and objective with log prior


def over(posed: Posed, start: Communities | None = None) -> tuple[vb.Sites, vb.Iteration]:
    engine = posed.engine()
    sites = vb.Sites(posed.data, posed.prior, engine, couples=couples(posed, engine))
    return sites, vb.Iteration.over(sites, posed.scheme, start, posed.base)


def couples(posed: Posed, engine: Engine) -> bool:
    """Are sources and field unsure together?"""
    return posed.couples and posed.scheme.integrates_scale and coupling.worthwhile(posed.data, engine)


def quiet_blas(iteration: vb.Iteration) -> AbstractContextManager[Any]:
    """One BLAS thread for small matrices: its waiting threads take the cores from the sweeps (half the time at 10⁶)."""
    limits: AbstractContextManager[Any] = _libraries().limit(
        limits=1 if iteration.engine.size <= SMALL else None, user_api="blas"
    )
    return limits


@cache
def _libraries() -> ThreadpoolController:
    """Finding the libraries takes as long as a small fit."""
    return ThreadpoolController()


def solve(
    posed: Posed,
    earlier: Earlier | None,
    *,
    max_iter: int,
    tol: float,
    over: Callable[[Posed, Communities | None], tuple[vb.Sites, vb.Iteration]] = over,
    progress: Progress | None = None,
) -> Solved:
    """Inference with the hyperparameters fixed, but for the communities, which are learned along.

    `over` lays the iteration over the sites; those of other processes, for example.
    """
    first = None
    if posed.communities is not None:
        first = communities.start(1, posed.base, np.zeros_like(posed.prior.alpha0), ~posed.own)
    sites, iteration = over(posed, first)
    settled = partial(_settled, sites, max_iter=max_iter, tol=tol, progress=progress)
    # Counts made with one community look alike. Only a fit with k of them shows what k explain: it, not the counts that
    # the last one left, is compared, and settled: a rough one may still end elsewhere. And with sources held: what
    # predicts reports, not what fits them, tells kinds of people apart.
    several = posed.communities is not None and posed.communities != 1
    plain = replace(iteration, couples=iteration.couples and not several)
    start = None
    if earlier is not None:
        if earlier.r is not None:
            sites.r = [earlier.r[block.sites] for block in sites.blocks]
        start = plain.warm_start(earlier.q)
    best = shared = settled(plain, start)
    if not several:
        return shared
    if posed.communities != "learn":
        best = settled(*_apart(posed, shared, int(posed.communities or 1)))
    else:
        kept = list(sites.r)
        for k in range(2, communities.MOST_COMMUNITIES + 1):
            candidate = settled(*_apart(posed, shared, k))
            if _worth(candidate) <= _worth(best):
                break
            best, kept = candidate, list(sites.r)
        sites.r = kept
    return settled(replace(best.iteration, couples=True), best.fit.state) if iteration.couples else best


def _settled(
    sites: vb.Sites,
    iteration: vb.Iteration,
    start: vb.State | None,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None,
) -> Solved:
    """Where everybody says the same, map and sources can follow each other for ever, or away. With sources held they
    rest: then that is the answer.
    """
    before = list(sites.r)
    with quiet_blas(iteration):
        run = partial(settle.run, max_iter=max_iter, tol=tol, progress=progress)
        if not iteration.couples:
            return Solved(sites, iteration, run(iteration, start=start))
        try:
            fit = run(iteration, start=start)
        except NumericalError:
            fit = None
        if fit is not None and (fit.converged or fit.change <= ADRIFT * tol):
            return Solved(sites, iteration, fit)
        sites.r, iteration = before, replace(iteration, couples=False)
        held = run(iteration, start=None if start is None else start._replace(coupling=None))
        tried = 0 if fit is None else fit.n_iter
        return Solved(sites, iteration, held._replace(n_iter=tried + held.n_iter))


def _apart(posed: Posed, shared: Solved, k: int) -> tuple[vb.Iteration, vb.State]:
    """k communities, from one. Matrices close to a shared one come first; then the counts say who differs from whom."""
    state = shared.fit.state
    apart = communities.start(k, posed.base, state.counts, ~posed.own)
    chosen = communities.update(apart, state.counts, posed.base, communities.SETTLED_STEPS)
    return replace(shared.iteration, communities=chosen), state._replace(communities=chosen)


def _worth(solved: Solved) -> float:
    found = solved.fit.state.communities
    return solved.fit.bound.total - (0.0 if found is None else communities.price(found))


def restore(posed: Posed, state: vb.State, targets: Array) -> Solved:
    """A solution that was found before, from the state it ended in."""
    sites, iteration = over(posed, state.communities)
    sites.r = [targets[block.sites] for block in sites.blocks]
    q = iteration.assemble(state)
    return Solved(sites, iteration, settle.Fit(state, q, Bound(0.0, 0.0, 0.0, 0.0), [], 0, True, 0.0))


def lengthscale(posed: Posed, earlier: Earlier | None) -> Learned:
    """Maximum likelihood II on the objective, warm-started from one length-scale to the next."""
    search = thinned(posed)
    low, high = posed.lengthscale_bounds or lengthscale_.search_range(search.data.X)
    best = earlier if search is posed or earlier is None else Earlier(earlier.q, None)
    best_value = -np.inf

    def value(scales: Array) -> float:
        nonlocal best, best_value
        candidate = search.with_kernel(search.kernel.with_lengthscale(scales if scales.size > 1 else float(scales[0])))
        solved = solve(_quicker(candidate), best, max_iter=SEARCH_SWEEPS, tol=SEARCH_TOL)
        total = solved.fit.bound.total
        if total > best_value:
            best, best_value = Earlier(solved.fit.q, solved.sites.targets), total
        return total

    dimension = search.data.X.shape[1]
    scales = search.kernel.lengthscales(dimension).copy()
    span = np.ptp(search.data.X, axis=0)
    tried = np.empty((0, 2))
    if posed.free == (tuple(range(dimension)),):
        prior = _log_prior(posed.lengthscale_prior, float(np.exp(np.log(np.maximum(span, 1e-300)).mean())))
        found = lengthscale_.maximise(lambda length: value(np.array([length])) + prior(length), low, high)
        mean, sd = lengthscale_.log_moments(found.tried)
        scales, log_sd, tried = np.array([np.exp(mean)]), np.array([sd]), found.tried
    else:
        log_sd = np.full(len(posed.free), np.inf)
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
    final = posed.with_kernel(posed.kernel.with_lengthscale(scales if scales.size > 1 else float(scales[0])))
    # q(t) stays behind: the sites of the final fit may be others, and in other processes.
    return Learned(final, None if best is None else Earlier(best.q, None), log_sd, tried)


def _quicker(posed: Posed) -> Posed:
    """Searches use one community at the most: it changes the length-scale little, and costs much. And sources and field
    stay uncoupled, for an objective in which reports are predicted, not fitted (docs/inference.md).
    """
    return replace(posed, communities=None if posed.communities is None else 1, couples=False)


def _log_prior(gamma: tuple[float, float] | None, extent: float) -> Callable[[float], float]:
    if gamma is None:
        return lengthscale_.weak_log_prior(extent)
    shape, rate = gamma
    return lambda length: float((shape - 1.0) * np.log(length) - rate * length)


def thinned(posed: Posed, most: int = SEARCH_SITES) -> Posed:
    """The problem on a random part of its sites, with all their reports."""
    data = posed.data
    if data.n_sites <= most:
        return posed
    kept = np.sort(posed.rng().choice(data.n_sites, most, replace=False))
    return replace(posed, data=at_sites(data, kept), prior=posed.prior._replace(mean=posed.prior.mean[kept]))


def at_sites(data: Data, kept: NDArray[np.int64]) -> Data:
    """Some of the sites, given in ascending order, with all their reports."""
    position = np.full(data.n_sites, -1, dtype=np.int32)
    position[kept] = np.arange(len(kept), dtype=np.int32)
    rows = position[data.site] >= 0
    return data._replace(
        X=data.X[kept],
        site=position[data.site[rows]],
        source=data.source[rows],
        label=data.label[rows],
        known=data.known[kept],
        repeats=None if data.repeats is None else data.repeats[rows],
    )
