"""Repeating the updates of `vb` until nothing moves: accelerated steps, and what guards them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference import confusion
from crowdfield.inference.anderson import Anderson
from crowdfield.inference.bound import Bound
from crowdfield.inference.fields.base import Array
from crowdfield.inference.vb import Evaluated, Iteration, Posterior, State

ROUNDING = 1e-9  # relative fall of the bound that is rounding, not a fall
FALL = 5.0  # of the objective, that a jump may cost where sources and field are coupled
STALE = 12  # sweeps without a smaller residual before plain steps have a turn, and steps become shorter
SHORTEST, SHORTEST_COUPLED = 0.3, 0.05  # of these
PATIENCE = 2  # sweeps in a row that must move less than tol
TURN = 10  # plain steps when that happens, and more the next time
ESCAPE = 25  # plain steps away from a fixed point that does not hold


class Fit(NamedTuple):
    state: State
    q: Posterior
    bound: Bound
    history: list[float]
    n_iter: int
    converged: bool
    change: float


def _change(old: Evaluated, new: Evaluated) -> float:
    """How far one step moved anything a user sees: state probabilities, confusion matrices and, less, the scale.

    Probabilities count four times, which makes the change that of the log odds where these matter, around even odds.
    """
    rho = np.abs(new.summary.probe - old.summary.probe).max(initial=0.0)
    log_scale = abs(np.log(new.q.scale.mean / old.q.scale.mean))
    pi = np.abs(confusion.expected_pi(new.q.alpha) - confusion.expected_pi(old.q.alpha)).max(initial=0.0)
    return float(max(4.0 * rho, 0.1 * log_scale, pi))


def run(
    iteration: Iteration,
    *,
    start: State | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    progress: Callable[[int, float, float], None] | None = None,
) -> Fit:
    """Iterate to convergence, from the prior or from an earlier state."""
    current = iteration.evaluate(iteration.opening() if start is None else start)
    if iteration.couples and current.state.coupling is None:  # found without
        current = iteration.evaluate(current.image)
    mixing = iteration.scheme.mixing[iteration.functions > 1]
    accelerator = Anderson(mixing=mixing)
    history, quiet, change = [current.bound.total], 0, np.inf
    n_iter = 1 + (iteration.opening_sweeps if start is None else 0)
    residual, stale = np.inf, 0
    plain, escape = 0, ESCAPE  # plain steps still to take; how many the next time
    turns = 0  # of plain steps, for want of a smaller residual
    while n_iter < max_iter and quiet < PATIENCE:
        readout = _readout(iteration, current)
        size = float(np.linalg.norm(readout))
        if not iteration.guarded and size > 2.0 * residual:
            accelerator.forget()  # no objective to ask: a growing residual says that the last jumps misled
        stale = 0 if plain > 0 or size < 0.9 * residual else stale + 1
        residual = min(residual, size)
        if iteration.scheme.integrates_scale and stale == STALE:
            # Jumps may be drawn to where the residual is small and never nought (a map of nearly one state, where most
            # reporters say the same). Plain steps lead out. Next time it is going to and fro: shorter steps end that.
            # (Coupled, it is that at once: a wide q overshoots where nothing but the prior holds the map.)
            if iteration.couples:
                mixing = max(0.25 * mixing, SHORTEST_COUPLED)
            elif turns > 0:
                mixing = max(0.5 * mixing, SHORTEST)
            accelerator = Anderson(mixing=mixing)
            stale, plain, turns, residual = 0, TURN * (turns + 1), turns + 1, np.inf
        step = None
        if plain == 0:
            step = _jump(iteration, current, accelerator.propose(current.state.pack(), current.ahead.pack(), readout))
            n_iter += 1
        if step is None:
            accelerator.forget()
            step = iteration.evaluate(plain_step(current, mixing))
            n_iter += 1
        plain = max(plain - 1, 0)
        change = _change(current, step)
        current = step
        history.append(current.bound.total)
        quiet = quiet + 1 if change < tol else 0
        if progress is not None:
            progress(n_iter, current.bound.total, change)
        if quiet > 0 and plain == 0 and not iteration.guarded:
            # Acceleration finds any fixed point, also those that the iteration itself runs away from. Without a bound
            # to tell them apart, let plain steps decide, and take them for a while where they move on. (One that only
            # overshoots turns round at once: that says nothing against the fixed point.) One that moves nothing is as
            # good as a second quiet sweep.
            proof = iteration.evaluate(plain_step(current, mixing))
            n_iter += 1
            if _change(current, proof) < tol:
                quiet = PATIENCE
            elif quiet == PATIENCE and _readout(iteration, current) @ _readout(iteration, proof) > 0.0:
                current, quiet, plain, escape = proof, 0, escape, 2 * escape
                residual, stale = np.inf, 0
                history.append(current.bound.total)
    return Fit(current.state, current.q, current.bound, history, n_iter, quiet >= PATIENCE, change)


def _readout(iteration: Iteration, at: Evaluated) -> Array:
    """What a plain step would change, in units that matter alike: the field's mean against its prior, confusion
    matrices by their sources' share of the reports, log ς. (Statistics are dominated by their few largest entries.)
    """
    parts = [
        (new - old.readout) * np.sqrt(at.q.scale.mean)
        for new, old in zip(iteration.readouts(at.ahead), at.q.fields, strict=True)
    ]
    share = at.q.alpha.sum(-1, keepdims=True) / at.q.alpha.sum()
    moved = confusion.expected_pi(iteration.dirichlet(at.ahead)[0]) - confusion.expected_pi(at.q.alpha)
    parts.append((moved * np.sqrt(share * iteration.engine.size)).ravel())
    parts.append(np.log([at.image.precision / at.state.precision]))
    return np.concatenate(parts)


def plain_step(current: Evaluated, mixing: float) -> State:
    """Coordinate ascent as in the paper, E[ς] = a/b included: the step whose bound cannot fall (if not mixed)."""
    z = current.state.pack()
    plain = current.image._replace(precision=current.q.scale.mean).pack()
    return current.image.unpack(z + mixing * (plain - z))


def _jump(iteration: Iteration, current: Evaluated, z: Array) -> Evaluated | None:
    """Evaluate an accelerated state; None where it is not a state at all or, if the bound can tell, a worse one."""
    try:
        new = iteration.evaluate(current.image.unpack(z))
    except NumericalError:
        return None
    if not np.isfinite(new.bound.total):
        return None
    slack = np.inf
    if iteration.guarded:
        slack = ROUNDING * abs(current.bound.total)
    elif iteration.couples:
        slack = FALL  # the objective need not rise, but where it falls so far a wider q has run away with ς
    return None if new.bound.total < current.bound.total - slack else new
