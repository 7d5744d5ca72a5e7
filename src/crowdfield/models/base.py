"""What every estimator shares: validation of its input, the contract of a classifier, and finding known places.

Estimators only store, validate and call `inference`.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from crowdfield.arrays import Array as Array
from crowdfield.data import Reports
from crowdfield.errors import InputError


class ReportClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A map from reports: fit(X, y, sources) on one row per report, then state probabilities at any place."""

    classes_: NDArray[Any]
    n_features_in_: int

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources [R]: by whom (default: one source)."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each state of `classes_` at places X [M, D]: [M, J]."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable state at places X [M, D]: [M]."""
        check_is_fitted(self, "classes_")
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])


def validated_reports(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sources: Any = None,
    *,
    states: Sequence[Hashable] | None = None,
    labels: Sequence[Hashable] | None = None,
    reset: bool = True,
) -> tuple[Reports, tuple[Any, ...]]:
    """Validate the arguments of `fit`: returns Reports and the states, and sets `n_features_in_` (`feature_names_in_`).

    Without `states` they are the labels; without `labels` these are the states, then any others seen.
    """
    if y is None:
        raise InputError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None: "
            "y is what each report says."
        )
    try:
        places, said = validate_data(estimator, X, y, dtype=np.float64, reset=reset)
        check_classification_targets(said)
    except ValueError as problem:
        raise InputError(str(problem)) from problem
    if sources is not None and not isinstance(sources, np.ndarray):
        sources = np.asarray(sources) if hasattr(sources, "__array__") else list(sources)
    if states is not None and len(set(states)) != len(states):
        raise InputError(f"states must be different from each other, not {list(states)!r}.")
    reports = Reports.from_arrays(places, said, sources, labels=_label_order(said, states, labels))
    named = reports.labels if states is None else tuple(_python_scalar(s) for s in states)
    if len(named) < 2:
        raise InputError(
            f"Only one class of report was seen ({', '.join(map(repr, named))}), so there is nothing to tell apart. "
            "Name the states there can be, for example states=[0, 1] (on the command line --states A,B)."
        )
    return reports, named


def validated_places(estimator: BaseEstimator, X: Any) -> Array:
    """Arguments of `predict`: finite places with as many columns as in `fit`."""
    check_is_fitted(estimator)
    try:
        return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False), dtype=np.float64)
    except ValueError as problem:
        raise InputError(str(problem)) from problem


def as_classes(states: Sequence[Any]) -> NDArray[Any]:
    """States as an array that keeps them what they are: numbers, strings, or anything else as objects."""
    if len({type(s) for s in states}) == 1 and isinstance(states[0], str | bool | int | float):
        return np.asarray(states)
    out = np.empty(len(states), dtype=object)
    out[:] = states
    return out


def weakly_diagonal(states: Sequence[Any], labels: Sequence[Any]) -> Array:
    """The default confusion prior: 2 where label and state are the same, 1 elsewhere. [J, L]

    Never flat: under a flat prior labels have no meaning, and every map is one half everywhere.
    """
    return np.array([[2.0 if label == state else 1.0 for label in labels] for state in states])


def confusion_priors(
    prior: Any, states: Sequence[Any], labels: Sequence[Any], sources: Sequence[Hashable]
) -> NDArray[np.float64]:
    """Pseudo-counts α0 [S, J, L] from any form of the parameter `confusion_prior`.

    None: weakly diagonal for all; [J, L]: the same for all; {source: [J, L], ...}: for the sources named, with the
    key None for all others (default: weakly diagonal). Sources that have not reported yet may be named.
    """
    shape = (len(states), len(labels))
    if not isinstance(prior, Mapping):
        default = weakly_diagonal(states, labels) if prior is None else _pseudo_counts(prior, shape, "confusion_prior")
        return np.broadcast_to(default, (len(sources), *shape)).copy()
    alpha0 = confusion_priors(prior.get(None), states, labels, sources)
    for index, source in enumerate(sources):
        if source in prior:
            alpha0[index] = _pseudo_counts(prior[source], shape, f"confusion_prior[{source!r}]")
    for source in prior:
        if source is not None and source not in sources:
            _pseudo_counts(prior[source], shape, f"confusion_prior[{source!r}]")
    return alpha0


def prior_means(prior_mean: Any, X: Array, *, C: Array) -> Array:
    """The prior mean of every latent function at places X: [N, F]. A constant is a broadcast view.

    prior_mean: a number, one per state, or a function of places that gives [N] (two states) or [N, J].
    C [J, F] is the contrast of states and functions: with two states the function is the difference of their means.
    """
    states = len(C)
    try:
        value = np.asarray(prior_mean(X) if callable(prior_mean) else prior_mean, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"prior_mean must be numbers, or a function of places that gives them: {problem}") from problem
    if not np.isfinite(value).all():
        raise InputError("prior_mean must be finite at every place.")
    if callable(prior_mean) and value.shape == (len(X),) and states == 2:
        return value[:, None]
    if value.ndim == 0:  # with several states a common shift changes nothing
        return np.broadcast_to(value.reshape(1, 1), (len(X), C.shape[1]))
    if value.shape not in ((states,), (len(X), states)):
        raise InputError(
            f"prior_mean must be a number, one for each of the {states} states, or a function that returns "
            f"[M, {states}]{' or [M]' if states == 2 else ''}; got shape {value.shape}."
        )
    by_state = np.broadcast_to(value, (len(X), states))
    return by_state[:, 1:] - by_state[:, :1] if states == 2 else by_state


def positive(name: str, value: Any) -> float:
    """A hyperparameter that must be a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise InputError(f"{name} must be a positive number, not {value!r}.")
    return float(value)


