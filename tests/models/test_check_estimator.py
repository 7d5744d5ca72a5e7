"""Every estimator against scikit-learn's own checks, and against the promises that all of ours make.

A new estimator is one line in ESTIMATORS.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import crowdfield as cf
from crowdfield import testing

ESTIMATORS = [
    cf.IBCC(),
    # A loose tolerance: these checks fit dozens of toy sets, most of them separable, whose scale has no end to reach.
    cf.HeatmapBCC(tol=0.05),
    cf.GPClassifier(tol=0.05),
    cf.IBCCGP(tol=0.05),
    cf.KernelDensity(),
    cf.SVM(),
    cf.NearestNeighbours(),
    cf.MajorityVote(),
]

# {estimator's name: {check: why it cannot hold for it}}
EXCEPTIONS: dict[str, dict[str, str]] = {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda e: EXCEPTIONS.get(type(e).__name__, {}))
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
judging = pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "confusion_prior")], ids=lambda e: type(e).__name__
)


@every
@pytest.mark.parametrize("check", testing.CHECKS, ids=testing.name_of)
def test_every_estimator_keeps_the_contract(estimator, check):
    check(estimator)


@judging
@pytest.mark.parametrize("check", testing.SOURCE_CHECKS, ids=testing.name_of)
def test_estimators_that_judge_sources_keep_their_part_of_it(estimator, check):
    check(estimator)


class Forgetful(cf.MajorityVote):
    """An estimator that breaks the contract: it overwrites the caller's labels."""

    def fit(self, X, y, sources=None):
        super().fit(X, y, sources)
        if isinstance(y, np.ndarray):
            y[:] = 0
        return self


class Deaf(cf.MajorityVote):
    """An estimator that takes anything for reports."""

    def fit(self, X, y, sources=None):
        return super().fit(*testing.example_crowd())


@pytest.mark.parametrize(
    ("broken", "check"),
    [(Forgetful(), testing.check_fit_leaves_its_inputs_alone), (Deaf(), testing.check_bad_reports_are_named)],
    ids=["overwrites labels", "takes bad reports"],
)
def test_the_checks_find_an_estimator_that_breaks_the_contract(broken, check):
    with pytest.raises(AssertionError):
        check(broken)
    with pytest.raises(AssertionError):
        testing.check_report_classifier(broken)
