"""What areas are worth to exact inference: a Gibbs sampler for the sets of `benchmarks.report_kinds areas`.

    python -m benchmarks.area_posterior [--sets 25] [--side 1.5] [--places 600] [--learned]

Sources and the variance of the field are known, so that only the likelihood is judged: reports about areas against the
same reports about their centroids; or learned, under the priors of the default inference, so that what is left is its
approximation. Cross entropy in bits, as there.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from polyagamma import random_polyagamma

from benchmarks.report_kinds import FIELD_SD, LENGTHSCALE, World, area_reports, sigmoid
from crowdfield.inference.blur import Blurred
from crowdfield.inference.kernels import kernel

RIGHT, WRONG, SHAPE, RATE = 2.0, 1.0, 1.0, 4.0  # the default priors: pseudo-counts of sources; of the precision of f
SWEEPS, BURN_IN = 500, 100
KEPT = 1e-5  # of the largest eigenvalue of the sites' covariance: smaller ones are left out
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


class Reported(NamedTuple):
    """What is said of each place and by whom [N], and how often each source is right [S]."""

    label: Any
    source: Any
    right: Any


def rates(sites: Any, grid: Any, said: Reported, rng: np.random.Generator, *, learned: bool) -> Any:
    """E[ρ] on the grid [M]. sites [N, 3], grid [M, 3]: places with their standard deviation; learned: sources and the
    precision of the field are sampled too, else they are those of the world."""
    covariance = Blurred(kernel("matern32", LENGTHSCALE), 2).covariance
    value, vector = np.linalg.eigh(covariance(sites, sites))
    value, vector = value[value > KEPT * value[-1]], vector[:, value > KEPT * value[-1]]
    features = vector * np.sqrt(value)
    there = covariance(grid, sites) @ vector / np.sqrt(value)
    sd = np.sqrt(np.maximum(1.0 - (there**2).sum(1), 0.0))
    f, total, scale = np.zeros(len(sites)), np.zeros(len(grid)), 1.0 / FIELD_SD**2
    right = np.stack([said.right, said.right], axis=1)  # [S, 2] how often each source is right in each state
    for sweep in range(BURN_IN + SWEEPS):
        here = right[said.source]
        so = np.where(said.label == 1, here[:, 1], 1.0 - here[:, 1]) * sigmoid(f)
        not_so = np.where(said.label == 0, here[:, 0], 1.0 - here[:, 0]) * sigmoid(-f)
        state = rng.random(len(f)) < so / (so + not_so)
        omega = random_polyagamma(1.0, f, random_state=rng)
        precision = (features.T * omega) @ features + scale * np.eye(len(value))
        root = np.linalg.cholesky(precision)
        w = np.linalg.solve(precision, features.T @ (state - 0.5))
        w += np.linalg.solve(root.T, rng.standard_normal(len(w)))
        f = features @ w
        if learned:
            counts = np.zeros((*right.shape, 2))
            np.add.at(counts, (said.source, state.astype(int), (said.label == state).astype(int)), 1.0)
            right = rng.beta(RIGHT + counts[..., 1], WRONG + counts[..., 0])
            scale = rng.gamma(SHAPE + 0.5 * len(w)) / (RATE + 0.5 * w @ w)
        if sweep >= BURN_IN:
            total += sigmoid((there @ w)[:, None] + sd[:, None] / np.sqrt(scale) * NODES) @ WEIGHTS / WEIGHTS.sum()
    return total / SWEEPS


def cross_entropy(made: World, p: Any) -> float:
    return float(-(made.rate * np.log2(p) + (1.0 - made.rate) * np.log2(1.0 - p)).mean())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.area_posterior", description=__doc__)
    parser.add_argument("--sets", type=int, default=25)
    parser.add_argument("--side", type=float, default=1.5, help="of a tile, in length-scales")
    parser.add_argument("--places", type=int, default=600)
    parser.add_argument("--learned", action="store_true", help="sample sources and the field's precision, too")
    given = parser.parse_args(arguments)
    found = []
    for seed in range(given.sets):
        made, centre, side, label, source, accuracy = area_reports(seed, given)
        grid, rng = np.column_stack([made.grid, np.zeros(len(made.grid))]), np.random.default_rng(seed)
        reach = (side / np.sqrt(12.0), 0.0)
        sites = [np.column_stack([centre, np.full(len(centre), sd)]) for sd in reach]
        said = Reported(label, source, accuracy)
        found.append([cross_entropy(made, rates(at, grid, said, rng, learned=given.learned)) for at in sites])
        print(f"{seed:3d}  areas {found[-1][0]:.4f}  centroids {found[-1][1]:.4f} bits", flush=True)
    areas, centroids = np.array(found).T
    print(f"better in {int((areas < centroids).sum())} of {len(areas)}")
    print(f"mean cross entropy {areas.mean():.4f} against {centroids.mean():.4f} bits")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
