"""Do intervals of district totals hold, and what do totals of a large map cost?

    python -m benchmarks totals coverage --worlds 200
    python -m benchmarks totals coverage --worlds 200 --reports 100 --from-prior [--inference gibbs] [--unrefined]
    python -m benchmarks totals coverage --worlds 40 --reports 100 --reports-model one_state --known scale sources
    python -m benchmarks totals sweeps --worlds 10 --reports 100 --from-prior
    python -m benchmarks totals size --cells 1000000

A world is a field, the states of all cells, a crowd and its reports, all drawn anew; the model is the default one. With
`--from-prior` the level, how much the field varies and how every source errs are drawn from the priors of the one-state
model, which then fits the reports (unless `--reports-model` says otherwise): intervals of exact inference would hold
90 %. A district is a run of cells around a random cell, by a distance that is bent at random, so that its shape is no
circle. `--known` tells the model what its prior leaves open: the level, how much the field varies (the scale), or how
every source errs; so it shows which prior makes intervals wide. `--unrefined` takes draws of the Gaussian approximation
as they are; `sweeps` shows what sweeps of the sampler change in them.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import crowdfield as cf
from crowdfield import simulate
from crowdfield.data import Grid
from crowdfield.inference import refined_draws
from crowdfield.inference.gibbs import Sampler
from crowdfield.inference.kernels import Matern32
from crowdfield.models.base import weakly_diagonal
from crowdfield.models.problem import LEVEL_VARIANCE, default_scale_rate

DISTRICTS = (10, 100, 1000)  # cells
SIDE = 60  # cells of a world along each side
LENGTHSCALE = 12.0  # cells
PER_SIZE = 2  # districts of each size in a world
KNOWN = ("level", "scale", "sources")  # what a model may be told of the truth
CERTAIN_SCALE, CERTAIN_SOURCE = 1000.0, 300.0  # gamma shape and pseudo-counts of priors that are the truth
SWEEPS = (0, 1, 3, 7, 15, 40)  # after which draws are looked at


@cache
def root() -> NDArray[np.float64]:
    """A square root of the covariance of all cells. It is the same in every world, and half of the work."""
    cells = Grid(west=0.0, east=SIDE, south=0.0, north=SIDE, columns=SIDE, rows=SIDE).centres()
    covariance = Matern32(LENGTHSCALE).covariance(cells, cells)
    return np.linalg.cholesky(covariance + 1e-8 * np.eye(len(cells)))


class World(NamedTuple):
    """What is true in every cell, who reports, and what was said."""

    grid: Grid  # cells of side 1
    field: simulate.Field
    crowd: simulate.Crowd
    reports: cf.Reports  # at the centres of random cells


def world(seed: int, reports: int, variance: float | None, level: float) -> World:
    """A world that is drawn anew.

    variance: of the field; None: it, the level and the crowd are drawn from the priors of the one-state model.
    """
    rng = np.random.default_rng([seed, reports])
    from_prior = variance is None
    if variance is None:
        variance = default_scale_rate(2) / rng.standard_gamma(1.0)
        level = np.sqrt(LEVEL_VARIANCE * variance) * rng.standard_normal()
    grid = Grid(west=0.0, east=SIDE, south=0.0, north=SIDE, columns=SIDE, rows=SIDE)
    f = level + np.sqrt(variance) * root() @ rng.standard_normal(grid.size)
    rho = expit(f)
    state = (rng.random(grid.size) < rho).astype(np.int64)
    field = simulate.Field(grid.centres(), f[:, None], np.stack([1.0 - rho, rho], axis=1), state, (0, 1))
    crowd = simulate.draw_crowd(reliable=12, noisy=8, states=2, rng=rng)
    if from_prior:
        drawn = rng.standard_gamma(weakly_diagonal((0, 1), (0, 1)), (len(crowd.confusion), 2, 2))
        crowd = replace(crowd, confusion=drawn / drawn.sum(2, keepdims=True))
    site = rng.integers(0, len(field), reports)
    return World(grid, field, crowd, simulate.draw_reports(field, crowd, site, rng=rng))


def told(known: Collection[str], crowd: simulate.Crowd, variance: float | None, level: float) -> dict[str, Any]:
    """Settings of the model that replace some of its priors by the truth."""
    out: dict[str, Any] = {}
    if known and variance is None:
        raise SystemExit("--known needs worlds whose scale and level are given: leave out --from-prior.")
    if "level" in known:
        out["prior_mean"] = lambda places: np.full(len(places), level)  # a number of 0 would leave the level open
    if "scale" in known and variance is not None:
        out |= {"scale_shape": CERTAIN_SCALE, "scale_rate": CERTAIN_SCALE * variance}
    if "sources" in known:
        tables = CERTAIN_SOURCE * np.clip(crowd.confusion, 1e-3, 1.0)
        out["confusion_prior"] = dict(zip(crowd.sources, tables, strict=True))
    return out


def district(grid: Grid, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cells nearest to a random one, where east and north count differently and the border is bent."""
    centres = grid.centres()
    away = centres - centres[rng.integers(len(centres))]
    turn = rng.uniform(0.0, np.pi)
    along = away @ np.array([np.cos(turn), np.sin(turn)])
    across = away @ np.array([-np.sin(turn), np.cos(turn)])
    bend = 1.0 + 0.3 * np.sin(3.0 * np.arctan2(across, along) + rng.uniform(0.0, 6.0))
    return np.argsort(np.hypot(along, rng.uniform(1.0, 2.5) * across) * bend, kind="stable")[:size]


