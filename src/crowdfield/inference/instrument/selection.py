"""Learning the length-scale: the one under which left-out reports are most probable.

A coarse grid of length-scales, then parabolas around the best. All fits have the same starting point, so that no
length-scale inherits the variances of another, and for large maps a part of the places is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from crowdfield.inference.blur import coordinates
from crowdfield.inference.instrument import bases, iterate
from crowdfield.inference.instrument.fitting import State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.link import Checks
from crowdfield.inference.instrument.methods import AnyObserved, method_for
from crowdfield.inference.lengthscale import log_moments

if TYPE_CHECKING:
    from crowdfield.inference.instrument.model import Problem

STEP = 2.2  # factor between the length-scales of the grid: less than the width of the evidence
MOST_RUNGS = 8
REFINEMENTS = 2
SWEEPS = 10  # of every fit, at most: enough to rank length-scales
SEARCH_SITES = 2_000  # places: as good for a length-scale as millions
NEIGHBOURS = 4  # nearest neighbours that are kept with every sampled place
CLEAR = 8.0  # nats below the best at which the search stops in that direction
LOG_SD = 1.5  # standard deviation of the prior of log l around a seventh of the extent


class Reported(NamedTuple):
    """The reports, one row each."""

    site: NDArray[np.int64]  # [R]
    source: NDArray[np.int64]
    label: NDArray[np.int64]
    multiplicity: NDArray[np.int64]  # how many reports each row stands for

    def take(self, rows: NDArray[Any]) -> Reported:
        """Some of the reports."""
        return Reported(*(column[rows] for column in self))


class Learned(NamedTuple):
    """A learned length-scale, its uncertainty, and the search."""

    lengthscale: float
    log_sd: float  # of log l, with exp(score) as its posterior on the length-scales tried
    tried: Array  # [n, 2] length-scales and log P(left-out reports) with log prior


def search_range(X: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The range of length-scales to search: from the typical distance of neighbours to the map's extent."""
    extent = float(np.ptp(X, axis=0).max(initial=0.0))
    if extent == 0.0:
        return 1.0, 1.0
    some = X if len(X) <= SEARCH_SITES else X[rng.choice(len(X), SEARCH_SITES, replace=False)]
    nearest = cKDTree(X).query(some, k=2)[0][:, 1]
    apart = nearest[nearest > 0.0]
    low = float(np.median(apart)) if len(apart) else extent / 4.0
    return min(max(low, 1e-6 * extent), extent / 4.0), extent


