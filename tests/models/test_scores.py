"""Reports that are probabilities, of machines beside people."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError
from crowdfield.inference.instrument import scoring
from crowdfield.inference.instrument.grid import APPEARANCES
from crowdfield.inference.instrument.responses import Population

N = 220


def world(gain, noise, seed=0):
    """Two votes by people at every place, and a machine that scores it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 20, (N, 2))
    g = 2 * np.sin(X[:, 0] / 3) + rng.standard_normal(N)
    site, who = np.repeat(np.arange(N), 2), rng.integers(0, 8, 2 * N)
    votes = (rng.random(2 * N) < 1 / (1 + np.exp(-g[site]))).astype(int)
    z = gain * g + noise * rng.standard_normal(N)
    labels = np.r_[votes, z > 0].astype(int)
    sources = np.array([*map(str, who), *["machine"] * N])
    scores = np.r_[np.full(2 * N, np.nan), 1 / (1 + np.exp(-np.abs(z)))]
    return np.vstack([X[site], X]), labels, sources, scores, 1 / (1 + np.exp(-g))


def model(**settings):
    return cf.HeatmapBCC(**{"lengthscale": 5.0, "states": [0, 1], "tol": 1e-3, **settings})


def cross_entropy(fitted, X, rate):
    p = np.clip(fitted.predict_proba(X)[:, 1], 1e-9, 1 - 1e-9)
    return -(rate * np.log2(p) + (1 - rate) * np.log2(1 - p)).mean()


@pytest.fixture(scope="module")
def calibrated():
    given = world(1.0, 0.7)
    return given, model().fit(*given[:3], scores=given[3])


def machine(fitted):
    return fitted.source_table().set_index("source").loc["machine"]


def test_gain_and_noise_of_a_machine_are_found(calibrated):
    row = machine(calibrated[1])
    assert row["sensitivity"] == pytest.approx(1.0, abs=0.35)
    assert row["sensitivity_low"] < 1.0 < row["sensitivity_high"]
    assert row["noise"] == pytest.approx(0.7, abs=0.15)
    people = calibrated[1].source_table().query("source != 'machine'")
    assert people["noise"].isna().all() and (people["sensitivity"] > 0).all()


def test_a_calibrated_machine_is_worth_more_than_its_labels(calibrated):
    (X, y, s, _, rate), fitted = calibrated
    places = X[-N:]
    people = model(reports_model="instrument").fit(X[:-N], y[:-N], s[:-N])
    labels = model(reports_model="instrument").fit(X, y, s)
    told, voted, alone = (cross_entropy(m, places, rate) for m in (fitted, labels, people))
    assert told < voted - 0.01 < alone - 0.02


def test_an_overconfident_machine_is_found_out():
    X, y, s, scores, rate = world(1.0, 3.0)  # scores of 99 % that say hardly anything
    row = machine(fitted := model().fit(X, y, s, scores=scores))
    assert row["noise"] == pytest.approx(3.0, abs=0.5) and row["informativeness"] < 0.1
    people = model(reports_model="instrument").fit(X[:-N], y[:-N], s[:-N])
    assert cross_entropy(fitted, X[-N:], rate) < cross_entropy(people, X[-N:], rate) + 0.01


def test_the_objective_rises_with_scores(calibrated):
    assert calibrated[1].converged_
    assert (np.diff(calibrated[1].bound_history_) > -1e-6).all()


def test_swapping_the_states_swaps_the_map():
    X, y, s, scores, _ = world(1.0, 1.0)
    one = model().fit(X, y, s, scores=scores)
    other = model().fit(X, 1 - y, s, scores=scores)
    assert one.predict_proba(X) == pytest.approx(other.predict_proba(X)[:, ::-1], abs=2e-3)


