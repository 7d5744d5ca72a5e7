"""The simple methods that the paper compares with, on scikit-learn's parts. They all trust every source equally."""

from collections.abc import Hashable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn import neighbors
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.models.base import (
    Array,
    ReportClassifier,
    as_classes,
    find_sites,
    positive,
    validated_places,
    validated_reports,
    whole,
)


class _Baseline(ReportClassifier):
    """Reports as labelled places: sources are validated but not used."""

    def __init__(self, *, states: Sequence[Hashable] | None = None):
        self.states = states

    def _reports(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None) -> Reports:
        reports, states = validated_reports(self, X, y, sources, states=self.states)
        extra = [label for label in reports.labels if label not in states]
        if extra:
            raise InputError(
                f"{type(self).__name__} takes each report's word for the state, so labels that are no state cannot be "
                f"used: {extra!r}. Leave these reports out, or use a model with confusion matrices."
            )
        self.classes_ = as_classes(states)
        return reports


class KernelDensity(_Baseline):
    """Kernel density estimation: the share of each label among the Gaussian kernels that reach a place.

    Parameters
    ----------
    bandwidth : float or "scott", default="scott"
        Standard deviation of the kernels in the units of X, one number for all columns. "scott" derives it from the
        number and spread of the reports.
    prior : float, default=1.0
        Weight of an even vote, in reports at the place itself, so that far from all reports the map says "unknown"
        rather than the label of the nearest report.
    states : sequence or None, default=None
        What can be true; by default the labels seen.

    Examples
    --------
    >>> import crowdfield as cf
    >>> model = cf.KernelDensity(bandwidth=1.0).fit([[0, 0], [1, 0], [9, 0]], ["dry", "dry", "wet"])
    >>> print(model.predict([[0.5, 0], [9.5, 0]]))
    ['dry' 'wet']
    """

    def __init__(
        self, *, bandwidth: float | str = "scott", prior: float = 1.0, states: Sequence[Hashable] | None = None
    ):
        self.bandwidth = bandwidth
        self.prior = prior
        self.states = states

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources are not used."""
        prior = positive("prior", self.prior)
        if self.bandwidth != "scott":
            positive("bandwidth", self.bandwidth)
        reports = self._reports(X, y, sources)
        R, D = reports.places.shape
        # One number for all columns, so that the map turns with its coordinates.
        spread = float(np.sqrt(reports.places.var(axis=0).mean())) or 1.0
        self.bandwidth_ = spread * R ** (-1.0 / (D + 4)) if self.bandwidth == "scott" else float(self.bandwidth)
        self.log_prior_ = np.log(prior / len(self.classes_))
        self.densities_: list[neighbors.KernelDensity | None] = []
        self.log_weights_: list[float] = []
        for code in range(len(self.classes_)):
            mine = reports.places[reports.label == code]
            self.densities_.append(neighbors.KernelDensity(bandwidth=self.bandwidth_).fit(mine) if len(mine) else None)
            # A density integrates to one; this turns it back into a sum of kernels that are 1 at their centres.
            volume = 0.5 * D * np.log(2.0 * np.pi * self.bandwidth_**2)
            self.log_weights_.append(float(np.log(len(mine)) + volume) if len(mine) else -np.inf)
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The share of each state's kernels at places X [M, D]: [M, J]."""
        places = validated_places(self, X)
        log_mass = np.full((len(places), len(self.classes_)), self.log_prior_)
        for code, (density, weight) in enumerate(zip(self.densities_, self.log_weights_, strict=True)):
            if density is not None:
                log_mass[:, code] = np.logaddexp(log_mass[:, code], weight + density.score_samples(places))
        return np.asarray(softmax(log_mass, axis=1))


