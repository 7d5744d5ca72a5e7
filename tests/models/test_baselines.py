"""The simple methods do what their names say."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError


def test_majority_vote_counts_votes_and_falls_back_on_the_most_frequent_label():
    X = np.array([[0.0, 0.0]] * 3 + [[1.0, 0.0]] * 2)
    model = cf.MajorityVote().fit(X, ["no", "yes", "yes", "no", "no"])
    np.testing.assert_allclose(model.predict_proba([[0, 0], [1, 0], [9, 9]]), [[1 / 3, 2 / 3], [1.0, 0.0], [0.6, 0.4]])
    assert list(model.predict([[0, 0], [1, 0], [9, 9]])) == ["yes", "no", "no"]


def test_kernel_density_is_a_share_of_gaussian_kernels():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]])
    y, b, prior = np.array([0, 1, 1]), 1.3, 0.2
    model = cf.KernelDensity(bandwidth=b, prior=prior).fit(X, y)
    place = np.array([[1.0, 0.5]])
    k = np.exp(-0.5 * ((place - X) ** 2).sum(1) / b**2)
    expected = (k[1:].sum() + prior / 2) / (k.sum() + prior)
    assert model.predict_proba(place)[0, 1] == pytest.approx(expected, rel=1e-9)


def test_kernel_density_far_away_is_unknown():
    model = cf.KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[1e5, 1e5]]), 0.5)


def test_nearest_neighbours_are_five_or_all_there_are():
    X = np.arange(8.0)[:, None]
    y = np.array([0, 1, 0, 1, 1, 1, 1, 1])
    assert cf.NearestNeighbours().fit(X, y).predict_proba([[0.0]])[0, 1] == pytest.approx(3 / 5)
    assert cf.NearestNeighbours().fit(X[:3], y[:3]).predict_proba([[0.0]])[0, 1] == pytest.approx(1 / 3)


def test_svm_bends_round_an_island():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = (np.hypot(*X.T) < 0.6).astype(int)
    model = cf.SVM().fit(X, y)
    assert (model.predict(X) == y).mean() > 0.95
    assert model.predict_proba([[0.0, 0.0]])[0, 1] > 0.9 > 0.1 > model.predict_proba([[1.0, 1.0]])[0, 1]


def test_svm_with_a_single_positive_report():
    X = np.arange(6.0)[:, None]
    assert list(cf.SVM(gamma=5.0, penalty=10.0).fit(X, [0, 0, 0, 0, 0, 1]).predict(X[[0, 5]])) == [0, 1]


BAD = {
    "bandwidth": (cf.KernelDensity(bandwidth=-1.0), "bandwidth"),
    "prior": (cf.KernelDensity(prior=0.0), "prior"),
    "penalty": (cf.SVM(penalty=0.0), "penalty"),
    "neighbours": (cf.NearestNeighbours(neighbours=0), "neighbours"),
    "label that is no state": (cf.MajorityVote(states=[1, 2]), "no state"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_named(case):
    model, message = BAD[case]
    with pytest.raises(InputError, match=message):
        model.fit(np.arange(4.0)[:, None], [0, 1, 0, 1])
