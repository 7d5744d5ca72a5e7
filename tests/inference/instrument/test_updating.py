"""A few new reports cost little in a fit of many, and give what a fit to all reports would."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference.instrument import coupled, places, unsure_variances, updating
from crowdfield.inference.instrument.iterate import Policy
from crowdfield.inference.instrument.methods import method_for
from crowdfield.inference.instrument.model import fit

N, SOURCES = 6000, 40
OPTIONS: dict[str, Any] = {"reports_model": "instrument", "lengthscale": 1.0, "max_iter": 300, "random_state": 0}
GRID = np.stack(np.meshgrid(np.linspace(0.2, 9.8, 31), np.linspace(0.2, 9.8, 31)), -1).reshape(-1, 2)


def crowd(n, seed=3):
    """Reports of a crowd whose members differ in sensitivity and lean."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 2))
    g = 1.5 * (np.sin(2.1 * X[:, 0]) + np.cos(1.7 * X[:, 1])) + rng.normal(size=n)
    gain, lean = np.exp(0.4 * rng.normal(size=SOURCES)), 0.7 * rng.normal(size=SOURCES)
    source = rng.integers(0, SOURCES, n)
    said = rng.random(n) < 1 / (1 + np.exp(-(gain[source] * g + lean[source])))
    return X, said, source


def whole(model):
    """A copy of the model that passes over all reports when new ones come."""
    out = copy.deepcopy(model)
    out._instrument = replace(out._instrument, kept=None)
    return out


def apart(a, b):
    """The largest difference of a probability anywhere, and of a standard deviation."""
    (p, sd), (q, other) = a.predict_rate(GRID), b.predict_rate(GRID)
    known = np.abs(a.posterior_ - b.posterior_).max() if a.posterior_.shape == b.posterior_.shape else 0.0
    return max(np.abs(p - q).max(), known), np.abs(sd - other).max()


@pytest.fixture(scope="module")
def fitted():
    X, y, source = crowd(N)
    model = cf.HeatmapBCC(states=[False, True], confusion_prior={"team": [[40, 1], [1, 40]]}, **OPTIONS)
    model = model.fit(X, y, sources=[f"s{s}" for s in source])
    assert model._instrument.kept is not None and model.converged_
    return model


def test_sources_and_field_that_are_off_together_are_put_right_by_one_joint_step(fitted):
    """In turn they would creep, and each small step would look like convergence."""
    model = fitted._instrument
    assert not model.design.is_dense
    end = fit(model.problem, model.state, Policy(tol=1e-6, unsure_variances=False), learn_variances=False)
    asked, design = end.problem, end.design
    method = method_for(asked.observed, design, asked.prior)
    # Where sources are more sensitive than they are and f has a smaller range, reports are hardly less likely.
    off = end.state._replace(theta=end.state.theta * [1.05, 1.0])
    for _ in range(3):
        off = method.evaluate(off).image._replace(theta=off.theta)
    at = method.evaluate(off)
    missing = np.abs(off.theta - end.state.theta).max()
    joint, in_turn = coupled.image(asked.one_appearance, design, at).image, coupled.in_turn(at).image
    left = [np.abs(step.theta - end.state.theta).max() / missing for step in (joint, in_turn)]
    assert left[0] < 0.5 * left[1]


NEW = {
    "one": ([[4.1, 5.2]], [True], ["s3"]),
    "a place that has reports": (None, [False], ["s3"]),
    "a new source": ([[4.1, 5.2], [6.0, 3.0]], [True, False], ["new", "new"]),
    "a trusted source": ([[4.1, 5.2]], [False], ["team"]),
    "many": (crowd(12, 9)[0], crowd(12, 9)[1], [f"s{s}" for s in crowd(12, 9)[2]]),
}


@pytest.mark.parametrize("kind", NEW)
def test_an_update_gives_what_a_fit_to_all_reports_gives(fitted, kind):
    X, y, source = NEW[kind]
    X = fitted.reports_.places[17:18] if X is None else X
    updated, refitted = copy.deepcopy(fitted), whole(fitted)
    for model in (updated, refitted):
        model.partial_fit(X, y, sources=source)
    assert updated._instrument.kept.added == len(y)
    assert refitted._instrument.kept.added == 0
    probability, sd = apart(updated, refitted)
    assert probability < 1e-3
    assert sd < 2e-3
    assert apart(fitted, refitted)[0] > 2 * probability  # the reports change more than that
    assert updated.converged_
    ours, theirs = (model.source_table().set_index("source").sort_index() for model in (updated, refitted))
    assert ours["reports"].equals(theirs["reports"])
    for name in ("accuracy", "accuracy_low", "accuracy_high"):
        assert np.abs(ours[name] - theirs[name]).max() < 0.01
    assert abs(updated.bound_ - refitted.bound_) < 1e-3 * abs(refitted.bound_)


