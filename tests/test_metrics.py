"""Each metric against what it means, not against itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from crowdfield import metrics
from crowdfield.errors import InputError


def test_auc_is_the_chance_that_a_positive_outranks_a_negative():
    rng = np.random.default_rng(0)
    t = rng.random(200) < 0.4
    p = np.round(rng.random(200) + 0.3 * t, 1)  # rounding makes ties
    p = p / p.max()
    gaps = p[t][:, None] - p[~t][None, :]
    assert metrics.auc(t, p) == pytest.approx(np.mean((gaps > 0) + 0.5 * (gaps == 0)), abs=1e-12)


def test_auc_of_states_is_one_against_the_rest():
    rng = np.random.default_rng(1)
    t = rng.integers(0, 3, 100)
    p = rng.dirichlet(np.ones(3), 100) + np.eye(3)[t]
    p /= p.sum(1, keepdims=True)
    each = [metrics.auc(t == j, p[:, j]) for j in range(3)]
    assert metrics.auc(t, p) == pytest.approx(np.mean(each))


@pytest.mark.parametrize("state", [0, 1])
def test_auc_with_one_class_says_so(state):
    with pytest.raises(InputError, match="undefined: all 4 places are"):
        metrics.auc(np.full(4, state), [0.1, 0.2, 0.3, 0.4])


def test_cross_entropy_in_bits():
    assert metrics.cross_entropy([0, 1], [0.5, 0.5]) == pytest.approx(1.0)
    assert metrics.cross_entropy([0, 1], [0.25, 0.25]) == pytest.approx(0.5 * (-np.log2(0.75) + 2.0))
    # One certain mistake costs the floor's 20 bits, not infinity.
    assert metrics.cross_entropy([1], [0.0]) == pytest.approx(-np.log2(1e-6))


def test_cross_entropy_is_least_at_the_truth():
    truth = np.array([0.2, 0.7, 0.9])
    best = metrics.cross_entropy(truth, truth)
    for shift in (-0.1, -0.01, 0.01, 0.09):
        assert metrics.cross_entropy(truth, truth + shift) > best


def test_cross_entropy_binary_and_two_column_agree():
    rng = np.random.default_rng(2)
    t, p = rng.integers(0, 2, 50), rng.random(50)
    both = np.c_[1 - p, p]
    assert metrics.cross_entropy(t, both) == pytest.approx(metrics.cross_entropy(t, p))
    assert metrics.cross_entropy(np.eye(2)[t], both) == pytest.approx(metrics.cross_entropy(t, p))


def test_nlpd_beta_is_a_beta_log_density():
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0.5, 9, 40), rng.uniform(0.5, 9, 40)
    rho = rng.beta(a, b)
    beta = stats.beta(a, b)
    expected = -np.mean(beta.logpdf(rho)) / np.log(2)
    assert metrics.nlpd_beta(rho, beta.mean(), beta.var()) == pytest.approx(expected, rel=1e-9)


def test_nlpd_logit_normal_integrates_to_one_and_prefers_the_right_spread():
    rho = np.linspace(1e-5, 1 - 1e-5, 20001)
    density = [2.0 ** -metrics.nlpd_logit_normal([x], [0.7], [1.3]) for x in rho[::20]]
    assert np.trapezoid(density, rho[::20]) == pytest.approx(1.0, abs=1e-3)

    f = np.random.default_rng(4).normal(0.3, 1.5, 4000)
    score = {v: metrics.nlpd_logit_normal(expit(f), np.full(4000, 0.3), np.full(4000, v)) for v in (0.5, 2.25, 9.0)}
    assert min(score, key=lambda variance: score[variance]) == 2.25


def test_calibration_error_of_a_calibrated_and_an_overconfident_map():
    rng = np.random.default_rng(5)
    p = rng.random(200_000)
    t = rng.random(200_000) < p
    assert metrics.calibration_error(t, p) < 0.01
    # A map that says 0 or 1 where it should say p is wrong by E|p - 1[p > 1/2]| = 1/4.
    assert metrics.calibration_error(t, (p > 0.5).astype(float)) == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_reliability_counts_every_place_once(strategy):
    rng = np.random.default_rng(6)
    p = rng.beta(0.5, 0.5, 999)
    diagram = metrics.reliability(rng.random(999) < p, p, bins=8, strategy=strategy)
    assert diagram.count.sum() == 999
    assert np.nansum(diagram.predicted * diagram.count) == pytest.approx(p.sum())
    if strategy == "quantile":
        assert diagram.count.max() - diagram.count.min() <= 1


def test_reliability_of_empty_bins_is_unknown_not_zero():
    diagram = metrics.reliability([0, 1], [0.05, 0.95], bins=10)
    assert np.isnan(diagram.observed[1:9]).all() and diagram.error == pytest.approx(0.05)


BAD: dict[str, tuple[Callable[..., object], tuple[Any, ...], str]] = {
    "lengths": (metrics.auc, ([0, 1], [0.1, 0.2, 0.3]), "2 rows"),
    "soft truth in AUC": (metrics.auc, ([0.2, 1], [0.1, 0.2]), "0s and 1s"),
    "unknown state": (metrics.auc, ([0, 5], [[0.1, 0.9], [0.4, 0.6]]), "state codes"),
    "empty": (metrics.cross_entropy, ([], []), "empty"),
    "NaN": (metrics.cross_entropy, ([0, 1], [np.nan, 0.5]), "NaN"),
    "not a probability": (metrics.cross_entropy, ([0, 1], [0.5, 1.5]), r"\[0, 1\]"),
    "words": (metrics.cross_entropy, (["a", "b"], [0.5, 0.5]), "numbers"),
    "no posterior": (metrics.nlpd_beta, ([0.5], [0.5], [0.0]), "no NLPD"),
    "negative variance": (metrics.nlpd_logit_normal, ([0.5], [0.5], [-1.0]), "positive"),
    "zero bins": (lambda t, p: metrics.reliability(t, p, bins=0), ([0], [0.5]), "at least 1"),
    "strategy": (lambda t, p: metrics.reliability(t, p, strategy="x"), ([0], [0.5]), "uniform"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_error_names_what_is_wrong_with_the_input(case):
    function, arguments, message = BAD[case]
    with pytest.raises(InputError, match=message):
        function(*arguments)
