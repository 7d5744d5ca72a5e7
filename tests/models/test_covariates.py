"""Covariates: found where they matter, honest where they do not, kept with the model."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import DataWarning, InputError

WEIGHT = -1.5  # log odds per standard deviation of height


def height(X):
    """A ridge that no smooth field of the length-scale used here could follow."""
    return 40.0 + 15.0 * np.sin(X[:, 0] * 2.1) * np.cos(X[:, 1] * 1.7)


def noise(X):
    return np.sin(37.0 * X[:, 0] + 11.0 * X[:, 1])


def crowd(seed=0, places=250, votes=4, sources=12):
    """A crowd that reads an appearance driven by height: X, labels, sources."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 20.0, (places, 2))
    g = -0.5 + WEIGHT * (height(X) - 40.0) / 7.5 + 0.5 * rng.standard_normal(places)
    at = np.repeat(np.arange(places), votes)
    who = rng.integers(0, sources, len(at))
    sharp, lean = 1.0 + 0.3 * rng.standard_normal(sources), 0.4 * rng.standard_normal(sources)
    said = rng.random(len(at)) < 1.0 / (1.0 + np.exp(-(sharp[who] * g[at] + lean[who])))
    return X[at], np.where(said, "flooded", "dry"), who


@pytest.fixture(scope="module")
def reports():
    return crowd()


@pytest.fixture(scope="module")
def fitted(reports):
    return cf.HeatmapBCC(lengthscale=8.0, covariates={"height": height, "noise": noise}).fit(*reports)


def test_a_covariate_that_matters_is_found_and_one_that_does_not_is_not(fitted):
    table = fitted.covariate_table().set_index("covariate")
    # The simulated weight is per 7.5 units; the table's is per standard deviation.
    expected = WEIGHT / 7.5 * table.loc["height", "sd"]
    assert table.loc["height", "weight_low"] < expected < table.loc["height", "weight_high"] < 0.0
    assert table.loc["noise", "weight_low"] < 0.0 < table.loc["noise", "weight_high"]
    assert table.loc["height", "above_zero"] < 1e-3
    np.testing.assert_allclose(table["per_unit"] * table["sd"], table["weight"])
    assert table["missing"].tolist() == [0, 0]


def test_it_makes_a_better_map_where_nobody_reported(fitted, reports):
    without = cf.HeatmapBCC(lengthscale=8.0, reports_model="instrument").fit(*reports)
    X = np.random.default_rng(1).uniform(0.0, 20.0, (400, 2))
    p = 1.0 / (1.0 + np.exp(0.5 - WEIGHT * (height(X) - 40.0) / 7.5))

    def loss(model):
        said = model.predict_proba(X)[:, 1]
        return -np.mean(p * np.log2(said) + (1.0 - p) * np.log2(1.0 - said))

    assert loss(fitted) < loss(without) - 0.1


def test_missing_values_are_counted_and_say_nothing(reports):
    def gaps(X):
        return np.where(X[:, 0] < 4.0, np.nan, height(X))

    with pytest.warns(DataWarning, match=r"gappy is missing at \d+ of 250 places"):
        model = cf.HeatmapBCC(lengthscale=8.0, covariates={"gappy": gaps}).fit(*reports)
    row = model.covariate_table().iloc[0]
    assert row["missing"] > 10 and row["weight_high"] < 0.0
    assert np.isfinite(model.predict_proba([[1.0, 1.0], [10.0, 10.0]])).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda X: np.full(len(X), np.nan), "missing at every place"),
        (lambda X: np.ones(len(X)), "the same value at every report"),
        (lambda X: np.ones(3), "one row per place"),
        ({"a": lambda X: X}, "one number per place"),
        ({}, "a function of places"),
        (7.0, "a function of places"),
    ],
)
def test_what_cannot_be_a_covariate_is_refused(reports, given, words):
    with pytest.raises(InputError, match=words):
        cf.HeatmapBCC(lengthscale=8.0, covariates=given).fit(*reports)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reports_model": "one_state"}, "covariates are parts of the instrument model"),
        ({"inference": "vb"}, "which covariates need, cannot be used here: inference='vb'"),
        ({"communities": 2}, "which covariates need, cannot be used here: communities"),
    ],
)
def test_the_one_state_model_says_that_it_has_none(reports, settings, words):
    with pytest.raises(InputError, match=words):
        cf.HeatmapBCC(lengthscale=8.0, covariates=height, **settings).fit(*reports)


def test_they_are_kept_with_the_model(fitted, reports, tmp_path):
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(fitted.places_), fitted.predict_proba(fitted.places_), atol=1e-9)
    assert again.covariate_table().equals(fitted.covariate_table())
    elsewhere = np.array([[0.123, 0.456]])
    with pytest.raises(InputError, match=r"height and noise is not known at 1 of these places.*covariates="):
        again.predict_proba(elsewhere)
    whole = cf.HeatmapBCC.load(tmp_path / "model", covariates={"height": height, "noise": noise})
    np.testing.assert_allclose(whole.predict_proba(elsewhere), fitted.predict_proba(elsewhere), atol=1e-9)
    whole.partial_fit([[0.123, 0.456]], ["dry"], [0])
    whole.save(tmp_path / "longer")
    assert np.isfinite(cf.HeatmapBCC.load(tmp_path / "longer").predict_proba(elsewhere)).all()


def test_other_covariates_than_those_of_the_fit_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(InputError, match="height has other values at"):
        cf.HeatmapBCC.load(tmp_path / "model", covariates={"height": noise, "noise": noise})
    with pytest.raises(InputError, match="was fitted with height and noise, not with height"):
        cf.HeatmapBCC.load(tmp_path / "model", covariates={"height": height})
