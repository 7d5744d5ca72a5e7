"""States and q in the weights that few sites see (`fields.seen`), and back in all weights of the basis."""

from __future__ import annotations

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference.fields.base import Array, Statistics
from crowdfield.inference.fields.features import FeatureField
from crowdfield.inference.fields.seen import SeenBasis
from crowdfield.inference.iterate import Fit, Policy
from crowdfield.inference.joint.method import Method
from crowdfield.inference.joint.state import Evaluated, Known, Posterior, State, table


def reduced(start: State | Known, basis: SeenBasis) -> State:
    """A state of the whole basis in the weights that the sites see."""
    state, U = start.state if isinstance(start, Known) else start, basis.U
    statistics = tuple(Statistics(U.T @ s.linear, U.T @ basis.whole.gram(s.quadratic) @ U) for s in state.statistics)
    rows = state.rows._replace(projected=state.rows.projected @ U)
    return state._replace(rows=rows, statistics=statistics, centre=tuple(U.T @ w for w in state.centre))


def whole(method: Method, fit: Fit, basis: SeenBasis) -> Fit | None:
    """A fit in the seen weights as one of the method of the whole basis, by one more step; None if the objective does
    not accept the step.
    """
    q, state = lifted(fit.q, basis), fit.state
    rows = state.rows._replace(projected=_spread(state.rows.projected, basis))
    empty = tuple(method.engine.empty() for _ in q.fields)
    state = state._replace(rows=rows, statistics=empty, centre=tuple(basis.U @ w for w in state.centre))
    before = Evaluated(state, q, method.sweep(table(q)), fit.bound)
    try:
        at = method.evaluate(method.step(before, 1.0))
    except (NumericalError, np.linalg.LinAlgError):
        return None  # as in the iteration: the step leads to no valid state
    if not Policy().accepts(at.bound.total, fit.bound.total):
        return None
    return fit._replace(
        state=at.state,
        q=at.q,
        bound=at.bound,
        history=[*fit.history, at.bound.total],
        change=method.change(before, at),
    )


def lifted(q: Posterior, basis: SeenBasis) -> Posterior:
    """q of the seen weights as q of all weights."""
    fields = []
    for field in q.fields:
        assert isinstance(field, FeatureField)
        fields.append(basis.lifted(field))
    slope, shared = _spread(q.slope, basis), _spread(q.shared, basis)
    return q._replace(fields=tuple(fields), slope=slope, shared=shared, linear=tuple(basis.U @ b for b in q.linear))


def _spread(by_weight: Array, basis: SeenBasis) -> Array:
    """Values by seen weight as values by weight: [..., r] -> [..., m]."""
    return by_weight @ basis.U.T
