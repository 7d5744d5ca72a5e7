"""How many labels does choosing where to look save? Strategies of `suggest` against random places.

A field and a crowd as in the paper's synthetic data; every strategy starts with the same few reports at random places,
then asks for one batch after another. Who answers is chance, as in a real crowd; but "whom" chooses that too, by
`suggest_sources`. The strategies share the state of every cell, so that they differ in nothing but where they look.

    python -m crowdfield.experiments.active --sets 25
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crowdfield import metrics
from crowdfield.arrays import Array
from crowdfield.errors import ConvergenceWarning, DataWarning
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.simulate import Simulation, simulate

STRATEGIES = ("information", "map", "variance", "entropy", "whom")
SIDE = 40  # cells across the paper's map
CANDIDATES = 400  # cells on offer in a round: a random quarter, which keeps the joint covariance small


@dataclass(frozen=True)
class Curve:
    """Cross entropy (bits, against the states of all cells) after so many reports."""

    reports: NDArray[np.int64]
    cross_entropy: Array


def learn(
    world: Simulation, strategy: str, *, start: int, end: int, batch: int, rng: np.random.Generator, noise: int
) -> Curve:
    """One strategy on one world. `noise` seeds the answers: the first reports are those of every other strategy."""
    cells, answers = world.truth, np.random.default_rng(noise)
    sources = np.arange(len(world.crowd.sources))
    model = HeatmapBCC(lengthscale=20.0, states=[0, 1], tol=1e-3, random_state=0)
    where, who = answers.integers(0, len(cells), start), answers.choice(sources, start)
    asked, score = 0, []
    sizes = []
    while True:
        said = (answers.random(len(where)) < world.crowd.confusion[who, cells.t[where], 1]).astype(int)
        model.partial_fit(cells.places[where], said, who)
        asked += len(where)
        sizes.append(asked)
        score.append(metrics.cross_entropy(cells.t.astype(float), model.predict_proba(cells.places)[:, 1]))
        if asked >= end:
            return Curve(np.array(sizes), np.array(score))
        offered = rng.choice(len(cells), CANDIDATES, replace=False)
        who = answers.choice(sources, batch)
        if strategy == "random":
            where = offered[:batch]
        elif strategy == "whom":
            who = np.array(model.suggest_sources(batch, random_state=rng))
            position = {source: i for i, source in enumerate(model.sources_seen_)}
            matrix = model.confusion_[[position[source] for source in who]].mean(0)
            where = offered[model.suggest(cells.places[offered], batch, source=matrix)[0]]
        else:
            where = offered[model.suggest(cells.places[offered], batch, score=strategy)[0]]


def labels_needed(curve: Curve, target: float) -> float:
    """Reports after which a curve is at the target for good, between batches by interpolation; infinite if never.

    Curves are rough, so each is first made to fall: the best monotone fit, which favours nobody.
    """
    smooth = -_isotonic(-curve.cross_entropy)
    below = np.flatnonzero(smooth <= target)
    if not len(below):
        return float("inf")
    i = int(below[0])
    if i == 0:
        return float(curve.reports[0])
    step = (smooth[i - 1] - target) / (smooth[i - 1] - smooth[i])
    return float(curve.reports[i - 1] + step * (curve.reports[i] - curve.reports[i - 1]))


def _isotonic(values: Array) -> Array:
    from sklearn.isotonic import isotonic_regression

    return np.asarray(isotonic_regression(values))


def curves(
    seed: int,
    strategies: Sequence[str] = STRATEGIES,
    *,
    start: int = 40,
    end: int = 400,
    batch: int = 40,
    side: int = SIDE,
) -> dict[str, Curve]:
    """Random choice and the strategies on one data set."""
    world = simulate(1, rng=np.random.default_rng(seed), places=(side, side))
    out = {}
    with warnings.catch_warnings():
        # The first batch may say the same of every cell, and an early map need not be settled to the last digit.
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for strategy in ("random", *strategies):
            rng = np.random.default_rng([seed, 1])
            out[strategy] = learn(world, strategy, start=start, end=end, batch=batch, rng=rng, noise=seed)
    return out


def average(sets: Sequence[Curve], of: Callable[[Array], Array]) -> Curve:
    """The mean or median curve. One data set's curve is too rough to ask when it crosses another."""
    return Curve(sets[0].reports, of(np.stack([c.cross_entropy for c in sets])))


def share(found: Sequence[dict[str, Curve]], strategy: str, end: int) -> float:
    """The share of `end` random labels after which a strategy is, in the median, as good as random choice with all."""
    middle = partial(np.median, axis=0)
    random = average([c["random"] for c in found], middle)
    target = -_isotonic(-random.cross_entropy)[np.searchsorted(random.reports, end)]
    return labels_needed(average([c[strategy] for c in found], middle), float(target)) / end


def own_share(found: dict[str, Curve], strategy: str, end: int) -> float:
    """The same on one data set: infinite where the strategy never gets there."""
    random = found["random"]
    target = -_isotonic(-random.cross_entropy)[np.searchsorted(random.reports, end)]
    return labels_needed(found[strategy], float(target)) / end


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sets", type=int, default=25)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--end", type=int, default=400)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    given = parser.parse_args(arguments)
    found = []
    for seed in range(given.first, given.first + given.sets):
        began = time.perf_counter()
        found.append(curves(seed, given.strategies, end=given.end, batch=given.batch))
        took = time.perf_counter() - began
        each = "  ".join(f"{name} {c.cross_entropy.mean():.3f}" for name, c in found[-1].items())
        print(f"{seed:3d}  mean over the curve: {each}  [{took:.0f} s]", flush=True)
        report(found, given.strategies)


def report(found: Sequence[dict[str, Curve]], strategies: Sequence[str]) -> None:
    """Print how many reports each strategy needs."""
    sizes = found[0]["random"].reports
    print(f"median cross entropy, bits, over {len(found)} data sets")
    print("reports      " + " ".join(f"{n:6d}" for n in sizes))
    for name in ("random", *strategies):
        print(f"{name:12s} " + " ".join(f"{x:6.3f}" for x in np.median([c[name].cross_entropy for c in found], axis=0)))
    half = int(sizes[len(sizes) // 2])
    for name in strategies:
        gain = [c["random"].cross_entropy.mean() - c[name].cross_entropy.mean() for c in found]
        error = np.std(gain) / np.sqrt(len(gain))
        print(
            f"{name:12s} needs {share(found, name, half):.2f} of {half} labels, "
            f"{share(found, name, int(sizes[-1])):.2f} of {sizes[-1]}; "
            f"median of the sets' own shares {np.median([own_share(c, name, int(sizes[-1])) for c in found]):.2f}; "
            f"mean gain over the curve {np.mean(gain):+.4f} ± {error:.4f} bits",
            flush=True,
        )


if __name__ == "__main__":
    main()
