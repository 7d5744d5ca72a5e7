"""IBCC: who can be trusted and what is true at each place, without a field between the places."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.errors import ConvergenceWarning, InputError
from crowdfield.inference import ibcc
from crowdfield.models.base import (
    Array,
    ReportClassifier,
    as_classes,
    confusion_priors,
    find_sites,
    positive,
    validated_places,
    validated_reports,
    whole,
)


class IBCC(ReportClassifier):
    """Independent Bayesian classifier combination by variational Bayes.

    Every distinct place is an item of its own; its state is drawn from class proportions that all places share. It
    interpolates nothing: where nobody has reported it gives the class proportions. Places need not be on a map: with
    item numbers as the only column of X this is the Bayesian form of Dawid and Skene's aggregation of crowd labels.

    Parameters
    ----------
    confusion_prior : None, array_like [J, L], or mapping, default=None
        Pseudo-counts of the confusion matrices, as for `HeatmapBCC`.
    proportion_prior : float or array_like [J], default=1.0
        Pseudo-counts of the states: one number, or one per state. Raise it when the class proportions are known.
    states, labels : sequence or None, default=None
        What can be true and what can be said; by default the labels seen.
    max_iter : int, default=1000
        The largest number of iterations.
    tol : float, default=1e-5
        Stop when every probability is estimated to be within this of its limit.

    Attributes
    ----------
    classes_ : ndarray [J]
        The states.
    confusion_ : ndarray [S, J, L]
        Expected confusion matrices, in the order of `sources_seen_`.
    proportions_ : ndarray [J]
        Expected class proportions.
    places_, posterior_ : ndarray [N, D], ndarray [N, J]
        The distinct places and their state probabilities.
    bound_, bound_history_, n_iter_ : float, ndarray, int
        The evidence lower bound, its value after every iteration (it never falls), and how many there were.

    Examples
    --------
    Three items; the third source says the opposite of the others:

    >>> import crowdfield as cf
    >>> items = [[0], [0], [0], [1], [1], [1], [2], [2], [2]]
    >>> labels = ["cat", "cat", "dog", "dog", "dog", "cat", "cat", "cat", "dog"]
    >>> people = ["ann", "bob", "cy"] * 3
    >>> model = cf.IBCC().fit(items, labels, people)
    >>> print(model.predict([[0], [1], [2]]))
    ['cat' 'dog' 'cat']
    """

    def __init__(
        self,
        *,
        confusion_prior: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        proportion_prior: ArrayLike = 1.0,
        states: Sequence[Hashable] | None = None,
        labels: Sequence[Hashable] | None = None,
        max_iter: int = 1000,
        tol: float = 1e-5,
    ):
        self.confusion_prior = confusion_prior
        self.proportion_prior = proportion_prior
        self.states = states
        self.labels = labels
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources [R]: by whom (default: one source)."""
        max_iter, tol = whole("max_iter", self.max_iter), positive("tol", self.tol)
        reports, states = validated_reports(self, X, y, sources, states=self.states, labels=self.labels)
        alpha0 = confusion_priors(self.confusion_prior, states, reports.labels, reports.sources)
        nu0 = _proportion_prior(self.proportion_prior, len(states))
        places, site = reports.sites()
        counts = ibcc.count(
            site, reports.source, reports.label, (len(places), len(reports.sources), len(reports.labels))
        )
        q, info = ibcc.run(counts, alpha0, nu0, max_iter=max_iter, tol=tol)
        if not info.converged:
            warnings.warn(
                f"IBCC had not converged after {max_iter} iterations. Raise max_iter, or tol if that is exact enough.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.classes_ = as_classes(states)
        self.labels_seen_: tuple[Any, ...] = reports.labels
        self.sources_seen_: NDArray[Any] = as_classes(reports.sources)
        self.places_, self.posterior_ = places, q.r
        self.alpha_, self.nu_ = q.alpha, q.nu
        self.confusion_: Array = q.alpha / q.alpha.sum(axis=-1, keepdims=True)
        self.proportions_: Array = q.nu / q.nu.sum()
        self.bound_history_, self.bound_, self.n_iter_ = info.bound, float(info.bound[-1]), len(info.bound)
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The posterior of a place that has reports, the class proportions elsewhere: [M, J]."""
        places = validated_places(self, X)
        where = find_sites(self.places_, places)
        return np.where((where >= 0)[:, None], self.posterior_[where], self.proportions_)


def _proportion_prior(value: Any, states: int) -> Array:
    try:
        nu0 = np.broadcast_to(np.asarray(value, dtype=np.float64), (states,)).copy()
    except (TypeError, ValueError) as problem:
        raise InputError(f"proportion_prior must be one number or one for each of the {states} states.") from problem
    if not (np.isfinite(nu0).all() and (nu0 > 0).all()):
        raise InputError(f"proportion_prior must hold positive pseudo-counts, not {nu0.tolist()}.")
    return nu0
