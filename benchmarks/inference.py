"""Three ways to the posterior, on data drawn from the model:  python -m benchmarks.inference [DATASETS] [SIZES...]

The paper's synthetic setting with half of the reporters noisy, or another (`--setting`; `three` has three states). For
every size and inference: NLPD of ρ and cross entropy of t in bits, AUC, calibration error, and processor seconds of one
fit; means over the data sets, or medians (`--median`). With three states NLPD, AUC and calibration error are means over
the states, each against the others.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import crowdfield as cf
from crowdfield import metrics
from crowdfield.simulate import simulate

MOST_REPORTS = 2400  # drawn whatever sizes are asked for, so that a size's figures do not depend on the others
WAYS = {
    "vb, EKF (the paper)": dict(inference="vb", linearisation="ekf"),
    "vb, Pólya-Gamma": dict(inference="vb", linearisation="polya_gamma"),
    "collapsed": dict(inference="collapsed"),
    "gibbs": dict(inference="gibbs"),
}


SETTINGS = {
    "noisy": dict(reliable=10, noisy=10),
    "biased": dict(reliable=10, noisy=0, biased=10),
    "continuous": dict(reliable=10, noisy=10, continuous=True),
    "three": dict(reliable=10, noisy=10, states=3),
}


def main(datasets: int, sizes: list[int], setting: str, ways: list[str], median: bool) -> None:
    average = np.median if median else np.mean
    print(f"{'n':>5} {'inference':<20} {'NLPD':>7} {'cross entropy':>14} {'AUC':>6} {'calibration':>12} {'seconds':>8}")
    simulations = [
        simulate(MOST_REPORTS, rng=np.random.default_rng([2017, d]), **SETTINGS[setting]) for d in range(datasets)
    ]
    for n in sizes:
        for name in ways:
            way, rows = WAYS[name], []
            for seed, simulation in enumerate(simulations):
                reports, truth = simulation.reports, simulation.truth
                states = range(len(truth.states))
                judged = states if len(states) > 2 else [1]
                model = cf.HeatmapBCC(
                    lengthscale=20.0,
                    confusion_prior=1 + np.eye(len(states)),
                    scale_rate=1.0,
                    states=list(states),
                    reports_model="one_state",
                    random_state=seed,
                    **way,
                )
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(reports.places[:n], reports.label[:n], sources=reports.source[:n])
                seconds = time.process_time() - start
                rate, sd = model.predict_rate(truth.places)
                p = model.predict_proba(truth.places)
                rows.append(
                    (
                        np.mean([metrics.nlpd_beta(truth.rho[:, j], rate[:, j], sd[:, j] ** 2) for j in judged]),
                        metrics.cross_entropy(truth.t, p),
                        np.mean([metrics.auc(truth.t == j, p[:, j]) for j in judged]),
                        np.mean([metrics.calibration_error(truth.t == j, p[:, j]) for j in judged]),
                        seconds,
                    )
                )
            nlpd, entropy, auc, calibration, seconds = average(rows, axis=0)
            print(
                f"{n:>5} {name:<20} {nlpd:7.2f} {entropy:14.3f} {auc:6.3f} {calibration:12.3f} {seconds:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", type=int, nargs="?", default=5)
    parser.add_argument("sizes", type=int, nargs="*")
    parser.add_argument("--setting", choices=SETTINGS, default="noisy")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--median", action="store_true")
    given = parser.parse_args()
    main(given.datasets, given.sizes or [100, 400, 1000, 2400], given.setting, given.ways, given.median)
