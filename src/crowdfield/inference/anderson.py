"""Anderson acceleration of a fixed-point iteration: the best affine combination of the last few steps.

Plain VB converges slowly because f and ς are strongly coupled; a few remembered steps are enough to find the slow
direction and to extrapolate along it. The caller decides whether to accept the result (`settle.run` by the bound).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from crowdfield.arrays import Array

WINDOW = 20  # steps remembered: with three or more states there are several slow directions
ENTRIES = 1 << 25  # largest number of remembered entries, with millions of sources
RIDGE = 1e-10  # relative; the remembered residuals become nearly parallel close to the solution


class Anderson:
    """Combines points z so that their residual is small, in a norm that the caller chooses by a readout."""

    def __init__(self, window: int = WINDOW, mixing: float = 1.0):
        self.window, self.mixing = window, mixing
        self.forget()

    def forget(self) -> None:
        """Drop all remembered steps."""
        self._mixed: list[Array] = []  # z + βg of every step remembered
        self._readouts: list[Array] = []

    def propose(self, z: Array, image: Array, readout: Array) -> Array:
        """The next point, from the current one, its image under the map, and a readout of the step between them."""
        for memory, new in ((self._mixed, z + self.mixing * (image - z)), (self._readouts, readout)):
            memory.append(new)
            del memory[: -min(self.window, max(ENTRIES // (z.size + readout.size), 2))]
        if len(self._mixed) < 2:
            return self._mixed[0].copy()
        # min |r_k − Σ γ Δr|²; then y_k − Σ γ Δy with y = z + βg, written as one sum over the points remembered.
        dR = np.stack([b - a for a, b in pairwise(self._readouts)])
        normal = dR @ dR.T
        normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) + np.finfo(float).tiny
        gamma = np.linalg.solve(normal, dR @ self._readouts[-1])
        share = np.diff(gamma, prepend=0.0, append=1.0)
        out = np.asarray(share[0] * self._mixed[0])
        for weight, point in zip(share[1:], self._mixed[1:], strict=True):
            out += weight * point
        return np.asarray(out)
