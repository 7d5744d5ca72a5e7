"""A few reports of a rare state: what the one-state model's priors of level, crowd and scale do to the map.

    python -m benchmarks.rare_states [--first 0] [--worlds 40] [--crowd alarmed|careless] [--by share crowd reports]
    python -m benchmarks.rare_states --ways default --rates 1 10

Simulated worlds in which the state is all but certain at most places: areas around a few points or behind a front, from
3 to 50 % of the map, told by good or poor sources; in half of the worlds about half of the crowd leans, that is, raises
false alarms (`--crowd alarmed`) or overlooks most of what there is (`--crowd careless`). Excess is the cross entropy of
the true states over all cells, in bits, less that of quoting the share of the map that is in the second state. An
interval is mean ± 1.645 standard deviations of the rate of the second state.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning

SIDE = 40  # cells
SHARES = (0.03, 0.1, 0.3, 0.5)  # of the map in the second state
REPORTS, SOURCES = (60, 200, 600), (3, 10, 40)
SHARPNESS = 8.0  # standard deviation of the log odds
WIDTH = 1.645  # standard deviations on either side that hold 90 % of a normal distribution
WORSE = (0.05, 0.3)  # bits of excess: a map that is worse than the share, and one that misleads

# What is compared; "default" is what `states=[ordinary, in question]` gives with the one-state model.
WAYS: dict[str, dict[str, Any]] = {
    "default": {"states": [0, 1]},
    "unnamed": {},
    "reversed": {"states": [1, 0]},
    "separate": {"states": [0, 1], "confusion_prior": [[2, 1], [1, 2]]},
    "unnamed, separate": {"confusion_prior": [[2, 1], [1, 2]]},
    "learn": {"states": [0, 1], "communities": "learn"},
    "auto": {"states": [0, 1], "reports_model": "auto"},
}


class World(NamedTuple):
    """What is true in every cell, and what was said."""

    cells: Any  # [M, 2]
    rate: Any  # [M] probability of the second state
    state: Any  # [M]
    places: Any  # [R, 2]
    said: Any  # [R]
    source: Any  # [R]
    kind: dict[str, str]  # what it was drawn as


class Judged(NamedTuple):
    """How good a map is."""

    excess: float  # cross entropy in excess of quoting the share, bits
    held: float  # share of 90 % intervals that hold the true rate


def world(seed: int, crowd: str = "alarmed") -> World:
    """The same map, places and sources with either crowd; those who lean do so the one way or the other."""
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
    good = int(rng.integers(2)) == 0
    right = rng.beta(*((8.0, 1.5) if good else (6.0, 3.5)), (sources, 2))
    leaning_share = float(rng.choice([0.0, 0.5]))
    leaning = rng.random(sources) < leaning_share
    lean = np.column_stack([rng.uniform(0.1, 0.4, leaning.sum()), np.full(leaning.sum(), 0.95)])
    right[leaning] = lean if crowd == "alarmed" else lean[:, ::-1]
    source, cell = rng.integers(0, sources, reports), rng.integers(0, len(cells), reports)
    true = rng.random(reports) < right[source, state[cell]]
    kind = {
        "share": f"{share:.0%}",
        "crowd": crowd if leaning_share else "good" if good else "poor",
        "reports": str(reports),
    }
    return World(cells, rate, state, cells[cell], np.where(true, state[cell], 1 - state[cell]), source, kind)


def judged(made: World, settings: dict[str, Any]) -> Judged:
    model = cf.HeatmapBCC(**{"lengthscale": "learn", "reports_model": "one_state", "random_state": 0, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(made.places, made.said, sources=made.source)
    column = [list(model.classes_).index(state) for state in (0, 1)]
    predicted = model.predict_proba(made.cells)[:, column]
    p = np.clip(predicted[np.arange(len(made.cells)), made.state], 1e-9, 1.0)
    share = np.bincount(made.state, minlength=2) / len(made.state)
    base = -sum(s * np.log2(s) for s in share if s > 0.0)
    mean, sd = model.predict_rate(made.cells)
    held = np.abs(mean[:, column[1]] - made.rate) <= WIDTH * sd[:, column[1]]
    return Judged(float(-np.log2(p).mean() - base), float(held.mean()))


def summary(way: str, found: list[Judged]) -> str:
    """A row of the table."""
    excess, held = np.array(found).T
    worse = " | ".join(f"{(excess > limit).sum()}" for limit in WORSE)
    return f"| {way} | {excess.mean():+.3f} | {excess.max():+.2f} | {worse} | {held.mean():.0%} |"


def by_kind(worlds: list[World], found: dict[str, list[Judged]], names: list[str]) -> None:
    """Mean excess and how many maps mislead, for every kind of world."""
    values = [sorted({made.kind[name] for made in worlds}, key=_numbers_first) for name in names]
    print(f"\n| {' | '.join(names)} | worlds | {' | '.join(found)} |")
    print("|---" * (len(names) + 1 + len(found)) + "|")
    for chosen in product(*values):
        rows = [i for i, made in enumerate(worlds) if tuple(made.kind[name] for name in names) == chosen]
        if not rows:
            continue
        cells = []
        for each in found.values():
            excess = np.array([each[i].excess for i in rows])
            cells.append(f"{excess.mean():+.3f}, {(excess > WORSE[-1]).sum()}")
        print(f"| {' | '.join(chosen)} | {len(rows)} | {' | '.join(cells)} |")


def _numbers_first(value: str) -> tuple[float, str]:
    number = value.removesuffix("%")
    return (float(number) if number.isdigit() else np.inf, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--crowd", choices=["alarmed", "careless"], default="alarmed", help="how those who lean do so")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--rates", type=float, nargs="+", default=[], help="the default with these scale_rates, too")
    parser.add_argument("--by", nargs="+", choices=["share", "crowd", "reports"], help="mean excess by kind of world")
    asked = parser.parse_args()
    ways = {name: WAYS[name] for name in asked.ways}
    ways |= {f"scale_rate={rate:g}": {**WAYS["default"], "scale_rate": rate} for rate in asked.rates}
    worlds = [world(seed, asked.crowd) for seed in range(asked.first, asked.first + asked.worlds)]
    print(f"{len(worlds)} worlds")
    print(f"| way | mean excess, bits | worst | {' | '.join(f'worse by {w:g}' for w in WORSE)} | 90 % intervals hold |")
    print("|---" * (4 + len(WORSE)) + "|")
    found = {}
    for name, settings in ways.items():
        found[name] = [judged(made, settings) for made in worlds]
        print(summary(name, found[name]), flush=True)
    if asked.by:
        by_kind(worlds, found, asked.by)


if __name__ == "__main__":
    main()
