"""Do intervals of district totals hold, and what do totals of a large map cost?

    python -m benchmarks totals coverage --worlds 200
    python -m benchmarks totals coverage --worlds 200 --reports 100 --from-prior --model separate [--inference gibbs]
    python -m benchmarks totals coverage --worlds 40 --reports 100 --variance 4 --level -1.5 --model named
    python -m benchmarks totals coverage --worlds 40 --reports 100 --reports-model one_state --known scale sources
    python -m benchmarks totals sweeps --worlds 10 --reports 100 --from-prior --model separate
    python -m benchmarks totals size --cells 1000000

A world is a field, the states of all cells, a crowd and its reports, all drawn anew. Three models may fit them: the
default one; the same that is told which state is in question (`named`); and one whose sources have nothing in common
(`separate`). With `--from-prior` the level, how much the field varies and how every source errs are drawn from the
prior of that model, which then fits the reports with one state per place (unless `--reports-model` says otherwise):
intervals of exact inference would hold 90 %. A district is a run of cells around a random cell, by a distance that is
bent at random, so that its shape is no circle. `--known` tells the model what its prior leaves open: the level, how
much the field varies (the scale), or how every source errs; so it shows which prior makes intervals wide.
`--unrefined` takes draws of the Gaussian approximation as they are; `sweeps` shows what sweeps of the sampler change
in them.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import crowdfield as cf
from crowdfield import simulate
from crowdfield.data import Grid
from crowdfield.inference import refined_draws
from crowdfield.inference.communities import STRENGTH_RATE, log_dirichlet_multinomial
from crowdfield.inference.community_sampling import CommunityPrior
from crowdfield.inference.confusion_prior import FixedPrior
from crowdfield.inference.gibbs import Sampler
from crowdfield.inference.kernels import Matern32
from crowdfield.models.base import weakly_diagonal
from crowdfield.models.problem import (
    IN_QUESTION_LEVEL,
    IN_QUESTION_VARIANCE,
    LEVEL_VARIANCE,
    PSEUDO_SOURCES,
    default_scale_rate,
)

DISTRICTS = (10, 100, 1000)  # cells
SIDE = 60  # cells of a world along each side
LENGTHSCALE = 12.0  # cells
PER_SIZE = 2  # districts of each size in a world
MODELS = ("default", "named", "separate")
KNOWN = ("level", "scale", "sources")  # what a model may be told of the truth
CERTAIN_SCALE, CERTAIN_SOURCE = 1000.0, 300.0  # gamma shape and pseudo-counts of priors that are the truth
SWEEPS = (0, 1, 3, 7, 15, 40)  # after which draws are looked at


class Case(NamedTuple):
    """How worlds are drawn, and what fits their reports."""

    reports: int
    variance: float | None = 1 / 1.2  # of the field, the paper's; None: the world is drawn from the model's prior
    level: float = 0.0  # mean log odds of the field
    crowd: tuple[int, int, int] = (12, 8, 0)  # how many sources are reliable, noisy and biased
    model: str = "default"
    lengthscale: float | str = LENGTHSCALE  # of the model
    inference: str = "auto"
    reports_model: str | None = None
    scale_rate: float | None = None
    known: tuple[str, ...] = ()  # what the model is told of the truth
    draws: int = 200


@cache
def root() -> NDArray[np.float64]:
    """A square root of the covariance of all cells. It is the same in every world, and half of the work."""
    cells = Grid(west=0.0, east=SIDE, south=0.0, north=SIDE, columns=SIDE, rows=SIDE).centres()
    covariance = Matern32(LENGTHSCALE).covariance(cells, cells)
    return np.asarray(np.linalg.cholesky(covariance + 1e-8 * np.eye(len(cells))), dtype=np.float64)


class World(NamedTuple):
    """What is true in every cell, who reports, and what was said."""

    grid: Grid  # cells of side 1
    field: simulate.Field
    crowd: simulate.Crowd
    reports: cf.Reports  # at the centres of random cells


def world(seed: int, case: Case) -> World:
    """A world that is drawn anew."""
    rng = np.random.default_rng([seed, case.reports])
    variance, level = case.variance, case.level
    from_prior = variance is None
    if variance is None:
        mean, spread = (IN_QUESTION_LEVEL, IN_QUESTION_VARIANCE) if case.model == "named" else (0.0, LEVEL_VARIANCE)
        variance = default_scale_rate(2) / rng.standard_gamma(1.0)
        level = mean + np.sqrt(spread * variance) * rng.standard_normal()
    grid = Grid(west=0.0, east=SIDE, south=0.0, north=SIDE, columns=SIDE, rows=SIDE)
    f = level + np.sqrt(variance) * root() @ rng.standard_normal(grid.size)
    rho = expit(f)
    state = (rng.random(grid.size) < rho).astype(np.int64)
    field = simulate.Field(grid.centres(), f[:, None], np.stack([1.0 - rho, rho], axis=1), state, (0, 1))
    reliable, noisy, biased = case.crowd
    crowd = simulate.draw_crowd(reliable=reliable, noisy=noisy, biased=biased, states=2, rng=rng)
    if from_prior:
        prior = weakly_diagonal((0, 1), (0, 1))
        shared = prior if case.model == "separate" else population(prior, rng)
        drawn = rng.standard_gamma(shared, (len(crowd.confusion), 2, 2))
        crowd = replace(crowd, confusion=drawn / drawn.sum(2, keepdims=True))
    site = rng.integers(0, len(field), case.reports)
    return World(grid, field, crowd, simulate.draw_reports(field, crowd, site, rng=rng))


def population(base: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The prior that all sources of a crowd share, drawn from the hyperprior: pseudo-counts [J, L].

    Row by row, by rejection: under β ~ Exp(STRENGTH_RATE) the pseudo-sources' labels have the Dirichlet-multinomial as
    their likelihood, which is at most that of the best row π.
    """
    rows = []
    for said in base:
        most = PSEUDO_SOURCES * float(said @ np.log(said / said.sum()))
        while True:
            beta = rng.exponential(1.0 / STRENGTH_RATE, len(said))
            if np.log(rng.random()) < PSEUDO_SOURCES * log_dirichlet_multinomial(said, beta) - most:
                break
        rows.append(beta)
    return np.stack(rows)


