"""Estimates from a stratified random sample of a map, with intervals that are valid even if the map is wrong.

Cells are the population, strata h of N_h cells are sampled without replacement, n_h from each, and W_h = N_h / N. Every
cell of a stratum is mapped as one state. Points are the stratified estimators of Olofsson et al. (2014) and Stehman
(2014). Their usual standard error is zero in a stratum whose few checks all agree, so that its intervals fail where a
map is good; here every stratum has a Jeffreys interval, and sums recover their variances from these limits
(MOVER: Zou and Donner 2008; Newcombe 1998). A ratio has the values at which a difference may be zero (Fieller).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from crowdfield.arrays import Array

RATIO_STEPS = 4001  # candidates for a limit of a ratio: to a fortieth of a percent


class Sample(NamedTuple):
    """Checks of a stratified random sample."""

    cells: NDArray[np.int64]  # N_h [H]
    mapped: NDArray[np.int64]  # [H] the state that all cells of a stratum are mapped as
    counts: NDArray[np.int64]  # [H, J] how many checks of a stratum found which state

    @property
    def share(self) -> Array:
        """W_h: the share of all cells in each stratum."""
        return np.asarray(self.cells / self.cells.sum())

    @property
    def checked(self) -> NDArray[np.int64]:
        """n_h: the number of checks in each stratum."""
        return np.asarray(self.counts.sum(axis=1))


class Estimate(NamedTuple):
    """A value with the ends of its confidence interval."""

    value: float
    low: float
    high: float


def jeffreys(found: NDArray[Any], checked: NDArray[Any], cells: NDArray[Any], level: float) -> tuple[Array, Array]:
    """Limits of a proportion in strata, with the correction for a finite population.

    Quantiles of the beta distribution that follows from Jeffreys' prior; 0 is possible if nothing was found, 1 if
    everything was (Brown, Cai and DasGupta 2001).
    """
    p = found / checked
    all_checked = checked >= cells  # nothing is left to estimate
    # The more of its cells are checked, the more each check of a stratum counts for.
    left = np.where(all_checked, 1.0, 1.0 - checked / cells)
    a, b = found / left + 0.5, (checked - found) / left + 0.5
    low = np.where(np.isclose(p, 0.0), 0.0, betaincinv(a, b, 0.5 - level / 2.0))
    high = np.where(np.isclose(p, 1.0), 1.0, betaincinv(a, b, 0.5 + level / 2.0))
    return np.where(all_checked, p, np.minimum(low, p)), np.where(all_checked, p, np.maximum(high, p))


def mean(sample: Sample, found: Array, weight: Array, level: float) -> Estimate:
    """Σ_h weight_h p_h, where p_h is found_h of n_h."""
    low, high = jeffreys(found, sample.checked, sample.cells, level)
    p = found / sample.checked
    value = float(weight @ p)
    below, above = (_together(weight * reach, sample.checked, level) for reach in (p - low, high - p))
    return Estimate(value, max(value - below, 0.0), min(value + above, float(weight.sum())))


def _together(reach: Array, checked: NDArray[np.int64], level: float) -> float:
    """How far the interval of a sum reaches, from those of its independent parts.

    The parts come from small samples: Student's quantile, with the degrees of freedom of Welch and Satterthwaite.
    """
    variance = reach**2
    if not variance.any():
        return 0.0
    freedom = variance.sum() ** 2 / (variance**2 / np.maximum(checked - 1.0, 1.0)).sum()
    return float(np.sqrt(variance.sum()) * stdtrit(freedom, 0.5 + level / 2.0) / ndtri(0.5 + level / 2.0))


def area(sample: Sample, state: int, level: float) -> Estimate:
    """The true share of all cells in a state, corrected for the errors of the map."""
    return mean(sample, sample.counts[:, state].astype(np.float64), sample.share, level)


def accuracy(sample: Sample, level: float) -> Estimate:
    """The share of all cells that are mapped correctly."""
    right = sample.counts[np.arange(len(sample.mapped)), sample.mapped].astype(np.float64)
    return mean(sample, right, sample.share, level)


def users(sample: Sample, state: int, level: float) -> Estimate | None:
    """User's accuracy: the share of cells mapped as a state that are in it (1 − commission error)."""
    here = sample.mapped == state
    if not here.any():
        return None
    part = Sample(sample.cells[here], sample.mapped[here], sample.counts[here])
    return mean(part, part.counts[:, state].astype(np.float64), part.share, level)


def producers(sample: Sample, state: int, level: float) -> Estimate | None:
    """Producer's accuracy: the share of cells in a state that are mapped so (1 − omission error)."""
    here = sample.mapped == state
    counts = sample.counts[:, state].astype(np.float64)
    if not counts.any():
        return None
    found = _part(sample, counts, here, level)
    missed = _part(sample, counts, ~here, level)
    return _ratio(found, missed)


def _part(sample: Sample, counts: Array, here: NDArray[np.bool_], level: float) -> Estimate:
    """The estimate over some of the strata."""
    if not here.any():
        return Estimate(0.0, 0.0, 0.0)
    part = Sample(sample.cells[here], sample.mapped[here], sample.counts[here])
    return mean(part, counts[here], sample.share[here], level)


