"""Is it worth telling the model what kind of report it has: how exact a place is, a score, a whole area, a grade?

    python -m benchmarks.report_kinds accuracy [--sets 25] [--crowd one-state | instrument] [--reports-model auto]
    python -m benchmarks.report_kinds scores [--sets 25] [--machine calibrated | overconfident | useless]
    python -m benchmarks.report_kinds areas [--sets 25] [--side 2.5]
    python -m benchmarks.report_kinds grades [--sets 25] [--places 100]
    python -m benchmarks.report_kinds readings [--sets 25] [--side 1.5] [--reading some | all]

Simulated worlds with a known field. Every set is fitted twice by the default inference: with the information in
question (used) and without it (unused). Cross entropy is of the true state probability on a grid of places, in bits;
lower is better. Times are processor seconds of the fits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import crowdfield as cf
from crowdfield.inference.kernels import kernel

EXTENT, LENGTHSCALE = 40.0, 5.0
FIELD_SD = 2.0  # of the log odds
RADIUS = 1.5096  # standard deviations of a coordinate: the circle that holds 68 % of a plane's normal distribution


class World(NamedTuple):
    """Places reported on (their true ones), what is true on a grid, and the rest of the randomness."""

    rng: np.random.Generator
    X: Any  # [N, 2]
    f: Any  # [N]
    grid: Any  # [M, 2]
    rate: Any  # [M] the true probability of the second state


def world(seed: int, places: int) -> World:
    rng = np.random.default_rng([18, seed])
    X = rng.uniform(0.0, EXTENT, (places, 2))
    axis = np.arange(1.0, EXTENT, 2.0)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    everywhere = np.vstack([X, grid])
    K = kernel("matern32", LENGTHSCALE).covariance(everywhere, everywhere)
    f = FIELD_SD * np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ rng.standard_normal(len(K))
    return World(rng, X, f[:places], grid, sigmoid(f[places:]))


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def cross_entropy(model: Any, made: World) -> float:
    p = np.clip(model.predict_proba(made.grid)[:, 1], 1e-12, 1.0 - 1e-12)
    return float(-(made.rate * np.log2(p) + (1.0 - made.rate) * np.log2(1.0 - p)).mean())


class Result(NamedTuple):
    used: float
    unused: float
    seconds: float
    unused_seconds: float


def fitted(
    made: World, X: Any, label: Any, source: Any, given: argparse.Namespace, prior: Any = None, **more: Any
) -> tuple[float, float]:
    begin = time.process_time()
    model = cf.HeatmapBCC(
        lengthscale=LENGTHSCALE, states=[0, 1], reports_model=given.reports_model, confusion_prior=prior
    )
    model.fit(X, label, source, **more)
    return cross_entropy(model, made), time.process_time() - begin


# --- how exact a place is -------------------------------------------------------------------------------------------


def one_state_crowd(made: World) -> tuple[Any, Any, Any]:
    """Row of the place, label and source of reports under the paper's model: sources are right in 60 % to 95 %."""
    rng, n = made.rng, len(made.X)
    state = (rng.random(n) < sigmoid(made.f)).astype(int)
    source, accuracy = rng.integers(0, 20, n), rng.uniform(0.6, 0.95, 20)
    right = rng.random(n) < accuracy[source]
    return np.arange(n), np.where(right, state, 1 - state), source


def instrument_crowd(made: World) -> tuple[Any, Any, Any]:
    """Three votes about every place of a third as many, by 20 sources who read one appearance with a nugget."""
    rng, n = made.rng, len(made.X) // 3
    g = made.f[:n] + rng.standard_normal(n)
    alpha, lean = rng.normal(1.0, 0.4, 20), rng.normal(0.0, 0.7, 20)
    site, source = np.repeat(np.arange(n), 3), rng.integers(0, 20, 3 * n)
    return site, (rng.random(3 * n) < sigmoid(alpha[source] * g[site] + lean[source])).astype(int), source


CROWDS = {"one-state": one_state_crowd, "instrument": instrument_crowd}


