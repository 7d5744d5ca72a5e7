"""Do reports about one thing agree more than the model expects? A posterior predictive check.

Given a posterior draw of all unknowns, including the state or appearance of every place, reports are independent: their
residuals e_c − p (indicator of the label minus its probability) are uncorrelated. For every pair of reports about the
same thing, the product of their residuals measures how much more often the two agree than the model expects. The same
sum over reports simulated from the draw shows how large it is by chance. Because the state is drawn given the reports,
the check is conservative.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdfield.arrays import Array


class Draws(Protocol):
    """Draws of a posterior, as the check of agreement needs them: reports with their sites and labels."""

    @property
    def size(self) -> int:
        """The number of draws."""
        ...

    @property
    def site(self) -> NDArray[np.int64]:
        """The site of every report: [R]."""
        ...

    @property
    def label(self) -> NDArray[np.int64]:
        """The label of every report: [R]."""
        ...

    def label_probabilities(self, draw: int, rng: np.random.Generator) -> Array:
        """P(label) of every report, given one draw; what the draw leaves open is drawn by rng: [R, L]."""
        ...


class Agreement(NamedTuple):
    """`excess` is the share of pairs that agree beyond what the model expects, `chance` its standard deviation over
    simulated reports, `p` the share of these that reach the excess. `inflation` is the variance of the reports about
    one thing as a multiple of what the model expects (the design effect), by which the model overcounts reports.
    """

    pairs: int
    excess: float
    inflation: float
    chance: float
    p: float
    edges: Array  # [B + 1] of shares of a label at places with several reports
    places: Array  # [B] places with such a share
    expected: Array  # [3, B] 5 %, median and 95 % of simulated reports

    @property
    def z(self) -> float:
        """The excess in standard deviations of simulated crowds."""
        return self.excess / self.chance if self.chance > 0 else 0.0


def check(draws: Draws, most: int, shown: int, rng: np.random.Generator, bins: int = 8) -> Agreement:
    """Run the check. most: number of draws to use; shown: the label whose share at every place is compared."""
    site, label = draws.site, draws.label
    votes = np.bincount(site)
    pairs = int((votes * (votes - 1) // 2).sum())
    edges = np.linspace(0.0, 1.0, bins + 1)
    chosen = np.unique(np.linspace(0, draws.size - 1, min(most, draws.size)).astype(int))
    seen, made, spread = np.empty(len(chosen)), np.empty(len(chosen)), np.empty(len(chosen))
    shapes = np.empty((len(chosen), bins))
    several = votes[site] >= 2
    for d, number in enumerate(chosen.tolist()):
        p = draws.label_probabilities(number, rng)
        p = p / p.sum(1, keepdims=True)
        again = np.minimum((rng.random((len(p), 1)) > p.cumsum(1)).sum(1), p.shape[1] - 1)
        seen[d], made[d] = _excess(site, label, p), _excess(site, again, p)
        spread[d] = float((1.0 - (p[several] ** 2).sum(1)).sum())  # Σ of the variances of single reports
        shapes[d] = _shares(site, again == shown, votes, edges)
    count = max(pairs, 1)
    return Agreement(
        pairs,
        float((seen - made).mean()) / count,
        1.0 + 2.0 * float((seen - made).mean()) / max(float(spread.mean()), 1e-300) if pairs else 1.0,
        float(made.std()) / count,
        float((made >= seen).mean()),
        edges,
        _shares(site, label == shown, votes, edges),
        np.percentile(shapes, [5.0, 50.0, 95.0], axis=0),
    )


def _excess(site: NDArray[np.int64], label: NDArray[np.int64], p: Array) -> float:
    """Σ over pairs at one place of the product of their residuals."""
    residual = -p
    residual[np.arange(len(label)), label] += 1.0
    together = 0.0
    for column in residual.T:
        together += float((np.bincount(site, column) ** 2).sum())
    return 0.5 * (together - float((residual**2).sum()))


def _shares(site: NDArray[np.int64], said: NDArray[np.bool_], votes: NDArray[np.int64], edges: Array) -> Array:
    """Histogram of the label's share at places with two or more reports.   -> [bins]"""
    several = votes >= 2
    share = np.bincount(site, said)[several] / votes[several]
    return np.histogram(share, edges)[0].astype(np.float64)
