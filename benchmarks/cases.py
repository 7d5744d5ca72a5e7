"""One measurement each: a function of a size that returns what it found. Runs in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

import crowdfield as cf
from benchmarks import worlds
from crowdfield.errors import ConvergenceWarning
from crowdfield.metrics import auc, cross_entropy, nlpd_beta

Result = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said in the result instead
        out = work()
    return out, time.perf_counter() - start


def measured(work: Callable[[], Any]) -> tuple[Any, Result]:
    """What some work gives, and its seconds on the wall and of the processors."""
    start = time.process_time()
    out, seconds = timed(work)
    return out, {"seconds": seconds, "cpu_seconds": time.process_time() - start}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def heatmap(size: int, inference: str, lengthscale: float | Literal["learn"] = 1.0) -> Result:
    """A fit of `size` reports at as many places, at most 1,000 sources, on a map ten length-scales wide."""
    world = worlds.field(size, min(1000, max(10, size // 50)))
    before = peak_mb()
    model = cf.HeatmapBCC(lengthscale=lengthscale, inference=inference, random_state=0)
    _, took = measured(lambda: model.fit(world.X, world.label, sources=world.source))
    some = np.random.default_rng(1).choice(size, min(size, 20_000), replace=False)
    mean, sd = model.predict_rate(world.X[some])
    p, rate = mean[:, 1], world.rate[some]
    return {
        **took,
        "correlation": float(np.corrcoef(p, rate)[0, 1]),
        "nlpd": nlpd_beta(rate, p, sd[:, 1] ** 2),
        "sweeps": int(model.n_iter_),
        "converged": bool(model.converged_),
        "engine": model.engine_,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "auc": auc(world.truth[some], p),
        "cross_entropy": cross_entropy(world.truth[some], p),
    }


def authors(size: int, inference: str = "vb") -> Result:
    """Two reports per site on a map ten length-scales wide, as in the table of the authors' code."""
    world, rng = worlds.field(size, 20), np.random.default_rng(1)
    second = rng.integers(0, 10, size)  # a reliable source looks again
    again = np.where(rng.random(size) < 0.9, world.truth, ~world.truth).astype(np.int64)
    X, label = np.vstack([world.X, world.X]), np.concatenate([world.label, again])
    source = np.concatenate([world.source, second])
    model = cf.HeatmapBCC(lengthscale=1.0, inference=inference, random_state=0)
    _, seconds = timed(lambda: model.fit(X, label, sources=source))
    return {"seconds": seconds, "sweeps": int(model.n_iter_), "engine": model.engine_, "peak_mb": peak_mb()}


def grid(size: int) -> Result:
    """Mean and deviation on a grid of size × size cells, from 20,000 reports."""
    world = worlds.field(20_000, 100)
    model = cf.HeatmapBCC(lengthscale=1.0, inference="vb", random_state=0)
    timed(lambda: model.fit(world.X, world.label, sources=world.source))
    axis = (np.arange(size) + 0.5) * 10.0 / size
    before = peak_mb()
    places = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    _, took = measured(lambda: model.predict_rate(places))
    return {**took, "peak_mb": peak_mb(), "peak_mb_before": before}


def draws(size: int) -> Result:
    """200 joint draws of a map of size × size cells, from 20,000 reports."""
    world = worlds.field(20_000, 100)
    model = cf.HeatmapBCC(lengthscale=1.0, random_state=0)
    timed(lambda: model.fit(world.X, world.label, sources=world.source))
    axis = (np.arange(size) + 0.5) * 10.0 / size
    places = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    _, took = measured(lambda: model.sample_rate(places, 200, random_state=0))
    return {**took, "peak_mb": peak_mb()}


def paper(size: int) -> Result:
    """A fit of `size` reports of the paper's synthetic setting, half of the crowd noisy: the one-state model, and the
    default, which first compares it with the instrument model. Medians of five data sets."""
    from crowdfield.experiments.synthetic import CONFUSION, LENGTHSCALE, world

    made = [world("50 % noisy", np.random.default_rng(seed)).reports.take(np.arange(size)) for seed in range(6)]
    out: Result = {}
    for name, reports_model in (("", "one_state"), ("default_", "auto")):
        took = []
        for reports in made:
            model = cf.HeatmapBCC(
                lengthscale=LENGTHSCALE,
                confusion_prior=CONFUSION,
                states=(0, 1),
                reports_model=reports_model,
                random_state=0,
            )
            took.append(measured(partial(model.fit, reports.places, reports.label, sources=reports.source))[1])
        # The first one pays for what is imported and compiled once.
        out |= {name + figure: float(np.median([each[figure] for each in took[1:]])) for figure in took[0]}
    return out