def told(case: Case, crowd: simulate.Crowd) -> dict[str, Any]:
    """Settings of the model that replace some of its priors by the truth."""
    out: dict[str, Any] = {}
    if case.known and case.variance is None:
        raise SystemExit("--known needs worlds whose scale and level are given: leave out --from-prior.")
    if "level" in case.known:
        out["prior_mean"] = lambda places: np.full(len(places), case.level)  # a number of 0 would leave the level open
    if "scale" in case.known and case.variance is not None:
        out |= {"scale_shape": CERTAIN_SCALE, "scale_rate": CERTAIN_SCALE * case.variance}
    if "sources" in case.known:
        tables = CERTAIN_SOURCE * np.clip(crowd.confusion, 1e-3, 1.0)
        out["confusion_prior"] = dict(zip(crowd.sources, tables, strict=True))
    return out


def fitted(case: Case, crowd: simulate.Crowd, said: cf.Reports) -> cf.HeatmapBCC:
    """The model of a case, fitted to the reports of a world."""
    model = case.reports_model or ("one_state" if case.variance is None else "auto")
    settings: dict[str, Any] = {"reports_model": model, "lengthscale": case.lengthscale, "inference": case.inference}
    settings["scale_rate"] = case.scale_rate
    if case.model == "named":
        settings["states"] = (0, 1)
    if case.model == "separate":
        settings["confusion_prior"] = weakly_diagonal((0, 1), (0, 1))
    settings |= told(case, crowd)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cf.HeatmapBCC(**settings).fit(
            said.places, np.array(said.labels)[said.label], sources=np.array(said.sources)[said.source]
        )


