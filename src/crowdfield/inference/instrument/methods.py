"""The two variants of the model (one scale, or one function per state) behind one interface, which `iterate` and
`selection` use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import coupled, fitting, left_out
from crowdfield.inference.instrument.fitting import Observed, Prior, State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.several import fitting as several
from crowdfield.inference.instrument.several import left_out as several_left_out
from crowdfield.inference.instrument.several.observed import Observed as SeveralObserved
from crowdfield.inference.quadrature import softmax

LEAST_INFORMATION = 1e-3  # smallest precision of a site when steps are measured

AnyObserved = Observed | SeveralObserved


class Method(Protocol):
    """Steps for one problem in one basis."""

    def evaluate(self, state: State) -> Any:
        """A state, its bound, and the state that one full step leads to."""
        ...

    def image(self, at: Any) -> State:
        """The state after the best full step."""
        ...

    def learning_image(self, at: Any) -> State:
        """The state after the best full step, with updated variances."""
        ...

    def surprise(self, at: Any, target: State) -> Array:
        """The change of the sites in a step, in √nats."""
        ...

    def moved(self, a: Any, b: Any) -> float:
        """The largest change, from a to b, of state probabilities and of parameters of sources and link."""
        ...

    def left_out(self, at: Any, site: NDArray[np.int64], source: NDArray[np.int64], label: NDArray[np.int64]) -> Array:
        """log P of every report given all others: [R]."""
        ...

    def left_out_scores(self, at: Any) -> float:
        """Σ log p of every score or probability vector given all other reports; 0 where there are none."""
        ...


@dataclass(frozen=True)
class OneAppearance:
    """Two states, or ordered ones: the appearance of a place is integrated on a grid."""

    observed: Observed
    design: Design
    prior: Prior

    def evaluate(self, state: State) -> fitting.Evaluated:
        """A state, its bound, and the state that one full step leads to."""
        return fitting.evaluate(self.observed, self.design, self.prior, state)

    def image(self, at: fitting.Evaluated) -> State:
        """The state after the best full step."""
        return coupled.image(self.observed, self.design, at).image

    def learning_image(self, at: fitting.Evaluated) -> State:
        """The state after the best full step, with updated variances."""
        # Of many reports a joint step takes a third of a sweep more, and the variances converge as slowly with it.
        joint = self.design.is_dense
        together = coupled.image(self.observed, self.design, at) if joint else coupled.in_turn(at)
        scores = self.observed.scores
        variances = fitting.learned_variances(at, self.design, self.prior, scores, together.sources)
        return together.image._replace(variances=variances)

    def surprise(self, at: fitting.Evaluated, target: State) -> Array:
        """The change of the sites in a step, in √nats."""
        moved = target.eta - at.state.eta - (target.lam - at.state.lam) * at.mean
        return np.asarray(moved / np.sqrt(target.lam + LEAST_INFORMATION))

    def moved(self, a: fitting.Evaluated, b: fitting.Evaluated) -> float:
        """The largest change, from a to b, of state probabilities and of parameters of sources and link."""
        rate = np.abs(np.tanh(0.5 * b.mean) - np.tanh(0.5 * a.mean)).max(initial=0.0)  # twice that of a probability
        return max(float(rate), _moved_parameters(a.state, b.state))

    def left_out(
        self, at: fitting.Evaluated, site: NDArray[np.int64], source: NDArray[np.int64], label: NDArray[np.int64]
    ) -> Array:
        """log P of every report given all others: [R]."""
        return left_out.log_probabilities(self.observed, at, site, source, label)

    def left_out_scores(self, at: fitting.Evaluated) -> float:
        """Σ log p of every score or probability vector given all other reports; 0 where there are none."""
        return left_out.log_scores(self.observed, at)


@dataclass(frozen=True)
class SeveralStates:
    """States without an order: a function per state, and a Gaussian q of all of them."""

    observed: SeveralObserved
    design: Design
    prior: Prior
    offset: Array  # [N, F]

    def evaluate(self, state: State) -> several.Evaluated:
        """A state, its bound, and the state that one full step leads to."""
        return several.evaluate(self.observed, self.design, self.offset, self.prior, state)

    def image(self, at: several.Evaluated) -> State:
        """The state after the best full step."""
        return at.image

    def learning_image(self, at: several.Evaluated) -> State:
        """The state after the best full step, with updated variances."""
        variances = several.learned_variances(self.observed, at, self.design, self.prior)
        return at.image._replace(variances=variances)

    def surprise(self, at: several.Evaluated, target: State) -> Array:
        """The change of the sites in a step, in √nats."""
        change = target.lam - at.state.lam
        moved = target.eta - at.state.eta - np.einsum("nab,nb->na", change, at.places.mean)
        scale = np.einsum("naa->n", target.lam) / moved.shape[1] + LEAST_INFORMATION
        return np.asarray(moved / np.sqrt(scale)[:, None])

    def moved(self, a: several.Evaluated, b: several.Evaluated) -> float:
        """The largest change, from a to b, of state probabilities and of parameters of sources and link."""
        one, other = (softmax(at.mean @ self.observed.state_scores.T) for at in (a, b))
        return max(float(np.abs(one - other).max(initial=0.0)), _moved_parameters(a.state, b.state))

    def left_out(
        self, at: several.Evaluated, site: NDArray[np.int64], source: NDArray[np.int64], label: NDArray[np.int64]
    ) -> Array:
        """log P of every report given all others: [R]."""
        return several_left_out.log_probabilities(self.observed, at, site, source, label)

    def left_out_scores(self, at: several.Evaluated) -> float:
        """Σ log p of every score or probability vector given all other reports; 0 where there are none."""
        return several_left_out.log_vectors(self.observed, at)


def method_for(observed: AnyObserved, design: Design, prior: Prior) -> Method:
    """The variant of the model that the reports need."""
    if isinstance(observed, SeveralObserved):
        offset = several.design_offset(design, observed.functions)
        return SeveralStates(observed, design, prior, offset)
    return OneAppearance(observed, design, prior)


def start(observed: AnyObserved, prior: Prior) -> State:
    """The state before any step, for either variant."""
    if isinstance(observed, SeveralObserved):
        return several.start(observed, prior)
    return fitting.start(observed, prior, len(observed.scores))


def _moved_parameters(a: State, b: State) -> float:
    """The largest change of a parameter of the sources or of the link."""
    sources = np.abs(b.theta - a.theta).max(initial=0.0)
    return float(max(0.25 * sources, np.abs(b.link.theta - a.link.theta).max()))