def whole(name: str, value: Any, least: int = 1) -> int:
    """A hyperparameter that must be a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def find_sites(sites: Array, X: Array) -> NDArray[np.int64]:
    """The row of `sites` with the same coordinates as each row of X, or −1. Sites are sorted, as Reports.sites gives.

    A binary search of all places at once, by the first column and then among its ties; nothing of size N is formed.
    """
    if not len(sites):
        return np.full(len(X), -1, dtype=np.int64)
    low, high = (np.searchsorted(sites[:, 0], X[:, 0], side) for side in ("left", "right"))
    while (open_ := low < high).any():
        middle = (low + high) // 2
        here = sites[np.minimum(middle, len(sites) - 1)]
        less = np.zeros(len(X), dtype=bool)
        equal = np.ones(len(X), dtype=bool)
        for d in range(X.shape[1]):
            less |= equal & (here[:, d] < X[:, d])
            equal &= here[:, d] == X[:, d]
        low = np.where(open_ & less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    found = np.minimum(low, len(sites) - 1)
    return np.where((sites[found] == X).all(axis=1), found, -1)


def _pseudo_counts(value: Any, shape: tuple[int, int], name: str) -> Array:
    try:
        counts = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} must be numbers, one row per state and one column per label.") from problem
    if counts.shape != shape:
        raise InputError(
            f"{name} has shape {counts.shape}; with {shape[0]} states and {shape[1]} labels it is {shape}."
        )
    if not (np.isfinite(counts).all() and (counts > 0).all()):
        raise InputError(f"{name} must hold positive pseudo-counts, not {counts.tolist()}.")
    return counts


def _label_order(said: NDArray[Any], states: Any, labels: Any) -> tuple[Any, ...] | None:
    if labels is not None:
        return tuple(_python_scalar(label) for label in labels)
    if states is None:
        return None
    first = tuple(_python_scalar(state) for state in states)
    seen = Reports.from_arrays(np.zeros((len(said), 1)), said).labels
    return (*first, *(label for label in seen if label not in first))


def _python_scalar(value: Any) -> Any:
    """The same value as Python's own number or text where it is one of NumPy's."""
    return value.item() if isinstance(value, np.generic) else value