def accuracy(seed: int, given: argparse.Namespace) -> Result:
    """Places blurred by half a length-scale."""
    made = world(seed, given.places)
    site, label, source = CROWDS[given.crowd](made)
    sd = LENGTHSCALE / 2.0
    seen = made.X + sd * made.rng.standard_normal(made.X.shape)
    used = fitted(made, seen[site], label, source, given, accuracy=RADIUS * sd)
    unused = fitted(made, seen[site], label, source, given)
    return Result(used[0], unused[0], used[1], unused[1])


# --- scores ---------------------------------------------------------------------------------------------------------

MACHINES = {"calibrated": (1.0, 1.0), "overconfident": (3.0, 6.0), "useless": (0.0, 3.0)}  # gain, noise in logits


def scores(seed: int, given: argparse.Namespace) -> Result:
    """A machine scores every place that people vote on. Used: its scores. Not used: what it says, without how sure."""
    made = world(seed, given.places)
    site, label, source = instrument_crowd(made)
    n = int(site.max()) + 1
    gain, noise = MACHINES[given.machine]
    z = gain * made.f[:n] + noise * made.rng.standard_normal(n)
    sure = sigmoid(np.abs(z))
    X = np.vstack([made.X[site], made.X[:n]])
    said, who = np.concatenate([label, (z > 0).astype(int)]), np.concatenate([source, np.full(n, 99)])
    used = fitted(made, X, said, who, given, scores=np.concatenate([np.full(len(site), np.nan), sure]))
    unused = fitted(made, X, said, who, given)
    return Result(used[0], unused[0], used[1], unused[1])


# --- areas ----------------------------------------------------------------------------------------------------------

POINTS = 5  # along each side, at which the field is averaged


def tiles(seed: int, given: argparse.Namespace) -> tuple[World, Any, float, Callable[[Any], Any], Any]:
    """A world, the centres of tiles [n, 2], their side, the field, and the field at points of every tile [P, n]."""
    n, side = given.places, given.side * LENGTHSCALE
    made = world(seed, 4)  # its places are drawn anew, with all that tiles cover
    rng = made.rng
    centre = rng.uniform(0.5 * side, EXTENT - 0.5 * side, (n, 2))
    inside = (np.arange(POINTS) + 0.5) / POINTS - 0.5
    offsets = side * np.stack(np.meshgrid(inside, inside), axis=-1).reshape(-1, 2)
    frequency = rng.standard_normal((4_000, 2)) / LENGTHSCALE * np.sqrt(3.0 / rng.chisquare(3.0, (4_000, 1)))
    phase = rng.uniform(0.0, 2.0 * np.pi, 4_000)

    def field(X: Any) -> Any:
        return FIELD_SD * np.sqrt(2.0 / 4_000) * np.cos(X @ frequency.T + phase).sum(1)

    return made, centre, side, field, np.stack([field(centre + offset) for offset in offsets])


def area_reports(seed: int, given: argparse.Namespace) -> tuple[World, Any, float, Any, Any, Any]:
    """A world, the centres of tiles, their side, what is said of each and by whom, and how often each source is right:
    a source says what is true of a tile's average appearance."""
    made, centre, side, field, parts = tiles(seed, given)
    rng, n = made.rng, len(centre)
    source = rng.integers(0, 10, n)
    state = rng.random(n) < sigmoid(parts.mean(0))
    draw, accuracy = rng.random(n), rng.uniform(0.75, 0.98, 10)
    label = np.where(draw < accuracy[source], state, ~state).astype(int)
    return made._replace(rate=sigmoid(field(made.grid))), centre, side, label, source, accuracy


def areas(seed: int, given: argparse.Namespace) -> Result:
    """Tiles, of which a source says what is true of their average appearance. Not used: the tile's centroid."""
    made, centre, side, label, source, _ = area_reports(seed, given)
    used = fitted(made, centre, label, source, given, accuracy=RADIUS * side / np.sqrt(12.0), areas=True)
    unused = fitted(made, centre, label, source, given)
    return Result(used[0], unused[0], used[1], unused[1])


