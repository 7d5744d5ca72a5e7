"""Repeat the updates of `vb` until convergence: accelerated steps, judged by the bound where there is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference import confusion
from crowdfield.inference.anderson import Anderson
from crowdfield.inference.fields.base import Array
from crowdfield.inference.iterate import Fit, Progress
from crowdfield.inference.vb import Evaluated, Iteration, State


@dataclass(frozen=True)
class Policy:
    """When accelerated steps are accepted, and when the iteration ends."""

    patience: int = (
        2  # sweeps in a row that must move less than the tolerance. One is enough after a joint Newton step:
    )
    # it converges fast, so that the remaining change is far smaller than the step.
    misled: float = 2.0  # a residual this many times the smallest one means that the last accelerated steps misled
    escape: int = 25  # plain steps away from an unstable fixed point; twice as many the next time


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
    policy: Policy = Policy(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Fit:
    """Iterate to convergence, from the prior or from an earlier state."""
    current = iteration.evaluate(iteration.start() if start is None else start)
    mixing, judged = iteration.scheme.mixing, np.isfinite(iteration.slack)
    accelerator = Anderson(mixing=mixing)
    history, quiet, change, n_iter, residual = [current.bound.total], 0, np.inf, 1, np.inf
    kind = current.ahead.kind
    plain, escape = 0, policy.escape  # plain steps still to take; how many the next time
    while n_iter < max_iter and quiet < policy.patience:
        readout = _readout(iteration, current)
        size = float(np.linalg.norm(readout))
        if current.ahead.kind != kind or (not judged and size > policy.misled * residual):
            accelerator.forget()  # steps of another kind, or misleading ones
        residual, kind = min(residual, size), current.ahead.kind
        step = None
        if plain == 0:
            z = accelerator.propose(current.state.pack(), current.ahead.state.pack(), readout)
            step, n_iter = _jump(iteration, current, z), n_iter + 1
        jumped = step is not None
        if step is None:
            accelerator.forget()
            step = iteration.evaluate(plain_step(current, mixing))
            n_iter += 1
        plain = max(plain - 1, 0)
        change, current = _change(current, step), step
        history.append(current.bound.total)
        enough = jumped and kind == "joint Newton"
        quiet = quiet + (policy.patience if enough else 1) if change < tol else 0
        if progress is not None:
            progress(n_iter, current.bound.total, change)
        if quiet > 0 and plain == 0 and not judged:
            # Acceleration finds any fixed point, also unstable ones. Without a bound to distinguish them, plain steps
            # decide: if they leave the fixed point, continue with them for a while. (A step that only overshoots turns
            # back at once.) A plain step that changes nothing counts as a second converged sweep.
            proof = iteration.evaluate(plain_step(current, mixing))
            n_iter += 1
            if _change(current, proof) < tol:
                quiet = policy.patience
            elif quiet == policy.patience and _readout(iteration, current) @ _readout(iteration, proof) > 0.0:
                current, quiet, plain, escape, residual = proof, 0, escape, 2 * escape, np.inf
                history.append(current.bound.total)
    return Fit(current.state, current.q, current.bound, history, n_iter, quiet >= policy.patience, change)


def _readout(iteration: Iteration, at: Evaluated) -> Array:
    """What a plain step would change, in units that matter alike: the field's mean against its prior, confusion
    matrices by their sources' share of the reports, log ς. (Statistics are dominated by their few largest entries.)
    """
    parts = [
        (new - old.readout) * np.sqrt(at.q.scale.mean) for new, old in zip(at.ahead.readouts, at.q.fields, strict=True)
    ]
    share = at.q.alpha.sum(-1, keepdims=True) / at.q.alpha.sum()
    moved = confusion.expected_pi(iteration.dirichlet(at.ahead.state)[0]) - confusion.expected_pi(at.q.alpha)
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
    # Written so that an infinite slack accepts anything.
    return None if new.bound.total - current.bound.total < -iteration.slack * abs(current.bound.total) else new
