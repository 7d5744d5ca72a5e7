"""Draws of the instrument model's posterior behind the estimator: from draws to its attributes and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.models import instrument
from crowdfield.models.base import Array
from crowdfield.models.covariates import Weights
from crowdfield.models.learned import CONVERGED_RHAT

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC
    from crowdfield.models.queries import MapQueries


def keep(model: HeatmapBCC, setup: instrument.InstrumentSetup, sampled: Sampled, states: tuple[Any, ...]) -> None:
    """Store draws of the instrument model in the estimator."""
    model._setup, model._instrument, model._predictor = setup, sampled, sampled
    model.reports_model_, model.inference_ = "instrument", "gibbs"
    model.places_ = setup.places
    model.posterior_ = instrument.posterior(setup, sampled)
    model.confusion_ = instrument.confusion(setup, sampled, model.reports_, model, states)
    model.alpha_ = _pseudo_counts(model.confusion_, sampled.confusion_draws[..., np.argsort(setup.order)])
    trusted, given = instrument.trusted_sources(model, model.reports_, states)
    model.alpha_[trusted] = given[trusted]
    model.scale_ = np.array([(1.0 / sampled.draws.smooth).mean()])
    model.lengthscale_ = setup.problem.kernel.lengthscales(setup.places.shape[1]).copy()
    model.engine_, model.communities_ = sampled.design.basis.name, None
    model.diagnostics_ = sampled.diagnostics
    model.n_iter_ = len(sampled.draws.link)
    model.converged_ = sampled.diagnostics.worst_rhat < CONVERGED_RHAT


def _pseudo_counts(mean: Array, draws: Array) -> Array:
    """Dirichlet rows with this mean and the total variance of the draws: [S, J, L]."""
    variance = draws.var(0).sum(-1, keepdims=True)
    return np.asarray(mean * np.maximum((mean * (1.0 - mean)).sum(-1, keepdims=True) / variance - 1.0, 1.0))


def source_table(model: MapQueries, sampled: Sampled, level: float) -> pd.DataFrame:
    """One row per source, with the quantiles of the draws as intervals."""
    tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    theta, pi = sampled.draws.theta, sampled.confusion_draws
    accuracy = 0.5 * (pi[:, :, 0, 0] + pi[:, :, 1, 1])  # labels that name a state come first
    sensitivity, lean = (
        instrument.Estimates(theta[:, :, d].mean(0), *np.quantile(theta[:, :, d], tails, axis=0)) for d in (0, 1)
    )
    ends = tuple(np.quantile(accuracy, tails, axis=0))
    return instrument.source_frame(model, model.confusion_, model.classes_, level, sensitivity, lean, ends)


def covariate_weights(sampled: Sampled, level: float) -> Weights:
    """Of every covariate: the mean of its weight, both ends of its interval, the probability that it is positive."""
    first = sampled.design.basis.size + 1  # after the smooth part's features and the intercept
    drawn = sampled.draws.weights[:, first:]
    low, high = np.quantile(drawn, [0.5 * (1.0 - level), 0.5 * (1.0 + level)], axis=0)
    return drawn.mean(0), low, high, np.asarray((drawn > 0.0).mean(0))
