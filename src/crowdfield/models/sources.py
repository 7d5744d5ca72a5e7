"""Who can be trusted: a table of the sources, from q(π)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from crowdfield.arrays import Array
from crowdfield.data import Reports
from crowdfield.inference.explain import Shares


def table(reports: Reports, states: NDArray[Any], alpha: Array, level: float) -> pd.DataFrame:
    """One row per source, in the order of `reports.sources`.   alpha [S, J, L]"""
    pi = alpha / alpha.sum(-1, keepdims=True)
    accuracy, low, high = _accuracy(reports.labels, list(states), alpha, level)
    lean = pi.mean(1) - 1.0 / alpha.shape[2]  # how often each label, were all states equally common
    favourite = lean.argmax(1)
    return pd.DataFrame(
        {
            "source": pd.Series(list(reports.sources), dtype=object),
            "reports": np.bincount(reports.source, minlength=len(reports.sources)),
            "accuracy": accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            "leans_to": pd.Series([reports.labels[i] for i in favourite], dtype=object),
            "bias": lean.max(1),
            "informativeness": informativeness(pi),
        }
    )


def informativeness(pi: Array) -> Array:
    """Bits that one report tells about a state that could be any: the mutual information under equal states. [S]"""
    marginal = pi.mean(1, keepdims=True)
    return np.asarray((pi * np.log2(pi / marginal)).sum(-1).mean(1))


def whom(alpha: Array, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sources drawn n times, each with the probability that its reports tell most, under q(π). [n]

    Thompson sampling: one who was hardly heard yet may be better than anybody known, and is asked now and then.
    """
    pi = rng.standard_gamma(np.broadcast_to(alpha, (n, *alpha.shape))) + np.finfo(float).tiny
    pi /= pi.sum(-1, keepdims=True)
    return np.asarray(np.stack([informativeness(draw) for draw in pi]).argmax(1))


def _accuracy(labels: tuple[Any, ...], states: list[Any], alpha: Array, level: float) -> tuple[Array, Array, Array]:
    """The chance that a report names the state, were all states equally common; NaN where no label is a state."""
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
    low, high = beta.ppf([[tail], [1 - tail]], mean * strength, (1 - mean) * strength)
    return mean, low, high


def explanation(
    reports: Reports, where: Array, source: NDArray[Any], label: NDArray[Any], shares: Shares, place: Array
) -> pd.DataFrame:
    """The shares of a place's log odds as a table: reports by the size of what they did, then prior and uncertainty.

    where [R, D], source and label [R] (codes) in the order of the shares.
    """
    distance = np.sqrt(((where - place) ** 2).sum(1))
    frame = pd.DataFrame(
        {
            "kind": "report",
            "source": pd.Series([reports.sources[i] for i in source], dtype=object),
            "label": pd.Series([reports.labels[i] for i in label], dtype=object),
            "distance": distance,
            "log_odds": shares.field + shares.own,
        }
    )
    frame = frame.iloc[np.argsort(-np.abs(frame["log_odds"].to_numpy()), kind="stable")]
    rest = pd.DataFrame(
        {
            "kind": ["prior", "uncertainty"],
            "source": pd.Series([None, None], dtype=object),
            "label": pd.Series([None, None], dtype=object),
            "distance": [np.nan, np.nan],
            "log_odds": [shares.prior, shares.uncertainty],
        }
    )
    return pd.concat([frame, rest], ignore_index=True)
