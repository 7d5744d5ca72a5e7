"""What a Gibbs sampler needs of the prior of confusion matrices, and the prior that is given.

Tables are [K, S, L, J] for K chains, the order of a report's key; a chain's prior pseudo-counts too.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdfield.arrays import Array
from crowdfield.inference.quadrature import logsumexp


class ConfusionPrior(Protocol):
    """The prior α0 of confusion matrices: fixed, or drawn in every sweep (communities)."""

    def init(self, chains: int, rng: np.random.Generator) -> Any:
        """The prior's own state at the start of every chain."""
        ...

    def alpha0(self, state: Any) -> Array:
        """The prior pseudo-counts of every source: [K or 1, S, L, J]."""
        ...

    def step(self, state: Any, counts: Array, rng: np.random.Generator) -> Any:
        """Draw the prior's own variables given what sources said of each state, [K, S, L, J], π summed out."""
        ...

    # What moves along the ridge of amplitude and accuracy need (`ridge`).

    @property
    def moving(self) -> NDArray[np.bool_]:
        """The sources that have something in common, and move together: [S]."""
        ...

    def common(self, state: Any, log_pi: Array) -> Array:
        """What they have in common in every chain: the log of their mean π, centred over labels [K, L, J]."""
        ...

    def shifted(self, state: Any, shift: Array) -> Any:
        """The prior's own state with that shifted [K, L, J]."""
        ...

    def log_density(self, state: Any, chains: int) -> Array:
        """The log density of the prior's own state in logs: [K]."""
        ...


def centred(logs: Array) -> Array:
    """Logs without their mean over the labels.   [K, L, J]"""
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


class FixedPrior(NamedTuple):
    """α0 as given.   [S, J, L]"""

    alpha: Array

    def init(self, chains: int, rng: np.random.Generator) -> None:
        """A fixed prior has no state."""
        return None

    def alpha0(self, state: None) -> Array:
        """α0 with the axes of the chains: [1, S, L, J]."""
        return np.ascontiguousarray(self.alpha.transpose(0, 2, 1))[None]

    def step(self, state: None, counts: Array, rng: np.random.Generator) -> None:
        """A fixed prior has nothing to draw."""
        return None

    @property
    def moving(self) -> NDArray[np.bool_]:
        """All sources."""
        return np.ones(len(self.alpha), dtype=bool)

    def common(self, state: None, log_pi: Array) -> Array:
        """The log of the mean π of all sources, centred: [K, L, J]."""
        return centred(logsumexp(log_pi, 1))

    def shifted(self, state: None, shift: Array) -> None:
        """A fixed prior does not move along."""
        return None

    def log_density(self, state: None, chains: int) -> Array:
        """Nothing has a density."""
        return np.zeros(chains)
