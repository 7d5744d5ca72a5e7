"""Who can be trusted: a table of the sources, from q(π)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaincinv

from crowdfield.arrays import Array
from crowdfield.data import Reports


def table(reports: Reports, states: NDArray[Any], alpha: Array, level: float) -> pd.DataFrame:
    """One row per source, in the order of `reports.sources`, from pseudo-counts.   alpha [S, J, L]"""
    pi = alpha / alpha.sum(-1, keepdims=True)
    return from_confusion(reports, pi, *_accuracy(reports.labels, list(states), alpha, level))


def from_confusion(reports: Reports, pi: Array, accuracy: Array, low: Array, high: Array) -> pd.DataFrame:
    """The columns that tables of sources of every model have.   pi [S, J, L]; accuracy and its interval [S]"""
    lean = pi.mean(1) - 1.0 / pi.shape[2]  # frequency of each label if all states were equally common
    favourite = lean.argmax(1)
    return pd.DataFrame(
        {
            "source": pd.Series(list(reports.sources), dtype=object),
            "reports": reports.tally(reports.source, len(reports.sources)),
            "accuracy": accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            "leans_to": pd.Series([reports.labels[i] for i in favourite], dtype=object),
            "bias": lean.max(1),
            "informativeness": informativeness(pi),
        }
    )


def informativeness(pi: Array) -> Array:
    """Mutual information, in bits, of a report and the state, if all states are equally common. [S]"""
    marginal = pi.mean(1, keepdims=True)
    return np.asarray((pi * np.log2(pi / marginal)).sum(-1).mean(1))


def draw_sources(alpha: Array, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sources drawn n times, each with the probability, under q(π), that its reports are the most informative. [n]

    Thompson sampling: a source with few reports may be better than any known one, and is asked now and then.
    """
    pi = rng.standard_gamma(np.broadcast_to(alpha, (n, *alpha.shape))) + np.finfo(float).tiny
    pi /= pi.sum(-1, keepdims=True)
    return np.asarray(np.stack([informativeness(draw) for draw in pi]).argmax(1))


def _accuracy(labels: tuple[Any, ...], states: list[Any], alpha: Array, level: float) -> tuple[Array, Array, Array]:
    """Probability that a report names the true state if all states are equally common; NaN if no label is a state."""
    said = [(j, labels.index(state)) for j, state in enumerate(states) if state in labels]
    if not said:
        nothing = np.full(len(alpha), np.nan)
        return nothing, nothing.copy(), nothing.copy()
    rows, columns = map(list, zip(*said, strict=True))
    right, total = alpha[:, rows, columns], alpha.sum(-1)[:, rows]
    mean = (right / total).mean(1)
    variance = (right * (total - right) / (total**2 * (total + 1))).sum(1) / len(said) ** 2
    # The mean of a few independent betas is close to the beta of its mean and variance.
    strength = mean * (1 - mean) / variance - 1
    tail = (1 - level) / 2
    low, high = betaincinv(mean * strength, (1 - mean) * strength, [[tail], [1 - tail]])
    return mean, low, high
