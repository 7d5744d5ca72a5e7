"""Three ways to the posterior, on data drawn from the model:  python -m benchmarks.inference [DATASETS] [SIZES...]

The paper's synthetic setting with half of the reporters noisy. For every size and inference: NLPD of ρ and cross
entropy of t in bits, AUC, calibration error, and processor seconds of one fit; means over the data sets.
"""

from __future__ import annotations

import sys
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


def main(datasets: int, sizes: list[int]) -> None:
    print(f"{'n':>5} {'inference':<20} {'NLPD':>7} {'cross entropy':>14} {'AUC':>6} {'calibration':>12} {'seconds':>8}")
    simulations = [simulate(MOST_REPORTS, rng=np.random.default_rng([2017, d])) for d in range(datasets)]
    for n in sizes:
        for name, way in WAYS.items():
            rows = []
            for seed, simulation in enumerate(simulations):
                reports, truth = simulation.reports, simulation.truth
                model = cf.HeatmapBCC(lengthscale=20.0, confusion_prior=[[2, 1], [1, 2]], random_state=seed, **way)
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(reports.places[:n], reports.label[:n], sources=reports.source[:n])
                seconds = time.process_time() - start
                rate, sd = model.predict_rate(truth.places)
                p = model.predict_proba(truth.places)
                rows.append(
                    (
                        metrics.nlpd_beta(truth.rho[:, 1], rate[:, 1], sd[:, 1] ** 2),
                        metrics.cross_entropy(truth.t, p),
                        metrics.auc(truth.t, p[:, 1]),
                        metrics.calibration_error(truth.t, p[:, 1]),
                        seconds,
                    )
                )
            nlpd, entropy, auc, calibration, seconds = np.mean(rows, axis=0)
            print(
                f"{n:>5} {name:<20} {nlpd:7.2f} {entropy:14.3f} {auc:6.3f} {calibration:12.3f} {seconds:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    main(numbers[0] if numbers else 5, numbers[1:] or [100, 400, 1000, 2400])
