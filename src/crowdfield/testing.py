"""The checks that every estimator of crowdfield passes, for testing your own.

An estimator that follows the contract ``fit(X, y, sources)`` / ``predict_proba(X)`` can be put in the place of any
other, and these checks say whether it does. With pytest, one test per check:

    import pytest
    from crowdfield import testing

    @pytest.mark.parametrize("check", testing.CHECKS, ids=testing.name_of)
    def test_my_estimator_keeps_the_contract(check):
        check(MyEstimator())

Or all at once with `check_report_classifier`. scikit-learn's own ``check_estimator`` is a good companion: it knows
nothing of sources and places, and these checks repeat nothing of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crowdfield.errors import DataWarning, InputError

__all__ = ["CHECKS", "SOURCE_CHECKS", "Crowd", "check_report_classifier", "example_crowd", "name_of"]

Check = Callable[[Any], None]


class Crowd(NamedTuple):
    """Reports to test with, in the order of the arguments of ``fit``."""

    X: NDArray[np.float64]  # [R, 2] places
    y: NDArray[np.int64]  # [R] what was said
    sources: NDArray[np.int64]  # [R] by whom


def example_crowd() -> Crowd:
    """500 reports by six sources on a 10 by 10 map whose west is 0 and whose east is 1.

    Sources 0 to 3 are right nine times in ten; sources 4 and 5 guess.

    Returns
    -------
    Crowd
        The same one at every call.

    Examples
    --------
    >>> from crowdfield import testing
    >>> crowd = testing.example_crowd()
    >>> crowd.X.shape, sorted(set(crowd.sources.tolist()))
    ((500, 2), [0, 1, 2, 3, 4, 5])
    """
    rng = np.random.default_rng(42)
    X = rng.integers(0, 10, (500, 2)).astype(float)
    sources = rng.integers(0, 6, 500)
    truth = (X[:, 0] >= 5).astype(int)
    y = np.where(rng.random(500) < np.where(sources < 4, 0.9, 0.5), truth, 1 - truth)
    return Crowd(X, y, sources)


def check_report_classifier(estimator: Any) -> None:
    """Run every check on an estimator; the first that fails raises ``AssertionError``.

    Parameters
    ----------
    estimator : estimator
        An instance that is not fitted. It is cloned for every check and stays as it is. Estimators with a parameter
        ``confusion_prior`` are also asked whether they tell reliable sources from guessing ones.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.testing.check_report_classifier(cf.MajorityVote())
    """
    judges_sources = hasattr(estimator, "confusion_prior")
    for check in (*CHECKS, *(SOURCE_CHECKS if judges_sources else ())):
        check(estimator)


def name_of(check: Check) -> str:
    """The name of a check, for the ids of parametrised tests.

    Examples
    --------
    >>> from crowdfield import testing
    >>> testing.name_of(testing.CHECKS[0])
    'check_finds_what_most_reports_say'
    """
    return check.__name__


def check_finds_what_most_reports_say(estimator: Any) -> None:
    """On an easy map, more than 80 % of the places get the state that is true."""
    X, y, sources = example_crowd()
    places = np.unique(X, axis=0)
    right = clone(estimator).fit(X, y, sources).predict(places) == (places[:, 0] >= 5)
    assert right.mean() > 0.8, f"only {right.mean():.0%} of the places are right"


def check_probabilities_are_probabilities(estimator: Any) -> None:
    """At reported places, between them and far away: at least 0, and 1 in sum."""
    X, y, sources = example_crowd()
    P = clone(estimator).fit(X, y, sources).predict_proba(np.vstack([X, X + 0.5, X + 1e4]))
    assert P.min() >= 0
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)


def check_fit_leaves_its_inputs_alone(estimator: Any) -> None:
    """The caller's arrays are not changed, and may be read-only."""
    before, given = example_crowd(), example_crowd()
    clone(estimator).fit(*given).predict_proba(given.X)
    for old, new in zip(before, given, strict=True):
        np.testing.assert_array_equal(old, new)
    for part in given:
        part.setflags(write=False)
    clone(estimator).fit(*given).predict_proba(given.X)


def check_two_instances_share_nothing(estimator: Any) -> None:
    """Fitting one instance does not change what another predicts."""
    X, y, sources = example_crowd()
    first, second = clone(estimator), clone(estimator)
    expected = first.fit(X, y, sources).predict_proba(X)
    second.fit(X[:40] + 3.0, 1 - y[:40], sources[:40])
    np.testing.assert_array_equal(first.predict_proba(X), expected)