def _ratio(a: Estimate, b: Estimate) -> Estimate:
    """a / (a + b) of independent estimates: all π for which (1 − π) a − π b may be zero."""
    pi = np.linspace(0.0, 1.0, RATIO_STEPS)
    gap = (1.0 - pi) * a.value - pi * b.value
    below = np.hypot((1.0 - pi) * (a.value - a.low), pi * (b.high - b.value))
    above = np.hypot((1.0 - pi) * (a.high - a.value), pi * (b.value - b.low))
    possible = pi[(gap - below <= 0.0) & (gap + above >= 0.0)]
    value = a.value / (a.value + b.value)
    if not len(possible):  # narrower than the steps
        return Estimate(value, value, value)
    return Estimate(value, float(min(possible[0], value)), float(max(possible[-1], value)))


class Predicted(NamedTuple):
    """The map's probability of a state at every check, and its mean over all cells."""

    stratum: NDArray[np.int64]  # [n]
    truth: Array  # [n] 1 where the check found the state
    shown: Array  # [n] the probability that the map gives it
    everywhere: Array  # [H] the mean probability over all cells of a stratum


def prediction_powered(sample: Sample, predicted: Predicted, level: float) -> Estimate:
    """The share of cells in a state: the mean of the map, corrected by its mean error at the checks.

    Angelopoulos et al. (2023), stratified, with their power tuning: λ = 0 does without the map, 1 trusts its spread.
    Each stratum's variance is that of its checks and of one more, half of it of either outcome (as Jeffreys' prior
    counts), so that a few checks that all agree do not promise certainty.
    """
    H, W, n, N = len(sample.cells), sample.share, sample.checked, sample.cells
    tuning = _power(predicted, W, n, H)
    rest = predicted.truth - tuning * predicted.shown
    value, variance, freedom = 0.0, 0.0, 0.0
    for h in range(H):
        here = predicted.stratum == h
        middle = float(predicted.shown[here].mean())
        more = np.concatenate([rest[here], [1.0 - tuning * middle, -tuning * middle]])
        counts = np.concatenate([np.ones(n[h]), [0.5, 0.5]])
        spread = float(np.cov(more, aweights=counts, ddof=0)) * (n[h] + 1.0) / n[h]
        value += W[h] * (tuning * predicted.everywhere[h] + float(rest[here].mean()))
        part = W[h] ** 2 * (1.0 - n[h] / N[h]) * spread / n[h]
        variance += part
        freedom += part**2 / n[h]
    if variance <= 0.0:
        return Estimate(value, value, value)
    half = float(stdtrit(variance**2 / freedom, 0.5 + level / 2.0)) * np.sqrt(variance)
    return Estimate(float(value), float(max(value - half, 0.0)), float(min(value + half, 1.0)))


def _power(predicted: Predicted, W: Array, n: NDArray[np.int64], H: int) -> float:
    """λ that makes the variance least."""
    together, alone = 0.0, 0.0
    for h in range(H):
        here = predicted.stratum == h
        if np.count_nonzero(here) < 2:
            continue
        y, f = predicted.truth[here], predicted.shown[here]
        scale = W[h] ** 2 / n[h]
        together += scale * float(((y - y.mean()) * (f - f.mean())).sum()) / (len(y) - 1)
        alone += scale * float(f.var(ddof=1))
    return float(np.clip(together / alone, 0.0, 1.0)) if alone > 0.0 else 0.0


def allocate(cells: NDArray[np.int64], spread: Array, size: int, least: int) -> NDArray[np.int64]:
    """Allocate `size` checks to strata: in proportion to N_h S_h (Neyman), at least `least`, at most N_h."""
    floor = np.minimum(cells, least)
    wanted, held = cells * spread, np.full(len(cells), -1)
    for _ in range(len(cells)):
        open_ = held < 0
        left = max(size - int(held[~open_].sum()), 0)
        share = wanted[open_] / wanted[open_].sum() * left
        few, many = share < floor[open_], share > cells[open_]
        if not (few.any() or many.any()):
            break
        # Those that fall below their least go first: what they take is no longer there for the others.
        rows = np.flatnonzero(open_)[few if few.any() else many]
        held[rows] = (floor if few.any() else cells)[rows]
        if (held >= 0).all():
            return held
    whole = np.floor(share).astype(np.int64)
    short = left - int(whole.sum())
    whole[np.argsort(whole - share, kind="stable")[:short]] += 1
    held[held < 0] = np.minimum(whole, cells[open_])
    return held


def size_for(cells: NDArray[np.int64], spread: Array, margin: float, level: float) -> int:
    """Checks that leave an interval of ± margin on a share of all cells, divided as `allocate` does (Cochran 1977)."""
    z, W = float(ndtri(0.5 + level / 2.0)), cells / cells.sum()
    needed = (W @ spread) ** 2 / ((margin / z) ** 2 + (W @ spread**2) / cells.sum())
    return int(np.ceil(needed))


def margin_of(cells: NDArray[np.int64], spread: Array, checked: NDArray[np.int64], level: float) -> float:
    """The half width to expect of an interval of a share of all cells."""
    W = cells / cells.sum()
    variance = float((W**2 * (1.0 - checked / cells) * spread**2 / checked).sum())
    return float(ndtri(0.5 + level / 2.0) * np.sqrt(variance))
