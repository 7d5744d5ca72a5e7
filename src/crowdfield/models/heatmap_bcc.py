"""HeatmapBCC: who can be trusted, and what is true everywhere, learned at the same time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.data.reports import distinct_places
from crowdfield.errors import ConvergenceWarning, DataWarning, InputError
from crowdfield.inference import confusion, vb
from crowdfield.inference.data import Data, Prior, arrange, contrast
from crowdfield.inference.fields.base import Engine
from crowdfield.inference.fields.choose import choose
from crowdfield.inference.kernels import Kernel, kernel
from crowdfield.inference.predict import FieldPredictor, Predictor
from crowdfield.models import sources as sources_
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

# Features that cost nothing noticeable: an eigendecomposition a sweep (collapsed) is dearer than a Cholesky (VB).
COLLAPSED_FEATURES, VB_FEATURES = 250, 800

PriorMean = float | Sequence[float] | Callable[[Array], ArrayLike]


class HeatmapBCC(ReportClassifier):
    """Bayesian classifier combination with a Gaussian process prior on the state of every place.

    Parameters
    ----------
    kernel : "matern12", "matern32", "matern52", "rbf", or a Kernel (which then brings its own length-scale)
    lengthscale : a number, one a column, or "learn"
    confusion_prior : pseudo-counts of the confusion matrices: None (weakly diagonal), [J, L] for all sources, or
        {source: [J, L], ...} for those named, the key None standing for all others
    scale_shape, scale_rate : a0 and b0 of the gamma prior on the inverse scale ς of the latent functions
    prior_mean : of the latent functions: a number, one a state, or a function of places [M, D] that returns
        [M] (two states) or [M, J]. With two states the latent function is the log odds of the second.
    states, labels : what can be true and what can be said; by default the labels seen
    inference : "auto" (collapsed), "collapsed", "vb" (the paper), "gibbs" (exact, by sampling)
    engine : "auto", "exact", "inducing", "spectral": how the Gaussian process is represented
    linearisation : of "vb": "polya_gamma", or "ekf" as in the paper
    max_iter, tol : sweeps at the most; stop when log odds, scales and confusion matrices move less than tol

    After `fit`: `classes_` the states; `confusion_` E[π] [S, J, L] in the order of `sources_seen_`; `places_` [N, D]
    and `posterior_` [N, J] the distinct places and their state probabilities; `scale_` E[ς] [F]; `lengthscale_`;
    `engine_`; `bound_`, `bound_terms_`, `bound_history_`, `n_iter_`, `converged_`.
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel = "matern32",
        lengthscale: float | Sequence[float] | str = 20.0,
        confusion_prior: ArrayLike | Mapping[Hashable, ArrayLike] | None = None,
        scale_shape: float = 1.0,
        scale_rate: float = 1.0,
        prior_mean: PriorMean = 0.0,
        states: Sequence[Hashable] | None = None,
        labels: Sequence[Hashable] | None = None,
        inference: str = "auto",
        engine: str = "auto",
        linearisation: str = "polya_gamma",
        communities: int | str | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: int | np.random.Generator | None = None,
    ):
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.confusion_prior = confusion_prior
        self.scale_shape = scale_shape
        self.scale_rate = scale_rate
        self.prior_mean = prior_mean
        self.states = states
        self.labels = labels
        self.inference = inference
        self.engine = engine
        self.linearisation = linearisation
        self.communities = communities
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sources: ArrayLike | None = None,
        gold: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """X [R, D]: where; y [R]: what was said; sources [R]: by whom. gold: places and their known states, if any."""
        self._check_settings()
        reports, states = validated_reports(self, X, y, sources, states=self.states, labels=self.labels)
        return self._learn(reports, states, self._gold(gold, states), warm=None)

    def _learn(
        self, reports: Reports, states: tuple[Any, ...], gold: tuple[Array, Any], warm: vb.Posterior | None
    ) -> Self:
        self._warn_about_one_label(reports, states)
        places, site = distinct_places(np.concatenate([reports.places, gold[0]]))
        known = np.full(len(places), -1, dtype=np.int64)
        known[site[len(reports) :]] = gold[1]
        data = arrange(
            places,
            site[: len(reports)],
            reports.source,
            reports.label,
            n_sources=len(reports.sources),
            n_labels=len(reports.labels),
            n_states=len(states),
            known=known,
        )
        self.classes_ = as_classes(states)
        self.labels_seen_ = as_classes(reports.labels)
        self.sources_seen_ = as_classes(reports.sources)
        self.places_, self.reports_, self._gold_ = places, reports, gold
        prior = self._prior(data)
        the_kernel = self._kernel(places.shape[1])
        engine = self._engine(the_kernel, places)
        sites = vb.Sites(data, prior, engine)
        iteration = vb.Iteration.over(sites, self._scheme())
        start = None if warm is None else iteration.warm_start(warm)
        fit = vb.run(iteration, start=start, max_iter=self.max_iter, tol=self.tol)
        if not fit.converged:
            warnings.warn(
                f"HeatmapBCC had not settled after {fit.n_iter} sweeps (the last moved something by {fit.change:.1e}). "
                "Raise max_iter, or tol if you can do with less.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._q, self._state = fit.q, fit.state
        self._predictor: Predictor = FieldPredictor(fit.q.fields, self._mean_at, contrast(len(states)))
        self.posterior_ = sites.targets
        self.alpha_ = fit.q.alpha
        self.confusion_ = confusion.expected_pi(fit.q.alpha)
        self.scale_ = np.array([s.mean for s in fit.q.scale])
        self.lengthscale_ = the_kernel.lengthscales(places.shape[1]).copy()
        self.engine_ = engine.name
        self.bound_, self.bound_terms_ = fit.bound.total, fit.bound._asdict()
        self.bound_history_, self.n_iter_, self.converged_ = np.array(fit.history), fit.n_iter, fit.converged
        return self

    # --- prediction ---------------------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """E[t*] [M, J]: at a place that has reports (or gold) what they and the field say; elsewhere E[ρ*]."""
        places = validated_places(self, X)
        where = find_sites(self.places_, places)
        out = np.empty((len(places), len(self.classes_)))
        elsewhere = where < 0
        out[~elsewhere] = self.posterior_[where[~elsewhere]]
        if elsewhere.any():
            out[elsewhere] = self._predictor.rate(places[elsewhere])[0]
        return out

    def predict_rate(self, X: ArrayLike) -> tuple[Array, Array]:
        """E[ρ*] and its standard deviation, both [M, J]: the state probabilities of the place itself."""
        return self._predictor.rate(validated_places(self, X))

    def predict_latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the latent functions: [M, 1] with two states, else [M, J]."""
        return self._predictor.latent(validated_places(self, X))

    def source_table(self, level: float = 0.95) -> pd.DataFrame:
        """Who can be trusted: reports, accuracy with a credible interval, lean, informativeness in bits."""
        validated_places(self, self.places_[:1])
        return sources_.table(self.reports_, self.classes_, self.alpha_, level)

    # --- what the constructor stored, checked ---------------------------------------------------------------------

    def _check_settings(self) -> None:
        for name, choices in (
            ("inference", ("auto", "collapsed", "vb", "gibbs")),
            ("linearisation", ("polya_gamma", "ekf")),
            ("engine", ("auto", "exact", "inducing", "spectral")),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}.")
        positive("scale_shape", self.scale_shape)
        positive("scale_rate", self.scale_rate)
        positive("tol", self.tol)
        whole("max_iter", self.max_iter)
        if isinstance(self.lengthscale, str):
            if self.lengthscale != "learn":
                raise InputError(f"lengthscale must be positive numbers or 'learn', not {self.lengthscale!r}.")
        else:
            for value in np.atleast_1d(np.asarray(self.lengthscale, dtype=object)):
                positive("lengthscale", value)

    def _scheme(self) -> vb.Scheme:
        return vb.SCHEMES["collapsed" if self.inference in ("auto", "collapsed") else self.linearisation]

    def _kernel(self, dimension: int) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        scales = np.asarray(self.lengthscale, dtype=np.float64)
        if scales.ndim > 1 or scales.size not in (1, dimension):
            raise InputError(f"lengthscale must be one number or one for each of the {dimension} columns of X.")
        return kernel(self.kernel, scales)

    def _engine(self, the_kernel: Kernel, places: Array) -> Engine:
        affordable = COLLAPSED_FEATURES if self._scheme().integrates_scale else VB_FEATURES
        return choose(self.engine, the_kernel, places, affordable=affordable, rng=self._rng())

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.random_state)

    def _prior(self, data: Data) -> Prior:
        functions = contrast(data.n_states).shape[1]
        alpha0 = confusion_priors(
            self.confusion_prior, list(self.classes_), list(self.labels_seen_), list(self.sources_seen_)
        )
        mean = self._mean_at(data.X)
        return Prior(alpha0, np.full(functions, self.scale_shape), np.full(functions, self.scale_rate), mean)

    def _mean_at(self, X: Array) -> Array:
        """μ at places, [M, F]. A constant is one row seen M times: it takes no memory."""
        states = len(self.classes_)
        C = contrast(states)
        given = self.prior_mean(X) if callable(self.prior_mean) else self.prior_mean
        value = np.asarray(given, dtype=np.float64)
        if not np.isfinite(value).all():
            raise InputError("prior_mean must be finite at every place.")
        if callable(self.prior_mean) and value.shape == (len(X),) and states == 2:
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

    def _gold(
        self, gold: tuple[ArrayLike, ArrayLike] | None, states: tuple[Any, ...]
    ) -> tuple[Array, NDArray[np.int64]]:
        if gold is None:
            return np.empty((0, self.n_features_in_)), np.empty(0, dtype=np.int64)
        try:
            places, truth = gold
        except (TypeError, ValueError) as problem:
            raise InputError("gold must be a pair: places [G, D], and the state known at each.") from problem
        where = validated_places_like(self, places)
        known = list(np.asarray(truth, dtype=object))
        if len(known) != len(where):
            raise InputError(f"gold has {len(where)} places but {len(known)} states.")
        unknown = [s for s in known if s not in states]
        if unknown:
            raise InputError(f"gold state {unknown[0]!r} is not one of the states {states!r}.")
        return where, np.array([states.index(s) for s in known], dtype=np.int64)

    def _warn_about_one_label(self, reports: Reports, states: tuple[Any, ...]) -> None:
        if len(np.unique(reports.label)) == 1 and len(reports) > 1:
            warnings.warn(
                f"All reports say {reports.labels[int(reports.label[0])]!r}. Neither the length-scale nor the other "
                "states can be learned from them: they come from the priors.",
                DataWarning,
                stacklevel=4,
            )


def validated_places_like(model: HeatmapBCC, places: ArrayLike) -> Array:
    where = np.array(places, dtype=np.float64, ndmin=2)
    if where.shape[1] != model.n_features_in_ or not np.isfinite(where).all():
        raise InputError(f"gold places must be finite, with {model.n_features_in_} columns as X has.")
    return where