def test_a_model_with_scores_is_asked_and_kept_like_any_other(calibrated, tmp_path):
    X, fitted = calibrated[0][0], calibrated[1]
    places = X[-5:]
    bits = fitted.score_reports()["bits"]
    assert np.isfinite(bits[: 2 * N]).all() and bits[2 * N :].isna().all()  # a score is no label to be predicted
    shares = fitted.explain(places[0])
    p = fitted.predict_proba(places[:1])[0].max()
    assert shares["log_odds"].sum() == pytest.approx(np.log(p / (1 - p)), abs=1e-6)
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    assert again.predict_proba(places) == pytest.approx(fitted.predict_proba(places), abs=1e-6)
    again.partial_fit([[1.0, 1.0]], [1], ["machine"], scores=[0.9])
    assert again.reports_.score[-1] == 0.9


def test_without_scores_nothing_changes():
    X, y, s, *_ = world(1.0, 1.0)
    plain = model(reports_model="instrument").fit(X, y, s)
    told = model(reports_model="instrument").fit(X, y, s, scores=np.full(len(y), np.nan))
    assert told.predict_proba(X) == pytest.approx(plain.predict_proba(X), abs=0)
    assert "noise" not in plain.source_table()


def test_slopes_and_likelihood_of_scores_agree():
    rng = np.random.default_rng(1)
    readings = scoring.Readings(rng.integers(0, 5, 30), rng.integers(0, 2, 30), rng.normal(0, 2, 30))
    posterior = np.exp(-0.5 * (APPEARANCES - rng.normal(0, 1, (5, 1))) ** 2)
    posterior /= posterior.sum(1, keepdims=True)
    population = Population(scoring.MEAN, scoring.VARIANCE)
    sums = scoring.moments(readings, posterior, 2)

    def objective(theta):
        expected = (posterior * scoring.log_likelihood(readings, theta, 5)).sum()
        return expected - 0.5 * ((theta - scoring.MEAN) ** 2 / scoring.VARIANCE).sum()

    theta = np.array([[0.8, 0.3, 0.4], [1.5, -0.2, -0.5]])
    slope = scoring.slope(theta, sums, population)
    for s, d in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[s, d] = 1e-5
        numeric = (objective(theta + step) - objective(theta - step)) / 2e-5
        assert slope[s, d] == pytest.approx(numeric, rel=1e-5, abs=1e-5)
    for _ in range(20):
        theta, _ = scoring.maximise(theta, sums, population)
    assert np.abs(scoring.slope(theta, sums, population)).max() < 1e-6


@pytest.mark.parametrize(
    ("settings", "labels", "scores", "says"),
    [
        ({}, [0, 1] * 10, [0.5] * 19, "one per report"),
        ({}, [0, 1] * 10, [1.5] * 20, "between 0 and 1"),
        ({}, [0, 1] * 10, ["sure"] * 20, "must be probabilities"),
        ({"reports_model": "one_state"}, [0, 1] * 10, [0.9] * 20, "scores are parts of the instrument model"),
        ({"inference": "gibbs"}, [0, 1] * 10, [0.9] * 20, "does not read scores"),
        ({"states": [0, 1, 2]}, [0, 1] * 10, [0.9] * 20, "two states"),
    ],
)
def test_scores_that_make_no_sense_are_refused(settings, labels, scores, says):
    X = np.random.default_rng(0).uniform(0, 10, (20, 2))
    with pytest.raises(InputError, match=says):
        model(**settings).fit(X, labels, ["a", "b"] * 10, scores=scores)


def test_a_file_of_scores_alone_makes_a_map_without_a_check_of_labels():
    rng = np.random.default_rng(0)
    places = rng.uniform([500_000, 0], [510_000, 10_000], (30, 2))
    wet = places[:, 0] > 505_000
    reports = cf.Reports.from_arrays(
        places, np.where(wet, "wet", "dry"), ["machine"] * 30, crs="EPSG:32618", score=rng.uniform(0.6, 0.95, 30)
    )
    fused = cf.pipeline.fuse(reports, cell=2500, lengthscale=3000)
    wet_probability = fused.heatmap.probability[:, :, fused.heatmap.states.index("wet")].mean(axis=0)
    assert wet_probability[0] < 0.5 < wet_probability[-1]
    with pytest.raises(InputError, match="all are scores"):
        cf.check_model(fused.model)
