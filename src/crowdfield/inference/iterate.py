"""Repeat a step until convergence. One objective judges every step; the code is independent of the method.

A step is shortened while the objective falls; the iteration stops at convergence, or when no step raises the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference.anderson import Anderson
from crowdfield.inference.bound import Bound
from crowdfield.inference.fields.base import Array

Progress = Callable[[int, float, float], None]


class Evaluated(Protocol):
    """A state with the results of a pass over the sites."""

    @property
    def state(self) -> Any:
        """The state that was evaluated."""
        ...

    @property
    def q(self) -> Any:
        """Its posterior."""
        ...

    @property
    def bound(self) -> Bound:
        """Its objective, as named terms."""
        ...


class Method(Protocol):
    """An inference method without hidden state: everything that a step needs is in its arguments."""

    def init(self, sweeps: int) -> Any:
        """A state to start from, after some EM sweeps from the prior."""
        ...

    def is_whole(self, state: Any) -> bool:
        """Whether a state holds all of q; the coupling of sources and field is expensive and may be left out."""
        ...

    def joined(self, state: Any) -> Any:
        """The same state, extended to all of q."""
        ...

    def evaluate(self, state: Any) -> Any:
        """q of a state, and the objective there (an `Evaluated`)."""
        ...

    def step(self, at: Any, length: float) -> Any:
        """The state after a step; length 1 is a full step."""
        ...

    def pack(self, state: Any) -> Array:
        """A state as one vector, of which affine combinations are states again."""
        ...

    def unpack(self, like: Any, z: Array) -> Any:
        """The state of the same layout as another that a vector describes."""
        ...

    def readout(self, state: Any, image: Any) -> Array:
        """The change made by a full step, in comparable units: the residual that acceleration minimises."""
        ...

    def change(self, old: Any, new: Any) -> float:
        """The largest change of a step in anything that a user sees."""
        ...

    def direction(self, old: Any, new: Any) -> Array:
        """The direction of a step, to distinguish progress from oscillation."""
        ...


@dataclass(frozen=True)
class Policy:
    """How steps are taken, judged and ended. Every constant of the iteration is here."""

    # EM sweeps from the prior, before sources and field are updated jointly and ς is freed; more if the fit stalls.
    opening: int = 8
    longer_opening: int = 30
    # Length of a step: a step that lowers the objective is tried again at this share of its length, until the shortest.
    backtracking: float = 1.0 / 3.0
    shortest: float = 0.01
    # The next step is longer if the last two had the same direction, and shorter (to a limit) if they oscillated.
    growth: float = 1.5
    shrinkage: float = 0.6
    shortest_shrunk: float = 0.1
    # How far below the best the objective may fall in a step: nats, or a share of the objective if that is more. The
    # objective makes two approximations, which add up over the sites: with less slack, states around the fixed point
    # would be refused once a better one was seen on the way.
    slack: float = 0.25
    slack_share: float = 5e-5
    # Passes with full slack; afterwards it is halved after every so many further passes, so that the iteration ends.
    full_slack_passes: int = 60
    slack_half_life: int = 10
    # Anderson acceleration: the change below which it starts, its damping (functions that are updated side by side
    # overshoot together), and the number of steps it remembers.
    accelerated_below: float = 0.5
    mixing: float = 0.7
    window: int = 20
    # Converged: so many steps in a row change less than the tolerance. For objectives of many nats (`large`), steps may
    # change up to `loose_factor` times the tolerance, in proportion, if they change the objective by less than a share
    # `negligible_gain` of it: a hundredth of `slack_share`, within which it cannot distinguish two states.
    patience: int = 2
    loose_factor: float = 100.0
    large: float = 1e4
    negligible_gain: float = 5e-7
    # Times the tolerance and the negligible gain: convergence after which the coupling of sources and field is added.
    uncoupled_factor: float = 10.0

    def next_length(self, length: float, turned: bool) -> float:
        """The length of the next step: shorter if the last two steps pointed in opposite directions, else longer."""
        if turned:
            return max(self.shrinkage * length, self.shortest_shrunk)
        return min(self.growth * length, 1.0)

    def accepts(self, objective: float, best: float, n_iter: int = 0) -> bool:
        """Whether a step's objective is acceptable: not below the best so far by more than the slack."""
        slack = max(self.slack, self.slack_share * abs(best))
        slack *= 0.5 ** (max(n_iter - self.full_slack_passes, 0) // self.slack_half_life)
        return bool(np.isfinite(objective)) and objective >= best - slack

    def has_converged(self, change: float, gain: float, objective: float, tol: float, is_whole: bool = True) -> bool:
        """Whether a step changed less than `tol`, or little more and not the objective.

        A state without the coupling of sources and field, which is added next, may change more.
        """
        factor = 1.0 if is_whole else self.uncoupled_factor
        enough, negligible = factor * tol, factor * self.negligible_gain * abs(objective)
        loose = enough * min(abs(objective) / self.large, self.loose_factor)
        return change < enough or (change < loose and abs(gain) < negligible)


class Fit(NamedTuple):
    """The result of an iteration: its last state, and its history."""

    state: Any
    q: Any
    bound: Bound
    history: list[float]
    n_iter: int  # passes over the sites
    converged: bool
    change: float  # made by the last step
    sites: Any = None  # that it was fitted to, where a later fit may start from sums over them


def run(
    method: Method,
    *,
    start: Any = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Fit:
    """Iterate to convergence, from an earlier state or from the prior.

    A fit from an earlier state of other reports may stall, or that state may have no q here. It then starts again from
    the prior and, if that stalls too, with a longer opening; at last with one whose end is not compared with the first
    step, because it has no coupling of sources and field: where sources are hardly known, its objective is too high.
    """
    if start is not None:
        try:
            fit = _from_state(method, start, 0, max_iter, tol, policy, progress)
        except (NumericalError, np.linalg.LinAlgError):
            pass  # as good as a stall: the prior always has a q
        else:
            if fit.converged or fit.n_iter >= max_iter:
                return fit
    fit = _from_prior(method, policy.opening, max_iter, tol, policy, progress)
    if fit.converged or fit.n_iter >= max_iter:
        return fit
    again = _from_prior(method, policy.longer_opening, max_iter, tol, policy, progress)
    if again.converged or again.n_iter >= max_iter:
        return again
    last = _from_prior(method, policy.longer_opening, max_iter, tol, policy, progress, best=-np.inf)
    return last if last.converged else again


def _from_prior(
    method: Method,
    opening: int,
    max_iter: int,
    tol: float,
    policy: Policy,
    progress: Progress | None,
    best: float | None = None,
) -> Fit:
    """Iterate from the prior."""
    opening = min(opening, max(max_iter - 1, 0))
    return _from_state(method, method.init(opening), opening, max_iter, tol, policy, progress, best)


def _from_state(
    method: Method,
    state: Any,
    n_iter: int,
    max_iter: int,
    tol: float,
    policy: Policy,
    progress: Progress | None,
    best: float | None = None,
) -> Fit:
    """Iterate from a state; if it does not couple sources and field, first to convergence without the coupling."""
    first = _iterate(method, state, 1 + n_iter, max_iter, tol, policy, progress, best)
    if method.is_whole(first.state) or first.n_iter >= max_iter:
        return first
    last = _iterate(method, method.joined(first.state), 1 + first.n_iter, max_iter, tol, policy, progress)
    return last._replace(history=first.history + last.history)


def _iterate(
    method: Method,
    state: Any,
    n_iter: int,
    max_iter: int,
    tol: float,
    policy: Policy,
    progress: Progress | None,
    best: float | None = None,
) -> Fit:
    """From a state to convergence, or until no step raises the objective; n_iter passes have been made before.

    best: the objective that the first step is compared with; by default that of the state.
    """
    at = method.evaluate(state)
    length, quiet, change, settled = 1.0, 0, np.inf, False
    unjudged = 1 if best is None else 2  # entries of the history: of the start, and of a step that nothing judges
    history, best, before = [at.bound.total], at.bound.total if best is None else best, None
    accelerator = Anderson(window=policy.window, mixing=policy.mixing)
    while n_iter < max_iter and not settled:
        new, used = None, 1.0
        if change < policy.accelerated_below:
            new, n_iter = _accelerated_step(method, at, accelerator, best, n_iter, policy), n_iter + 1
        if new is None:
            accelerator.forget()
            new, used, tried = _accepted_step(method, at, length, best, n_iter, policy)
            n_iter += tried
            if new is None:
                # No step raises the objective: a maximum if the last step changed or gained little, else a stall.
                small = change < policy.accelerated_below or policy.accepts(history[-2:][0], history[-1])
                settled = len(history) > unjudged and small
                break
            direction = method.direction(at, new) / used
            turned = before is not None and float(direction @ before) < 0.0
            length, before = policy.next_length(used, turned), direction
        change, at = method.change(at, new) / used, new
        best = max(best, at.bound.total)
        history.append(at.bound.total)
        gain = history[-1] - history[-2]
        quiet = quiet + 1 if policy.has_converged(change, gain, best, tol, method.is_whole(at.state)) else 0
        settled = quiet >= policy.patience
        if progress is not None:
            progress(n_iter, at.bound.total, change)
    return Fit(at.state, at.q, at.bound, history, n_iter, settled, change)


def _accelerated_step(
    method: Method, at: Any, accelerator: Anderson, best: float, n_iter: int, policy: Policy
) -> Any | None:
    """The Anderson-accelerated step, or None if the objective falls too far."""
    try:
        image = method.step(at, 1.0)
        z = accelerator.propose(method.pack(at.state), method.pack(image), method.readout(at.state, image))
        new = method.evaluate(method.unpack(image, z))
    except (NumericalError, np.linalg.LinAlgError):
        return None
    return new if policy.accepts(new.bound.total, best, n_iter) else None


def _accepted_step(
    method: Method, at: Any, length: float, best: float, n_iter: int, policy: Policy
) -> tuple[Any | None, float, int]:
    """Backtracking: the first of ever shorter steps that the objective accepts, its length, and how many were tried."""
    tried = 0
    while length >= policy.shortest:
        tried += 1
        try:
            new = method.evaluate(method.step(at, length))
            if policy.accepts(new.bound.total, best, n_iter):
                return new, length, tried
        except (NumericalError, np.linalg.LinAlgError):
            pass  # the step leads to no valid state: try a shorter one
        length *= policy.backtracking
    return None, length, tried
