"""Is the fast inference of the instrument model as calibrated as the exact posterior?

    python -m benchmarks.instrument [--sets 25] [--crowds few many] [--write docs/benchmarks/instrument.md]
    python -m benchmarks.instrument --why 150     where intervals of sources that miss the truth come from
    python -m benchmarks.instrument --calibration 400     ranks of simulation-based calibration of the sampler itself

Data sets are drawn from the instrument model and the priors that the fit assumes, save crowds that vary too much. For
every set and inference: NLPD (bits) of the state probability of places nobody reported on and of places reported on,
how many 90 % intervals of sensitivities and leans hold the truth, and processor seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2
from tests import simulated_instrument as simulated

import crowdfield as cf
from crowdfield import metrics
from crowdfield.inference.instrument import sampling
from crowdfield.inference.instrument.fitting import Prior
from crowdfield.inference.kernels import kernel

LENGTHSCALE = 3.0
MATERN = kernel("matern32", LENGTHSCALE)
LEVEL = 0.9  # of the intervals
SHAPE = RATE = 2.0  # of the inverse variance of the smooth part, when worlds are drawn and when they are fitted

# The most that the variance of sensitivities may be in a world: at 1, one source in six reads the wrong way round.
# Beyond, nobody can tell the right way from the wrong one, and the posterior has two halves.
MOST_VARIED = 1.0


class Crowd(NamedTuple):
    """How many places, sources and reports a world has, and how many places nobody reported on are scored."""

    places: int
    sources: int
    reports: int
    unseen: int = 150


CROWDS = {"few": Crowd(120, 6, 400), "many": Crowd(120, 60, 600)}
WAYS = {"fast": {}, "gibbs": {"inference": "gibbs"}}


class World(NamedTuple):
    X: Any  # [N, 2] those reported on come first
    truth: simulated.Truth
    site: Any
    source: Any
    label: Any


def draw(crowd: Crowd, seed: int) -> World:
    rng = np.random.default_rng([2026, seed])
    X = rng.uniform(0.0, 10.0, (crowd.places + crowd.unseen, 2))
    truth = simulated.draw(rng, MATERN, X, crowd.sources, 2, Prior(SHAPE, RATE))
    while truth.variance[0] > MOST_VARIED:
        truth = simulated.draw(rng, MATERN, X, crowd.sources, 2, Prior(SHAPE, RATE))
    site, source = rng.integers(0, crowd.places, crowd.reports), rng.integers(0, crowd.sources, crowd.reports)
    return World(X, truth, site, source, simulated.say(rng, truth.theta, truth.g, site, source))


def estimator(**way: Any) -> cf.HeatmapBCC:
    """An estimator with the priors that worlds are drawn from."""
    return cf.HeatmapBCC(
        lengthscale=LENGTHSCALE,
        reports_model="instrument",
        states=[0, 1],
        scale_shape=SHAPE,
        scale_rate=RATE,
        random_state=0,
        **way,
    )


def judge(world: World, crowd: Crowd, **way: Any) -> dict[str, float]:
    """NLPD of ρ at places not reported on and reported on; coverage; seconds; split-R̂ of the sampler."""
    model = estimator(**way)
    start = time.process_time()
    model.fit(world.X[world.site], world.label, sources=world.source)
    seconds = time.process_time() - start
    truth, unseen = world.truth, world.X[crowd.places :]
    rho = 1.0 / (1.0 + np.exp(-(truth.link[0] * truth.g + truth.link[1])))
    rate, sd = model.predict_rate(unseen)
    reported = model.at_reported_places()
    order = np.lexsort(world.X[: crowd.places].T[::-1])
    here = rho[: crowd.places][order][np.isin(order, np.unique(world.site))]
    table = model.source_table(LEVEL)
    theta = truth.theta[table["source"].to_numpy(dtype=int)]

    def holds(name: str, values: Any) -> float:
        return float(((table[f"{name}_low"] <= values) & (values <= table[f"{name}_high"])).mean())

    return {
        "nlpd": metrics.nlpd_beta(rho[crowd.places :], rate[:, 1], sd[:, 1] ** 2),
        "nlpd_reported": metrics.nlpd_beta(here, reported.probability[:, 1], reported.sd[:, 1] ** 2),
        "sensitivity": holds("sensitivity", theta[:, 0]),
        "lean": holds("lean", theta[:, 1]),
        "seconds": seconds,
        "rhat": model.diagnostics_.worst_rhat if way else np.nan,
    }


def compare(sets: int, names: list[str], ways: list[str]) -> list[str]:
    """Rows of a table, mean over the sets."""
    rows = [
        "| crowd | inference | NLPD, not reported | NLPD, reported | sensitivity in 90 % | lean in 90 % | seconds "
        "| worst R̂ |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        crowd = CROWDS[name]
        worlds = [draw(crowd, seed) for seed in range(sets)]
        for way in ways:
            found = [judge(world, crowd, **WAYS[way]) for world in worlds]
            mean = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
            worst = max(each["rhat"] for each in found)
            rows.append(
                f"| {name}: {crowd.sources} sources, {crowd.reports} reports | {way} | {mean['nlpd']:.3f} "
                f"| {mean['nlpd_reported']:.3f} | {mean['sensitivity']:.1%} | {mean['lean']:.1%} "
                f"| {mean['seconds']:.2f} | {worst:.3f} |"
            )
            print(rows[-1], flush=True)
    return rows


def why(sets: int, crowd: Crowd) -> None:
    """Of sensitivity and lean, by the fast inference: 90 % intervals that hold the truth, with the variances held and
    with what is not known of them; how far off the truth is in standard deviations; and how the learned variance of the
    crowd compares with the true one.
    """
    held, joint, off, ratio = [], [], [], []
    for seed in range(sets):
        world = draw(crowd, seed)
        model = estimator().fit(world.X[world.site], world.label, sources=world.source)
        fitted: Any = model._instrument
        error = world.truth.theta[np.asarray(model.sources_seen_, dtype=int)] - fitted.state.theta
        for found, sources in ((held, fitted.held.sources), (joint, fitted.joint.sources)):
            found.append(error / np.sqrt(np.einsum("sdd->sd", sources)))
        off.append(joint[-1].mean(0))
        ratio.append(np.log(fitted.state.variances.population.variance / world.truth.variance))
    inside = [[(np.abs(z) < 1.645).mean(0) for z in found] for found in (held, joint)]
    spread = np.mean([z.std(0) for z in joint], axis=0)
    for d, name in enumerate(("sensitivity", "lean")):
        coverage = np.array([each[d] for each in inside[1]])
        print(
            f"{name}: {np.mean([each[d] for each in inside[0]]):.1%} with variances held, "
            f"{coverage.mean():.1%} in all; "
            f"truth less estimate {np.mean(off, axis=0)[d]:+.2f} ± {spread[d]:.2f} standard deviations; "
            f"log of learned over true variance {np.mean(ratio, axis=0)[d]:+.2f} ± {np.std(ratio, axis=0)[d]:.2f}; "
            f"{coverage[np.argsort(np.array(ratio)[:, d])[: max(sets // 4, 1)]].mean():.1%} in the quarter of worlds "
            "where that is smallest"
        )


def calibrate(worlds: int) -> None:
    """The larger version of the test: p-values of uniform ranks."""
    from tests.inference.instrument.test_gibbs import ranks_of_one_world

    ranks = np.array([ranks_of_one_world(np.random.default_rng([4, seed]), sweeps=60) for seed in range(worlds)])
    for column in ranks.T:
        counts = np.bincount(column, minlength=20)
        print(f"{chi2.sf(((counts - worlds / 20) ** 2 / (worlds / 20)).sum(), 19):.3f}", counts.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=25)
    parser.add_argument("--crowds", nargs="+", choices=CROWDS, default=list(CROWDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--sweeps", type=int, default=sampling.SWEEPS, help="of the sampler, after a third as many")
    parser.add_argument("--write", type=Path, help="the page to write the table to")
    parser.add_argument("--calibration", type=int, metavar="WORLDS")
    parser.add_argument("--why", type=int, metavar="WORLDS")
    given = parser.parse_args()
    if given.calibration:
        calibrate(given.calibration)
        return
    warnings.simplefilter("ignore")
    if given.why:
        for name in given.crowds:
            print(name, CROWDS[name])
            why(given.why, CROWDS[name])
        return
    defaults = sampling.run.__kwdefaults__ or {}
    defaults.update(sweeps=given.sweeps, warm_up=given.sweeps // 3)
    rows = compare(given.sets, given.crowds, given.ways)
    if given.write:
        command = f"python -m benchmarks.instrument --sets {given.sets} --sweeps {given.sweeps}"
        heading = f"`{command}`, {datetime.now(UTC):%Y-%m-%d}:"
        given.write.write_text("\n".join([heading, "", *rows, ""]))


if __name__ == "__main__":
    main()