def tile(size: int) -> Result:
    """One new report on a live map of `size` reports: seconds until the new map is there. Median of three."""
    command = [sys.executable, "-m", "benchmarks", "service", "--only", "large", "--reports", str(size), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # 1 where its own figures do not hold
    found = json.loads(done.stdout.strip().splitlines()[-1])["large"]
    return {"seconds": float(np.median(found["one_more_report_s"])), "each": found["one_more_report_s"]}


def streaming(size: int) -> Result:
    """One new report on a fitted map of `size` reports: until the updated 256 × 256 map is there. Median of five."""
    world = worlds.field(size, 100)
    axis = (np.arange(256) + 0.5) * 10.0 / 256
    places = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    out: Result = {}
    for inference in ("vb", "collapsed"):
        model = cf.HeatmapBCC(lengthscale=1.0, inference=inference, random_state=0)
        model.fit(world.X[5:], world.label[5:], sources=world.source[5:])
        each = []
        for i in range(5):
            new = slice(i, i + 1)
            _, update = timed(lambda: model.partial_fit(world.X[new], world.label[new], sources=world.source[new]))  # noqa: B023
            _, draw = timed(lambda: model.predict_rate(places))  # noqa: B023
            each.append((update + draw, update, draw))
        total, update, draw = np.median(each, axis=0)
        name = "" if inference == "vb" else f"{inference}_"
        out |= {f"{name}seconds": total, f"{name}update_seconds": update, f"{name}map_seconds": draw}
    return out


def sklearn_gpc(size: int) -> Result:
    """scikit-learn's GaussianProcessClassifier (Laplace, fixed kernel) and ours, on labels of one source each."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import Matern

    world = worlds.field(2 * size, 1)
    train, test = slice(0, size), slice(size, 2 * size)
    theirs = GaussianProcessClassifier(Matern(1.0, nu=1.5), optimizer=None)
    _, their_seconds = timed(lambda: theirs.fit(world.X[train], world.label[train]))
    p_theirs = theirs.predict_proba(world.X[test])[:, 1]
    ours = cf.GPClassifier(lengthscale=1.0)
    _, our_seconds = timed(lambda: ours.fit(world.X[train], world.label[train]))
    p_ours = ours.predict_proba(world.X[test])[:, 1]
    return _compared(our_seconds, their_seconds, world.label[test], p_ours, p_theirs)


def gpboost(size: int) -> Result:
    """GPBoost's Gaussian process classifier (Vecchia approximation, fixed kernel) and ours."""
    try:
        import gpboost as gpb
    except ImportError:
        return {"skipped": "gpboost is not installed"}
    world = worlds.field(2 * size, 1)
    train, test = slice(0, size), slice(size, 2 * size)
    theirs = gpb.GPModel(
        gp_coords=world.X[train],
        cov_function="matern",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        num_neighbors=20,
        likelihood="bernoulli_logit",
    )
    _, their_seconds = timed(lambda: theirs.fit(y=world.label[train].astype(float), params={"trace": False}))
    p_theirs = theirs.predict(gp_coords_pred=world.X[test], predict_response=True)["mu"]
    ours = cf.GPClassifier(lengthscale=1.0)
    _, our_seconds = timed(lambda: ours.fit(world.X[train], world.label[train]))
    p_ours = ours.predict_proba(world.X[test])[:, 1]
    return _compared(our_seconds, their_seconds, world.label[test], p_ours, p_theirs)


def crowd_kit(size: int, method: str, **options: Any) -> Result:
    """A method of crowd-kit and our IBCC on the same `size` reports, without a map."""
    try:
        from crowdkit import aggregation
    except ImportError:
        return {"skipped": "crowd-kit is not installed"}
    import pandas as pd

    world = worlds.items(size, 1000)
    item = world.X[:, 0].astype(np.int64)
    state = world.truth[::5]
    table = pd.DataFrame({"task": item, "worker": world.source, "label": world.label})
    theirs, took = measured(lambda: getattr(aggregation, method)(**options).fit_predict_proba(table))
    their_seconds = took["seconds"]
    p_theirs = theirs.sort_index()[1].to_numpy()
    ours = cf.IBCC()
    _, our_seconds = timed(lambda: ours.fit(world.X, world.label, sources=world.source))
    p_ours = ours.predict_proba(np.arange(len(state))[:, None].astype(float))[:, 1]
    result = _compared(our_seconds, their_seconds, state, p_ours, p_theirs)
    accuracy = {"our_accuracy": ((p_ours > 0.5) == state).mean(), "their_accuracy": ((p_theirs > 0.5) == state).mean()}
    result |= {name: float(value) for name, value in accuracy.items()}
    return result | {"their_cpu_seconds": took["cpu_seconds"]}


def _compared(ours: float, theirs: float, truth: Any, p_ours: Any, p_theirs: Any) -> Result:
    return {
        "seconds": ours,
        "their_seconds": theirs,
        "ratio": theirs / ours,
        "our_auc": auc(truth, p_ours),
        "their_auc": auc(truth, p_theirs),
        "our_cross_entropy": cross_entropy(truth, p_ours),
        "their_cross_entropy": cross_entropy(truth, p_theirs),
        "peak_mb": peak_mb(),
    }


CASES: dict[str, Callable[[int], Result]] = {
    "growth": lambda size: heatmap(size, "vb"),
    "growth_collapsed": lambda size: heatmap(size, "collapsed"),
    "authors": authors,
    "learned": lambda size: heatmap(size, "auto", "learn"),
    "paper": paper,
    "grid": grid,
    "draws": draws,
    "tile": tile,
    "streaming": streaming,
    "sklearn_gpc": sklearn_gpc,
    "gpboost": gpboost,
    "dawid_skene": lambda size: crowd_kit(size, "DawidSkene", n_iter=100),
    "mace": lambda size: crowd_kit(size, "MACE", random_state=0),
    "glad": lambda size: crowd_kit(size, "GLAD"),
}
