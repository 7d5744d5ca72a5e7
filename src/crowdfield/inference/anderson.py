"""Anderson acceleration of a fixed-point iteration: the best affine mix of the last few steps.

Plain VB creeps because f and ς are strongly coupled; a handful of remembered steps is enough to see the creeping
direction and jump along it. The caller decides whether a jump is kept (settle.run asks the bound).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WINDOW = 20  # steps remembered: creeping directions are several where there are three states or more
ENTRIES = 1 << 25  # numbers remembered at the most, with millions of sources
RIDGE = 1e-10  # relative; the remembered residuals become nearly parallel close to the solution


class Anderson:
    """Mixes points z so as to make their residual small, measured in a readout of it that the caller chooses."""

    def __init__(self, window: int = WINDOW, mixing: float = 1.0):
        self.window, self.mixing = window, mixing
        self.forget()

    def forget(self) -> None:
        self._points: list[Array] = []
        self._steps: list[Array] = []
        self._readouts: list[Array] = []

    def propose(self, z: Array, image: Array, readout: Array) -> Array:
        """The next point, from the current one, its image under the map, and a readout of the step between them."""
        for memory, new in ((self._points, z), (self._steps, image - z), (self._readouts, readout)):
            memory.append(new)
            del memory[: -min(self.window, max(ENTRIES // (2 * z.size + readout.size), 2))]
        plain = z + self.mixing * self._steps[-1]
        if len(self._points) < 2:
            return plain
        # min |r_k − Σ γ Δr|²; then z + βg − Σ γ (Δz + βΔg)
        dR, dG, dZ = _differences(self._readouts), _differences(self._steps), _differences(self._points)
        normal = dR @ dR.T
        normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) + np.finfo(float).tiny
        gamma = np.linalg.solve(normal, dR @ self._readouts[-1])
        return np.asarray(plain - gamma @ (dZ + self.mixing * dG))


def _differences(vectors: list[Array]) -> Array:
    return np.stack([b - a for a, b in pairwise(vectors)])
