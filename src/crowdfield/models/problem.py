"""From a user's settings and reports to an inference problem: validation, arrangement, priors and engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.data.sites import distinct_places
from crowdfield.errors import InputError
from crowdfield.inference import blur
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.kernels import Kernel, Product, kernel
from crowdfield.inference.posed import LEVEL_VARIANCE, LatentMean, Posed
from crowdfield.models import inexact
from crowdfield.models.base import Array, confusion_priors, positive, weakly_diagonal, whole

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC


# Gives the log odds of two states a prior standard deviation of about 2: at many places the state is almost certain. On
# simulated maps of that kind, 90 % intervals cover far more of the true rates than with a rate of 1, at the same cross
# entropy (docs/benchmarks/inference.md).
LOG_ODDS_RATE = 4.0
PAPERS_SCALE_RATE = 1.0


class Gold(NamedTuple):
    """Places whose state is known."""

    places: Array  # [G, D]
    state: NDArray[np.int64]  # [G] position among the states


def pose(model: HeatmapBCC, reports: Reports, states: tuple[Any, ...], known: Gold) -> Posed:
    """The inference problem of the one-state model, from settings and reports."""
    reported = inexact.sites_of(reports)
    places, site = distinct_places(np.concatenate([reported, inexact.with_site_columns(reported, known.places)]))
    dimension = reports.places.shape[1]
    state = np.full(len(places), -1, dtype=np.int64)
    state[site[len(reports) :]] = known.state
    data = arrange(
        places,
        site[: len(reports)],
        reports.source,
        reports.label,
        n_sources=len(reports.sources),
        n_labels=len(reports.labels),
        n_states=len(states),
        known=state,
        count=reports.count,
    )
    mean_at = LatentMean(model.prior_mean, len(states))
    prior = Prior(
        alpha0=confusion_priors(model.confusion_prior, states, reports.labels, reports.sources),
        shape=float(model.scale_shape),
        rate=scale_rate(model, PAPERS_SCALE_RATE if model.inference == "vb" else default_scale_rate(len(states))),
        mean=blur.averaged(mean_at, places, dimension),
    )
    given = model.confusion_prior
    own = np.array([isinstance(given, dict) and s in given for s in reports.sources], dtype=bool)
    everybody = given.get(None) if isinstance(given, dict) else given
    the_kernel, free = _kernel(model, dimension, places[:, :dimension])
    if places.shape[1] > dimension:
        the_kernel = blur.Blurred(the_kernel, dimension)
    return Posed(
        data=data,
        prior=prior,
        kernel=the_kernel,
        method="joint" if model.inference in ("auto", "collapsed", "gibbs") else model.linearisation,
        mean_at=mean_at,
        engine_name=model.engine,
        free=free,
        lengthscale_bounds=model.lengthscale_bounds,
        lengthscale_prior=model.lengthscale_prior,
        communities=model.communities,
        base=weakly_diagonal(states, reports.labels) if everybody is None else np.asarray(everybody, dtype=np.float64),
        own=own,
        seed=model.random_state,
        level=LEVEL_VARIANCE if model.inference != "vb" and _level_is_open(model.prior_mean) else 0.0,
    )


def default_scale_rate(n_states: int) -> float:
    """The rate that gives the log odds of two states the same prior variance for any number of states.

    Two states have one function, which is their log odds. Three or more have one each: log odds are differences of two
    functions, and vary by the sum of their variances.
    """
    return LOG_ODDS_RATE if n_states <= 2 else LOG_ODDS_RATE / 2.0


def scale_rate(model: HeatmapBCC, default: float) -> float:
    """Rate of the prior on the inverse scale: as given, else the model's default."""
    return default if model.scale_rate is None else float(model.scale_rate)


def _level_is_open(prior_mean: Any) -> bool:
    """Whether the level (intercept) is learned: a prior mean that is given fixes it, the default does not."""
    return not callable(prior_mean) and not np.any(np.asarray(prior_mean, dtype=np.float64))


def learns_lengthscale(lengthscale: Any) -> bool:
    """Whether a parameter `lengthscale` asks for learning."""
    return "learn" in np.atleast_1d(np.asarray(lengthscale, dtype=object)).tolist()


