"""The exact posterior by sampling: many sweeps of `gibbs`, how well they mixed, and predictions from the draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from crowdfield.errors import ConvergenceWarning, InputError
from crowdfield.inference.confusion_prior import ConfusionPrior
from crowdfield.inference.data import Data, Prior, contrast
from crowdfield.inference.diagnostics import effective_sample_size, split_rhat
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.lattice import estimated_size
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.gibbs import STATES, Sampler
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.quadrature import softmax

BLOCK_ENTRIES = 1 << 22  # entries of a block of predictions
TRACED_SOURCES = 32  # sources with the most reports, whose confusion diagonals are monitored
# Sweeps of each chain: more where they are cheap. With few reports the posterior is wide, and so is the sampling error.
FEWEST_SWEEPS, MOST_SWEEPS, SITES_SWEPT = 750, 1_500, 150_000
POOR_RHAT, POOR_ESS = 1.1, 100.0
TARGET_ACCEPTANCE = 0.44  # of a one-dimensional Metropolis step
FIRST_STEP, LONGEST_STEP = 0.8, 4.0  # sizes of Metropolis steps, which are steps of logarithms
MOST_FEATURES = 500  # every sweep of every chain factors an m × m matrix


def basis_for(engine: str, kernel: Kernel, X: Array, rng: np.random.Generator) -> Basis:
    """Features for the engine named: spectral while few suffice, else inducing points; "exact" takes every place."""
    if engine == "spectral" and X.shape[1] > 3:
        raise InputError(f"the spectral engine takes one to three input columns, not {X.shape[1]}: use 'inducing'.")
    if engine == "spectral" or (
        engine == "auto" and X.shape[1] <= 3 and estimated_size(kernel, X) <= min(MOST_FEATURES, 2 * len(X))
    ):
        return SpectralBasis(kernel, X)
    if engine == "exact":
        return InducingBasis(kernel, X, size=len(X), tolerance=1e-8, rng=rng)
    return InducingBasis(kernel, X, size=MOST_FEATURES, rng=rng)


class Diagnostics(NamedTuple):
    """R̂ and effective sample size of every monitored quantity: mean rates, log ς, some confusion diagonals."""

    names: tuple[str, ...]
    rhat: Array
    ess: Array

    @property
    def worst_rhat(self) -> float:
        """The largest R̂."""
        return float(self.rhat.max())

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size."""
        return float(self.ess.min())


