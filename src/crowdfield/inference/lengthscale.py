"""Maximum likelihood II: the length-scale of the largest bound, and its uncertainty.

One number for all columns. The bound is a smooth function of log l with, as a rule, one maximum; a coarse search guards
against others, then parabolas find it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crowdfield.inference.kernels import Array

COARSE = 6
CLEAR = 6.0  # nats below the best, odds of 400 to 1: the search stops in that direction
REFINEMENTS = 6
WEAK_LOG_SD = 0.75


class Learned(NamedTuple):
    """The best length-scale, and the standard deviation of its logarithm by the curvature of the bound there."""

    lengthscale: float
    log_sd: float  # infinite where the bound has no maximum
    bound: float
    tried: Array  # [n, 2] length-scales and their bounds, in order of length-scale
    at_limit: bool  # the best lies at an end of the range: the data do not say


def search_range(X: Array) -> tuple[float, float]:
    """The range to search: from half the distance of neighbours on an even lattice, to the map's extent."""
    extent = float(np.ptp(X, axis=0).max(initial=0.0)) if len(X) else 0.0
    if extent == 0.0:
        return 1.0, 1.0
    return 0.5 * extent / max(len(X) ** (1.0 / X.shape[1]), 4.0), extent


def maximise(
    bound: Callable[[float], float], low: float, high: float, tol: float = 0.02, long_first: bool = False
) -> Learned:
    """The length-scale in [low, high] of the largest bound, to a relative `tol`.

    Short length-scales need many features: they are tried last, and only until the bound has clearly fallen, or is
    predicted to fall by the parabola through the last three.
    long_first: start at the long end, where fits are fast. Not for fits that are warm-started from one another: from a
    long length-scale they may learn the states reversed.
    """
    if not high > low:
        value = bound(low)
        return Learned(low, float("inf"), value, np.array([[low, value]]), True)
    tried: dict[float, float] = {}

    def at(log_l: float) -> None:
        if log_l not in tried:
            tried[log_l] = bound(float(np.exp(log_l)))

    coarse = np.linspace(np.log(low), np.log(high), COARSE).tolist()
    for log_l in coarse[::-1] if long_first else (*coarse[2:], coarse[1], coarse[0]):
        if tried and log_l < min(tried) and _falling(tried):
            break
        at(log_l)
    for _ in range(REFINEMENTS):
        left, best, right = _bracket(tried)
        if left is None or right is None:
            # The best is at an end: look between it and its only neighbour.
            neighbour = right if left is None else left
            assert neighbour is not None  # COARSE > 1
            if abs(neighbour - best) < tol:
                break
            at(0.5 * (best + neighbour))
            continue
        top = _parabola_top(tried, left, best, right)
        if abs(top - best) < 0.25 * tol:
            # The parabola cannot do better: one look on the wider side makes sure of it, then it is done.
            if max(right - best, best - left) < 8.0 * tol:
                break
            top = 0.5 * (best + right) if right - best > best - left else 0.5 * (best + left)
        at(top)
    left, best, right = _bracket(tried)
    order = sorted(tried)
    table = np.array([[np.exp(x), tried[x]] for x in order])
    curvature = -_curvature(tried, left, best, right) if left is not None and right is not None else 0.0
    log_sd = float(1.0 / np.sqrt(curvature)) if curvature > 0 else float("inf")
    return Learned(float(np.exp(best)), log_sd, tried[best], table, left is None or right is None)


def _falling(tried: dict[float, float]) -> bool:
    """Is the bound, at even steps towards shorter length-scales, clearly under its best already or at the next step?"""
    values, best = [tried[x] for x in sorted(tried)[:3]], max(tried.values())
    expected = values[0] if len(values) < 3 else 3.0 * values[0] - 3.0 * values[1] + values[2]
    return values[0] < best and min(values[0], expected) < best - CLEAR


def _bracket(tried: dict[float, float]) -> tuple[float | None, float, float | None]:
    """The best length-scale so far and its neighbours, None beyond the ends."""
    order = sorted(tried)
    i = int(np.argmax([tried[x] for x in order]))
    return (order[i - 1] if i > 0 else None), order[i], (order[i + 1] if i + 1 < len(order) else None)


def _curvature(tried: dict[float, float], a: float, b: float, c: float) -> float:
    """Second derivative of the parabola through three points."""
    slope_left, slope_right = (tried[b] - tried[a]) / (b - a), (tried[c] - tried[b]) / (c - b)
    return 2.0 * (slope_right - slope_left) / (c - a)


def _parabola_top(tried: dict[float, float], a: float, b: float, c: float) -> float:
    """The maximum of the parabola through three points, not too close to the outer ones."""
    curvature = _curvature(tried, a, b, c)
    if curvature >= 0.0:
        return b
    slope_at_b = (tried[b] - tried[a]) / (b - a) + 0.5 * curvature * (b - a)
    return float(np.clip(b - slope_at_b / curvature, 0.5 * (a + b), 0.5 * (b + c)))


def log_moments(tried: Array) -> tuple[float, float]:
    """Mean and standard deviation of log l, with exp(bound) as its posterior on the length-scales tried.

    Where few reports leave the bound flat, its maximum is arbitrary; the mean over plausible length-scales is not.
    """
    log_l = np.log(tried[:, 0])
    if len(log_l) == 1:
        return float(log_l[0]), float("inf")
    mass = np.exp(tried[:, 1] - tried[:, 1].max()) * np.gradient(log_l)
    mass /= mass.sum()
    mean = float(mass @ log_l)
    return mean, float(np.sqrt(mass @ (log_l - mean) ** 2))


def weak_log_prior(extent: float) -> Callable[[float], float]:
    """A prior of log l centred on a seventh of the map's extent, within a factor of two.

    Enough to keep a flat bound from running to the ends of the range, and negligible for a bound with a clear maximum.
    """
    centre = np.log(extent / 7.0) if extent > 0 else 0.0
    return lambda length: float(-0.5 * ((np.log(length) - centre) / WEAK_LOG_SD) ** 2)
