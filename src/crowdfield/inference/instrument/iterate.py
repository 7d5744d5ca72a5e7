"""Repeat steps to convergence: first while the variances are learned, then with these held."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdfield.inference.anderson import Anderson
from crowdfield.inference.instrument import fitting
from crowdfield.inference.instrument.fitting import Progress, State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.methods import Method


class Policy(NamedTuple):
    """When a step is shortened, and when the iteration ends."""

    tol: float = 1e-4  # largest change of a probability, a sensitivity or a lean
    max_iter: int = 200
    variance_tol: float = 0.003  # largest change of the logarithm of a variance: far below its uncertainty
    variance_sweeps: int = 60  # at most, while the variances are learned
    overshoot: float = 0.5  # nats by which the evidence may fall in a step meanwhile
    window: int = 8  # steps remembered for acceleration
    patience: int = 2  # steps in a row that must move less than tol
    # After this many refused steps in a row the quadratic model of the joint Newton step is too inaccurate: from then
    # on sources and field are updated in turn.
    refused: int = 3
    shortest: float = 1.0 / 64.0  # share of a step; if even that does not raise the objective, the iteration ends
    unsure_variances: bool = True  # whether intervals include the uncertainty of the variances
    rounding: float = 1e-11  # relative fall of the objective that counts as rounding


class Settled(NamedTuple):
    """A converged fit, and its history."""

    at: Any
    history: list[float]  # of the objective, with the variances held
    n_iter: int
    converged: bool
    change: float


def run(
    method: Method,
    start: State,
    policy: Policy,
    *,
    learn: bool = True,
    progress: Progress | None = None,
) -> Settled:
    """Iterate from a state to convergence."""
    current, n_iter = method.evaluate(start), 1
    if learn:
        current, n_iter = learn_variances(method, current, policy, progress)
    accelerator, history, change, quiet, refused = Anderson(policy.window), [current.objective], np.inf, 0, 0
    while n_iter < policy.max_iter and quiet < policy.patience:
        target = method.image(current) if refused < policy.refused else current.image
        step, tried = _rising_step(method, current, target, policy, accelerator)
        n_iter += tried
        if refused < policy.refused:
            refused = refused + 1 if tried > 1 else 0
        if step is None:
            return Settled(current, history, n_iter, True, 0.0)
        change = method.moved(current, step)
        current = step
        history.append(current.objective)
        quiet = quiet + 1 if change < policy.tol else 0
        if progress is not None:
            progress(n_iter, current.objective, change)
    return Settled(current, history, n_iter, quiet >= policy.patience, change)


def learn_variances(method: Method, current: Any, policy: Policy, progress: Progress | None = None) -> tuple[Any, int]:
    """Empirical Bayes: steps that also update the variances, until these converge."""
    n_iter, share, accelerator = 1, 1.0, Anderson(policy.window)
    while n_iter < policy.variance_sweeps:
        target = method.learning_image(current)
        change = log_change(current.state, target)
        if change < policy.variance_tol:
            break
        if share == 1.0:
            proposed = fitting.unpack(current.state, accelerator.propose(*_packed(method, current, target)))
        else:
            proposed = fitting.between(current.state, target, share)
        new = method.evaluate(proposed)
        n_iter += 1
        if new.evidence < current.evidence - policy.overshoot and share > policy.shortest:
            accelerator.forget()
            share *= 0.5
            continue
        share, current = min(1.0, 2.0 * share), new
        if progress is not None:
            progress(n_iter, current.objective, change)
    return current, n_iter


def _packed(method: Method, at: Any, target: State) -> tuple[Array, Array, Array]:
    """A state and its image as vectors, and the step between them in comparable units: √nats."""
    z, image = fitting.pack(at.state), fitting.pack(target)
    sources = np.einsum("sij,sj->si", _roots(at.covariance), target.theta - at.state.theta).ravel()
    rest = image[-fitting.globals_of(target) :] - z[-fitting.globals_of(target) :]
    return z, image, np.concatenate([method.surprise(at, target).ravel(), sources, rest])


def _roots(covariance: Array) -> Array:
    """Lᵀ with L Lᵀ = covariance⁻¹, which scales a step of a source's parameters to √nats."""
    return np.asarray(np.linalg.cholesky(np.linalg.inv(covariance)).transpose(0, 2, 1))


def _rising_step(
    method: Method, current: Any, target: State, policy: Policy, accelerator: Anderson
) -> tuple[Any | None, int]:
    """An accelerated step if it raises the objective, else the longest share of a plain step that does; None if none
    does. Also the number of steps tried.
    """
    slack = policy.rounding * abs(current.objective)
    proposed = accelerator.propose(*_packed(method, current, target))
    new = method.evaluate(fitting.unpack(current.state, proposed))
    if new.objective >= current.objective - slack:
        return new, 1
    accelerator.forget()
    share, tried = 1.0, 1
    while share >= policy.shortest:
        new = method.evaluate(fitting.between(current.state, current.image, share))
        tried += 1
        if new.objective >= current.objective - slack:
            return new, tried
        share *= 0.5
    return None, tried


def log_change(a: State, b: State) -> float:
    """How far the variances moved, in logarithms."""
    one, other = log_variances(a), log_variances(b)
    return float(np.abs(one - other).max())


def log_variances(state: State) -> Array:
    """All variances of a state in logarithms: smooth, nugget, population [2 + d]."""
    v = state.variances
    return np.asarray(np.log(np.concatenate([[v.smooth, v.nugget], v.population.variance])))