def held(
    seed: int,
    reports: int,
    variance: float | None,
    level: float,
    scale_rate: float | None = None,
    draws: int = 200,
    inference: str = "auto",
    reports_model: str | None = None,
    known: Collection[str] = (),
) -> tuple[dict[int, list[tuple[bool, float]]], str]:
    """For every size of district: whether the 90 % interval holds the true total, and how wide it is. And the model of
    reports that was fitted."""
    grid, field, crowd, said = world(seed, reports, variance, level)
    if reports_model is None:
        reports_model = "one_state" if variance is None else "auto"
    settings: dict[str, Any] = {"lengthscale": LENGTHSCALE, "scale_rate": scale_rate, "inference": inference}
    if variance is None:
        settings["confusion_prior"] = weakly_diagonal((0, 1), (0, 1))  # which the crowd was drawn from
    settings |= told(known, crowd, variance, level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cf.HeatmapBCC(reports_model=reports_model, **settings)
        model.fit(said.places, np.array(said.labels)[said.label], sources=np.array(said.sources)[said.source])
    rng = np.random.default_rng(seed)
    sizes = [size for size in DISTRICTS for _ in range(PER_SIZE)]
    areas = [district(grid, size, rng) for size in sizes]
    weights = rng.lognormal(0.0, 0.5, len(field))  # households of each cell
    table = model.totals(field.places, areas, weights, random_state=seed, draws=draws)
    state = field.states[1]
    out: dict[int, list[tuple[bool, float]]] = {size: [] for size in DISTRICTS}
    for size, area, row in zip(sizes, areas, table.to_dict("records"), strict=True):
        true = float(weights[area] @ field.t[area])
        low, high = row[f"amount_low_{state}"], row[f"amount_high_{state}"]
        out[size].append((bool(low <= true <= high), (high - low) / row["weight"]))
    return out, model.reports_model_


def coverage(
    worlds: int,
    reports: int,
    variance: float | None,
    level: float,
    first: int = 0,
    scale_rate: float | None = None,
    draws: int = 200,
    inference: str = "auto",
    reports_model: str | None = None,
    known: Collection[str] = (),
) -> dict[str, Any]:
    found: dict[int, list[tuple[bool, float]]] = {size: [] for size in DISTRICTS}
    fitted: Counter[str] = Counter()
    for seed in range(first, first + worlds):
        holds, name = held(seed, reports, variance, level, scale_rate, draws, inference, reports_model, known)
        fitted[name] += 1
        for size, rows in holds.items():
            found[size] += rows
        if seed % 10 == 9:
            so_far = {size: round(float(np.mean([h for h, _ in rows])), 3) for size, rows in found.items()}
            print(f"{seed + 1 - first} worlds, {reports} reports: held {so_far}", file=sys.stderr, flush=True)
    return {
        "worlds": worlds,
        "reports": reports,
        "variance": "from the prior" if variance is None else round(variance, 3),
        "level": "from the prior" if variance is None else level,
        "known": sorted(known),
        "fitted": dict(fitted),
        **{
            f"{size} cells": {
                "held": round(float(np.mean([h for h, _ in rows])), 3),
                "mean width of the share": round(float(np.mean([w for _, w in rows])), 3),
            }
            for size, rows in found.items()
        },
    }


def sweeps(worlds: int, reports: int, variance: float | None, level: float, first: int = 0) -> list[dict[str, Any]]:
    """What draws of q become after some sweeps: mean and deviation of log ς, deviation of the mean log odds of the map
    and of the mean rate of districts; means over worlds. The last row is close to the exact posterior."""
    found: dict[int, list[list[float]]] = {after: [] for after in SWEEPS}
    for seed in range(first, first + worlds):
        grid, field, _, said = world(seed, reports, variance, level)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prior = weakly_diagonal((0, 1), (0, 1))
            model = cf.HeatmapBCC(lengthscale=LENGTHSCALE, reports_model="one_state", confusion_prior=prior).fit(
                said.places, np.array(said.labels)[said.label], sources=np.array(said.sources)[said.source]
            )
        rng = np.random.default_rng(seed)
        areas = [district(grid, cells, rng) for cells in DISTRICTS]
        drawn = refined_draws.of_q(model._solved.fit.q, 200, rng)
        sampler = Sampler(model._posed.data, model._posed.prior, drawn.basis)
        features = drawn.basis.features(field.places)
        for before, after in pairwise((0, *SWEEPS)):
            state = refined_draws.moved(sampler, drawn, slice(None), after - before, rng)
            drawn = drawn._replace(weights=state.weights, scale=state.scale, log_pi=state.log_pi.transpose(0, 1, 3, 2))
            f = state.weights[:, 0] @ features.T
            scale, shares = np.log(state.scale), [expit(f[:, area]).mean(1).std() for area in areas]
            found[after].append([scale.mean(), scale.std(), f.mean(1).std(), *shares])
    names = (
        "mean of log ς",
        "sd of log ς",
        "sd of the level",
        *(f"sd of the rate, {cells} cells" for cells in DISTRICTS),
    )
    return [
        {"reports": reports, "sweeps": after} | dict(zip(names, np.mean(rows, axis=0).round(3).tolist(), strict=True))
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
    parser.add_argument("--from-prior", action="store_true", help="field and crowd from the priors of the model")
    parser.add_argument("--level", type=float, default=0.0, help="mean log odds of the field")
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--inference", default="auto", choices=("auto", "vb", "gibbs"))
    parser.add_argument("--reports-model", default=None, choices=("auto", "one_state", "instrument"))
    parser.add_argument("--known", nargs="*", default=(), choices=KNOWN, help="what the model is told of the truth")
    parser.add_argument("--unrefined", action="store_true", help="draws of the Gaussian approximation as they are")
    parser.add_argument("--scale-rate", type=float, default=None, help="of the model; its default if not given")
    given = parser.parse_args(arguments)
    if given.unrefined:
        refined_draws.MOST_WORK = 0.0
    if given.what == "size":
        for reports in given.reports or [20_000]:
            model = given.reports_model or "auto"
            print(json.dumps(size(given.cells, reports, draws=given.draws, engine=given.engine, reports_model=model)))
        return 0
    for reports in given.reports or [100, 400, 1500]:
        settings = (given.first, given.scale_rate, given.draws, given.inference, given.reports_model, given.known)
        variance = None if given.from_prior else given.variance
        if given.what == "sweeps":
            for row in sweeps(given.worlds, reports, variance, given.level, given.first):
                print(json.dumps(row, ensure_ascii=False), flush=True)
            continue
        print(json.dumps(coverage(given.worlds, reports, variance, given.level, *settings)), flush=True)
    return 0
