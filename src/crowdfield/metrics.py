"""How good a map is: ranking (AUC), probabilities (cross entropy, calibration) and densities (NLPD of ρ).

Everything that measures information is in bits; lower is better for all but the AUC. Truths may be states (0/1, or
codes 0..J-1) or, where that has a meaning, probabilities of states.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, logit, xlog1py, xlogy

from crowdfield.arrays import Array
from crowdfield.errors import InputError

__all__ = [
    "Reliability",
    "auc",
    "calibration_error",
    "cross_entropy",
    "nlpd_beta",
    "nlpd_logit_normal",
    "reliability",
]

LOG_2 = float(np.log(2.0))


def auc(truth: ArrayLike, probability: ArrayLike) -> float:
    """Area under the ROC curve: how often a positive place is ranked above a negative one; ties count half.

    Parameters
    ----------
    truth : array_like [M]
        States as 0 and 1; with ``probability`` [M, J], state codes 0 to J − 1.
    probability : array_like [M] or [M, J]
        Of the positive state, or of every state. With [M, J] the result is the mean over the states of one against
        the rest.

    Returns
    -------
    float
        1 is a perfect ranking, 0.5 a random one.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> metrics.auc([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9])
    0.75
    """
    p = _numbers("probability", probability)
    t = _numbers("truth", truth, dimensions=1)
    _same_rows("truth", t, "probability", p)
    if p.ndim == 1:
        return _auc_binary(t, p)
    present = np.unique(t)
    if not np.isin(present, np.arange(p.shape[1])).all():
        raise InputError(f"truth must hold state codes 0 to {p.shape[1] - 1}, the columns of probability.")
    return float(np.mean([_auc_binary((t == state).astype(float), p[:, int(state)]) for state in present]))


def cross_entropy(truth: ArrayLike, probability: ArrayLike, *, floor: float = 1e-6) -> float:
    """Cross entropy of the truth under the map, in bits per place.

    Parameters
    ----------
    truth : array_like [M] or [M, J]
        States as 0 and 1 or probabilities of the positive state; with ``probability`` [M, J], state codes [M] or
        probabilities [M, J].
    probability : array_like [M] or [M, J]
        Of the positive state, or of every state.
    floor : float, default=1e-6
        Predictions are kept this far away from 0 and 1: a prediction of 0 for what did happen costs 20 bits instead
        of infinitely many.

    Returns
    -------
    float
        Bits per place; 0 is perfect, 1 is what a coin gives with two states.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> metrics.cross_entropy([1, 0], [0.5, 0.5])
    1.0
    >>> round(metrics.cross_entropy([1, 0], [0.9, 0.2]), 3)
    0.237
    """
    p = _probabilities("probability", probability)
    if p.ndim == 1:
        t = _probabilities("truth", truth, dimensions=1)
        _same_rows("truth", t, "probability", p)
        p = np.clip(p, floor, 1.0 - floor)
        return float(-np.mean(xlogy(t, p) + xlog1py(1.0 - t, -p)) / LOG_2)
    t = _numbers("truth", truth)
    _same_rows("truth", t, "probability", p)
    if t.ndim == 1:
        if not np.isin(t, np.arange(p.shape[1])).all():
            raise InputError(f"truth must hold state codes 0 to {p.shape[1] - 1}, the columns of probability.")
        t = np.eye(p.shape[1])[t.astype(np.intp)]
    elif t.shape != p.shape:
        raise InputError(f"truth {t.shape} and probability {p.shape} must have the same shape.")
    p = np.clip(p, floor, 1.0 - floor)
    return float(-np.mean(np.sum(xlogy(t, p), axis=1)) / LOG_2)


def nlpd_beta(rho: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
    """Mean negative log density of true rates under beta distributions with the predicted mean and variance.

    It needs only a mean and a variance of ρ, so that different methods can be compared.

    Parameters
    ----------
    rho : array_like [M]
        True rates, in [0, 1].
    mean, variance : array_like [M]
        Predicted mean and variance of ρ; the variance must be positive.

    Returns
    -------
    float
        Bits per place; lower is better, and a density may be above 1, so that it can be negative.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> near = metrics.nlpd_beta([0.3], [0.3], [0.01])
    >>> far = metrics.nlpd_beta([0.8], [0.3], [0.01])
    >>> near < far
    True
    """
    truth, m, v = _density_arguments(rho, mean, variance)
    if not ((m >= 0) & (m <= 1)).all():
        raise InputError("mean must lie in [0, 1]: it is the predicted probability of the positive state.")
    # The clips are those of the reference figures; they keep a rate of exactly 0 or 1 from an infinite density.
    m = np.clip(m, 1e-7, 1.0 - 1e-7)
    strength = m * (1.0 - m) / v - 1.0
    a, b = np.maximum(m * strength, 1e-6), np.maximum((1.0 - m) * strength, 1e-6)
    truth = np.clip(truth, 1e-6, 1.0 - 1e-6)
    log_density = xlogy(a - 1.0, truth) + xlog1py(b - 1.0, -truth) - betaln(a, b)
    return float(-np.mean(log_density) / LOG_2)


def nlpd_logit_normal(rho: ArrayLike, latent_mean: ArrayLike, latent_variance: ArrayLike) -> float:
    """Mean negative log density of true rates under the model's own posterior: ρ = σ(f), f normal.

    Only the transformation ρ = σ(f) separates this from the density of f, which is where dρ/df = ρ(1 − ρ) enters.

    Parameters
    ----------
    rho : array_like [M]
        True rates, in [0, 1].
    latent_mean, latent_variance : array_like [M]
        Predicted mean and variance of f (`HeatmapBCC.predict_latent` with two states).

    Returns
    -------
    float
        Bits per place; lower is better.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> metrics.nlpd_logit_normal([0.5], [0.0], [1.0]) < metrics.nlpd_logit_normal([0.9], [0.0], [1.0])
    True
    """
    truth, m, v = _density_arguments(rho, latent_mean, latent_variance)
    truth = np.clip(truth, 1e-6, 1.0 - 1e-6)
    log_normal = -0.5 * (np.log(2.0 * np.pi * v) + (logit(truth) - m) ** 2 / v)
    return float(-np.mean(log_normal - np.log(truth) - np.log1p(-truth)) / LOG_2)


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram as numbers: in each bin, the mean prediction and how often it was true.

    Attributes
    ----------
    edges : ndarray [B + 1]
        The borders of the bins.
    predicted, observed : ndarray [B]
        Mean prediction and share of positive truths in each bin; NaN where a bin is empty.
    count : ndarray [B]
        How many predictions each bin holds.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> found = metrics.reliability([0, 1, 1, 1], [0.1, 0.9, 0.9, 0.1], bins=2)
    >>> found.observed
    array([0.5, 1. ])
    >>> round(found.error, 2)
    0.25
    """

    edges: Array
    predicted: Array
    observed: Array
    count: NDArray[np.int64]

    @property
    def error(self) -> float:
        """The expected calibration error: mean of ``|observed − predicted|``, bins weighted by their count."""
        filled = self.count > 0
        gap = np.abs(self.observed[filled] - self.predicted[filled])
        return float(np.average(gap, weights=self.count[filled]))


