"""Non-uniform FFTs at fixed places (FINUFFT): sums over the places, and functions there."""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import finufft
import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.fields.base import Array

Complex = NDArray[np.complex128]

# Relative error of a transform, over all frequencies together. A sum over 10⁷ sites must not make the Gram matrix
# visibly indefinite: at 1e-7 an entry is off by some thousandths, compared with a ς of about one. More digits take
# time.
NUFFT_EPS = 1e-7
SERIAL_BELOW = 1 << 15  # places: starting threads for fewer takes longer than the transform
MOST_KEPT = 1 << 16  # frequencies of a plan that is kept: its work space has four times as many entries, 4 MB


class Waves:
    """e^{i q·θ} at places, with q on a lattice of so many frequencies along each axis.

    FINUFFT's plan is made once: sorting the places takes a tenth of a transform. A plan is one thread's at a time.
    """

    def __init__(self, angles: Array, modes: tuple[int, ...]):
        self._angles, self._modes = angles, modes  # [D, n]
        self._plan: Any = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Waves], tuple[Array, tuple[int, ...]]]:
        return Waves, (self._angles, self._modes)  # a plan stays in its process

    def sums(self, values: Complex) -> Complex:
        """Σ_i v_i e^{i q·θ_i} for every frequency, flattened.   [n] -> [frequencies]"""
        if not self._angles.shape[1]:
            return np.zeros(prod(self._modes), complex)
        with self._lock:
            return np.asarray(self._planned().execute_adjoint(values.conj())).conj().ravel()

    def values(self, spectrum: Complex) -> Complex:
        """Σ_q c_q e^{i q·θ_i} at every place.   [frequencies] -> [n]"""
        if not self._angles.shape[1]:
            return np.zeros(0, complex)
        with self._lock:
            return np.asarray(self._planned().execute(spectrum.reshape(self._modes)))

    def _planned(self) -> Any:
        """The plan of the transform, which is kept for the next call unless it takes too much memory."""
        if self._plan is not None:
            return self._plan
        # Called from a pool of threads, the pool is the parallelism.
        alone = threading.current_thread() is threading.main_thread()
        threads = 0 if alone and self._angles.shape[1] >= SERIAL_BELOW else 1
        plan = finufft.Plan(2, self._modes, eps=NUFFT_EPS, isign=1, nthreads=threads)
        plan.setpts(*self._angles)
        if prod(self._modes) <= MOST_KEPT:
            self._plan = plan
        return plan