def check_the_same_data_give_the_same_map(estimator: Any) -> None:
    """Two fits to the same reports predict the same, to the last digit."""
    X, y, sources = example_crowd()
    first, second = (clone(estimator).fit(X, y, sources).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def check_words_do_as_well_as_numbers(estimator: Any) -> None:
    """Labels and sources may be strings; ``classes_`` and ``predict`` speak the labels' language."""
    X, y, sources = example_crowd()
    numbers = clone(estimator).fit(X, y, sources)
    words = clone(estimator).fit(X, np.array(["dry", "flooded"])[y], np.array(list("abcdef"))[sources])
    assert list(words.classes_) == ["dry", "flooded"]
    np.testing.assert_allclose(words.predict_proba(X), numbers.predict_proba(X), atol=1e-12)
    assert set(words.predict(X)) <= {"dry", "flooded"}


def check_two_places_are_enough(estimator: Any) -> None:
    """Two places with eight agreeing reports each get their own states."""
    X = np.array([[0.0, 0.0], [100.0, 50.0]])[[0, 1] * 8]
    P = clone(estimator).fit(X, np.array([0, 1] * 8), np.arange(16) // 4).predict_proba(X[:2])
    assert P.shape == (2, 2) and P[0, 0] > 0.5 and P[1, 1] > 0.5


def check_moving_the_map_changes_nothing(estimator: Any) -> None:
    """Shifting all coordinates shifts the map and changes no probability."""
    X, y, sources = example_crowd()
    shift = np.array([512.0, -256.0])
    here = clone(estimator).fit(X, y, sources).predict_proba(X)
    there = clone(estimator).fit(X + shift, y, sources).predict_proba(X + shift)
    np.testing.assert_allclose(here, there, atol=1e-6)


def check_states_without_reports_keep_their_column(estimator: Any) -> None:
    """A state that is named in ``states`` and that nobody reported still has its column."""
    X, y, sources = example_crowd()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # "all reports say the same" is what this check sets up
        model = clone(estimator).set_params(states=[0, 1]).fit(X, np.ones_like(y), sources)
    assert list(model.classes_) == [0, 1]
    P = model.predict_proba(X)
    assert np.isfinite(P).all() and (P[:, 1] >= 0.5).all()


# What is wrong with the reports: how to spoil them, and a part of the message that says so.
_BAD: dict[str, tuple[Callable[[Any, Any, Any], tuple[Any, Any, Any]], str]] = {
    "empty": (lambda X, y, s: (X[:0], y[:0], s[:0]), "0 sample"),
    "NaN": (lambda X, y, s: (np.where(X > 8, np.nan, X), y, s), "NaN"),
    "infinite": (lambda X, y, s: (np.where(X > 8, np.inf, X), y, s), "inf"),
    "lengths": (lambda X, y, s: (X, y[:-1], s), "inconsistent"),
    "sources": (lambda X, y, s: (X, y, s[:-1]), "source"),
    "one class": (lambda X, y, s: (X, 0 * y, s), "one class"),
    "no labels": (lambda X, y, s: (X, None, s), "requires y"),
}


def check_bad_reports_are_named(estimator: Any) -> None:
    """Reports that cannot be used raise ``InputError`` with a message that says what is wrong with them."""
    crowd = example_crowd()
    for case, (spoil, words) in _BAD.items():
        try:
            clone(estimator).fit(*spoil(*crowd))
        except InputError as problem:
            assert words in str(problem), f"{case}: the message does not say {words!r}: {problem}"
        else:
            raise AssertionError(f"{case}: bad reports were taken without an error")


def check_renaming_sources_renames_their_confusion_matrices(estimator: Any) -> None:
    """The order and the names of sources make no difference to the map or to what is learned about them."""
    X, y, sources = example_crowd()
    renamed = np.array([3, 0, 5, 1, 4, 2])
    model = clone(estimator).fit(X, y, sources)
    other = clone(estimator).fit(X, y, renamed[sources])
    assert list(other.sources_seen_) == sorted(renamed)
    np.testing.assert_allclose(other.confusion_[renamed], model.confusion_, atol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-6)


def check_good_sources_are_told_from_guessers(estimator: Any) -> None:
    """Every reliable source gets a higher accuracy than every guessing one."""
    model = clone(estimator).fit(*example_crowd())
    accuracy = model.confusion_[:, [0, 1], [0, 1]].mean(axis=1)
    assert accuracy[:4].min() > accuracy[4:].max()


CHECKS: tuple[Check, ...] = (
    check_finds_what_most_reports_say,
    check_probabilities_are_probabilities,
    check_fit_leaves_its_inputs_alone,
    check_two_instances_share_nothing,
    check_the_same_data_give_the_same_map,
    check_words_do_as_well_as_numbers,
    check_two_places_are_enough,
    check_moving_the_map_changes_nothing,
    check_states_without_reports_keep_their_column,
    check_bad_reports_are_named,
)
"""What holds for every estimator."""

SOURCE_CHECKS: tuple[Check, ...] = (
    check_renaming_sources_renames_their_confusion_matrices,
    check_good_sources_are_told_from_guessers,
)
"""What holds for estimators that learn a confusion matrix for every source (``confusion_``, ``sources_seen_``)."""