def reliability(truth: ArrayLike, probability: ArrayLike, *, bins: int = 10, strategy: str = "uniform") -> Reliability:
    """Sort predictions into bins and compare each bin's mean prediction with how often the truth was positive.

    Parameters
    ----------
    truth : array_like [M]
        States as 0 and 1, or probabilities of the positive state.
    probability : array_like [M]
        Of the positive state.
    bins : int, default=10
        How many bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal count.

    Returns
    -------
    Reliability
        The diagram as numbers.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> metrics.reliability([0, 1], [0.2, 0.8], bins=2).count
    array([1, 1])
    """
    p = _probabilities("probability", probability, dimensions=1)
    t = _probabilities("truth", truth, dimensions=1)
    _same_rows("truth", t, "probability", p)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise InputError(f"bins must be a whole number of at least 1, not {bins!r}.")
    if strategy == "uniform":
        edges = np.linspace(0.0, 1.0, bins + 1)
    elif strategy == "quantile":
        edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, bins + 1)))
        edges = np.array([0.0, 1.0]) if len(edges) < 2 else edges
    else:
        raise InputError(f"strategy must be 'uniform' or 'quantile', not {strategy!r}.")
    size = len(edges) - 1
    which = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, size - 1)
    count = np.bincount(which, minlength=size)
    total = np.where(count > 0, count, np.nan)
    return Reliability(
        edges=edges,
        predicted=np.bincount(which, p, minlength=size) / total,
        observed=np.bincount(which, t, minlength=size) / total,
        count=count.astype(np.int64),
    )


