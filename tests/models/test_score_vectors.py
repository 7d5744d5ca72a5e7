"""Reports that are the probabilities of three or more states, of machines beside people."""

import dataclasses

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError
from crowdfield.inference.instrument.responses import even_thresholds
from crowdfield.inference.instrument.responses import state_scores as grade_scores
from crowdfield.inference.instrument.scoring import along_scale
from crowdfield.inference.instrument.several import scoring
from crowdfield.inference.instrument.several.fitting import evaluate
from crowdfield.inference.instrument.several.left_out import log_vectors
from crowdfield.inference.instrument.several.scores import state_scores
from crowdfield.inference.instrument.several.scoring import Vectors

N = 180
STATES = ["destroyed", "damaged", "intact"]


def softmax(x):
    p = np.exp(x - x.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def world(gain, noise, seed=0, shift=0.0):
    """Two votes by people at every place, and the vectors of a machine: places, labels, sources, vectors, truth."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 20, (N, 2))
    h = state_scores(3)
    g = 2.5 * np.stack([np.sin(X[:, 0] / 3), np.cos(X[:, 1] / 3)], 1) + 0.7 * rng.standard_normal((N, 2))
    truth = softmax(g @ h.T)
    site = np.repeat(np.arange(N), 2)
    votes = (rng.random((2 * N, 1)) > truth[site].cumsum(1)).sum(1)
    said = softmax((gain * g + shift + noise * rng.standard_normal((N, 2))) @ h.T)
    labels = np.array(STATES)[np.r_[votes, said.argmax(1)]]
    sources = np.array([*map(str, rng.integers(0, 8, 2 * N)), *["machine"] * N])
    vectors = np.vstack([np.full((2 * N, 3), np.nan), said])
    return np.vstack([X[site], X]), labels, sources, vectors, truth


def model(**settings):
    return cf.HeatmapBCC(**{"lengthscale": 5.0, "states": STATES, "tol": 1e-3, **settings})


def cross_entropy(fitted, X, truth):
    return -(truth * np.log2(np.clip(fitted.predict_proba(X), 1e-9, 1))).sum(1).mean()


def machine(fitted):
    return fitted.source_table().set_index("source").loc["machine"]


@pytest.fixture(scope="module")
def calibrated():
    given = world(1.0, 0.7)
    return given, model().fit(*given[:3], scores=given[3])


def test_gain_and_noise_of_a_machine_are_found(calibrated):
    fitted = calibrated[1]
    assert fitted.reports_model_ == "instrument"
    row = machine(fitted)
    assert row["sensitivity"] == pytest.approx(1.0, abs=0.3)
    assert row["sensitivity_low"] < row["sensitivity"] < row["sensitivity_high"]
    assert row["noise"] == pytest.approx(0.7, abs=0.25)
    assert abs(row["lean"]) < 0.5 and row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
    assert fitted.source_table().query("source != 'machine'")["noise"].isna().all()


def test_a_calibrated_machine_is_worth_more_than_its_labels(calibrated):
    (X, y, s, _, truth), fitted = calibrated
    labels = model(reports_model="instrument").fit(X, y, s)
    people = model(reports_model="instrument").fit(X[:-N], y[:-N], s[:-N])
    told, voted, alone = (cross_entropy(m, X[-N:], truth) for m in (fitted, labels, people))
    assert told < voted - 0.02 < alone - 0.04


def test_an_overconfident_machine_is_found_out():
    X, y, s, vectors, truth = world(1.0, 4.0)  # vectors of 84 % that say hardly anything
    assert np.nanmean(vectors.max(1)[-N:]) > 0.8
    row = machine(fitted := model().fit(X, y, s, scores=vectors))
    assert row["noise"] == pytest.approx(3.6, abs=0.5) and row["informativeness"] < 0.15
    people = model(reports_model="instrument").fit(X[:-N], y[:-N], s[:-N])
    assert cross_entropy(fitted, X[-N:], truth) < cross_entropy(people, X[-N:], truth) + 0.02


def test_a_machine_that_leans_is_found_to_lean():
    X, y, s, vectors, _ = world(1.0, 0.7, shift=3.0 * state_scores(3)[0])
    row = machine(model().fit(X, y, s, scores=vectors))
    assert row["lean"] == pytest.approx(1.5 * 2 / 3, abs=0.5) and row["lean_low"] > 0


def test_the_objective_rises_with_vectors(calibrated):
    assert calibrated[1].converged_
    assert (np.diff(calibrated[1].bound_history_) > -1e-6).all()


def test_the_order_of_the_states_does_not_matter(calibrated):
    (X, y, s, vectors, _), fitted = calibrated
    turned = model(states=STATES[::-1]).fit(X, y, s, scores=vectors[:, ::-1])
    assert turned.predict_proba(X) == pytest.approx(fitted.predict_proba(X)[:, ::-1], abs=5e-3)
    assert machine(turned)["noise"] == pytest.approx(machine(fitted)["noise"], abs=5e-3)


def test_columns_by_name_are_the_same_as_columns_in_order(calibrated):
    (X, y, s, vectors, _), fitted = calibrated
    columns = {"intact": vectors[:, 2], "destroyed": vectors[:, 0], "damaged": vectors[:, 1]}
    named = model().fit(X, y, s, scores=columns)
    assert named.predict_proba(X) == pytest.approx(fitted.predict_proba(X), abs=0)


def test_a_model_with_vectors_is_asked_and_kept_like_any_other(calibrated, tmp_path):
    X, fitted = calibrated[0][0], calibrated[1]
    places = X[-5:]
    bits = fitted.score_reports()["bits"]
    assert np.isfinite(bits[: 2 * N]).all() and bits[2 * N :].isna().all()
    shares = fitted.explain(places[0])
    p = fitted.predict_proba(places[:1])[0].max()
    assert shares["log_odds"].sum() == pytest.approx(np.log(p / (1 - p)), abs=1e-6)
    assert len(fitted.suggest(places, n=2)[0]) == 2
    assert fitted.sample_rate(places, n=3, random_state=0).shape == (3, 5, 3)
    assert fitted.to_arviz().posterior["lean"].sizes["lean_to"] == 3
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    assert again.predict_proba(places) == pytest.approx(fitted.predict_proba(places), abs=1e-6)
    again.partial_fit([[1.0, 1.0]], ["intact"], ["machine"], scores=[[0.1, 0.2, 0.7]])
    assert again.reports_.score[-1] == pytest.approx([0.1, 0.2, 0.7])


def test_the_length_scale_is_learned_from_vectors_too(calibrated):
    (X, y, s, vectors, _), _ = calibrated
    learned = model(lengthscale="learn").fit(X, y, s, scores=vectors)
    # By labels alone, which a vector at the same place predicts whatever the field is, it was that of next neighbours.
    assert 3.0 < learned.lengthscale_[0] < 20.0


def test_what_a_left_out_vector_is_expected_to_be_is_what_a_fit_without_it_says(calibrated):
    fitted = calibrated[1]._instrument
    observed, at = fitted.observed, fitted.settled.at
    whole = log_vectors(observed, at)
    one = np.r_[True, np.zeros(N - 1, dtype=bool)]
    rest = dataclasses.replace(observed, vectors=Vectors(*(part[~one] for part in observed.vectors)))
    before = evaluate(rest, fitted.design, fitted.offset, fitted.problem.prior, at.state)
    without = at.state
    for _ in range(20):  # the sites settle, with the sources as they were
        without = without._replace(eta=before.image.eta, lam=before.image.lam)
        before = evaluate(rest, fitted.design, fitted.offset, fitted.problem.prior, without)
    site, source, value = (part[0] for part in observed.vectors)
    theta = at.state.theta[source, observed.label_parameters :]
    spread = theta[0] ** 2 * before.places.covariance[site] + np.exp(theta[-1]) * np.eye(2)
    above = value - theta[0] * before.places.mean[site] - theta[1:-1]
    exact = -0.5 * (above @ np.linalg.solve(spread, above) + np.linalg.slogdet(2 * np.pi * spread)[1])
    alone = dataclasses.replace(observed, vectors=Vectors(*(part[one] for part in observed.vectors)))
    assert log_vectors(alone, at) == pytest.approx(exact, abs=0.1)
    assert whole == pytest.approx(
        sum(
            log_vectors(
                dataclasses.replace(observed, vectors=Vectors(*(part[k : k + 20] for part in observed.vectors))), at
            )
            for k in range(0, N, 20)
        )
    )


def test_vectors_may_come_after_a_first_fit_to_labels(calibrated):
    (X, y, s, vectors, _), fitted = calibrated
    stream = model(reports_model="instrument").fit(X[:-N], y[:-N], s[:-N])
    stream.partial_fit(X[-N:], y[-N:], s[-N:], scores=vectors[-N:])
    assert stream.predict_proba(X) == pytest.approx(fitted.predict_proba(X), abs=5e-3)


def test_vectors_of_two_states_are_the_same_as_scores():
    rng = np.random.default_rng(3)
    X, y = rng.uniform(0, 10, (60, 2)), rng.integers(0, 2, 60)
    p = rng.uniform(0.5, 1.0, 60)
    p[:20] = np.nan
    vectors = np.where((y == 1)[:, None], np.stack([1 - p, p], 1), np.stack([p, 1 - p], 1))
    sources = ["a", "b", "machine"] * 20
    one = model(states=[0, 1]).fit(X, y, sources, scores=p)
    two = model(states=[0, 1]).fit(X, y, sources, scores=vectors)
    assert two.predict_proba(X) == pytest.approx(one.predict_proba(X), abs=1e-9)
    assert two.source_table()["noise"].tolist() == pytest.approx(one.source_table()["noise"].tolist(), abs=1e-9)


def test_vectors_of_grades_are_read_along_the_scale():
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 20, (N, 2))
    g = 1.5 * np.sin(X[:, 0] / 3) + 0.5 * rng.standard_normal(N)
    s = grade_scores(4)
    truth = softmax(g[:, None] * s - 0.3 * s**2)
    votes = (rng.random((N, 1)) > truth.cumsum(1)).sum(1)
    said = softmax((g + 0.4 * rng.standard_normal(N))[:, None] * s - 0.3 * s**2)
    places, labels = np.vstack([X, X]), np.r_[votes, said.argmax(1)]
    sources = np.array([*map(str, rng.integers(0, 6, N)), *["machine"] * N])
    vectors = np.vstack([np.full((N, 4), np.nan), said])
    graded = model(states=[0, 1, 2, 3], ordered=True)
    fitted = graded.fit(places, labels, sources, scores=vectors)
    row, others = machine(fitted), fitted.source_table().query("source != 'machine'")
    assert row["sensitivity"] == pytest.approx(others["sensitivity"].mean(), abs=0.35)
    assert row["noise"] == pytest.approx(0.4, abs=0.2) and row["accuracy"] > 0.4
    people = model(states=[0, 1, 2, 3], ordered=True).fit(places[:N], labels[:N], sources[:N])
    assert cross_entropy(fitted, X, truth) < cross_entropy(people, X, truth) - 0.05


@pytest.mark.parametrize("states", [2, 3, 5])
def test_the_most_probable_state_of_a_vector_is_what_draws_say(states):
    rng, h = np.random.default_rng(5), state_scores(states)
    theta, g = np.array([0.7, *rng.normal(0, 1, states - 1), np.log(2.0)]), rng.normal(0, 1.5, (4, states - 1))
    y = theta[0] * g + theta[1:-1] + np.sqrt(2.0) * rng.standard_normal((60_000, *g.shape))
    first = (y @ h.T).argmax(-1)
    drawn = np.stack([(first == j).mean(0) for j in range(states)], axis=1)
    assert scoring.most_probable(theta, g, h) == pytest.approx(drawn, abs=0.01)


def test_slopes_and_likelihood_of_vectors_agree():
    rng = np.random.default_rng(1)
    value, mean, root = rng.normal(0, 2, (6, 2)), rng.normal(0, 1, (6, 2)), rng.normal(0, 0.5, (6, 2, 2))
    covariance = root @ root.transpose(0, 2, 1)
    theta = np.tile([0.8, 0.3, -0.4, 0.5], (6, 1))
    one = scoring.read(theta, value, mean, covariance)
    for d in range(4):
        step = 1e-5 * np.eye(4)[d]
        up, down = (scoring.read(theta + sign * step, value, mean, covariance).value for sign in (1, -1))
        assert one.pull[:, d] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)
    for f in range(2):
        step = 1e-5 * np.eye(2)[f]
        up, down = (scoring.read(theta, value, mean + sign * step, covariance).value for sign in (1, -1))
        assert one.gradient[:, f] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)
    drawn = mean + rng.standard_normal((40_000, 6, 2)) @ np.linalg.cholesky(covariance)[0].T
    likelihood = -0.5 * ((value - 0.8 * drawn - theta[0, 1:3]) ** 2).sum(2) / np.exp(0.5)
    likelihood -= 0.5 + np.log(2 * np.pi)
    assert one.value[0] == pytest.approx(likelihood[:, 0].mean(), abs=0.05)


def test_a_vector_of_grades_is_read_as_the_appearance_it_stands_for():
    g, s = np.array([-1.5, 0.0, 0.4, 2.0]), grade_scores(4)
    vectors = softmax(g[:, None] * s + even_thresholds(s))
    assert along_scale(vectors, s) == pytest.approx(g, abs=0.02)
    assert (np.diff(along_scale(np.eye(4), s)) > 0.5).all() and np.abs(along_scale(np.eye(4), s)).max() < 6.0


def test_a_calibrated_vector_is_read_as_the_appearance_it_stands_for():
    g = np.random.default_rng(2).normal(0, 1, (5, 3))
    h = state_scores(4)
    assert scoring.contrasts(softmax(g @ h.T), h) == pytest.approx(g)


VECTOR = [[0.2, 0.3, 0.5]] * 21


@pytest.mark.parametrize(
    ("settings", "scores", "says"),
    [
        ({}, [[0.5, 0.5]] * 21, "a column per state"),
        ({}, VECTOR[:20], "a row per report"),
        ({}, [[0.5, 0.5, 0.5]] * 21, "add up to 1.5"),
        ({}, [[0.5, -0.5, 1.0]] * 21, "between 0 and 1"),
        ({}, [[0.4, np.nan, 0.6]] * 21, "none of 'damaged'"),
        ({}, {"intact": [0.5] * 21, "gone": [0.5] * 21}, "'gone', which is not among the labels"),
        ({}, {"intact": [0.5] * 20}, "one per report"),
        ({}, [0.9] * 21, "Give the probability of every state"),
        ({"reports_model": "one_state"}, VECTOR, "scores are parts of the instrument model"),
        ({"inference": "gibbs"}, VECTOR, "does not read scores|two states"),
    ],
)
def test_vectors_that_make_no_sense_are_refused(settings, scores, says):
    X = np.random.default_rng(0).uniform(0, 10, (21, 2))
    with pytest.raises(InputError, match=says):
        model(**settings).fit(X, STATES * 7, ["a", "b", "c"] * 7, scores=scores)


def test_reports_with_vectors_are_joined_by_the_names_of_their_labels():
    one = cf.Reports.from_arrays([[0, 0]], ["a"], labels=["a", "b"], score=[0.9])
    two = cf.Reports.from_arrays([[0, 0]], ["c"], labels=["c", "a", "b"], score=[[0.5, 0.2, 0.3]])
    joined = one.join(two)
    assert joined.labels == ("a", "b", "c")
    assert joined.score == pytest.approx(np.array([[0.9, 0.1, np.nan], [0.2, 0.3, 0.5]]), nan_ok=True)
    again = cf.Reports.from_frame(two.to_frame())
    assert again.labels == ("a", "b", "c")
    assert again.score == pytest.approx(np.array([[0.2, 0.3, 0.5]]))
    assert two.is_score.tolist() == [True] and one.take([False]).is_score.tolist() == []


def test_scores_over_dask_are_refused():
    pytest.importorskip("distributed")
    reports = cf.Reports.from_arrays([[0, 0]], ["a"], labels=["a", "b"], score=[0.9])
    with pytest.raises(InputError, match="not read over Dask"):
        cf.distributed.fit(reports)