def _kernel(model: HeatmapBCC, dimension: int, places: Array) -> tuple[Kernel, tuple[tuple[int, ...], ...]]:
    """The kernel to start with, and the groups of columns whose length-scale is to be learned."""
    lengths = np.atleast_1d(np.asarray(model.lengthscale, dtype=object)).tolist()
    if len(lengths) not in (1, dimension):
        raise InputError(f"lengthscale must be one number or one for each of the {dimension} columns of X.")
    each = lengths * dimension if len(lengths) == 1 else lengths
    together = tuple(range(dimension))
    if isinstance(model.kernel, Product):
        named = sorted(column for columns in model.kernel.columns for column in columns)
        if named != list(together):
            raise InputError(f"the kernel is one of {len(named)} columns, but X has {dimension}.")
    if not learns_lengthscale(model.lengthscale):
        if isinstance(model.kernel, Kernel):
            return model.kernel, ()
        return kernel(model.kernel, float(lengths[0]) if len(lengths) == 1 else [float(v) for v in each]), ()
    if len(lengths) == 1:
        free = model.kernel.columns if isinstance(model.kernel, Product) else (together,)
    else:
        free = tuple((column,) for column, value in enumerate(each) if value == "learn")
    extent = np.ptp(places, axis=0)
    guess = np.where(extent > 0, 0.2 * extent, 1.0)
    if isinstance(model.kernel, Kernel):
        guess = model.kernel.lengthscales(dimension)
    if free == (together,):
        return kernel(model.kernel, float(guess.max())), free
    return kernel(model.kernel, [g if v == "learn" else float(v) for g, v in zip(guess, each, strict=True)]), free


def check_settings(model: HeatmapBCC) -> None:
    """Validate every constructor argument before any work is done."""
    for name, choices in (
        ("inference", ("auto", "collapsed", "vb", "gibbs")),
        ("linearisation", ("polya_gamma", "ekf")),
        ("engine", ("auto", "exact", "inducing", "spectral")),
        ("reports_model", ("auto", "one_state", "instrument")),
    ):
        if getattr(model, name) not in choices:
            raise InputError(f"{name} must be one of {', '.join(choices)}, not {getattr(model, name)!r}.")
    positive("scale_shape", model.scale_shape)
    if model.scale_rate is not None:
        positive("scale_rate", model.scale_rate)
    positive("tol", model.tol)
    whole("max_iter", model.max_iter)
    for value in np.atleast_1d(np.asarray(model.lengthscale, dtype=object)):
        if isinstance(value, str):
            if value != "learn":
                raise InputError(f"lengthscale must be positive numbers or 'learn', not {value!r}.")
        else:
            positive("lengthscale", value)
    for name in ("lengthscale_bounds", "lengthscale_prior"):
        pair = getattr(model, name)
        if pair is not None:
            if len(pair) != 2:
                raise InputError(f"{name} must be a pair of positive numbers, not {pair!r}.")
            for value in pair:
                positive(name, value)
    if model.lengthscale_bounds is not None and not model.lengthscale_bounds[0] <= model.lengthscale_bounds[1]:
        raise InputError(f"lengthscale_bounds must be the lower, then the upper, not {model.lengthscale_bounds!r}.")
    if model.communities is not None and model.communities != "learn":
        whole("communities", model.communities)


def gold(given: Any, states: tuple[Any, ...], dimension: int) -> Gold:
    """Validate checked places and their states."""
    if given is None:
        return Gold(np.empty((0, dimension)), np.empty(0, dtype=np.int64))
    try:
        places, truth = given
        where = np.array(places, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError) as problem:
        raise InputError("gold must be a pair: places [G, D], and the state known at each.") from problem
    if where.shape[1] != dimension or not np.isfinite(where).all():
        raise InputError(f"gold places must be finite, with {dimension} columns as X has.")
    known = np.asarray(truth).tolist()
    if len(known) != len(where):
        raise InputError(f"gold has {len(where)} places but {len(known)} states.")
    for state in known:
        if state not in states:
            raise InputError(f"gold state {state!r} is not one of the states {states!r}.")
    return Gold(where, np.array([states.index(s) for s in known], dtype=np.int64))
