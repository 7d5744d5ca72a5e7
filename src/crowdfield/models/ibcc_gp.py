"""IBCC, then a Gaussian process over its posterior: the paper's "IBCC+GP"."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from crowdfield.inference.kernels import Kernel
from crowdfield.models.base import Array, as_classes, validated_reports
from crowdfield.models.gp import FieldClassifier
from crowdfield.models.ibcc import IBCC


class IBCCGP(FieldClassifier):
    """IBCC for sources and places, then a Gaussian process over its posterior: two steps where `HeatmapBCC` has one.

    The first step cannot learn from neighbouring places, and the second cannot correct the first about the sources;
    comparing with `HeatmapBCC` shows what that costs. Each place is one vote, divided among the states in proportion to
    IBCC's posterior (not rounded).

    Parameters
    ----------
    confusion_prior, proportion_prior, states, labels
        As for `IBCC`.
    kernel, lengthscale, scale_shape, scale_rate, prior_mean, engine, max_iter, tol
        As for `GPClassifier`.

    Attributes
    ----------
    ibcc_ : IBCC
        The fitted first step, which also gives `confusion_` and `sources_seen_`.
    classes_, lengthscale_, scale_, engine_, bound_, n_iter_, converged_
        As for `GPClassifier`.

    Examples
    --------
    >>> import crowdfield as cf
    >>> crowd = cf.testing.example_crowd()
    >>> model = cf.IBCCGP(lengthscale=4.0).fit(*crowd)
    >>> model.predict([[1.0, 5.0], [8.0, 5.0]])
    array([0, 1])
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel = "matern32",
        lengthscale: float | Sequence[float] | str = 20.0,
        confusion_prior: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        proportion_prior: ArrayLike = 1.0,
        scale_shape: float = 1.0,
        scale_rate: float = 1.0,
        prior_mean: float | Sequence[float] | Callable[[Array], ArrayLike] = 0.0,
        states: Sequence[Hashable] | None = None,
        labels: Sequence[Hashable] | None = None,
        engine: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
    ):
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.confusion_prior = confusion_prior
        self.proportion_prior = proportion_prior
        self.scale_shape = scale_shape
        self.scale_rate = scale_rate
        self.prior_mean = prior_mean
        self.states = states
        self.labels = labels
        self.engine = engine
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources [R]: by whom (default: one source)."""
        reports, states = validated_reports(self, X, y, sources, states=self.states, labels=self.labels)
        self.classes_ = as_classes(states)
        self.ibcc_ = IBCC(
            confusion_prior=self.confusion_prior, proportion_prior=self.proportion_prior, states=states,
            labels=reports.labels,
        )  # fmt: skip
        said, who = as_classes(reports.labels)[reports.label], as_classes(reports.sources)[reports.source]
        self.ibcc_.fit(np.asarray(reports.places), said, who)
        self.confusion_, self.sources_seen_ = self.ibcc_.confusion_, self.ibcc_.sources_seen_
        self._fit_field(self.ibcc_.places_, self.ibcc_.posterior_)
        return self
