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
from crowdfield.inference.posed import LatentMean, Posed
from crowdfield.models import inexact
from crowdfield.models.base import Array, confusion_priors, positive, weakly_diagonal, whole

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC


# Gives the log odds of two states a prior standard deviation of about 2: at many places the state is almost certain. On
# simulated maps of that kind, 90 % intervals cover far more of the true rates than with a rate of 1, at the same cross
# entropy (docs/benchmarks/inference.md).
LOG_ODDS_RATE = 4.0
PAPERS_SCALE_RATE = 1.0
# Prior variance of the level of f, in units of the map's own variance 1/ς: how far a state may be rare or common
# everywhere. The paper's model, `inference="vb"`, has none; a prior mean that is given says what the level is.
LEVEL_VARIANCE = 1.0
# Of two states that are named, the second is the one in question, which is expected to be the rarer: log odds around
# this level, with this variance, stand for a state that covers a fifth of the map, or anything from 2 % to 60 % of it.
# Reports alone cannot tell a rare state with an alarmed crowd from a common state with a careless one.
IN_QUESTION_LEVEL, IN_QUESTION_VARIANCE = -1.5, 0.5


# Weakly diagonal sources that a crowd is assumed to have beside its own, where no prior is given: a crowd may lean, or
# be careless, but that it means the opposite of what it says takes more than a few sources.
PSEUDO_SOURCES = 3


class Level(NamedTuple):
    """The prior of the level of f (its intercept)."""

    mean: float
    variance: float  # in units of 1/ς


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
    given = model.confusion_prior
    own = np.array([isinstance(given, dict) and s in given for s in reports.sources], dtype=bool)
    everybody = given.get(None) if isinstance(given, dict) else given
    communities = _communities(model, everybody, reports, own)
    level = _level(model, len(states), communities)
    mean_at = LatentMean(level.mean if level.variance else model.prior_mean, len(states))
    prior = Prior(
        alpha0=confusion_priors(model.confusion_prior, states, reports.labels, reports.sources),
        shape=float(model.scale_shape),
        rate=scale_rate(model, PAPERS_SCALE_RATE if model.inference == "vb" else default_scale_rate(len(states))),
        mean=blur.averaged(mean_at, places, dimension),
    )
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
        communities=communities,
        base=_pseudo_sources(everybody, states, reports),
        own=own,
        seed=model.random_state,
        level=level.variance,
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


def _communities(model: HeatmapBCC, everybody: Any, reports: Reports, own: NDArray[np.bool_]) -> int | str | None:
    """How the sources' priors are learned: by default one for the whole crowd, unless a prior is given for everybody.

    The paper's inference has separate matrices. One source is no crowd, and where all sources without a prior of their
    own say the same, nothing can be learned about how people err.
    """
    if model.communities is not None or everybody is not None or model.inference == "vb":
        return model.communities
    crowd = ~own[reports.source]
    labels, sources = np.unique(reports.label[crowd]), np.unique(reports.source[crowd])
    return 1 if min(len(labels), len(sources)) > 1 else None


def _pseudo_sources(everybody: Any, states: tuple[Any, ...], reports: Reports) -> Array:
    """What a crowd is assumed to be like before any report: one source's prior as given, else some weak ones."""
    if everybody is not None:
        return np.asarray(everybody, dtype=np.float64)[None]
    return np.repeat(weakly_diagonal(states, reports.labels)[None], PSEUDO_SOURCES, axis=0)


def _level(model: HeatmapBCC, n_states: int, communities: int | str | None) -> Level:
    """The prior of the level: of variance 0 for the paper's inference, and where a prior mean is given.

    The level is confounded with the lean that the crowd has in common, where that is learned.
    """
    given = callable(model.prior_mean) or np.any(np.asarray(model.prior_mean, dtype=np.float64))
    if given or model.inference == "vb":
        return Level(0.0, 0.0)
    if model.states is not None and n_states == 2 and communities is not None:
        return Level(IN_QUESTION_LEVEL, IN_QUESTION_VARIANCE)
    return Level(0.0, LEVEL_VARIANCE)


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