def readings(seed: int, given: argparse.Namespace) -> Result:
    """Half of the tiles are read as "most of it", half as "some of it" (or "all of it"), by ten sources each. Used: how
    each report reads its tile; not used: all are taken for "most of it"."""
    made, centre, side, field, parts = tiles(seed, given)
    rng, n = made.rng, len(centre)
    share = (rng.random(parts.shape) < sigmoid(parts)).mean(0)  # of the tile that is in the second state
    other = rng.random(n) < 0.5
    state = share > np.where(other, {"some": 0.1, "all": 0.9}[given.reading], 0.5)
    source = rng.integers(0, 10, n)
    label = np.where(rng.random(n) < rng.uniform(0.75, 0.98, 10)[source], state, ~state).astype(int)
    made = made._replace(rate=sigmoid(field(made.grid)))
    reach = np.full(n, RADIUS * side / np.sqrt(12.0))
    looks = cf.Reports.from_arrays(centre, label, source, accuracy=reach)
    by_reading = cf.readings.with_readings(looks, np.where(other, given.reading, "most"))
    prior = cf.readings.priors(by_reading.sources, [0, 1], [0, 1], 1)
    used, unused = (
        fitted(made, centre, label, np.array(r.sources)[r.source], given, prior=p, accuracy=reach, areas=True)
        for r, p in ((by_reading, prior), (looks, None))
    )
    return Result(used[0], unused[0], used[1], unused[1])


# --- grades ---------------------------------------------------------------------------------------------------------

THRESHOLDS = np.array([-2.0, 0.0, 2.0])  # between four grades, on the scale of the field's log odds


def grades(seed: int, given: argparse.Namespace) -> Result:
    """Four grades, each place read once by one of ten people who mistake neighbouring ones. Not used: their order."""
    made = world(seed, given.places)
    rng = made.rng
    true = (rng.random((len(made.X), 1)) < sigmoid(made.f[:, None] - THRESHOLDS)).sum(1)
    source = rng.integers(0, 10, len(true))
    wrong = rng.normal(0.0, rng.uniform(0.2, 1.2, 10)[source])
    label = np.clip(np.rint(true + wrong), 0, len(THRESHOLDS)).astype(int)
    log_odds = np.log(made.rate / (1.0 - made.rate))
    above = np.column_stack([np.ones(len(log_odds)), sigmoid(log_odds[:, None] - THRESHOLDS), np.zeros(len(log_odds))])
    rate = above[:, :-1] - above[:, 1:]
    out: list[float] = []
    for ordered in (True, False):
        begin = time.process_time()
        model = cf.HeatmapBCC(lengthscale=LENGTHSCALE, states=[0, 1, 2, 3], ordered=ordered).fit(made.X, label, source)
        found = np.clip(model.predict_proba(made.grid), 1e-12, None)
        out += [float(-(rate * np.log2(found)).sum(1).mean()), time.process_time() - begin]
    return Result(out[0], out[2], out[1], out[3])


KINDS: dict[str, Callable[[int, argparse.Namespace], Result]] = {
    "accuracy": accuracy,
    "scores": scores,
    "areas": areas,
    "readings": readings,
    "grades": grades,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_kinds", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--sets", type=int, default=25)
    parser.add_argument("--crowd", choices=CROWDS, default="one-state")
    parser.add_argument("--machine", choices=MACHINES, default="calibrated")
    parser.add_argument("--reading", choices=["some", "all"], default="some")
    parser.add_argument("--side", type=float, default=2.5, help="of a tile, in length-scales")
    parser.add_argument("--places", type=int, default=1200)
    parser.add_argument("--reports-model", choices=["auto", "one_state", "instrument"], default="auto")
    given = parser.parse_args(arguments)
    results = []
    for seed in range(given.sets):
        results.append(KINDS[given.kind](seed, given))
        print(f"{seed:3d}  used {results[-1].used:.4f}  unused {results[-1].unused:.4f} bits", flush=True)
    used, unused, seconds, unused_seconds = np.array(results).T
    print(f"better in {int((used < unused).sum())} of {len(used)}")
    print(f"mean cross entropy {used.mean():.4f} against {unused.mean():.4f} bits")
    print(f"processor seconds {seconds.sum():.1f} against {unused_seconds.sum():.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
