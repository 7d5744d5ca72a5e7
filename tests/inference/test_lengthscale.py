"""The search for a length-scale, on bounds whose best is known."""

import numpy as np
import pytest

from crowdfield.inference.lengthscale import maximise, search_range


@pytest.mark.parametrize("best", [0.7, 3.0, 16.0, 90.0])
def test_the_search_finds_the_maximum_of_the_bound_and_its_width(best):
    seen = []

    def bound(length):
        seen.append(length)
        return -0.5 * (np.log(length / best) / 0.3) ** 2 - 0.02 * np.log(length / best) ** 4

    found = maximise(bound, 0.2, 200.0)
    assert found.lengthscale == pytest.approx(best, rel=0.03)
    assert found.log_sd == pytest.approx(0.3, rel=0.25)
    assert not found.at_limit and len(seen) <= 12


def test_a_bound_without_a_top_ends_at_the_limit():
    found = maximise(lambda length: float(np.log(length)), 1.0, 50.0)
    assert found.lengthscale == pytest.approx(50.0) and found.at_limit and found.log_sd == np.inf


def test_of_two_maxima_the_higher_is_found():
    def bound(length):
        x = np.log(length)
        return float(np.logaddexp(-0.5 * ((x - 0.5) / 0.5) ** 2, 3.0 - 0.5 * ((x - 4.0) / 0.5) ** 2))

    assert maximise(bound, 1.0, 200.0).lengthscale == pytest.approx(np.exp(4.0), rel=0.05)


@pytest.mark.parametrize("long_first", [False, True])
def test_short_length_scales_are_not_tried_once_the_bound_has_clearly_fallen(long_first):
    seen = []

    def bound(length):
        seen.append(length)
        return -500.0 * np.log(length / 16.0) ** 2

    found = maximise(bound, 0.5, 200.0, long_first=long_first)
    assert found.lengthscale == pytest.approx(16.0, rel=0.03) and min(seen) > 2.0


def test_the_range_of_the_search_follows_the_extent_of_the_map():
    X = np.random.default_rng(0).random((400, 2)) * [100.0, 60.0]
    low, high = search_range(X)
    assert low == pytest.approx(2.5, rel=0.05) and high == pytest.approx(100.0, rel=0.05)
    assert search_range(X * 1000)[0] == pytest.approx(1000 * low)
    assert search_range(np.zeros((5, 2))) == (1.0, 1.0)
