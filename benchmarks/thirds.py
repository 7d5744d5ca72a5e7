"""Would the comparison of models have chosen differently, had it not ended early? On parts of crowds: after every third
that is left out it is noted what would be chosen, and whether that is called clear.

python benchmarks/thirds.py --data DIR      (real crowds are skipped where DIR/real does not have them)
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import crowdfield as cf
from crowdfield.experiments import crowds, synthetic
from crowdfield.models import comparison
from crowdfield.models.comparison import Compared, Comparison

FEWEST = (30, 60, 100, 200, 300)  # left-out reports after which the comparison may end
SIMULATED, REAL = (200, 400, 700), (250, 450, 800)  # reports

Steps = list[tuple[Comparison, int]]


class Asked(Exception):
    """Stops a fit when it is about to compare, with the arguments of the comparison."""


def stop(*arguments: Any) -> None:
    raise Asked(*arguments)


def steps(model: cf.HeatmapBCC, places: Any, labels: Any, sources: Any) -> Steps:
    """The comparison after each third; empty where the fit needs none."""
    with warnings.catch_warnings(), patch.object(comparison, "compare", stop):
        warnings.simplefilter("ignore")
        try:
            model.fit(places, labels, sources=sources)
        except Asked as asked:
            arguments = asked.args
        else:
            return []
    model, setup, given = arguments
    return list(Compared.on(model, setup, given, comparison.COMPARED_PLACES[0]).after_every_part())


def simulated(count: int) -> Iterator[tuple[str, Callable[[], Steps]]]:
    """The paper's setting."""
    for seed in range(10, 10 + count):
        reports = synthetic.world("50 % noisy", np.random.default_rng(seed)).reports
        for n in SIMULATED:
            said = reports.take(np.arange(n))
            model = cf.HeatmapBCC(
                lengthscale=synthetic.LENGTHSCALE,
                confusion_prior=synthetic.CONFUSION,
                states=(0, 1),
                random_state=0,
            )
            yield "simulated", partial(steps, model, said.places, said.label, said.source)


def real(count: int) -> Iterator[tuple[str, Callable[[], Steps]]]:
    """All reports about some places of real crowds."""
    for name, votes in (("cayes", None), ("cayes", 2), ("cayes", 1), ("heron", None), ("mturk", None)):
        if name not in crowds.at_hand():
            continue
        crowd = crowds.crowd(name, votes)
        _, site = np.unique(crowd.X, axis=0, return_inverse=True)
        for seed in range(count):
            turn = np.random.default_rng(seed).permutation(site.max() + 1)
            for n in REAL:
                rows = np.argsort(turn[site.ravel()], kind="stable")[:n]
                model = cf.HeatmapBCC(lengthscale="learn", states=crowd.states, labels=crowd.labels, random_state=0)
                yield (
                    f"{name}, {votes or 'all'} votes",
                    partial(steps, model, crowd.X[rows], crowd.label[rows], crowd.source[rows]),
                )


def ended(found: Steps, fewest: int) -> tuple[str, int]:
    """What is chosen where the comparison may end after so many reports, and after how many thirds."""
    for thirds, (each, left_out) in enumerate(found, 1):
        if left_out >= fewest and each.is_clear:
            return each.better, thirds
    return found[-1][0].better, len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the real crowds")
    parser.add_argument("--simulated", type=int, default=12, help="simulated crowds")
    parser.add_argument("--parts", type=int, default=8, help="parts of every real crowd")
    asked = parser.parse_args()
    if asked.data:
        os.environ["CROWDFIELD_DATA"] = asked.data
    found: dict[str, list[Steps]] = {}
    for made in (simulated(asked.simulated), real(asked.parts)):
        for name, run in made:
            if after := run():
                found.setdefault(name, []).append(after)
    for fewest in FEWEST:
        for name, every in found.items():
            ends = [ended(each, fewest) for each in every]
            other = sum(choice != each[-1][0].better for (choice, _), each in zip(ends, every, strict=True))
            thirds = np.mean([t for _, t in ends])
            print(
                f"from {fewest} reports on; {name}: {len(every)} crowds, {other} differ, {thirds:.2f} thirds",
                flush=True,
            )


if __name__ == "__main__":
    main()