def test_one_report_costs_a_small_part_of_a_pass(fitted, monkeypatch):
    computed = []
    integrate = places.integrate

    def counted(likelihood, *given):
        computed.append(len(likelihood))
        return integrate(likelihood, *given)

    monkeypatch.setattr(places, "integrate", counted)
    copy.deepcopy(fitted).partial_fit([[4.1, 5.2]], [True], sources=["s3"])
    assert sum(computed) < N
    computed.clear()
    whole(fitted).partial_fit([[4.1, 5.2]], [True], sources=["s3"])
    assert sum(computed) > 5 * N


def test_reports_one_after_the_other_do_not_drift_away(fitted):
    X, y, source = crowd(12, 5)
    updated = copy.deepcopy(fitted)
    for k in range(len(y)):
        updated.partial_fit(X[k : k + 1], y[k : k + 1], sources=[f"s{source[k]}"])
    assert updated._instrument.kept.added == len(y)
    refitted = whole(fitted).partial_fit(X, y, sources=[f"s{s}" for s in source])
    assert apart(updated, refitted)[0] < 1e-3


@pytest.mark.parametrize("kind", ["outside", "too many"])
def test_other_reports_are_fitted_with_all(fitted, kind):
    n = 1 if kind == "outside" else int(updating.MOST_NEW * N) + 1
    X, y, source = crowd(n, 6)
    X = X + 30.0 if kind == "outside" else X
    model = copy.deepcopy(fitted).partial_fit(X, y, sources=[f"s{s}" for s in source])
    assert model._instrument.kept is None or model._instrument.kept.added == 0


def test_scores_and_accuracies_are_updated_too():
    X, y, source = crowd(N)
    rng = np.random.default_rng(0)
    scores = np.where(source < 3, np.clip(np.where(y, 0.8, 0.3) + 0.1 * rng.normal(size=N), 0.02, 0.98), np.nan)
    accuracy = np.where(np.arange(N) % 7 == 0, 0.2, 0.0)
    model = cf.HeatmapBCC(states=[False, True], **OPTIONS)
    given: dict[str, Any] = {"sources": source[:-1], "scores": scores[:-1], "accuracy": accuracy[:-1]}
    model.fit(X[:-1], y[:-1], **given)
    at = int(np.flatnonzero(source == 2)[5])
    new: dict[str, Any] = {"sources": [2], "scores": scores[at : at + 1], "accuracy": [0.2]}
    updated, refitted = copy.deepcopy(model), whole(model)
    for each in (updated, refitted):
        each.partial_fit([[4.1, 5.2]], [bool(scores[at] > 0.5)], **new)
    assert updated._instrument.kept.added == 1
    assert apart(updated, refitted)[0] < 1e-3
    assert apart(model, refitted)[0] > apart(updated, refitted)[0]


def test_a_file_keeps_the_uncertainty_of_the_variances(fitted, tmp_path, monkeypatch):
    assert fitted._instrument.kept.unsure is not None
    fitted.save(tmp_path / "model")

    def never(*_):
        raise AssertionError("the variances were displaced again")

    monkeypatch.setattr(unsure_variances, "find", never)
    again = cf.HeatmapBCC.load(tmp_path / "model")
    assert apart(again, fitted)[1] < 1e-6
    assert again.partial_fit([[4.1, 5.2]], [True], sources=["s3"])._instrument.kept.added == 1


def test_a_fit_that_goes_on_can_be_stopped_and_stays_as_it_was(fitted):
    class Stopped(Exception):
        pass

    def stop(sweep, objective, change):
        raise Stopped

    X, y, source = crowd(N)
    model = cf.HeatmapBCC(states=[False, True], **OPTIONS | {"max_iter": 4})
    with pytest.warns(cf.errors.ConvergenceWarning):
        model.fit(X, y, sources=source)
    before = model.posterior_.copy()
    with pytest.raises(Stopped):
        model.resume(stop)
    assert (model.posterior_ == before).all() and not model.converged_
    assert model.set_params(max_iter=300).resume().converged_
