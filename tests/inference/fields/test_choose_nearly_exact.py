"""Between the exact engine and Fourier features: places that lie close together share a feature."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference.fields.choose import NEARLY_EXACT, choose
from crowdfield.inference.fields.exact import FOR_INTEGRATED_SCALE
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.kernels import kernel


def towns(count, rng):
    """Places in eight towns of a few length-scales, far apart."""
    return rng.uniform(0, 400, (8, 2))[rng.integers(0, 8, count)] + rng.normal(0, 1.5, (count, 2))


def test_close_places_share_features_and_far_ones_keep_their_own():
    rng = np.random.default_rng(0)
    X, matern = towns(1200, rng), kernel("matern32", 2.0)
    engine = choose("auto", matern, X, exact=FOR_INTEGRATED_SCALE, affordable=250)
    assert isinstance(engine, FeatureEngine) and engine.name == "inducing" and engine.size < len(X) / 2
    assert engine.basis.residual(X).max() <= NEARLY_EXACT
    apart = choose("auto", kernel("matern32", 0.001), X, exact=FOR_INTEGRATED_SCALE, affordable=250)
    assert apart.size == len(X)
    few = choose("auto", matern, X[: FOR_INTEGRATED_SCALE.at_most], exact=FOR_INTEGRATED_SCALE, affordable=250)
    assert few.name == "exact"


def test_the_map_is_that_of_the_exact_engine():
    rng = np.random.default_rng(1)
    X = towns(830, rng)
    truth = np.sin(X[:, 0]) > 0
    source = rng.integers(0, 6, len(X))
    said = np.where(rng.random(len(X)) < 0.8, truth, ~truth)
    quick, exact = (
        cf.HeatmapBCC(lengthscale=2.0, reports_model="one_state", engine=name, tol=1e-3).fit(X, said, sources=source)
        for name in ("auto", "exact")
    )
    assert quick.engine_ == "inducing"
    assert quick.predict_proba(X[:300]) == pytest.approx(exact.predict_proba(X[:300]), abs=NEARLY_EXACT)
