"""Scores of states and labels without an order: contrasts between the states."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from scipy.linalg import helmert

from crowdfield.inference.instrument.grid import Array


def state_scores(count: int) -> Array:
    """h [J, J − 1]: any two rows are one unit apart, and the rows sum to zero; −½ and ½ for two states."""
    return np.asarray(-helmert(count).T / np.sqrt(2.0))


def label_scores(states: tuple[Hashable, ...], labels: tuple[Hashable, ...]) -> Array:
    """a [L, J − 1]: those of the state that a label names; 0, as near to one state as to any other, for others."""
    scores = state_scores(len(states))
    nothing = np.zeros(scores.shape[1])
    return np.stack([scores[states.index(label)] if label in states else nothing for label in labels])
