"""How far should log odds be expected to vary before any report: what a `scale_rate` does to maps of few reports.

    python -m benchmarks.prior_scale [--worlds 40] [--rates 1 4 10]

Simulated worlds in which the state is all but certain at most places: areas around a few points or behind a front, from
3 to 50 % of the map, told by good, poor or alarmed crowds. Excess is the cross entropy of the true states over all
cells, in bits, less that of quoting the share of the map that is in the second state; held is the share of true rates
within the 90 % interval, mean ± 1.645 standard deviations. The reports model is the paper's (`one_state`).
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning

SIDE = 40  # cells
SHARES = (0.03, 0.1, 0.3, 0.5)  # of the map in the second state
REPORTS, SOURCES = (60, 200, 600), (3, 10, 40)
SHARPNESS = 8.0  # standard deviation of the log odds
WIDTH = 1.645  # standard deviations on either side that hold 90 % of a normal distribution


class World(NamedTuple):
    """What is true in every cell, and what was said."""

    cells: Any  # [M, 2]
    rate: Any  # [M] probability of the second state
    state: Any  # [M]
    places: Any  # [R, 2]
    said: Any  # [R]
    source: Any  # [R]


def world(seed: int) -> World:
    rng = np.random.default_rng([15, seed])
    axis = np.arange(SIDE, dtype=float)
    cells = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    if seed % 2:
        centres = rng.uniform(0.0, SIDE, (4, 2))
        height = -np.linalg.norm(cells[:, None] - centres, axis=2).min(1)
    else:
        angle = rng.uniform(0.0, 2.0 * np.pi)
        height = cells @ np.array([np.cos(angle), np.sin(angle)])
    share = float(rng.choice(SHARES))
    log_odds = (height - np.quantile(height, 1.0 - share)) * SHARPNESS / height.std()
    rate = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -30.0, 30.0)))
    state = (rng.random(len(cells)) < rate).astype(int)
    sources, reports = int(rng.choice(SOURCES)), int(rng.choice(REPORTS))
    right = rng.beta(*((8.0, 1.5), (6.0, 3.5))[int(rng.integers(2))], (sources, 2))
    alarmed = rng.random(sources) < rng.choice([0.0, 0.5])
    right[alarmed] = np.column_stack([rng.uniform(0.1, 0.4, alarmed.sum()), np.full(alarmed.sum(), 0.95)])
    source, cell = rng.integers(0, sources, reports), rng.integers(0, len(cells), reports)
    true = rng.random(reports) < right[source, state[cell]]
    return World(cells, rate, state, cells[cell], np.where(true, state[cell], 1 - state[cell]), source)


def judged(made: World, scale_rate: float) -> tuple[float, float]:
    """Cross entropy in excess of quoting the share, in bits; the share of 90 % intervals that hold the true rate."""
    model = cf.HeatmapBCC(lengthscale="learn", states=[0, 1], reports_model="one_state", scale_rate=scale_rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(made.places, made.said, sources=made.source)
    p = np.clip(model.predict_proba(made.cells)[np.arange(len(made.cells)), made.state], 1e-9, 1.0)
    share = np.bincount(made.state, minlength=2) / len(made.state)
    base = -sum(s * np.log2(s) for s in share if s > 0.0)
    mean, sd = model.predict_rate(made.cells)
    held = np.abs(mean[:, 1] - made.rate) <= WIDTH * sd[:, 1]
    return float(-np.log2(p).mean() - base), float(held.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0, 4.0, 10.0])
    asked = parser.parse_args()
    print("| scale_rate | mean excess, bits | worst | worlds worse than the share by .05 | 90 % intervals hold |")
    print("|---|---|---|---|---|")
    for rate in asked.rates:
        found = np.array([judged(world(seed), rate) for seed in range(asked.worlds)])
        excess, held = found.T
        print(
            f"| {rate:g} | {excess.mean():+.3f} | {excess.max():+.2f} | {(excess > 0.05).sum()} of {len(excess)} "
            f"| {held.mean():.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
