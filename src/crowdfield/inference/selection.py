"""A fit including its communities, whose number is chosen by the objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crowdfield.inference import communities as communities_
from crowdfield.inference import solvers
from crowdfield.inference.bound import Bound
from crowdfield.inference.fields.base import Engine
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.iterate import Fit, Progress
from crowdfield.inference.joint import starting
from crowdfield.inference.posed import VERY_MANY_SITES, Posed, at_sites
from crowdfield.inference.solvers import Solver

LayOut = Callable[[Posed], Solver]

PART = 30_000  # sites on which a fit of very many begins
LARGEST_START = 0.5  # share of the features with which it goes on over all sites, if passes are to be much cheaper
START_TOL = 1e-3  # tolerance of the fits that it starts from, which differ from the whole by more


class Solved(NamedTuple):
    """A solution: the method over its sites, and where its iteration ended."""

    solver: Solver
    fit: Fit


def solve(
    posed: Posed,
    earlier: Fit | None,
    *,
    max_iter: int,
    tol: float,
    lay_out: LayOut = solvers.here,
    progress: Progress | None = None,
) -> Solved:
    """Inference with fixed hyperparameters, except for the communities, which are learned.

    `earlier` is a fit of fewer reports or another length-scale to start from. `lay_out` lays the method over the sites;
    those of other processes, for example.
    """
    solver = lay_out(posed)
    if lay_out is solvers.here:
        earlier = _start_of_very_many(posed, solver.sites.engine, earlier, max_iter)

    def settled(solver: Solver, start: Any | None) -> Solved:
        return Solved(solver, solver.run(start, max_iter, tol, progress))

    if posed.communities is None:
        return settled(solver, None if earlier is None else solver.warm_start(earlier))
    shared = solver.with_communities(communities_.start(1, posed.base, np.zeros_like(posed.prior.alpha0), ~posed.own))
    one = settled(shared, None if earlier is None else shared.warm_start(earlier))
    if posed.communities == 1:
        return one
    if posed.communities != "learn":
        return settled(*_split_communities(posed, one, int(posed.communities)))
    # Only a fit with k communities shows what k explain: it, not the counts that the last one left, is compared.
    best = one
    for k in range(2, communities_.MOST_COMMUNITIES + 1):
        candidate = settled(*_split_communities(posed, one, k))
        if _penalised_objective(posed, candidate) <= _penalised_objective(posed, best):
            break
        best = candidate
    # Communities are kept only if they explain more than separate matrices.
    separate = settled(solver, None if earlier is None else solver.warm_start(earlier))
    return separate if _penalised_objective(posed, separate) > _penalised_objective(posed, best) else best


def _start_of_very_many(posed: Posed, engine: Engine, earlier: Fit | None, max_iter: int) -> Fit | None:
    """A fit of few features to very many sites, to start from; `earlier` itself if there are fewer, or sources are
    known.

    Alternating updates of sources, scale and field converge slowly: the more reports, the slower. With few features
    passes cost little, above all on a subset of the sites, on which the fit begins.
    """
    data = posed.data
    if posed.method != "joint" or not isinstance(engine, FeatureEngine) or data.n_sites < VERY_MANY_SITES:
        return earlier
    reports = np.bincount(data.source, minlength=data.n_sources).astype(np.float64)
    if earlier is not None and not starting.many_new(reports, starting.unknown(earlier.q)):
        return earlier
    kept = np.sort(np.random.default_rng(0).choice(data.n_sites, PART, replace=False))  # the same in every fit
    shared = replace(posed, communities=None if posed.communities is None else 1)
    part = replace(shared, data=at_sites(data, kept), prior=posed.prior._replace(mean=posed.prior.mean[kept]))
    begun = solve(part, earlier, max_iter=max_iter, tol=START_TOL, lay_out=solvers.for_start).fit
    few = solvers.for_start(shared)
    if not isinstance(few.sites.engine, FeatureEngine) or few.sites.engine.size > LARGEST_START * engine.size:
        return begun
    return solve(shared, begun, max_iter=max_iter, tol=START_TOL, lay_out=lambda _: few).fit


def _split_communities(posed: Posed, shared: Solved, k: int) -> tuple[Solver, Any]:
    """A start with k communities from a fit with one: sources are grouped by their expected counts."""
    counts = shared.solver.counts(shared.fit)
    split = communities_.start(k, posed.base, counts, ~posed.own)
    chosen = communities_.update(split, counts, posed.base, communities_.SETTLED_STEPS)
    return shared.solver.with_communities(chosen), shared.fit.state._replace(communities=chosen)


def _penalised_objective(posed: Posed, solved: Solved) -> float:
    """The objective minus the penalty for the parameters of communities."""
    found = solved.fit.state.communities
    if found is None:
        return solved.fit.bound.total
    return solved.fit.bound.total - communities_.penalty(found, solved.solver.counts(solved.fit), posed.base)


def restore(posed: Posed, state: Any) -> Solved:
    """A solution that was found before, from the state it ended in."""
    solver = solvers.here(posed)
    solver = solver.with_communities(state.communities)
    q = solver.in_state(state)
    return Solved(solver, Fit(state, q, Bound(0.0, 0.0, 0.0, 0.0), [], 0, True, 0.0))
