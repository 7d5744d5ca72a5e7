"""Convergence diagnostics of a sampler: split-R̂ and effective sample size.

Gelman et al., "Bayesian Data Analysis", 3rd ed., section 11.4–11.5; Geyer 1992 for where the sum of autocorrelations
stops. Traces are [chains, draws].
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from crowdfield.arrays import Array


def _halves(trace: Array) -> Array:
    """Each chain cut in two, so that a drift within a chain shows as a difference between chains."""
    half = trace.shape[1] // 2
    return np.concatenate([trace[:, :half], trace[:, -half:]])


def _variances(chains: Array) -> tuple[float, float]:
    """W, within chains; and var⁺, which also holds what differs between them."""
    n = chains.shape[1]
    within = float(chains.var(axis=1, ddof=1).mean())
    between = float(chains.mean(axis=1).var(ddof=1))
    return within, within * (n - 1) / n + between


def split_rhat(trace: Array) -> float:
    """√(var⁺ / W): 1 where the chains agree; 1 for a constant trace."""
    within, total = _variances(_halves(trace))
    if total == 0.0:
        return 1.0
    return float("inf") if within == 0.0 else float(np.sqrt(total / within))


def effective_sample_size(trace: Array) -> float:
    """How many independent draws would give a mean as good: m n / (1 + 2 Σ ρ_t), the sum ended by Geyer's rule."""
    chains = _halves(trace)
    m, n = chains.shape
    within, total = _variances(chains)
    if total == 0.0:
        return float(m * n)
    centred = chains - chains.mean(axis=1, keepdims=True)
    padded = next_fast_len(2 * n, real=True)
    spectrum = np.abs(rfft(centred, padded, axis=1)) ** 2
    autocovariance = irfft(spectrum, padded, axis=1)[:, :n].mean(axis=0) / n
    correlation = 1.0 - (within - autocovariance * n / (n - 1)) / total
    correlation[0] = 1.0
    # Sums of neighbours are positive and falling for a reversible chain; noise starts where they are not.
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    time = max(-1.0 + 2.0 * float(pairs.sum()), 1.0 / np.log10(m * n))
    return float(m * n / time)