def district(grid: Grid, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cells nearest to a random one, where east and north count differently and the border is bent."""
    centres = grid.centres()
    away = centres - centres[rng.integers(len(centres))]
    turn = rng.uniform(0.0, np.pi)
    along = away @ np.array([np.cos(turn), np.sin(turn)])
    across = away @ np.array([-np.sin(turn), np.cos(turn)])
    bend = 1.0 + 0.3 * np.sin(3.0 * np.arctan2(across, along) + rng.uniform(0.0, 6.0))
    return np.argsort(np.hypot(along, rng.uniform(1.0, 2.5) * across) * bend, kind="stable")[:size]


class Interval(NamedTuple):
    """A true total against its interval."""

    side: int  # -1 if the truth is below the interval, 1 if it is above, 0 if it is inside
    width: float  # as a share of the district


def intervals(seed: int, case: Case) -> tuple[dict[int, list[Interval]], str]:
    """The 90 % intervals of districts of every size in one world, and the model of reports that was fitted."""
    grid, field, crowd, said = world(seed, case)
    model = fitted(case, crowd, said)
    rng = np.random.default_rng(seed)
    sizes = [size for size in DISTRICTS for _ in range(PER_SIZE)]
    areas = [district(grid, size, rng) for size in sizes]
    weights = rng.lognormal(0.0, 0.5, len(field))  # households of each cell
    table = model.totals(field.places, areas, weights, random_state=seed, draws=case.draws)
    state = field.states[1]
    out: dict[int, list[Interval]] = {size: [] for size in DISTRICTS}
    for size, area, row in zip(sizes, areas, table.to_dict("records"), strict=True):
        true = float(weights[area] @ field.t[area])
        low, high = row[f"amount_low_{state}"], row[f"amount_high_{state}"]
        out[size].append(Interval(int(true > high) - int(true < low), (high - low) / row["weight"]))
    return out, model.reports_model_


def coverage(worlds: int, case: Case, first: int = 0) -> dict[str, Any]:
    """How often intervals of districts held the truth, over some worlds."""
    found: dict[int, list[Interval]] = {size: [] for size in DISTRICTS}
    fits: Counter[str] = Counter()
    for seed in range(first, first + worlds):
        some, name = intervals(seed, case)
        fits[name] += 1
        for size, rows in some.items():
            found[size] += rows
        if seed % 10 == 9:
            so_far = {size: round(float(np.mean([row.side == 0 for row in rows])), 3) for size, rows in found.items()}
            print(f"{seed + 1 - first} worlds, {case.reports} reports: held {so_far}", file=sys.stderr, flush=True)
    return {
        "worlds": worlds,
        "reports": case.reports,
        "variance": "from the prior" if case.variance is None else round(case.variance, 3),
        "level": "from the prior" if case.variance is None else case.level,
        "model": case.model,
        "known": sorted(case.known),
        "fitted": dict(fits),
        **{
            f"{size} cells": {
                "held": round(float(np.mean([row.side == 0 for row in rows])), 3),
                "truth below": round(float(np.mean([row.side < 0 for row in rows])), 3),
                "truth above": round(float(np.mean([row.side > 0 for row in rows])), 3),
                "mean width of the share": round(float(np.mean([row.width for row in rows])), 3),
            }
            for size, rows in found.items()
        },
    }


def sweeps(worlds: int, case: Case, first: int = 0) -> list[dict[str, Any]]:
    """What draws of q become after some sweeps: mean and deviation of log ς, deviation of the mean log odds of the
    map, its mean rate, and deviation of the mean rate of districts; means over worlds. The last row is close to the
    exact posterior."""
    found: dict[int, list[list[float]]] = {after: [] for after in SWEEPS}
    for seed in range(first, first + worlds):
        grid, field, crowd, said = world(seed, case)
        model = fitted(case._replace(reports_model="one_state"), crowd, said)
        rng = np.random.default_rng(seed)
        areas = [district(grid, cells, rng) for cells in DISTRICTS]
        start, posed = refined_draws.of_q(model._solved.fit.q, 200, rng), model._posed
        shared, prior = model._solved.fit.state.communities, None
        if shared is not None:
            prior = CommunityPrior(len(shared.beta), posed.base, posed.prior.alpha0, ~posed.own)
        sampler = Sampler(posed.data, posed.prior, start.basis, prior or FixedPrior(model._solved.fit.q.alpha0))
        features, mean = start.basis.features(field.places), posed.mean_at(field.places)[:, 0]
        for after in SWEEPS:
            state = refined_draws.moved(sampler, start, slice(None), after, rng, shared)
            f = state.weights[:, 0] @ features.T + mean
            scale, shares = np.log(state.scale), [expit(f[:, area]).mean(1).std() for area in areas]
            found[after].append([scale.mean(), scale.std(), f.mean(1).std(), expit(f).mean(), *shares])
    names = (
        "mean of log ς",
        "sd of log ς",
        "sd of the level",
        "mean of the rate",
        *(f"sd of the rate, {cells} cells" for cells in DISTRICTS),
    )
    return [
        {"reports": case.reports, "sweeps": after}
        | dict(zip(names, np.mean(rows, axis=0).round(3).tolist(), strict=True))
        for after, rows in found.items()
    ]


def size(
    cells: int,
    reports: int = 20_000,
    districts: int = 100,
    draws: int = 200,
    engine: str = "auto",
    reports_model: str = "auto",
) -> dict[str, Any]:
    """Seconds and memory of totals on a square map, with districts that are squares of it."""
    from benchmarks import worlds

    said = worlds.field(reports, 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cf.HeatmapBCC(lengthscale=1.0, engine=engine, reports_model=reports_model)
        model.fit(said.X, said.label, sources=said.source)
    side = round(cells**0.5)
    grid = Grid(west=0.0, east=10.0, south=0.0, north=10.0, columns=side, rows=side)
    blocks = round(districts**0.5)
    centres = grid.centres()
    areas = (centres // (10.0 / blocks)).astype(int) @ np.array([1, blocks])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, worked = time.perf_counter(), time.process_time()
    table = model.totals(centres, areas, draws=draws)
    seconds = time.perf_counter() - start
    return {
        "cells": len(centres),
        "districts": len(table),
        "draws": draws,
        "reports": reports,
        "engine": model.engine_,
        "reports_model": model.reports_model_,
        "seconds": round(seconds, 2),
        "processor_seconds": round(time.process_time() - worked, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "peak_mb_before": round(before / 1024),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks totals", description=__doc__)
    parser.add_argument("what", choices=("coverage", "sweeps", "size"))
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--reports", type=int, nargs="*", help="100, 400 and 1,500; of size 20,000")
    parser.add_argument("--variance", type=float, default=1 / 1.2, help="of the field; the paper's by default")
    parser.add_argument("--from-prior", action="store_true", help="field and crowd from the prior of the model")
    parser.add_argument("--level", type=float, default=0.0, help="mean log odds of the field")
    parser.add_argument("--crowd", type=int, nargs=3, default=(12, 8, 0), metavar=("RELIABLE", "NOISY", "BIASED"))
    parser.add_argument("--model", default="default", choices=MODELS, help="whose states or sources are which")
    parser.add_argument("--lengthscale", default=LENGTHSCALE, help='of the model, in cells; or "learn"')
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--inference", default="auto", choices=("auto", "vb", "gibbs"))
    parser.add_argument("--reports-model", default=None, choices=("auto", "one_state", "instrument"))
    parser.add_argument("--known", nargs="*", default=(), choices=KNOWN, help="what the model is told of the truth")
    parser.add_argument("--unrefined", action="store_true", help="draws of the Gaussian approximation as they are")
    parser.add_argument(
        "--most-sweeps", type=int, help="of the sampler, whatever they cost; the package's limits if not given"
    )
    parser.add_argument("--scale-rate", type=float, default=None, help="of the model; its default if not given")
    given = parser.parse_args(arguments)
    if given.unrefined:
        refined_draws.MOST_WORK = 0.0
    if given.most_sweeps is not None:
        refined_draws.MOST_SWEEPS, refined_draws.MOST_WORK = given.most_sweeps, 1e30
    if given.what == "size":
        for reports in given.reports or [20_000]:
            model = given.reports_model or "auto"
            print(json.dumps(size(given.cells, reports, draws=given.draws, engine=given.engine, reports_model=model)))
        return 0
    for reports in given.reports or [100, 400, 1500]:
        case = case_of(given, reports)
        rows = (
            sweeps(given.worlds, case, given.first)
            if given.what == "sweeps"
            else [coverage(given.worlds, case, given.first)]
        )
        for row in rows:
            print(json.dumps(row, ensure_ascii=False), flush=True)
    return 0


def case_of(given: argparse.Namespace, reports: int) -> Case:
    """The case that the command line describes."""
    return Case(
        reports=reports,
        variance=None if given.from_prior else given.variance,
        level=given.level,
        crowd=tuple(given.crowd),
        model=given.model,
        lengthscale="learn" if given.lengthscale == "learn" else float(given.lengthscale),
        inference=given.inference,
        reports_model=given.reports_model,
        scale_rate=given.scale_rate,
        known=tuple(given.known),
        draws=given.draws,
    )
