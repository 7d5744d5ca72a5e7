"""The comparison of strategies: what it counts, and that it is fair."""

import numpy as np
import pytest

from crowdfield.experiments.active import Curve, curves, labels_needed

SIZES = np.array([10, 20, 30, 40])


def test_labels_are_counted_where_the_falling_curve_meets_the_target():
    curve = Curve(SIZES, np.array([1.0, 0.8, 0.6, 0.5]))
    assert labels_needed(curve, 0.7) == pytest.approx(25.0)
    assert labels_needed(curve, 0.5) == pytest.approx(40.0)
    assert labels_needed(curve, 1.5) == 10.0
    assert labels_needed(curve, 0.4) == np.inf


def test_a_single_low_value_does_not_count_as_reaching_the_target():
    dip = Curve(SIZES, np.array([1.0, 0.5, 0.9, 0.6]))
    assert labels_needed(dip, 0.55) == np.inf


def test_all_strategies_start_from_the_same_reports():
    found = curves(0, ("map", "variance"), start=20, end=40, batch=10, side=20)
    first = {curve.cross_entropy[0] for curve in found.values()}
    assert len(first) == 1
    assert all(list(curve.reports) == [20, 30, 40] for curve in found.values())