def calibration_error(truth: ArrayLike, probability: ArrayLike, *, bins: int = 10, strategy: str = "uniform") -> float:
    """Expected calibration error: how far, on average, a stated probability is from what happened. 0 is perfect.

    Parameters
    ----------
    truth, probability, bins, strategy
        As for `reliability`.

    Returns
    -------
    float
        The mean distance, bins weighted by their count.

    Examples
    --------
    >>> from crowdfield import metrics
    >>> round(metrics.calibration_error([0, 1, 1, 1], [0.7, 0.7, 0.7, 0.7]), 3)
    0.05
    """
    return reliability(truth, probability, bins=bins, strategy=strategy).error


def _auc_binary(t: Array, p: Array) -> float:
    if not np.isin(t, (0.0, 1.0)).all():
        raise InputError("AUC needs a truth of 0s and 1s; round a soft truth first, and say so beside the figure.")
    positive = t == 1.0
    n1 = int(positive.sum())
    n0 = len(t) - n1
    if n1 == 0 or n0 == 0:
        state = "positive" if n0 == 0 else "negative"
        raise InputError(
            f"AUC is undefined: all {len(t)} places are {state}, so there is no pair to rank. "
            "Report cross entropy instead, or evaluate where both states occur."
        )
    _, which, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[which]
    return float((rank[positive].sum() - n1 * (n1 + 1) / 2.0) / (n1 * n0))


def _density_arguments(rho: Any, mean: Any, variance: Any) -> tuple[Array, Array, Array]:
    truth = _probabilities("rho", rho, dimensions=1)
    m = _numbers("mean", mean, dimensions=1)
    v = _numbers("variance", variance, dimensions=1)
    _same_rows("rho", truth, "mean", m)
    _same_rows("rho", truth, "variance", v)
    if not (v > 0).all():
        raise InputError(
            f"variance must be positive everywhere, but {int((v <= 0).sum())} of {len(v)} values are not: "
            "a method without a posterior over ρ has no NLPD."
        )
    return truth, m, v


def _numbers(name: str, values: Any, dimensions: int | None = None) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} must be numbers: {problem}.") from problem
    if array.ndim not in ((dimensions,) if dimensions else (1, 2)):
        raise InputError(f"{name} must have {dimensions or '1 or 2'} dimension(s), not {array.ndim}.")
    if array.size == 0:
        raise InputError(f"{name} is empty: there is nothing to measure.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinite values; measure only where both truth and map are known.")
    return array


def _probabilities(name: str, values: Any, dimensions: int | None = None) -> Array:
    array = _numbers(name, values, dimensions)
    # A sum of rounded terms may pass 1 by a few units in the last place.
    if array.min() < -1e-9 or array.max() > 1.0 + 1e-9:
        raise InputError(f"{name} must lie in [0, 1], but ranges from {array.min():.4g} to {array.max():.4g}.")
    return np.clip(array, 0.0, 1.0)


def _same_rows(name: str, values: Array, other_name: str, other: Array) -> None:
    if len(values) != len(other):
        raise InputError(f"{name} has {len(values)} rows but {other_name} has {len(other)}; they must match.")
