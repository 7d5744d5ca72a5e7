"""Every estimator against scikit-learn's own checks, and against the promises that all of ours make.

A new estimator is one line in ESTIMATORS.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import crowdfield as cf
from crowdfield.errors import InputError

ESTIMATORS = [
    cf.IBCC(),
    # A loose tolerance: these checks fit dozens of toy sets, most of them separable, whose scale has no end to reach.
    cf.HeatmapBCC(tol=0.05),
    cf.GPClassifier(tol=0.05),
    cf.IBCCGP(tol=0.05),
    cf.HeatmapBCC(lengthscale=4.0, tol=0.05),
    cf.KernelDensity(),
    cf.SVM(),
    cf.NearestNeighbours(),
    cf.MajorityVote(),
]

# {estimator's name: {check: why it cannot hold for it}}
EXCEPTIONS: dict[str, dict[str, str]] = {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda e: EXCEPTIONS.get(type(e).__name__, {}))
def test_scikit_learn(estimator, check):
    check(estimator)


every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
judging = pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "confusion_prior")], ids=lambda e: type(e).__name__
)


@pytest.fixture
def crowd():
    """Six sources, the last two of them guessing, on a map whose west is 0 and whose east is 1."""
    rng = np.random.default_rng(42)
    X = rng.integers(0, 10, (500, 2)).astype(float)
    sources = rng.integers(0, 6, 500)
    truth = (X[:, 0] >= 5).astype(int)
    y = np.where(rng.random(500) < np.where(sources < 4, 0.9, 0.5), truth, 1 - truth)
    return X, y, sources


@every
def test_finds_what_most_reports_say(estimator, crowd):
    X, y, sources = crowd
    places = np.unique(X, axis=0)
    right = clone(estimator).fit(X, y, sources).predict(places) == (places[:, 0] >= 5)
    assert right.mean() > 0.8


@every
def test_probabilities_are_probabilities(estimator, crowd):
    X, y, sources = crowd
    P = clone(estimator).fit(X, y, sources).predict_proba(np.vstack([X, X + 0.5, X + 1e4]))
    assert P.min() >= 0
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)


@every
def test_fit_leaves_its_inputs_alone(estimator, crowd):
    X, y, sources = (part.copy() for part in crowd)
    clone(estimator).fit(X, y, sources).predict_proba(X)
    for before, after in zip(crowd, (X, y, sources), strict=True):
        np.testing.assert_array_equal(before, after)
    for part in (X, y, sources):
        part.setflags(write=False)
    clone(estimator).fit(X, y, sources).predict_proba(X)


@every
def test_two_instances_share_nothing(estimator, crowd):
    X, y, sources = crowd
    first, second = clone(estimator), clone(estimator)
    expected = first.fit(X, y, sources).predict_proba(X)
    second.fit(X[:40] + 3.0, 1 - y[:40], sources[:40])
    np.testing.assert_array_equal(first.predict_proba(X), expected)


@every
def test_the_same_data_give_the_same_map(estimator, crowd):
    X, y, sources = crowd
    first, second = (clone(estimator).fit(X, y, sources).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@every
def test_words_do_as_well_as_numbers(estimator, crowd):
    X, y, sources = crowd
    numbers = clone(estimator).fit(X, y, sources)
    words = clone(estimator).fit(X, np.array(["dry", "flooded"])[y], np.array(list("abcdef"))[sources])
    assert list(words.classes_) == ["dry", "flooded"]
    np.testing.assert_allclose(words.predict_proba(X), numbers.predict_proba(X), atol=1e-12)
    assert set(words.predict(X)) <= {"dry", "flooded"}


@every
def test_exactly_two_sites(estimator):
    X = np.array([[0.0, 0.0], [100.0, 50.0]])[[0, 1] * 8]
    y = np.array([0, 1] * 8)
    P = clone(estimator).fit(X, y, np.arange(16) // 4).predict_proba(X[:2])
    assert P.shape == (2, 2) and P[0, 0] > 0.5 and P[1, 1] > 0.5


@every
def test_moving_the_map_moves_nothing_else(estimator, crowd):
    X, y, sources = crowd
    shift = np.array([512.0, -256.0])
    here = clone(estimator).fit(X, y, sources).predict_proba(X)
    there = clone(estimator).fit(X + shift, y, sources).predict_proba(X + shift)
    np.testing.assert_allclose(here, there, atol=1e-6)


@every
@pytest.mark.filterwarnings("ignore::crowdfield.errors.DataWarning")
def test_states_that_nobody_reported_keep_their_column(estimator, crowd):
    X, _, sources = crowd
    model = clone(estimator).set_params(states=[0, 1]).fit(X, np.ones(len(X), dtype=int), sources)
    assert list(model.classes_) == [0, 1]
    P = model.predict_proba(X)
    assert np.isfinite(P).all() and (P[:, 1] >= 0.5).all()


@judging
def test_permuting_sources_permutes_their_confusion(estimator, crowd):
    X, y, sources = crowd
    renamed = np.array([3, 0, 5, 1, 4, 2])
    model = clone(estimator).fit(X, y, sources)
    other = clone(estimator).fit(X, y, renamed[sources])
    assert list(other.sources_seen_) == sorted(renamed)
    np.testing.assert_allclose(other.confusion_[renamed], model.confusion_, atol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-6)


@judging
def test_good_sources_are_told_from_guessers(estimator, crowd):
    model = clone(estimator).fit(*crowd)
    accuracy = model.confusion_[:, [0, 1], [0, 1]].mean(axis=1)
    assert accuracy[:4].min() > accuracy[4:].max()


BAD = {
    "empty": (lambda X, y, s: (X[:0], y[:0], s[:0]), "0 sample"),
    "NaN": (lambda X, y, s: (np.where(X > 8, np.nan, X), y, s), "NaN"),
    "infinite": (lambda X, y, s: (np.where(X > 8, np.inf, X), y, s), "inf"),
    "lengths": (lambda X, y, s: (X, y[:-1], s), "inconsistent"),
    "sources": (lambda X, y, s: (X, y, s[:-1]), "source"),
    "one class": (lambda X, y, s: (X, 0 * y, s), "one class"),
    "no labels": (lambda X, y, s: (X, None, s), "requires y"),
}


@every
@pytest.mark.parametrize("case", BAD)
def test_bad_reports_are_named(estimator, case, crowd):
    spoil, message = BAD[case]
    with pytest.raises(InputError, match=message):
        clone(estimator).fit(*spoil(*crowd))
