"""Joint draws of what a map shows: state probabilities at any places.

A draw is one possible map: one field, one set of sources and one link to the truth, shared by all places. So draws are
made once and evaluated block by block; only what belongs to a single place (the nugget) is drawn on evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crowdfield.errors import InputError
from crowdfield.inference import field_draws
from crowdfield.inference.data import contrast
from crowdfield.inference.field_draws import FunctionDraws
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.instrument import responses
from crowdfield.inference.instrument.linear import Columns
from crowdfield.inference.instrument.model import Fitted
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.predict import FieldPredictor, Predictor
from crowdfield.inference.quadrature import softmax
from crowdfield.inference.refined_draws import JointDraws
from crowdfield.inference.sampling import SamplePredictor

BLOCK_ENTRIES = 1 << 21  # places times draws processed at a time: 16 MB an array


class RateDraws(Protocol):
    """n draws of the log odds of the states anywhere: one function with two states, else one per state."""

    @property
    def size(self) -> int:
        """The number of draws."""
        ...

    def log_odds(self, X: Array, rng: np.random.Generator) -> Array:
        """Log odds of the states at places; rng draws only what is independent between places.   [M, D] -> [F, M, n]"""
        ...


@dataclass(frozen=True)
class StateRates:
    """The one-state model: ρ = softmax of the latent functions."""

    functions: tuple[FunctionDraws, ...]
    prior_mean: Callable[[Array], Array]  # [M, D] -> [M, F]
    size: int

    def log_odds(self, X: Array, rng: np.random.Generator) -> Array:
        """Log odds of the states at places; rng draws only what is independent between places.   [M, D] -> [F, M, n]"""
        mean = self.prior_mean(X)
        out = np.stack([function.at(X) for function in self.functions])
        for j, function in enumerate(self.functions):
            out[j] += mean[:, j, None]
            if (white := function.noise_variance(X)).any():
                _add_noise(out[j], np.sqrt(white)[:, None] * function.sd, rng)
        return out


@dataclass(frozen=True)
class InstrumentRates:
    """The instrument model: softmax(a H (f + ε) + c), with the field, the link and every place's own ε drawn.

    H says how much of each latent function is in the logit of each state: one function for two states and for grades,
    else one fewer than states.
    """

    smooth: tuple[FunctionDraws, ...]  # F
    columns: Columns
    linear: Array  # [F, 1 + C, n] intercept and weights of covariates
    slope: Array  # a [n]
    scores: Array  # H [J, F]
    leans: Array  # c [J, n]
    nugget: float

    @property
    def size(self) -> int:
        """The number of draws."""
        return len(self.slope)

    def field(self, X: Array) -> Array:
        """Draws of f at places, without the white-noise part of its kernel: [F, M, n]."""
        out = np.stack([function.at(X) for function in self.smooth])
        if self.columns.covariates is None:
            out += self.linear  # the intercept alone
        else:
            out += self.columns.at(X) @ self.linear
        if self.columns.offset is not None:
            out += self.columns.offset(X).reshape(len(X), -1).T[:, :, None]
        return out

    def logits(self, g: Array) -> Array:
        """The logits of the states for given appearances.   [F, M, n] -> [J, M, n]"""
        return np.asarray(self.slope * np.tensordot(self.scores, g, axes=1) + self.leans[:, None, :])

    def log_odds(self, X: Array, rng: np.random.Generator) -> Array:
        """Log odds of the states at places; rng draws only what is independent between places.   [M, D] -> [F, M, n]"""
        g = self.field(X)
        for f, function in enumerate(self.smooth):
            # One noise for the nugget and what the basis leaves out: all draws share the variance of the smooth part.
            alone = function.noise_variance(X) * function.sd[0] ** 2 + self.nugget
            _add_noise(g[f], np.sqrt(alone)[:, None], rng)
        logits = self.logits(g)
        return logits[1:] - logits[:1] if len(logits) == 2 else logits


def _add_noise(values: Array, sd: Array, rng: np.random.Generator) -> None:
    """Add white noise in single precision: half the time, and accurate enough."""
    noise = rng.standard_normal(values.shape, dtype=np.float32)
    noise *= sd.astype(np.float32)
    values += noise


def of_predictor(
    predictor: Predictor, size: int, region: Array, rng: np.random.Generator
) -> StateRates | InstrumentRates:
    """Draws from any fitted predictor. `region` [2, D]: opposite corners of all places to be evaluated."""
    if isinstance(predictor, Fitted | FittedStates):
        return _of_instrument(predictor, size, region, rng)
    if isinstance(predictor, SamplePredictor):
        return _of_chains(predictor, size, region, rng)
    if not isinstance(predictor, FieldPredictor):
        raise InputError("an instrument model that was sampled has no joint draws of this kind. Use inference='auto'.")
    functions = tuple(field_draws.of_field(field, size, region, rng) for field in predictor.fields)
    return StateRates(functions, predictor.prior_mean, size)


def _of_chains(predictor: SamplePredictor, size: int, region: Array, rng: np.random.Generator) -> StateRates:
    """Evenly spaced draws of those that were kept, from all chains; some repeated if more are requested than kept."""
    sampled = predictor.posterior
    kept = chain_rows(len(sampled.weights), size)
    return of_weights(sampled.basis, sampled.weights[kept], sampled.scale[kept], predictor.prior_mean, region, rng)


def of_joint(
    drawn: JointDraws, prior_mean: Callable[[Array], Array], region: Array, rng: np.random.Generator
) -> StateRates:
    """The rates of draws of the one-state model's posterior."""
    return of_weights(drawn.basis, drawn.weights, drawn.scale, prior_mean, region, rng)


