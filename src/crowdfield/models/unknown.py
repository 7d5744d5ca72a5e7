"""Unknown places: those where reports have hardly reduced the prior uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data.heatmap import UNKNOWN_SHARE
from crowdfield.data.knowledge import doubt
from crowdfield.inference.data import contrast
from crowdfield.inference.quadrature import Array, softmax

PRIOR_DRAWS = 20_000


def prior_rate_sd(model: Any) -> Array:
    """The standard deviation of each ρ_j where nobody reported, f ~ N(m, 1 / E[ς]): the reference for "unknown"."""
    states = len(model.classes_)
    if getattr(model, "reports_model_", None) == "instrument":
        return np.asarray(model._instrument.prior_rate_sds())
    functions = 1 if states == 2 else states
    # Drawn with a fixed seed: two digits are plenty for a scale of colours, and every run has the same ones.
    noise = np.random.default_rng(0).standard_normal((PRIOR_DRAWS, functions))
    mean = 0.0 if callable(model.prior_mean) else np.asarray(model.prior_mean, dtype=np.float64)
    f = mean + noise / np.sqrt(np.broadcast_to(model.scale_, functions))
    return np.asarray(softmax(f @ contrast(states).T).std(axis=0))


def is_unknown(sd: Array, prior_sd: Array, *, ordered: bool) -> NDArray[np.bool_]:
    """Which places are unknown, taking all states together.   sd [M, J], prior_sd [J] -> [M]"""
    return np.asarray(doubt(sd, prior_sd, ordered=ordered) >= UNKNOWN_SHARE)
