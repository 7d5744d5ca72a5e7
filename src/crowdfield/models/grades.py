"""Summaries of ordered states: the expected grade, and the probability of at least a grade."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from crowdfield.errors import InputError
from crowdfield.models.base import Array


def moments(probability: Array, states: Sequence[Hashable]) -> tuple[Array, Array]:
    """Mean and standard deviation of the grade, 0 for the first of the states.   [M, J] -> [M], [M]"""
    grade = np.arange(len(states), dtype=np.float64)
    mean = probability @ grade
    return mean, np.sqrt(np.maximum(probability @ grade**2 - mean**2, 0.0))


def at_least(probability: Array, states: Sequence[Hashable], state: Hashable) -> Array:
    """P(t ≥ state).   [M, J] -> [M]"""
    if state not in states:
        raise InputError(f"state {state!r} is not one of {list(states)!r}.")
    return np.asarray(np.minimum(probability[:, states.index(state) :].sum(1), 1.0))


def check_order(ordered: object, states: Sequence[Hashable] | None, seen: Sequence[Hashable]) -> None:
    """Raise an error if `ordered` is set but the states have no order: neither `states` nor numbers give one."""
    if not isinstance(ordered, bool | np.bool_):
        raise InputError(f"ordered must be True or False, not {ordered!r}.")
    if ordered and states is None and not all(isinstance(label, int | float | np.number) for label in seen):
        raise InputError("ordered=True needs states=[...] in their order: labels that are words have none.")
