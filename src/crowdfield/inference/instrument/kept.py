"""What a fit of many reports keeps, so that a few more cost little (`updating`)."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.instrument.coupled import Blocks
from crowdfield.inference.instrument.fitting import Evaluated, State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.unsure_variances import Unsure


class Linearised(NamedTuple):
    """Where the information of the reports was computed."""

    state: State  # its sources and link
    appearances: Array  # [N] E[g] of every place
    nugget: Array  # [N]


class Gradient(NamedTuple):
    """The gradient of the objective in sources and link, and where it was computed."""

    value: Array  # [p]
    weights: Array  # [m + C] of the field
    parameters: Array  # [p] of sources and link


class Moments(NamedTuple):
    """Mean and variance of f at every place."""

    mean: Array  # [N]
    variance: Array  # [N]


class News(NamedTuple):
    """What is new in a problem."""

    position: NDArray[np.int64]  # [N_old] the new number of every place of before
    site: NDArray[np.int64]  # [n] the place of every new report
    source: NDArray[np.int64]  # [n] its source

    def carried(self, values: Array, total: int) -> Array:
        """Values of the places of before [N_old, ...] at their new numbers; NaN at new places: [N, ...]."""
        out = np.full((total, *values.shape[1:]), np.nan)
        out[self.position] = values
        return out

    def earlier(self, total: int) -> NDArray[np.int64]:
        """The number before of every place, −1 for new ones: [N]."""
        out = np.full(total, -1)
        out[self.position] = np.arange(len(self.position))
        return out


class Kept(NamedTuple):
    """What a fit found, and where it was computed."""

    blocks: Blocks  # the joint precision, without the uncertainty of the variances
    cross: Any  # sparse [N, p] c̃: how far sources and link move the site of every place
    linearised: Linearised
    gradient: Gradient
    unsure: Unsure | None
    seen: Moments  # for which the newest sites were computed
    shown: Moments  # for which the states of everything reported on were computed
    added: int  # reports that came since all of them were passed over

    @classmethod
    def of(
        cls, at: Evaluated, appearances: Array, blocks: Blocks, by_place: Array, unsure: Unsure | None, shown: Moments
    ) -> Self:
        """What a fit that has passed over all reports keeps. appearances [N]: E[g] of every place."""
        linearised = Linearised(at.state, appearances, at.nugget)
        gradient = Gradient(at.gradient, at.q.mean, parameters(at.state))
        seen = Moments(at.mean, at.variance)
        return cls(blocks, sp.csr_matrix(by_place), linearised, gradient, unsure, seen, shown, 0)

    def for_news(self, news: News, total: int, state: State) -> Kept:
        """The same with room for new places and sources; state: in which new sources are average ones."""
        S, d = state.theta.shape
        cross = self.cross.tocoo()
        first, J = self.linearised.state.theta.size, len(state.link.theta)
        at = np.concatenate([np.arange(first), np.arange(S * d, S * d + J)])  # of what was there before
        shape = (total, S * d + J)
        cross = sp.csr_matrix((cross.data, (news.position[cross.row], at[cross.col])), shape=shape)
        theta = np.concatenate([self.linearised.state.theta, state.theta[first // d :]])
        was, value = self.gradient.parameters, np.zeros(shape[1])
        was = np.concatenate([was[:first], theta.ravel()[first:], was[first:]])
        value[at] = self.gradient.value
        linearised = Linearised(
            self.linearised.state._replace(theta=theta),
            news.carried(self.linearised.appearances, total),
            news.carried(self.linearised.nugget, total),
        )
        return self._replace(
            blocks=_for_sources(self.blocks, at, np.tile(state.variances.population.precision, S - first // d)),
            cross=cross,
            linearised=linearised,
            gradient=Gradient(value, self.gradient.weights, was),
            unsure=None if self.unsure is None else self.unsure.for_sources(S),
            seen=Moments(*(news.carried(values, total) for values in self.seen)),
            shown=Moments(*(news.carried(values, total) for values in self.shown)),
        )


def parameters(state: State) -> Array:
    """The parameters of sources and link as one vector [p]."""
    return np.concatenate([state.theta.ravel(), state.link.theta])


def _for_sources(blocks: Blocks, at: NDArray[np.int64], precision: Array) -> Blocks:
    """The same blocks with room for new sources, of which only the prior precision is known. at: where the parameters
    of before are among all."""
    if not len(precision):
        return blocks
    A, B, C = blocks
    p = len(C) + len(precision)
    wide, square = np.zeros((len(B), p)), np.zeros((p, p))
    wide[:, at] = B
    square[np.ix_(at, at)] = C
    own = np.setdiff1d(np.arange(p), at)
    square[own, own] = precision
    return Blocks(A, wide, square)
