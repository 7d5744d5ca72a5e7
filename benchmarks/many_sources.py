"""Many sources of two kinds on one large map: a prior learned from the crowd beside a prior that is given.

    python -m benchmarks.many_sources [REPORTS ...]

The worlds of `growth_collapsed`: half of the sources are right nine times in ten, half toss a coin. For every size and
prior: processor seconds and passes of one fit with the length-scale known, the correlation with the true rates, NLPD of
the rates in bits, how much too high they are on average, and the total of each row of the learned prior, which says how
much alike the sources are taken to be (the two kinds are as different as a total of about 6).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import crowdfield as cf
from benchmarks import worlds
from benchmarks.cases import measured
from crowdfield.metrics import cross_entropy, nlpd_beta

PRIORS: dict[str, Any] = {"learned": None, "given": [[2, 1], [1, 2]]}
SOURCES = {20_000: 400}  # else at most 1,000, with fifty reports each or more
LOOKED_AT = 20_000  # places


def row(size: int, name: str) -> str:
    """One line of the table."""
    world = worlds.field(size, SOURCES.get(size, min(1000, max(10, size // 50))))
    model = cf.HeatmapBCC(lengthscale=1.0, reports_model="one_state", confusion_prior=PRIORS[name], random_state=0)
    _, took = measured(lambda: model.fit(world.X, world.label, sources=world.source))
    some = np.random.default_rng(1).choice(size, min(size, LOOKED_AT), replace=False)
    mean, sd = model.predict_rate(world.X[some])
    p, rate = mean[:, 1], world.rate[some]
    totals = "" if model.communities_ is None else " ".join(f"{t:.0f}" for t in model.communities_.beta[0].sum(-1))
    return (
        f"| {size:,} | {name} | {took['cpu_seconds']:.1f} | {model.n_iter_} | {np.corrcoef(p, rate)[0, 1]:.4f} | "
        f"{nlpd_beta(rate, p, sd[:, 1] ** 2):.2f} | {cross_entropy(world.truth[some], p):.4f} | "
        f"{(p - rate).mean():+.3f} | {totals} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=int, nargs="*", default=[20_000, 100_000])
    sizes = parser.parse_args().reports
    print("| reports | prior | processor s | passes | correlation | NLPD | cross entropy | too high | totals |")
    print("|---" * 9 + "|")
    for size in sizes:
        for name in PRIORS:
            print(row(size, name), flush=True)


if __name__ == "__main__":
    main()
