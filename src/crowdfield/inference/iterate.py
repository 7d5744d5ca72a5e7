"""Repeat a step until convergence. One objective judges every step; the code is independent of the method.

step, halve while the objective falls, stop when nothing moves or when no step raises it any more.
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
    def state(self) -> Any: ...

    @property
    def q(self) -> Any: ...

    @property
    def bound(self) -> Bound: ...


class Method(Protocol):
    """An inference method without hidden state: everything that a step needs is in its arguments."""

    def init(self, sweeps: int) -> Any:
        """A state to start from, after some plain sweeps from the prior."""
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
        """The state after a step of the given length, 1 being the whole."""
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

    opening: int = 8  # plain sweeps from the prior, before sources and map are unsure together and ς is let go
    longer_opening: int = 30  # where these led to a dead end
    shorter: float = 1.0 / 3.0  # a step that lowers the objective is tried again at this part of its length
    longer: float = 1.5  # after a step that went on in the last one's direction
    turned: float = 0.6  # after one that turned round: going to and fro, steps are too long
    least_turned: float = 0.1  # but not shorter than this for that reason
    shortest: float = 0.01  # a step that still lowers the objective at this length is the end: nothing raises it
    slack: float = 0.25  # nats under the best: the objective's two approximations let its top lie a little off
    slack_share: float = 5e-5  # of the objective, where that is more: the approximations add up over the sites. With
    # less, the states around the fixed point itself are refused once a higher one was seen on the way
    wandering: int = 60  # passes after which an iteration has had its time, and only what rises may go on:
    narrowing: int = 10  # the slack is halved after every so many further ones
    accelerated_below: float = 0.5  # of the change: from there the steps are alike enough for Anderson acceleration
    mixing: float = 0.7  # of a whole step, in an accelerated one: functions that step side by side overshoot together
    window: int = 20  # steps that acceleration remembers
    patience: int = 2  # steps in a row that must move less than the tolerance
    loosely: float = 30.0  # times the tolerance, at the most, that steps may move which hardly change the objective,
    large: float = 1e4  # where that has more than so many nats, in proportion: a few reports must settle as before
    told: float = 5e-7  # of the objective: a hundredth of `slack_share`, within which it cannot tell two states apart
    first: float = 10.0  # times the tolerance, until what is dear joins in

    def next_length(self, length: float, turned: bool) -> float:
        """The length of the next step: shorter where the last two turned round, longer where they went on."""
        if turned:
            return max(self.turned * length, self.least_turned)
        return min(self.longer * length, 1.0)

    def accepts(self, objective: float, best: float, n_iter: int = 0) -> bool:
        """Whether a step's objective is good enough: not below the best so far by more than the slack."""
        slack = max(self.slack, self.slack_share * abs(best))
        slack *= 0.5 ** (max(n_iter - self.wandering, 0) // self.narrowing)
        return bool(np.isfinite(objective)) and objective >= best - slack

    def rests(self, change: float, gain: float, objective: float, tol: float) -> bool:
        """Whether a step of the whole state moved nothing, or little that the objective could tell."""
        loose = tol * min(abs(objective) / self.large, self.loosely)
        return change < tol or (change < loose and abs(gain) < self.told * abs(objective))


class Fit(NamedTuple):
    """Where an iteration ended, and how it got there."""

    state: Any
    q: Any
    bound: Bound
    history: list[float]
    n_iter: int  # passes over the sites
    converged: bool
    change: float  # by the last step


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

    An earlier state of other reports may lead to a dead end. Then the fit begins again from the prior, and once more
    after a longer opening where that leads to a dead end, too.
    """
    if start is not None:
        fit = _from_state(method, start, 0, max_iter, tol, policy, progress)
        if fit.converged or fit.n_iter >= max_iter:
            return fit
    fit = _from_prior(method, policy.opening, max_iter, tol, policy, progress)
    if fit.converged or fit.n_iter >= max_iter:
        return fit
    return _from_prior(method, policy.longer_opening, max_iter, tol, policy, progress)


def _from_prior(
    method: Method, opening: int, max_iter: int, tol: float, policy: Policy, progress: Progress | None
) -> Fit:
    """Iterate from the prior."""
    opening = min(opening, max(max_iter - 1, 0))
    return _from_state(method, method.init(opening), opening, max_iter, tol, policy, progress)


def _from_state(
    method: Method, state: Any, n_iter: int, max_iter: int, tol: float, policy: Policy, progress: Progress | None
) -> Fit:
    """Iterate from a state, first without what is dear where it has no room for that."""
    enough = tol if method.is_whole(state) else policy.first * tol
    first = _climb(method, state, 1 + n_iter, max_iter, enough, policy, progress)
    if method.is_whole(first.state) or first.n_iter >= max_iter:
        return first
    last = _climb(method, method.joined(first.state), 1 + first.n_iter, max_iter, tol, policy, progress)
    return last._replace(history=first.history + last.history)


def _climb(
    method: Method,
    state: Any,
    n_iter: int,
    max_iter: int,
    tol: float,
    policy: Policy,
    progress: Progress | None,
) -> Fit:
    """From a state until nothing moves, or until no step raises the objective; n_iter passes have been made."""
    at = method.evaluate(state)
    length, quiet, change, settled = 1.0, 0, np.inf, False
    history, best, before = [at.bound.total], at.bound.total, None
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
                # No step raises the objective: its top where the last one moved or gained little, else a dead end.
                gained_little = len(history) > 1 and policy.accepts(history[-2], history[-1])
                settled = change < policy.accelerated_below or gained_little
                break
            direction = method.direction(at, new) / used
            turned = before is not None and float(direction @ before) < 0.0
            length, before = policy.next_length(used, turned), direction
        change, at = method.change(at, new) / used, new
        best = max(best, at.bound.total)
        history.append(at.bound.total)
        gain = history[-1] - history[-2] if method.is_whole(at.state) else np.inf
        quiet = quiet + 1 if policy.rests(change, gain, best, tol) else 0
        settled = quiet >= policy.patience
        if progress is not None:
            progress(n_iter, at.bound.total, change)
    return Fit(at.state, at.q, at.bound, history, n_iter, settled, change)


def _accelerated_step(
    method: Method, at: Any, accelerator: Anderson, best: float, n_iter: int, policy: Policy
) -> Any | None:
    """Anderson's mix of the last whole steps, where the objective accepts it."""
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
    """The first of ever shorter steps that the objective accepts, its length, and how many were tried."""
    tried = 0
    while length >= policy.shortest:
        tried += 1
        try:
            new = method.evaluate(method.step(at, length))
            if policy.accepts(new.bound.total, best, n_iter):
                return new, length, tried
        except (NumericalError, np.linalg.LinAlgError):
            pass  # not a state at all: as good as a fall
        length *= policy.shorter
    return None, length, tried