def thinned(observed: AnyObserved, X: Array, rng: np.random.Generator, most: int) -> NDArray[np.int64]:
    """A sample of about `most` places: random ones with their nearest neighbours, so that short distances remain."""
    if len(X) <= most:
        return np.arange(len(X))
    seeds = rng.choice(len(X), most // NEIGHBOURS, replace=False)
    near = cKDTree(X).query(X[seeds], k=NEIGHBOURS)[1].ravel()
    return np.union1d(near, np.unique(observed.checks.site))


def at_places(observed: AnyObserved, reported: Reported, kept: NDArray[np.int64]) -> tuple[Reported, AnyObserved]:
    """All reports at some of the places, which are renumbered."""
    position = np.full(observed.n_sites, -1)
    position[kept] = np.arange(len(kept))
    rows = position[reported.site] >= 0
    inside = position[observed.checks.site] >= 0
    checks = Checks(position[observed.checks.site[inside]], observed.checks.said[inside])
    fewer = reported.take(rows)
    fewer = fewer._replace(site=position[fewer.site])
    return fewer, observed.at_places(kept, fewer, checks)


def learn(
    problem: Problem,
    start: State,
    bounds: tuple[float, float] | None,
    log_prior: Callable[[float], float] | None,
    rng: np.random.Generator,
) -> Learned:
    """Learn one length-scale for all columns."""
    limits = bounds or search_range(coordinates(problem.kernel, problem.X), rng)
    kept = thinned(problem.observed, problem.X, rng, SEARCH_SITES)
    fewer, part = at_places(problem.observed, problem.reported, kept)
    first = start._replace(eta=start.eta[kept], lam=start.lam[kept])
    part_of = problem._replace(X=problem.X[kept], reported=fewer, observed=part)
    return search(part_of, first, limits, log_prior, rng)


def search(
    problem: Problem,
    start: State,
    limits: tuple[float, float],
    log_prior: Callable[[float], float] | None,
    rng: np.random.Generator,
) -> Learned:
    """Search within limits, on all places of the problem."""
    X, observed, kernel = problem.X, problem.observed, problem.kernel
    low, high = limits
    tried: dict[float, float] = {}
    centre = np.log(high / 7.0)

    def value(log_l: float) -> None:
        basis = bases.choose(
            problem.engine,
            kernel.with_lengthscale(float(np.exp(log_l))),
            X,
            rng,
            bases.SEARCH.shared_by(observed.functions),
        )
        method = method_for(observed, Design(basis, problem.columns, X), problem.prior)
        current, _ = iterate.learn_variances(method, method.evaluate(start), iterate.Policy(variance_sweeps=SWEEPS))
        weight = -0.5 * ((log_l - centre) / LOG_SD) ** 2 if log_prior is None else log_prior(float(np.exp(log_l)))
        said = float(method.left_out(current, *problem.reported[:3]) @ problem.reported.multiplicity)
        tried[log_l] = said + method.left_out_scores(current) + weight

    if not high > low:
        value(float(np.log(low)))
        return Learned(low, float("inf"), np.array([[low, tried[float(np.log(low))]]]))
    rungs = np.linspace(np.log(low), np.log(high), int(np.clip(np.log(high / low) / np.log(STEP) + 1, 3, MOST_RUNGS)))
    _climb(rungs.tolist(), float(np.clip(centre, rungs[0], rungs[-1])), tried, value)
    table = np.array([[np.exp(log_l), tried[log_l]] for log_l in sorted(tried)])
    best, log_sd = peak(table)
    return Learned(float(np.exp(best)), log_sd, table)


def peak(tried: Array) -> tuple[float, float]:
    """Where the score of the length-scales tried [n, 2] is highest, and the standard deviation, both of log l."""
    log_l, score = np.log(tried[:, 0]), tried[:, 1]
    i, log_sd = int(np.argmax(score)), log_moments(tried)[1]
    if not 0 < i < len(log_l) - 1:
        return float(log_l[i]), log_sd
    best, curvature = _parabola(log_l[i - 1 : i + 2].tolist(), score[i - 1 : i + 2].tolist())
    # With many reports the score falls so much from one length-scale to the next that their moments are those of one.
    return best, max(log_sd, curvature**-0.5) if curvature > 0.0 else log_sd


def _climb(rungs: list[float], centre: float, tried: dict[float, float], value: Callable[[float], None]) -> None:
    """From the grid point nearest to the centre in both directions until clearly worse, then the parabola's maximum."""
    middle = int(np.argmin(np.abs(np.array(rungs) - centre)))
    value(rungs[middle])
    for direction in (1, -1):
        at = middle + direction
        while 0 <= at < len(rungs):
            value(rungs[at])
            if tried[rungs[at]] < max(tried.values()) - CLEAR:
                break
            at += direction
    for _ in range(REFINEMENTS):
        order = sorted(tried)
        i = int(np.argmax([tried[x] for x in order]))
        if not 0 < i < len(order) - 1:
            break
        top, _ = _parabola(order[i - 1 : i + 2], [tried[x] for x in order[i - 1 : i + 2]])
        if min(abs(top - x) for x in order) < 0.1:
            break
        value(top)


def _parabola(x: list[float], y: list[float]) -> tuple[float, float]:
    """The top of the parabola through three points, within them, and minus its second derivative."""
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    curvature = -2.0 * (right - left) / (x[2] - x[0])
    if not curvature > 0.0:
        return x[1], 0.0
    slope = left - 0.5 * curvature * (x[1] - x[0])
    return float(np.clip(x[1] + slope / curvature, 0.5 * (x[0] + x[1]), 0.5 * (x[1] + x[2]))), curvature
