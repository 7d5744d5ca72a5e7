"""A Gaussian process classifier that trusts every report equally: the paper's rival "GP"."""

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from crowdfield.errors import ConvergenceWarning, DataWarning, InputError
from crowdfield.inference import direct, lengthscale
from crowdfield.inference.data import contrast
from crowdfield.inference.fields.base import Engine
from crowdfield.inference.fields.choose import choose
from crowdfield.inference.iterate import Fit
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.kernels import kernel as kernel_named
from crowdfield.inference.predict import FieldPredictor
from crowdfield.inference.scale import Gamma
from crowdfield.models.base import (
    Array,
    ReportClassifier,
    as_classes,
    positive,
    prior_means,
    validated_places,
    validated_reports,
    whole,
)

# While length-scales are compared, the bound need be no more accurate than the search.
SEARCH_TOL = 1e-2


class FieldClassifier(ReportClassifier):
    """A Gaussian process over votes, shared by GPClassifier and IBCCGP. Votes are labels taken as true states.

    After `fit`: `lengthscale_`, `scale_` E[ς] [1], `engine_`, `bound_`, `bound_history_`, `n_iter_`, `converged_`, and
    `learned_`, the search for the length-scale where there was one.
    """

    kernel: str | Kernel
    lengthscale: Any
    scale_shape: float
    scale_rate: float
    prior_mean: Any
    engine: str
    max_iter: int
    tol: float

    def predict_proba(self, X: ArrayLike) -> Array:
        """E[ρ*] at places X [M, D]: [M, J]."""
        return self.predict_rate(X)[0]

    def predict_rate(self, X: ArrayLike) -> tuple[Array, Array]:
        """E[ρ*] and its standard deviation, both [M, J]."""
        places = validated_places(self, X)
        return self._predictor.rate(places)

    def predict_latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the latent functions: [M, 1] with two states, else [M, J]."""
        places = validated_places(self, X)
        return self._predictor.latent(places)

    def _fit_field(self, places: Array, votes: Array) -> None:
        """Fit the Gaussian process to votes [N, J] at places [N, D], with its length-scale if that is to be learned."""
        max_iter, tol = whole("max_iter", self.max_iter), positive("tol", self.tol)
        C = contrast(votes.shape[1])
        scale = Gamma(positive("scale_shape", self.scale_shape), positive("scale_rate", self.scale_rate))
        mean = prior_means(self.prior_mean, places, C=C)

        def fit(kernel: Kernel, tol: float) -> tuple[Fit, Engine]:
            engine = choose(self.engine, kernel, places)
            return direct.fit(engine, places, votes, mean, scale, max_iter, tol), engine

        self.learned_: lengthscale.Learned | None = None
        if isinstance(self.lengthscale, str):
            if self.lengthscale != "learn":
                raise InputError(f"lengthscale must be positive numbers or 'learn', not {self.lengthscale!r}.")
            base = kernel_named(self.kernel, 1.0)
            self.learned_ = lengthscale.maximise(
                lambda value: fit(base.with_lengthscale(value), max(tol, SEARCH_TOL))[0].bound.total,
                *lengthscale.search_range(places),
                long_first=True,
            )
            if self.learned_.at_limit:
                warnings.warn(
                    "The length-scale cannot be learned from these reports: the best, "
                    f"{self.learned_.lengthscale:.3g}, is the end of the range that was searched.",
                    DataWarning,
                    stacklevel=3,
                )
            kernel = base.with_lengthscale(self.learned_.lengthscale)
        else:
            kernel = _kernel(self.kernel, self.lengthscale, places.shape[1])
        found, engine = fit(kernel, tol)
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__} had not converged after {found.n_iter} sweeps; raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._predictor = FieldPredictor(found.q.fields, partial(prior_means, self.prior_mean, C=C), C)
        self.scale_ = np.array([found.q.scale.mean])
        self.lengthscale_ = kernel.lengthscales(places.shape[1]).copy()
        self.engine_ = engine.name
        self.bound_, self.bound_history_ = found.bound.total, np.array(found.history)
        self.n_iter_, self.converged_ = found.n_iter, found.converged


class GPClassifier(FieldClassifier):
    """A Gaussian process classifier: each report is a draw from ρ at its place, whoever sent it.

    The parameters are those of `HeatmapBCC`, which adds what this one lacks: a confusion matrix for every source. Use
    it when there is one source, or when all are known to be alike.

    Parameters
    ----------
    kernel : str or Kernel, default="matern32"
        How similar two places are by their distance.
    lengthscale : float, sequence of float, or "learn", default=20.0
        The distance over which places say something about each other, in the units of X.
    scale_shape, scale_rate : float, default=1.0
        Shape and rate of the gamma prior on the inverse scale of the latent functions.
    prior_mean : float, sequence of float, or callable, default=0.0
        Prior mean of the latent functions.
    states : sequence or None, default=None
        What can be true; by default the labels seen.
    engine : {"auto", "exact", "inducing", "spectral"}, default="auto"
        How the Gaussian process is represented.
    max_iter : int, default=200
        The largest number of sweeps.
    tol : float, default=1e-4
        Sweeps end when nothing moves by more than this.

    Attributes
    ----------
    classes_, lengthscale_, scale_, engine_
        As for `HeatmapBCC`.
    bound_, bound_history_, n_iter_, converged_
        The evidence lower bound and how the fit went.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> east = np.arange(20.0)
    >>> X = np.column_stack([east, np.zeros(20)])
    >>> model = cf.GPClassifier(lengthscale=5.0).fit(X, east > 9.5)
    >>> model.predict([[2.0, 0.0], [17.0, 0.0]])
    array([False,  True])
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel = "matern32",
        lengthscale: float | Sequence[float] | str = 20.0,
        scale_shape: float = 1.0,
        scale_rate: float = 1.0,
        prior_mean: float | Sequence[float] | Callable[[Array], ArrayLike] = 0.0,
        states: Sequence[Hashable] | None = None,
        engine: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
    ):
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.scale_shape = scale_shape
        self.scale_rate = scale_rate
        self.prior_mean = prior_mean
        self.states = states
        self.engine = engine
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike | None = None) -> Self:
        """X [R, D]: where; y [R]: what was said; sources are not used."""
        reports, states = validated_reports(self, X, y, sources, states=self.states)
        extra = [label for label in reports.labels if label not in states]
        if extra:
            raise InputError(f"GPClassifier takes reports at their word, but {extra!r} are no states. Leave them out.")
        self.classes_ = as_classes(states)
        places, site = reports.sites()
        J = len(states)
        votes = np.bincount(site * J + reports.label, minlength=len(places) * J).reshape(-1, J).astype(float)
        self._fit_field(places, votes)
        return self


def _kernel(kernel: str | Kernel, lengthscale: Any, dimension: int) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    scales = [positive("lengthscale", value) for value in np.atleast_1d(np.asarray(lengthscale, dtype=object))]
    if len(scales) not in (1, dimension):
        raise InputError(f"lengthscale must be one number or one for each of the {dimension} columns of X.")
    return kernel_named(kernel, scales[0] if len(scales) == 1 else scales)
