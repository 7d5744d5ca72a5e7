"""An inference problem: reports, priors and choices of method, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.errors import InputError
from crowdfield.inference.communities import Communities
from crowdfield.inference.data import Data, Prior, contrast
from crowdfield.inference.fields.base import Array, Engine
from crowdfield.inference.fields.choose import choose
from crowdfield.inference.fields.exact import FOR_GIVEN_SCALES, FOR_INTEGRATED_SCALE
from crowdfield.inference.kernels import Kernel, WithLevel

# Affordable numbers of features: an eigendecomposition per sweep (joint) costs more than a Cholesky factorisation.
JOINT_FEATURES, MEAN_FIELD_FEATURES = 250, 800
# While length-scales are compared, features may leave more of the prior variance out: that changes the evidence of all
# length-scales by about the same amount.
SEARCH_TOLERANCE, SEARCH_FEATURES = 0.05, 500


@dataclass(frozen=True)
class ManySites:
    """From `least` sites on, a joint fit is given more features and begins on a part of the sites.

    Passes over so many sites cost more than the algebra of 1,000 features, and 250 would be too few: what is truncated
    then limits the map (docs/benchmarks/speed.md).
    """

    least: int = 300_000
    features: int = 1_000
    part: int = 30_000  # sites on which the fit begins


@dataclass(frozen=True)
class LatentMean:
    """μ as a function of places, [M, D] -> [M, F]."""

    given: float | ArrayLike | Callable[[Array], ArrayLike]
    states: int

    def __call__(self, X: Array, /) -> Array:
        """A constant is a broadcast view: it takes no memory."""
        functions = contrast(self.states).shape[1]
        value = np.asarray(self.given(X) if callable(self.given) else self.given, dtype=np.float64)
        if not np.isfinite(value).all():
            raise InputError("prior_mean must be finite at every place.")
        if callable(self.given) and value.shape == (len(X),) and self.states == 2:
            return value[:, None]
        if value.ndim == 0:  # with several states a common shift changes nothing
            return np.broadcast_to(value.reshape(1, 1), (len(X), functions))
        if value.shape not in ((self.states,), (len(X), self.states)):
            raise InputError(
                f"prior_mean must be a number, one for each of the {self.states} states, or a function that returns "
                f"[M, {self.states}]{' or [M]' if self.states == 2 else ''}; got shape {value.shape}."
            )
        by_state = np.broadcast_to(value, (len(X), self.states))
        return by_state[:, 1:] - by_state[:, :1] if self.states == 2 else by_state


@dataclass(frozen=True)
class Posed:
    """A problem in arrays: reports and priors, and every choice that was made about the method."""

    data: Data
    prior: Prior
    kernel: Kernel
    method: str  # "joint", or a linearisation of mean-field VB: "polya_gamma", "ekf"
    mean_at: LatentMean
    engine_name: str
    free: tuple[tuple[int, ...], ...]  # groups of columns that share a length-scale, which is to be learned
    lengthscale_bounds: tuple[float, float] | None
    lengthscale_prior: tuple[float, float] | None
    communities: int | str | Communities | None  # how many; "learn"; those to start from; or separate matrices
    base: Array  # [B, J, L] the prior that communities start from: what pseudo-sources have said
    own: NDArray[np.bool_]  # [S] sources with a prior of their own
    seed: Any
    level: float = 0.0  # prior variance of the intercept, in units of 1/ς
    many: ManySites = ManySites()

    def rng(self) -> np.random.Generator:
        """A generator from the seed; the same at every call."""
        return np.random.default_rng(self.seed)

    @property
    def field_kernel(self) -> Kernel:
        """The kernel of f: an intercept and a smooth part."""
        return WithLevel(self.kernel, self.level) if self.level else self.kernel

    def engine(self) -> Engine:
        """The engine that was asked for, or the one that suits the places, the kernel and the method."""
        joint = self.method == "joint"
        few = self.many.features if self.data.n_sites >= self.many.least else JOINT_FEATURES
        return choose(
            self.engine_name,
            self.field_kernel,
            self.data.X,
            exact=FOR_INTEGRATED_SCALE if joint else FOR_GIVEN_SCALES,
            affordable=few if joint else MEAN_FIELD_FEATURES,
            rng=self.rng(),
        )

    def search_engine(self) -> Engine:
        """An engine for comparing length-scales, with fewer features than the map itself if that needs many."""
        if self.method != "joint":
            return self.engine()
        return choose(
            self.engine_name,
            self.field_kernel,
            self.data.X,
            exact=FOR_INTEGRATED_SCALE,
            affordable=JOINT_FEATURES,
            coarsest=SEARCH_TOLERANCE,
            nearly_exact=SEARCH_FEATURES,
            rng=self.rng(),
        )

    def with_kernel(self, new: Kernel) -> Posed:
        """The same problem with another kernel."""
        return replace(self, kernel=new)

    def with_lengthscales(self, scales: Array) -> Posed:
        """The same problem with other length-scales, one per column: [D]."""
        alike = bool((scales == scales[0]).all())
        return self.with_kernel(self.kernel.with_lengthscale(float(scales[0]) if alike else scales))


class Draw(NamedTuple):
    """A sample of the sites, and of the sources whose reports about them are used."""

    sites: NDArray[np.int64]  # ascending
    sources: NDArray[np.bool_]  # [S]


def thinned(posed: Posed, most: int) -> Posed:
    """The problem on a random sample of `most` of its sites, with the reports of some of its sources."""
    data, rng = posed.data, posed.rng()
    if data.n_sites <= most:
        return posed
    turn = rng.permutation(data.n_sources)
    drawn = draw(first_turns(data, turn), turn, most, rng)
    fewer = at_sites(data, drawn.sites, drawn.sources[data.source])
    return replace(posed, data=fewer, prior=posed.prior._replace(mean=posed.prior.mean[drawn.sites]))


def first_turns(data: Data, turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """The earliest turn [N] of the sources that reported on each site; checked places come first of all."""
    first = np.full(data.n_sites, len(turn))
    np.minimum.at(first, data.site, turn[data.source])
    first[data.known >= 0] = 0
    return first


def draw(first: NDArray[np.int64], turn: NDArray[np.int64], most: int, rng: np.random.Generator) -> Draw:
    """Sources in the order of `turn` [S] until they have `most` sites, and a random `most` of these.

    Few sources with many reports each tell more than many sources about whom little can be learned.
    """
    reached = np.cumsum(np.bincount(first, minlength=len(turn) + 1))
    last = int(np.searchsorted(reached, most))
    return Draw(np.sort(rng.choice(np.flatnonzero(first <= last), most, replace=False)), turn <= last)


def at_sites(data: Data, kept: NDArray[np.int64], among: NDArray[np.bool_] | None = None) -> Data:
    """Some of the sites, given in ascending order, with all their reports, or those `among` [R] some."""
    position = np.full(data.n_sites, -1, dtype=np.int32)
    position[kept] = np.arange(len(kept), dtype=np.int32)
    rows = position[data.site] >= 0
    if among is not None:
        rows &= among
    return data._replace(
        X=data.X[kept],
        site=position[data.site[rows]],
        source=data.source[rows],
        label=data.label[rows],
        known=data.known[kept],
        repeats=None if data.repeats is None else data.repeats[rows],
        multiplicity=None if data.multiplicity is None else data.multiplicity[rows],
    )
