"""Anderson acceleration of a fixed-point iteration: the best affine mix of the last few steps.

Plain VB creeps because f and ς are strongly coupled; a handful of remembered steps is enough to see the creeping
direction and jump along it. The caller decides whether a jump is kept (vb.run asks the bound).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RIDGE = 1e-10  # relative; the remembered residuals become nearly parallel close to the solution


class Anderson:
    def __init__(self, window: int = 6, mixing: float = 1.0):
        self.window, self.mixing = window, mixing
        self.forget()

    def forget(self) -> None:
        self._points: list[Array] = []
        self._residuals: list[Array] = []

    def propose(self, z: Array, image: Array) -> Array:
        """The next point, from the current one and its image under the map."""
        self._points.append(z)
        self._residuals.append(image - z)
        del self._points[: -self.window], self._residuals[: -self.window]
        plain = z + self.mixing * self._residuals[-1]
        if len(self._points) < 2:
            return plain
        # min |g_k − Σ γ Δg|²; then z + βg − Σ γ (Δz + βΔg)
        dG = np.stack([b - a for a, b in zip(self._residuals, self._residuals[1:], strict=False)])
        dZ = np.stack([b - a for a, b in zip(self._points, self._points[1:], strict=False)])
        normal = dG @ dG.T
        normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) + np.finfo(float).tiny
        gamma = np.linalg.solve(normal, dG @ self._residuals[-1])
        return np.asarray(plain - gamma @ (dZ + self.mixing * dG))
