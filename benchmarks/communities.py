"""Three hidden groups among many sources with few reports each: are they found, and does the map gain?

python benchmarks/communities.py --sets 3 --sources 500
"""

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

import crowdfield as cf
from crowdfield import metrics
from crowdfield.errors import ConvergenceWarning
from crowdfield.simulate import draw_field

# Careful people, guessers, and those who always raise the alarm: [group, state, label].
GROUPS = np.array([[[0.95, 0.05], [0.05, 0.95]], [[0.5, 0.5], [0.5, 0.5]], [[0.05, 0.95], [0.05, 0.95]]])
# `communities=1` is the default of the one-state model; "auto" chooses among it, separate matrices and instruments.
WAYS: dict[str, dict[str, Any]] = {
    "separate": {"confusion_prior": [[2, 1], [1, 2]]},
    "1": {},
    "3": {"communities": 3},
    "learn": {"communities": "learn"},
    "auto": {"reports_model": "auto"},
}
ENOUGH = 10  # reports after which a source should be known


class World(NamedTuple):
    grid: np.ndarray
    state: np.ndarray  # of every cell
    group: np.ndarray  # of every source
    reports: np.ndarray  # how many by each source
    X: np.ndarray
    y: np.ndarray
    source: np.ndarray


def draw(seed: int, sources: int, side: int = 40) -> World:
    """1 to 30 reports per source, 4 in the median, anywhere on a map of four length-scales."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2).astype(float)
    field = draw_field(grid, rng=rng, lengthscale=side / 4, inverse_scale=0.1)
    group = rng.integers(0, len(GROUPS), sources)
    count = np.clip(np.round(np.exp(rng.normal(np.log(4.0), 1.0, sources))), 1, 30).astype(int)
    source = np.repeat(np.arange(sources), count)
    place = rng.integers(0, len(grid), len(source))
    said = (rng.random(len(source)) < GROUPS[group[source], field.t[place], 1]).astype(int)
    return World(grid, field.t, group, count, grid[place], said, source)


def judge(world: World, settings: dict[str, Any]) -> tuple[float, float | None, int]:
    """Cross entropy over all cells, adjusted Rand index of the well-known sources, number of communities."""
    model = cf.HeatmapBCC(
        lengthscale=np.ptp(world.grid[:, 0]) / 4, **{"reports_model": "one_state", "random_state": 0, **settings}
    )
    model.fit(world.X, world.y, world.source)
    entropy = metrics.cross_entropy(world.state.astype(float), model.predict_proba(world.grid)[:, 1])
    if model.communities_ is None:
        return entropy, None, 0
    found = model.source_table().set_index("source").community.loc[np.arange(len(world.group))].to_numpy()
    known = world.reports >= ENOUGH
    rand = float(adjusted_rand_score(world.group[known], found[known]))
    return entropy, rand, len(model.communities_.beta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--sources", type=int, default=500)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for seed in range(given.first, given.first + given.sets):
        world = draw(seed, given.sources)
        parts = []
        for name, settings in WAYS.items():
            entropy, rand, k = judge(world, settings)
            parts.append(f"{name}: {entropy:.3f} bits" + (f", Rand {rand:.2f}, k = {k}" if rand is not None else ""))
        print(f"{seed}: {len(world.y)} reports   " + "   ".join(parts), flush=True)


if __name__ == "__main__":
    main()
