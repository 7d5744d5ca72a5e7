"""Where the model that "auto" chose cannot be fitted, the other one is used, and the user is told."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import FallbackWarning, NumericalError

# A prior that is as sure of the scale as this overflows the one-state model's integral over it.
SCALE_OF_ONE: dict[str, Any] = {"scale_shape": 1e13, "scale_rate": 1e13}
# A smooth part of such a variance, in places that all lie within a length-scale, leaves the three functions of the
# instrument model without a positive definite precision; with the larger one the one-state model fails, too.
HUGE_VARIANCE: dict[str, Any] = {"kernel": "rbf", "engine": "inducing", "scale_shape": 1e-3, "scale_rate": 1e9}
LARGER_VARIANCE: dict[str, Any] = {**HUGE_VARIANCE, "scale_rate": 1e20}


def crowd(states: int, count: int = 300) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 10, (60, 2))
    truth = np.minimum((places[:, 0] * states / 10).astype(int), states - 1)
    site, source = rng.integers(0, 60, count), rng.integers(0, 5, count)
    said = np.where(rng.random(count) < 0.7, truth[site], rng.integers(0, states, count))
    return places[site], said, source


def test_the_instrument_model_stands_in_for_a_one_state_model_that_cannot_be_fitted(tmp_path):
    X, y, sources = crowd(2, count=80)
    model = cf.HeatmapBCC(lengthscale=3.0, **SCALE_OF_ONE)
    with pytest.warns(FallbackWarning, match=r"instrument model was used because the one-state model, .* diverged"):
        model.fit(X, y, sources=sources)
    assert model.reports_model_ == "instrument" and "could not be fitted" in model.reports_model_reason_
    right = (model.predict(X) == (X[:, 0] > 5)).mean()
    assert right > 0.8
    model.save(tmp_path / "model.cf")
    assert cf.HeatmapBCC.load(tmp_path / "model.cf").reports_model_reason_ == model.reports_model_reason_


def test_an_instrument_model_that_cannot_be_fitted_does_not_stop_a_fit_that_learns_its_length_scale():
    X, y, sources = crowd(3)
    model = cf.HeatmapBCC(lengthscale="learn", lengthscale_bounds=(3e4, 4e4), tol=0.01, **HUGE_VARIANCE)
    model.fit(X, y, sources=sources)
    assert model.reports_model_ == "one_state" and model.model_comparison_.instrument == -np.inf


def test_a_model_that_cannot_be_fitted_to_parts_of_the_reports_loses_the_comparison():
    X, y, sources = crowd(2)
    model = cf.HeatmapBCC(lengthscale=3.0, **SCALE_OF_ONE).fit(X, y, sources=sources)
    assert model.reports_model_ == "instrument" and model.model_comparison_.one_state == -np.inf
    assert model.reports_model_reason_ == "the one-state model could not be fitted to parts of the reports"
    X, y, sources = crowd(3)
    model = cf.HeatmapBCC(lengthscale=4e4, **HUGE_VARIANCE).fit(X, y, sources=sources)
    assert model.reports_model_ == "one_state" and model.model_comparison_.instrument == -np.inf


def test_if_neither_model_can_be_fitted_the_error_names_both_causes_and_the_estimator_is_unchanged():
    X, y, sources = crowd(3)
    model = cf.HeatmapBCC(lengthscale=4e4, **LARGER_VARIANCE)
    with pytest.raises(NumericalError, match=r"neither model .* one-state model: .* instrument model: "):
        model.fit(X, y, sources=sources)
    assert not hasattr(model, "classes_")


def test_a_model_that_was_asked_for_is_not_replaced():
    X, y, sources = crowd(2, count=80)
    with pytest.raises(NumericalError, match="diverged"):
        cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state", **SCALE_OF_ONE).fit(X, y, sources=sources)


REASONS: dict[str, tuple[dict[str, Any], int, str]] = {
    "asked for": ({"reports_model": "one_state"}, 80, "reports_model asks for it"),
    "few reports": ({}, 80, "fewer than 100 reports"),
    "cannot be used": ({"communities": 1}, 80, "the instrument model cannot be used here: communities"),
    "needed": ({"covariates": {"east": lambda X: X[:, 0]}}, 80, "only it can use covariates"),
    "compared": ({}, 120, "predicts a left-out report at a cost of"),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_fit_says_why_its_model_was_used(case):
    settings, count, words = REASONS[case]
    X, y, sources = crowd(2, count)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        model = cf.HeatmapBCC(lengthscale=3.0, tol=0.01, **settings).fit(X, y, sources=sources)
    assert words in model.reports_model_reason_
