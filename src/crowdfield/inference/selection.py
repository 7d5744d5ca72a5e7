"""A fit with its communities, which are compared by the one objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from crowdfield.inference import communities as communities_
from crowdfield.inference import solvers
from crowdfield.inference.bound import Bound
from crowdfield.inference.iterate import Fit, Progress
from crowdfield.inference.posed import Posed
from crowdfield.inference.solvers import Solver

LayOut = Callable[[Posed], Solver]


class Solved(NamedTuple):
    """A solution: the method over its sites, and where its iteration ended."""

    solver: Solver
    fit: Fit


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
        if _worth(posed, candidate) <= _worth(posed, best):
            break
        best = candidate
    # Communities must explain more than separate matrices do, or they are not there.
    separate = settled(solver, None if earlier is None else solver.warm_start(earlier))
    return separate if _worth(posed, separate) > _worth(posed, best) else best


def _split(posed: Posed, shared: Solved, k: int) -> tuple[Solver, Any]:
    """k communities, from one. Matrices close to a shared one come first; then the counts say who differs from whom."""
    counts = shared.solver.counts(shared.fit)
    split = communities_.start(k, posed.base, counts, ~posed.own)
    chosen = communities_.update(split, counts, posed.base, communities_.SETTLED_STEPS)
    return shared.solver.with_communities(chosen), shared.fit.state._replace(communities=chosen)


def _worth(posed: Posed, solved: Solved) -> float:
    """The objective, less what the parameters of communities cost."""
    found = solved.fit.state.communities
    if found is None:
        return solved.fit.bound.total
    return solved.fit.bound.total - communities_.price(found, solved.solver.counts(solved.fit), posed.base)


def restore(posed: Posed, state: Any) -> Solved:
    """A solution that was found before, from the state it ended in."""
    solver = solvers.here(posed)
    solver = solver.with_communities(state.communities)
    q = solver.in_state(state)
    return Solved(solver, Fit(state, q, Bound(0.0, 0.0, 0.0, 0.0), [], 0, True, 0.0))