def of_weights(
    basis: Basis,
    weights: Array,
    scale: Array,
    prior_mean: Callable[[Array], Array],
    region: Array,
    rng: np.random.Generator,
) -> StateRates:
    """The rates of draws of the weights of a basis [n, F, m] and of ς [n]."""
    sd = 1.0 / np.sqrt(scale)
    functions = tuple(
        field_draws.through_basis(basis, weights[:, f].T, sd, region, rng) for f in range(weights.shape[1])
    )
    return StateRates(functions, prior_mean, len(scale))


def chain_rows(kept: int, size: int) -> NDArray[np.int64]:
    """Which of the draws that were kept stand for `size` draws."""
    return np.asarray(np.floor((np.arange(size) + 0.5) * kept / size), dtype=np.int64)


def _of_instrument(
    fitted: Fitted | FittedStates, size: int, region: Array, rng: np.random.Generator
) -> InstrumentRates:
    """Draws of a fitted instrument model: field, link and covariate weights."""
    q, basis, variances = fitted.joint.q, fitted.design.basis, fitted.joint.variances
    functions = fitted.problem.functions
    weights = field_draws.gaussian(q.mean, q.covariance, size, rng).reshape(functions, -1, size)
    sd = np.full(size, np.sqrt(variances.smooth))
    smooth = tuple(field_draws.through_basis(basis, w[: basis.size], sd, region, rng) for w in weights)
    link = rng.multivariate_normal(fitted.link.theta, fitted.link.covariance, size=size, method="eigh")
    scores, leans = fitted.link.scores, link[:, 1:]
    if isinstance(fitted, Fitted):
        scores, leans = scores[:, None], leans @ responses.lean_design(scores).T
    return InstrumentRates(
        smooth,
        fitted.problem.columns,
        weights[:, basis.size :],
        link[:, 0],
        scores,
        leans.T,
        float(variances.nugget),
    )


def rates(draws: RateDraws, X: Array, rng: np.random.Generator) -> Array:
    """Draws of ρ at places: [n, M, J]."""
    out: Array | None = None
    rows = max(1, BLOCK_ENTRIES // draws.size)
    for start in range(0, len(X), rows):
        part = slice(start, min(start + rows, len(X)))
        shares = probabilities(draws.log_odds(X[part], rng))  # [J, m, n]
        if out is None:
            out = np.empty((draws.size, len(X), len(shares)))
        out[:, part] = shares.transpose(2, 1, 0)
    if out is None:
        raise ValueError("there are no places")
    return out


def probabilities(log_odds: Array) -> Array:
    """State probabilities from latent functions.   [F, M, n] -> [J, M, n]"""
    if len(log_odds) == 1:
        return np.stack([expit(-log_odds[0]), expit(log_odds[0])])
    return softmax(np.tensordot(contrast(len(log_odds)), log_odds, axes=1), axis=0)