class SVM(_Baseline):
    """A support vector machine with a radial basis function, its scores made probabilities by Platt's sigmoid.

    Parameters
    ----------
    penalty : float, default=1.0
        The usual C: larger values fit the reports more closely.
    gamma : float, "scale" or "auto", default="scale"
        Width of the radial basis function, 1 / (2 · bandwidth²).
    states : sequence or None, default=None
        What can be true; by default the labels seen.

    Examples
    --------
    >>> import crowdfield as cf
    >>> X, y, sources = cf.testing.example_crowd()
    >>> cf.SVM().fit(X, y, sources).predict([[1.0, 5.0], [8.0, 5.0]])
    array([0, 1])
    """

    def __init__(self, *, penalty: float = 1.0, gamma: float | str = "scale", states: Sequence[Hashable] | None = None):
        self.penalty = penalty
        self.gamma = gamma
        self.states = states

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources are not used."""
        positive("penalty", self.penalty)
        reports = self._reports(X, y, sources)
        seen, count = np.unique(reports.label, return_counts=True)
        self.seen_ = seen
        # gamma="scale" takes the variance of all columns together, so their means must not count as spread.
        self.centre_ = reports.places.mean(axis=0)
        places = reports.places - self.centre_
        svc = SVC(C=self.penalty, kernel="rbf", gamma=self.gamma)
        self.machine_, self.calibrated_ = None, None
        if len(seen) == 1:
            return self
        if count.min() < 2:
            # Nothing is left to calibrate on when the only report of a label is held out: use the scores as they are.
            self.machine_ = svc.fit(places, reports.label)
        else:
            folds = StratifiedKFold(n_splits=int(min(5, count.min())))
            self.calibrated_ = CalibratedClassifierCV(svc, cv=folds, ensemble=False)
            self.calibrated_.fit(places, reports.label)
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Calibrated scores at places X [M, D]: [M, J]. Labels never seen have probability 0."""
        places = validated_places(self, X) - self.centre_
        out = np.zeros((len(places), len(self.classes_)))
        if self.calibrated_ is not None:
            out[:, self.seen_] = self.calibrated_.predict_proba(places)
        elif self.machine_ is not None:
            score = self.machine_.decision_function(places)
            score = np.column_stack([-score, score]) if score.ndim == 1 else score
            out[:, self.seen_] = softmax(score, axis=1)
        else:
            out[:, self.seen_] = 1.0
        return out


class NearestNeighbours(_Baseline):
    """The shares of labels among the nearest reports (five, as in the paper).

    Parameters
    ----------
    neighbours : int, default=5
        How many of the nearest reports vote.
    states : sequence or None, default=None
        What can be true; by default the labels seen.

    Examples
    --------
    >>> import crowdfield as cf
    >>> model = cf.NearestNeighbours(neighbours=2).fit([[0], [1], [8], [9]], [0, 0, 0, 1])
    >>> model.predict_proba([[0.0], [9.0]])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    def __init__(self, *, neighbours: int = 5, states: Sequence[Hashable] | None = None):
        self.neighbours = neighbours
        self.states = states

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources are not used."""
        wanted = whole("neighbours", self.neighbours)
        reports = self._reports(X, y, sources)
        self.neighbours_ = neighbors.KNeighborsClassifier(n_neighbors=min(wanted, len(reports)))
        self.neighbours_.fit(reports.places, reports.label)
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Shares of labels among the nearest reports at places X [M, D]: [M, J]."""
        places = validated_places(self, X)
        out = np.zeros((len(places), len(self.classes_)))
        out[:, self.neighbours_.classes_] = self.neighbours_.predict_proba(places)
        return out


class MajorityVote(_Baseline):
    """The shares of labels among the reports at a place; where there are none, among all reports.

    So `predict` says what most reports at the place say, and elsewhere the most frequent label of all.

    Parameters
    ----------
    states : sequence or None, default=None
        What can be true; by default the labels seen.

    Examples
    --------
    >>> import crowdfield as cf
    >>> model = cf.MajorityVote().fit([[0], [0], [0], [5]], ["dry", "dry", "wet", "wet"])
    >>> print(model.predict([[0]]))
    ['dry']
    >>> model.predict_proba([[0], [99]]).round(2)
    array([[0.67, 0.33],
           [0.5 , 0.5 ]])
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources are not used."""
        reports = self._reports(X, y, sources)
        self.places_, site = reports.sites()
        J = len(self.classes_)
        votes = np.bincount(site * J + reports.label, minlength=len(self.places_) * J).reshape(-1, J)
        self.shares_: Array = votes / votes.sum(axis=1, keepdims=True)
        self.overall_: Array = votes.sum(axis=0) / len(reports)
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Shares of labels at places X [M, D]: [M, J]."""
        places = validated_places(self, X)
        where = find_sites(self.places_, places)
        return np.asarray(np.where((where >= 0)[:, None], self.shares_[where], self.overall_))
