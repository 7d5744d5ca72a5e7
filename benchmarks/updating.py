"""What a few more reports cost a fit of the instrument model, in processor seconds, and how far from a fit to all
reports it ends.

    python -m benchmarks updating [--reports 100000] [--new 1] [--tol 0.005]

`update`: `partial_fit`; `whole`: the same without what the fit kept, so that it passes over all reports again and goes
on learning variances; `anew`: a fit from the prior. `from_end`: how far probabilities are from where the iteration ends
that goes on from the update with all reports and the same variances. Exit status 1 if that is more than .001.
"""

import argparse
import copy
import json
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning
from crowdfield.inference.instrument.iterate import Policy
from crowdfield.inference.instrument.model import fit

SOURCES = 200
MOST_DIFFERENT = 1e-3
EXACT = 1e-5


def crowd(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Reports of a crowd whose members differ in sensitivity and lean, about places that differ from their
    neighbours."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 2))
    g = 1.5 * (np.sin(2.1 * X[:, 0]) + np.cos(1.7 * X[:, 1])) + rng.normal(size=n)
    gain, lean = np.exp(0.4 * rng.normal(size=SOURCES)), 0.7 * rng.normal(size=SOURCES)
    source = rng.integers(0, SOURCES, n)
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-(gain[source] * g + lean[source]))), source


def measure(n: int, new: int, tol: float) -> dict[str, Any]:
    X, y, source = crowd(n, 3)
    options = {"reports_model": "instrument", "lengthscale": 1.0, "tol": tol, "max_iter": 300, "random_state": 0}
    model = cf.HeatmapBCC(states=[False, True], **options)
    found: dict[str, Any] = {"reports": n, "new": new, "tol": tol}
    model.fit(X[:-new], y[:-new], sources=source[:-new])
    whole = copy.deepcopy(model)
    whole._instrument = replace(whole._instrument, kept=None)
    anew = cf.HeatmapBCC(states=[False, True], **options)
    last = {"X": X[-new:], "y": y[-new:], "sources": source[-new:]}
    for name, each, given in (("update", model, last), ("whole", whole, last), ("anew", anew, None)):
        began = time.process_time()
        each.fit(X, y, sources=source) if given is None else each.partial_fit(**given)
        found[f"{name}_s"] = round(time.process_time() - began, 2)
        found[f"{name}_sweeps"] = each.n_iter_
    grid = np.stack(np.meshgrid(np.linspace(0, 10, 101), np.linspace(0, 10, 101)), -1).reshape(-1, 2)
    shown = {name: each.predict_rate(grid)[0] for name, each in (("whole", whole), ("anew", anew), ("update", model))}
    ours = model._instrument
    end = fit(ours.problem, ours.state, Policy(tol=EXACT, unsure_variances=False), learn_variances=False)
    held = replace(ours, joint=ours.held)  # as if variances were known, on both sides
    found["from_end"] = _rounded(held.rate(grid)[0] - end.rate(grid)[0], ours.site_states - end.site_states)
    for name, each in (("whole", whole), ("anew", anew)):
        found[f"from_{name}"] = _rounded(shown["update"] - shown[name], model.posterior_ - each.posterior_)
    return found


def _rounded(on_the_map: Any, at_places: Any) -> float:
    """The largest difference, to two digits."""
    return float(f"{max(np.abs(on_the_map).max(), np.abs(at_places).max()):.1e}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks updating", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=1, help="how many of them are new")
    parser.add_argument("--tol", type=float, default=0.005, help="of the fits; 0.005 is that of the live map")
    given = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = measure(given.reports, given.new, given.tol)
    print(json.dumps(found))
    return 0 if found["from_end"] <= MOST_DIFFERENT else 1


if __name__ == "__main__":
    raise SystemExit(main())
