"""Draws from the posterior of the one-state model, exact (Gibbs) or Gaussian, and what reports look like under each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.data import contrast
from crowdfield.inference.fields.base import Array
from crowdfield.inference.quadrature import logsumexp, softmax
from crowdfield.inference.sampling import SampledPosterior

JOINT_SITES = 1500  # sites drawn jointly; with more, every place is drawn from its marginal


class StateDraws(NamedTuple):
    """Draws of the one-state model's posterior at its sites, with the reports that they are about."""

    f: Array  # [D, N, F] the latent functions at the places
    pi: Array  # [D, S, J, L] confusion matrices
    site: NDArray[np.int64]  # [R]
    source: NDArray[np.int64]  # [R]
    label: NDArray[np.int64]  # [R]
    known: NDArray[np.int64]  # [N] the state where it is known, else −1
    scale: Array  # [D]
    chains: int

    @property
    def size(self) -> int:
        """The number of draws."""
        return len(self.f)

    def log_likelihood(self, draw: int) -> Array:
        """log P of every report's label given this draw and the other reports at its place; the state is summed out."""
        here, rest = self._with_and_without(draw)
        return logsumexp(here) - logsumexp(rest)

    def predictive(self, draw: int) -> Array:
        """P(label) of every report given this draw and the other reports at its place: [R, L]."""
        _, rest = self._with_and_without(draw)
        return np.asarray(np.einsum("rj,rjl->rl", softmax(rest), self.pi[draw][self.source]))

    def label_probabilities(self, draw: int, rng: np.random.Generator) -> Array:
        """P(label) of every report, given this draw and a state of its place that is drawn here: [R, L]."""
        _, joint = self._joint(draw)
        cumulative = softmax(joint).cumsum(1)
        state = np.minimum((rng.random((len(joint), 1)) > cumulative).sum(1), joint.shape[1] - 1)
        return np.asarray(self.pi[draw][self.source, state[self.site]])

    def _with_and_without(self, draw: int) -> tuple[Array, Array]:
        """log P(state of the report's place, reports there), with all reports and without this one: [R, J]."""
        said, joint = self._joint(draw)
        here = joint[self.site]
        return here, np.where(np.isfinite(here), here - said, -np.inf)

    def _joint(self, draw: int) -> tuple[Array, Array]:
        """log π of every report's label in every state [R, J]; log P(state, reports) of every place [N, J]."""
        pi = np.maximum(self.pi[draw], 1e-300)
        said = np.log(pi[self.source, :, self.label])
        logits = self.f[draw] @ contrast(pi.shape[1]).T
        joint = logits - logsumexp(logits)[:, None]
        for j in range(pi.shape[1]):
            joint[:, j] += np.bincount(self.site, said[:, j], minlength=len(joint))
        gold = np.flatnonzero(self.known >= 0)
        for j in range(pi.shape[1]):
            joint[gold[self.known[gold] != j], j] = -np.inf
        return said, joint


def gaussian_fields(
    mean: Array, variance: Array, covariance: list[Array] | None, size: int, rng: np.random.Generator
) -> Array:
    """Draws of the latent functions at the places: [D, N, F], jointly where the covariance is given."""
    N, F = mean.shape
    if covariance is None:
        return np.asarray(mean + np.sqrt(variance) * rng.standard_normal((size, N, F)))
    out = np.empty((size, N, F))
    for j, full in enumerate(covariance):
        value, vector = np.linalg.eigh(full)
        root = vector * np.sqrt(np.maximum(value, 0.0))
        out[:, :, j] = mean[:, j] + rng.standard_normal((size, N)) @ root.T
    return out


def confusion_draws(alpha: Array, size: int, rng: np.random.Generator) -> Array:
    """π ~ Dirichlet(α) row by row: [D, S, J, L]."""
    gamma = rng.standard_gamma(np.broadcast_to(alpha, (size, *alpha.shape)))
    return np.asarray(gamma / gamma.sum(-1, keepdims=True))


def of_chains(sampled: SampledPosterior, X: Array, mean: Array) -> tuple[Array, Array, Array]:
    """f [D, N, F], π [D, S, J, L] and ς [D] of the draws that kept both, chain after chain."""
    chains, every = sampled.chains, sampled.confusion_every
    kept = np.arange(len(sampled.weights)).reshape(-1, chains)[::every]  # [sweeps, chains]
    order = kept.T.ravel()
    pi = np.arange(len(sampled.confusion_draws)).reshape(-1, chains).T.ravel()
    f = sampled._draws(X, with_unseen=True).transpose(1, 0, 2) + mean
    return f[order], sampled.confusion_draws[pi].astype(np.float64), sampled.scale[order]
