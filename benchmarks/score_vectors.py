"""What a classifier's probability vectors of three states are worth beside people, and whether a bad one is found out.

    python -m benchmarks.score_vectors [--sets 25] [--machine calibrated | overconfident | useless] [--places 150]

Simulated worlds with known fields. Every set is fitted three times: with the vectors, with the label that each vector
makes most probable, and without the machine. Cross entropy is of the true state probabilities on a grid, in bits; lower
is better.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import crowdfield as cf
from benchmarks.report_kinds import EXTENT, FIELD_SD, LENGTHSCALE, MACHINES
from crowdfield.inference.instrument.several.scores import state_scores
from crowdfield.inference.kernels import kernel
from crowdfield.inference.quadrature import softmax

STATES = [0, 1, 2]


def one_set(seed: int, given: argparse.Namespace) -> tuple[float, float, float, float]:
    """Cross entropy told, with labels only, without the machine; and the noise that was found."""
    rng = np.random.default_rng([180, seed])
    n, h = given.places, state_scores(3)
    axis = np.arange(1.0, EXTENT, 2.0)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    X = rng.uniform(0.0, EXTENT, (n, 2))
    K = kernel("matern32", LENGTHSCALE).covariance(np.vstack([X, grid]), np.vstack([X, grid]))
    f = FIELD_SD * np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ rng.standard_normal((len(K), 2))
    g, rate = f[:n] + rng.standard_normal((n, 2)), softmax(f[n:] @ h.T)
    site, source = np.repeat(np.arange(n), 3), rng.integers(0, 20, 3 * n)
    alpha, lean = rng.normal(1.0, 0.4, 20), rng.normal(0.0, 0.5, (20, 3))
    p = softmax(alpha[source, None] * (g[site] @ h.T) + lean[source])
    label = (rng.random((3 * n, 1)) > p.cumsum(1)).sum(1)
    gain, noise = MACHINES[given.machine]
    said = softmax((gain * g + noise * rng.standard_normal((n, 2))) @ h.T)
    places, who = np.vstack([X[site], X]), np.concatenate([source, np.full(n, 99)])
    labels, vectors = np.concatenate([label, said.argmax(1)]), np.vstack([np.full((3 * n, 3), np.nan), said])

    def cross_entropy(model: Any) -> float:
        return float(-(rate * np.log2(np.clip(model.predict_proba(grid), 1e-12, 1.0))).sum(1).mean())

    def model() -> cf.HeatmapBCC:
        return cf.HeatmapBCC(lengthscale=LENGTHSCALE, states=STATES, reports_model="instrument")

    told = model().fit(places, labels, who, scores=vectors)
    hard = model().fit(places, labels, who)
    alone = model().fit(places[: 3 * n], labels[: 3 * n], who[: 3 * n])
    found = float(told.source_table().set_index("source").loc[99, "noise"])
    return cross_entropy(told), cross_entropy(hard), cross_entropy(alone), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=25)
    parser.add_argument("--machine", choices=list(MACHINES), default="calibrated")
    parser.add_argument("--places", type=int, default=150)
    given = parser.parse_args()
    results = np.array([one_set(seed, given) for seed in range(given.sets)])
    told, hard, alone, found = results.T
    print(f"{given.machine}: vectors {told.mean():.4f}, labels {hard.mean():.4f}, people alone {alone.mean():.4f} bits")
    print(
        f"vectors better than labels in {int((told < hard).sum())} of {given.sets} sets, than people alone in ", end=""
    )
    print(f"{int((told < alone).sum())}; noise found {found.mean():.2f} (made with {MACHINES[given.machine][1]:g})")


if __name__ == "__main__":
    main()
