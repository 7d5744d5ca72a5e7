"""What areas are worth to exact inference: a Gibbs sampler for the sets of `benchmarks.report_kinds areas`.

    python -m benchmarks.area_posterior [--sets 25] [--side 1.5] [--places 600]

Sources and the variance of the field are known, so that only the likelihood is judged: reports about areas against the
same reports about their centroids. Cross entropy in bits, as there.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from polyagamma import random_polyagamma

from benchmarks.report_kinds import FIELD_SD, LENGTHSCALE, World, area_reports, sigmoid
from crowdfield.inference.blur import Blurred
from crowdfield.inference.kernels import kernel

SWEEPS, BURN_IN = 500, 100
KEPT = 1e-5  # of the largest eigenvalue of the sites' covariance: smaller ones are left out
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def rates(sites: Any, grid: Any, right: Any, label: Any, rng: np.random.Generator) -> Any:
    """E[ρ] on the grid [M]. sites [N, 3], grid [M, 3]: places with their standard deviation; right [N]: how often the
    source of each report is right."""
    covariance = Blurred(kernel("matern32", LENGTHSCALE), 2).covariance
    value, vector = np.linalg.eigh(FIELD_SD**2 * covariance(sites, sites))
    value, vector = value[value > KEPT * value[-1]], vector[:, value > KEPT * value[-1]]
    features = vector * np.sqrt(value)
    there = FIELD_SD**2 * covariance(grid, sites) @ vector / np.sqrt(value)
    sd = np.sqrt(np.maximum(FIELD_SD**2 - (there**2).sum(1), 0.0))
    said_if_so = np.where(label == 1, right, 1.0 - right)
    f, total = np.zeros(len(label)), np.zeros(len(grid))
    for sweep in range(BURN_IN + SWEEPS):
        so, not_so = said_if_so * sigmoid(f), (1.0 - said_if_so) * sigmoid(-f)
        state = rng.random(len(f)) < so / (so + not_so)
        omega = random_polyagamma(1.0, f, random_state=rng)
        precision = (features.T * omega) @ features + np.eye(len(value))
        root = np.linalg.cholesky(precision)
        w = np.linalg.solve(precision, features.T @ (state - 0.5))
        w += np.linalg.solve(root.T, rng.standard_normal(len(w)))
        f = features @ w
        if sweep >= BURN_IN:
            total += sigmoid((there @ w)[:, None] + sd[:, None] * NODES) @ WEIGHTS / WEIGHTS.sum()
    return total / SWEEPS


def cross_entropy(made: World, p: Any) -> float:
    return float(-(made.rate * np.log2(p) + (1.0 - made.rate) * np.log2(1.0 - p)).mean())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.area_posterior", description=__doc__)
    parser.add_argument("--sets", type=int, default=25)
    parser.add_argument("--side", type=float, default=1.5, help="of a tile, in length-scales")
    parser.add_argument("--places", type=int, default=600)
    given = parser.parse_args(arguments)
    found = []
    for seed in range(given.sets):
        made, centre, side, label, source, accuracy = area_reports(seed, given)
        grid, rng = np.column_stack([made.grid, np.zeros(len(made.grid))]), np.random.default_rng(seed)
        reach = (side / np.sqrt(12.0), 0.0)
        sites = [np.column_stack([centre, np.full(len(centre), sd)]) for sd in reach]
        found.append([cross_entropy(made, rates(at, grid, accuracy[source], label, rng)) for at in sites])
        print(f"{seed:3d}  areas {found[-1][0]:.4f}  centroids {found[-1][1]:.4f} bits", flush=True)
    areas, centroids = np.array(found).T
    print(f"better in {int((areas < centroids).sum())} of {len(areas)}")
    print(f"mean cross entropy {areas.mean():.4f} against {centroids.mean():.4f} bits")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