class SampledPosterior(NamedTuple):
    """Draws of the field, moments of the rest. D draws, sweep after sweep, all chains of a sweep together."""

    basis: Basis
    contrast: Array  # C [J, F]
    weights: Array  # [D, F, m]
    scale: Array  # [D]
    unseen: Array  # [D, F] standard normals, one for what the basis leaves out of each draw
    target: Array  # E[t] at the sites [N, J]
    confusion_mean: Array  # E[π] [S, J, L]
    confusion_second: Array  # E[π²] [S, J, L]
    confusion_draws: Array  # [D', S, J, L] float32, few enough to keep
    confusion_states: list[Any]  # of the confusion prior, where it has any, draw by draw
    diagnostics: Diagnostics
    chains: int
    confusion_every: int  # a draw of π for every so many sweeps that kept a draw of the field

    def latent(self, X: Array, mean: Array) -> tuple[Array, Array]:
        """Mean and variance of f at places, with prior mean [M, F]: [M, F] each."""
        first, second = np.empty_like(mean), np.empty_like(mean)
        for part in self._blocks(len(X)):
            g = self._draws(X[part], with_unseen=False)
            first[part] = g.mean(axis=1)
            second[part] = g.var(axis=1) + self.basis.residual(X[part])[:, None] * (1.0 / self.scale).mean()
        return first + mean, second

    def rate(self, X: Array, mean: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation at places: [M, J] each."""
        states = len(self.contrast)
        expected, sd = np.empty((len(X), states)), np.empty((len(X), states))
        for part in self._blocks(len(X)):
            logits = (self._draws(X[part], with_unseen=True) + mean[part][:, None]) @ self.contrast.T
            logits = np.moveaxis(logits, 2, 1)
            rho = softmax(logits, STATES)  # [n, J, D]
            expected[part], sd[part] = rho.mean(axis=2), rho.std(axis=2)
        return expected, sd

    @property
    def alpha(self) -> Array:
        """Dirichlet rows with the mean and the total variance of the draws of π: [S, J, L]."""
        mean = self.confusion_mean
        variance = (self.confusion_second - mean**2).sum(-1, keepdims=True)
        return np.asarray(mean * ((mean * (1.0 - mean)).sum(-1, keepdims=True) / variance - 1.0))

    def covariance(self, X: Array) -> list[Array]:
        """The covariance of each latent function between places: F times [M, M]."""
        g = self._draws(X, with_unseen=False)
        left_out = np.diag(self.basis.residual(X))
        return [
            np.cov(g[:, :, f], bias=True).reshape(len(X), len(X)) + left_out * (1.0 / self.scale).mean()
            for f in range(g.shape[2])
        ]

    def _blocks(self, places: int) -> list[slice]:
        """Slices of places, so that a block of predictions fits into memory."""
        rows = max(1, BLOCK_ENTRIES // (len(self.weights) * len(self.contrast)))
        return [slice(start, min(start + rows, places)) for start in range(0, places, rows)]

    def _draws(self, X: Array, with_unseen: bool) -> Array:
        """g at places for every draw: [n, D, F]."""
        draws, functions, size = self.weights.shape
        g = self.basis.evaluate(self.basis.locate(X), self.weights.reshape(-1, size).T).reshape(-1, draws, functions)
        if with_unseen:
            g = g + np.sqrt(self.basis.residual(X))[:, None, None] * (self.unseen / np.sqrt(self.scale)[:, None])
        return np.asarray(g)


class SamplePredictor(NamedTuple):
    """Prediction from draws: what FieldPredictor is for Gaussian fields."""

    posterior: SampledPosterior
    prior_mean: Callable[[Array], Array]  # [M, D] -> [M, F]

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of f at places [M, D]: both [M, F]."""
        return self.posterior.latent(X, self.prior_mean(X))

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation: both [M, J]."""
        return self.posterior.rate(X, self.prior_mean(X))

    def covariance(self, X: Array) -> list[Array]:
        """The joint covariance of each latent function at up to a few thousand places: F times [M, M]."""
        return self.posterior.covariance(X)


def run(
    data: Data,
    prior: Prior,
    basis: Basis,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    warm_up: int = 300,
    sweeps: int | None = None,
    draws: int = 800,
    confusion: ConfusionPrior | None = None,
) -> SampledPosterior:
    """Sample `sweeps` a chain after `warm_up`, keep about `draws` of the field, and say how well it mixed."""
    if sweeps is None:
        sweeps = int(np.clip(SITES_SWEPT // max(data.n_sites, 1), FEWEST_SWEEPS, MOST_SWEEPS))
    sampler = Sampler(data, prior, basis, confusion)
    state, step_size = warmed_up(sampler, chains, warm_up, rng)
    record = _Record.of(data, sampler, chains, sweeps, draws)
    for sweep in range(sweeps):
        state, info = sampler.step(state, rng, step_size)
        record.add(sweep, state, info)
    weights = np.concatenate([w for w, _ in record.fields])
    count, functions = weights.shape[:2]
    # Evenly spaced normal quantiles in random order: what the basis leaves out is added without adding noise to means.
    unseen = np.stack([rng.permutation(ndtri((np.arange(count) + 0.5) / count)) for _ in range(functions)], axis=1)
    return SampledPosterior(
        basis=basis,
        contrast=contrast(data.n_states),
        weights=weights,
        scale=np.concatenate([s for _, s in record.fields]),
        unseen=unseen,
        target=(record.target / sweeps).T,
        confusion_mean=(record.first / sweeps).transpose(0, 2, 1),
        confusion_second=(record.second / sweeps).transpose(0, 2, 1),
        confusion_draws=np.concatenate(record.confusion).transpose(0, 1, 3, 2),
        confusion_states=record.states,
        diagnostics=diagnose(record.names(data), np.stack(record.traces, axis=1)),
        chains=chains,
        confusion_every=record.confusion_thin // record.thin,
    )


class AnySampler(Protocol):
    """A Gibbs sampler with Metropolis steps in its sweeps, of the one-state or the instrument model."""

    @property
    def n_steps(self) -> int:
        """The number of Metropolis steps in a sweep."""
        ...

    def init(self, chains: int, rng: np.random.Generator) -> Any:
        """A first state of every chain."""
        ...

    def step(self, state: Any, rng: np.random.Generator, step_size: Array) -> tuple[Any, Any]:
        """One sweep of all chains: the new state, and by-products with the acceptance of the Metropolis steps."""
        ...


def warmed_up(
    sampler: AnySampler, chains: int, sweeps: int, rng: np.random.Generator, first_step: float = FIRST_STEP
) -> tuple[Any, Array]:
    """The state of all chains after warm-up sweeps, and the step sizes [n_steps, chains] that these have found."""
    state, step_size = sampler.init(chains, rng), np.full((sampler.n_steps, chains), first_step)
    for sweep in range(sweeps):
        state, info = sampler.step(state, rng, step_size)
        # Robbins–Monro, in the warm-up only: an adapting chain is not a Markov chain.
        step_size *= np.exp((info.accepted - TARGET_ACCEPTANCE) / np.sqrt(1.0 + sweep))
        step_size = np.minimum(step_size, LONGEST_STEP)
    return state, step_size


@dataclass
class _Record:
    """A record of the sweeps: sums, thinned draws, and traces of some quantities."""

    watched: NDArray[np.int64]  # sources whose matrices are traced
    diagonal: NDArray[np.int64]
    thin: int
    confusion_thin: int
    target: Array  # [J, N] sums of q(t)
    first: Array  # [S, L, J] sums of π and π²
    second: Array
    fields: list[tuple[Array, Array]] = field(default_factory=list)  # weights and scale
    confusion: list[Array] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    traces: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, data: Data, sampler: Sampler, chains: int, sweeps: int, draws: int) -> _Record:
        """An empty record with room for so many sweeps and draws."""
        busiest = np.argsort(-np.bincount(data.source, minlength=data.n_sources), kind="stable")
        thin = max(1, chains * sweeps // draws)
        # Interval ends need a few hundred draws of π at most.
        entries = data.n_sources * data.n_states * data.n_labels
        shape = sampler.table_shape(1)[1:]
        return cls(
            np.sort(busiest[:TRACED_SOURCES]),
            np.arange(min(data.n_states, data.n_labels)),
            thin,
            thin * max(1, entries * draws // (1 << 23)),
            np.zeros((data.n_states, data.n_sites)),
            np.zeros(shape),
            np.zeros(shape),
        )

    def add(self, sweep: int, state: Any, info: Any) -> None:
        """Take in one sweep: running means, traces for the diagnostics, and now and then whole draws."""
        pi = np.exp(state.log_pi)
        self.target += info.r.mean(axis=0)
        self.first += pi.mean(axis=0)
        self.second += (pi**2).mean(axis=0)
        watched_pi = pi[:, self.watched][:, :, self.diagonal, self.diagonal].reshape(len(pi), -1)
        self.traces.append(np.concatenate([info.rho.mean(axis=2), np.log(state.scale)[:, None], watched_pi], axis=1))
        if sweep % self.thin == 0:
            self.fields.append((state.weights, state.scale))
            if state.confusion is not None:
                self.states.append(state.confusion)
        if sweep % self.confusion_thin == 0:
            self.confusion.append(pi.astype(np.float32))

    def names(self, data: Data) -> tuple[str, ...]:
        """The names of the traced quantities."""
        rates = [f"mean rate of state {j}" for j in range(data.n_states)]
        matrices = [f"confusion [{s}, {j}, {j}]" for s in self.watched for j in self.diagonal]
        return (*rates, "log scale", *matrices)


def diagnose(names: tuple[str, ...], traces: Array) -> Diagnostics:
    """R̂ and effective sample sizes of traces [K, sweeps, quantities]; warns where the chains have not mixed."""
    columns = [traces[:, :, i] for i in range(traces.shape[2])]
    found = Diagnostics(
        names, np.array([split_rhat(c) for c in columns]), np.array([effective_sample_size(c) for c in columns])
    )
    if found.worst_rhat > POOR_RHAT or found.least_ess < POOR_ESS:
        worst = names[int(np.argmax(found.rhat))], names[int(np.argmin(found.ess))]
        warnings.warn(
            f"the Gibbs chains have not mixed: split-R̂ {found.worst_rhat:.2f} ({worst[0]}), effective sample size "
            f"{found.least_ess:.0f} ({worst[1]}). Run more sweeps, or give a firmer prior where reports are few.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return found
