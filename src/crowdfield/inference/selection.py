"""A fit including its communities, whose number is chosen by the objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crowdfield.inference import communities as communities_
from crowdfield.inference import solvers
from crowdfield.inference.bound import Bound
from crowdfield.inference.communities import Communities
from crowdfield.inference.fields.base import Engine
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.iterate import Fit, Progress
from crowdfield.inference.joint import starting
from crowdfield.inference.posed import Posed, at_sites, thinned
from crowdfield.inference.solvers import Solver

LayOut = Callable[[Posed], Solver]

COMPARED_SITES = 10_000  # numbers of communities are compared on so many places
COMPARED_SWEEPS, COMPARED_TOL = 100, 5e-3  # of these fits: their objectives are then known to a fraction of a nat
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
    if posed.communities == "learn":
        return _solve_with_communities(posed, learn_communities(posed, earlier), max_iter, tol, lay_out, progress)
    solver = lay_out(posed)
    if lay_out is solvers.here:
        earlier = _start_of_very_many(posed, solver.sites.engine, earlier, max_iter)

    def settled(solver: Solver, start: Any | None) -> Solved:
        return Solved(solver, solver.run(start, max_iter, tol, progress))

    asked = posed.communities
    if asked is not None:
        solver = solver.with_communities(_communities_at_start(posed, earlier))
    found = settled(solver, None if earlier is None else solver.warm_start(earlier))
    return settled(*_split_communities(posed, found, asked)) if isinstance(asked, int) and asked > 1 else found


def _communities_at_start(posed: Posed, earlier: Fit | None) -> Communities:
    """Those that the problem names, else one community: that of the earlier fit, else the prior."""
    if isinstance(posed.communities, Communities):
        return posed.communities
    before: Communities | None = None if earlier is None else earlier.state.communities
    if before is not None and len(before.beta) == 1:
        return before._replace(free=~posed.own)
    return communities_.start(1, posed.base, np.zeros_like(posed.prior.alpha0), ~posed.own)


def learn_communities(posed: Posed, earlier: Fit | None, lay_out: LayOut = solvers.for_search) -> list[Fit]:
    """Fits with one community and more, and with separate matrices; first the one that explains most.

    They are compared by the objective less the penalty for the parameters of communities, on a sample of very many
    places: a crowd is as well known from it.
    """
    part = thinned(posed, COMPARED_SITES)

    def fitted(communities: int | None, start: Fit | None) -> Solved:
        at = replace(part, communities=communities)
        return solve(at, start, max_iter=COMPARED_SWEEPS, tol=COMPARED_TOL, lay_out=lay_out)

    found = [fitted(1, earlier)]
    for k in range(2, communities_.MOST_COMMUNITIES + 1):
        # Only a fit with k communities shows what k explain: it, not the counts that the last one left, is compared.
        solver, start = _split_communities(part, found[0], k)
        found.append(Solved(solver, solver.run(start, COMPARED_SWEEPS, COMPARED_TOL)))
        if _rank(part, found[-1]) <= _rank(part, found[-2]):
            break
    found.append(fitted(None, None))  # which starts from the prior, so that not all starts are one
    return [solved.fit for solved in sorted(found, key=partial(_rank, part), reverse=True)]


def _solve_with_communities(
    posed: Posed, starts: list[Fit], max_iter: int, tol: float, lay_out: LayOut, progress: Progress | None
) -> Solved:
    """The first of these fits, continued to the tolerance; the next one where it does not settle."""
    found = []
    for start in starts:
        at = replace(posed, communities=start.state.communities)
        found.append(solve(at, start, max_iter=max_iter, tol=tol, lay_out=lay_out, progress=progress))
        if found[-1].fit.converged:
            return found[-1]
    return found[0]


def _rank(posed: Posed, solved: Solved) -> tuple[bool, float]:
    """What fits are compared by: the objective of one that has not settled says nothing about its model."""
    return solved.fit.converged, _penalised_objective(posed, solved)


def _start_of_very_many(posed: Posed, engine: Engine, earlier: Fit | None, max_iter: int) -> Fit | None:
    """A fit of few features to very many sites, to start from; `earlier` itself if there are fewer, or sources are
    known.

    Alternating updates of sources, scale and field converge slowly: the more reports, the slower. With few features
    passes cost little, above all on a subset of the sites, on which the fit begins.
    """
    data = posed.data
    if posed.method != "joint" or not isinstance(engine, FeatureEngine) or data.n_sites < posed.many.least:
        return earlier
    reports = np.bincount(data.source, minlength=data.n_sources).astype(np.float64)
    if earlier is not None and not starting.many_new(reports, starting.unknown(earlier.q)):
        return earlier
    drawn = np.random.default_rng(0).choice(data.n_sites, posed.many.part, replace=False)  # the same in every fit
    kept = np.sort(drawn)
    shared = replace(posed, communities=1) if isinstance(posed.communities, int) else posed
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
    """The objective minus the penalty for the parameters of communities, which stands for their prior."""
    found = solved.fit.state.communities
    if found is None:
        return solved.fit.bound.total
    explained = solved.fit.bound.total - communities_.log_hyperprior(found, posed.base)
    return explained - communities_.penalty(found, solved.solver.counts(solved.fit), posed.base)


def restore(posed: Posed, state: Any) -> Solved:
    """A solution that was found before, from the state it ended in."""
    solver = solvers.here(posed)
    solver = solver.with_communities(state.communities)
    q = solver.in_state(state)
    return Solved(solver, Fit(state, q, Bound(0.0, 0.0, 0.0, 0.0), [], 0, True, 0.0))
