"""Simulated fields, crowds and reports, drawn from the model itself, so that the truth is known.

    world = simulate(2400, reliable=10, noisy=10, rng=np.random.default_rng(0))
    world.reports            what a model may see
    world.truth.rho          the true rates, at every output place
    world.crowd.confusion    the true confusion matrices of the sources

The three parts (`draw_field`, `draw_crowd`, `draw_reports`) can be used alone.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky
from scipy.special import softmax

from crowdfield.arrays import Array
from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError
from crowdfield.inference.kernels import RBF, Kernel, Product
from crowdfield.inference.kernels import kernel as kernel_named

__all__ = ["Crowd", "Field", "Simulation", "draw_crowd", "draw_field", "draw_reports", "simulate"]

Mean = float | Sequence[float] | Callable[[Array], ArrayLike]

# Pseudo-counts of the Dirichlet rows from which the paper draws its reporters, written for two states and two labels;
# `_pseudo_counts` says what they become for more.
KINDS = ("reliable", "noisy", "biased")

# Beyond this many places a dense covariance costs more than the small error of random Fourier features.
DENSE_LIMIT = 5_000
FEATURES = 400
BLOCK = 20_000


@dataclass(frozen=True)
class Field:
    """The truth at places.

    Attributes
    ----------
    places : ndarray [N, D]
        Where.
    f : ndarray [N, F]
        Latent functions: F is 1 for two states (f is the log odds of the second), else the number of states.
    rho : ndarray [N, J]
        State probabilities.
    t : ndarray [N]
        States as codes into ``states``.
    states : tuple
        Their names.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> field = cf.simulate.draw_field([[0.0, 0.0], [1.0, 0.0]], rng=np.random.default_rng(0))
    >>> len(field), field.rho.shape
    (2, (2, 2))
    """

    places: Array
    f: Array
    rho: Array
    t: NDArray[np.int64]
    states: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.t)

    def at(self, index: slice | NDArray[np.integer] | NDArray[np.bool_] | list[int]) -> "Field":
        """The same truth at some of the places."""
        places, f, rho, t = (_frozen(part[index]) for part in (self.places, self.f, self.rho, self.t))
        return Field(places, f, rho, t, self.states)


@dataclass(frozen=True)
class Crowd:
    """Sources and how they err.

    Attributes
    ----------
    confusion : ndarray [S, J, L]
        What each source says (column) when a state (row) is true.
    kinds : tuple of str
        "reliable", "noisy" or "biased", for each source.
    sources, labels : tuple
        Their names.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> cf.simulate.draw_crowd(reliable=1, noisy=2, rng=np.random.default_rng(0)).kinds
    ('reliable', 'noisy', 'noisy')
    """

    confusion: Array
    kinds: tuple[str, ...]
    sources: tuple[Hashable, ...]
    labels: tuple[Hashable, ...]


@dataclass(frozen=True)
class Simulation:
    """Reports, and everything that made them.

    Attributes
    ----------
    reports : Reports
        What a model may see.
    truth : Field
        The field at the output places.
    reported : Field
        The field at the places reported on; the same object if reports are drawn at the output places.
    site : ndarray [R]
        The row of ``reported`` that each report is about.
    crowd : Crowd
        Who reported.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> world = cf.simulate.simulate(100, places=(8, 8), rng=np.random.default_rng(0))
    >>> len(world.reports), len(world.truth)
    (100, 64)
    """

    reports: Reports
    truth: Field
    reported: Field
    site: NDArray[np.int64]
    crowd: Crowd


def simulate(
    reports: int = 2400,
    *,
    rng: np.random.Generator,
    places: tuple[int, int] | Grid | ArrayLike = (40, 40),
    continuous: bool = False,
    states: int | Sequence[Hashable] = 2,
    labels: Sequence[Hashable] | None = None,
    reliable: int = 10,
    noisy: int = 10,
    biased: int = 0,
    kernel: str | Kernel = "matern32",
    lengthscale: float | Sequence[float] = 20.0,
    inverse_scale: float = 1.2,
    prior_mean: Mean = 0.0,
) -> Simulation:
    """Draw a field, a crowd and its reports; the defaults are the paper's synthetic data with 50 % noisy reporters.

    Parameters
    ----------
    reports : int, default=2400
        How many reports.
    rng : numpy.random.Generator
        All randomness comes from it.
    places : (int, int), Grid, or array_like [N, D], default=(40, 40)
        (columns, rows) for a lattice of whole numbers, a Grid for its cell centres, or places.
    continuous : bool, default=False
        Reports fall anywhere in the bounding box of the places, each on a target of its own, rather than on the
        places themselves.
    states : int or sequence, default=2
        What can be true: how many, or their names.
    labels : sequence, optional
        What can be said; by default the states.
    reliable, noisy, biased : int
        How many sources there are of each kind.
    kernel, lengthscale, inverse_scale, prior_mean
        Of the field, as in `draw_field`.

    Returns
    -------
    Simulation
        The reports and the truth behind them.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> world = cf.simulate.simulate(200, places=(10, 10), rng=np.random.default_rng(1))
    >>> world.reports.places.shape, world.truth.t.shape
    ((200, 2), (100,))
    """
    outputs, low, high = _output_places(places)
    crowd = draw_crowd(reliable=reliable, noisy=noisy, biased=biased, states=states, labels=labels, rng=rng)
    size = _whole("reports", reports)
    settings = dict(
        kernel=kernel,
        lengthscale=lengthscale,
        inverse_scale=inverse_scale,
        prior_mean=prior_mean,
        states=states,
    )
    if continuous:
        anywhere = rng.uniform(low, high, size=(size, outputs.shape[1]))
        # One draw for both: the field must be the same function at the outputs and under the reports.
        everything = draw_field(np.vstack([outputs, anywhere]), rng=rng, **settings)  # type: ignore[arg-type]
        truth, reported = everything.at(slice(len(outputs))), everything.at(slice(len(outputs), None))
        site = np.arange(size)
    else:
        truth = reported = draw_field(outputs, rng=rng, **settings)  # type: ignore[arg-type]
        site = rng.integers(0, len(outputs), size)
    return Simulation(draw_reports(reported, crowd, site, rng=rng), truth, reported, _frozen(site), crowd)


def draw_field(
    places: ArrayLike,
    *,
    rng: np.random.Generator,
    kernel: str | Kernel = "matern32",
    lengthscale: float | Sequence[float] = 20.0,
    inverse_scale: float = 1.2,
    prior_mean: Mean = 0.0,
    states: int | Sequence[Hashable] = 2,
    method: str = "auto",
) -> Field:
    """Draw f ~ GP(m, k / ς), ρ = softmax(f) and t ~ Categorical(ρ) at places.

    Parameters
    ----------
    places : array_like [N, D]
        Where.
    rng : numpy.random.Generator
        All randomness comes from it.
    kernel : str or Kernel, default="matern32"
        Covariance of the latent functions; a Kernel brings its own length-scale.
    lengthscale : float or sequence of float, default=20.0
        In the units of the places.
    inverse_scale : float, default=1.2
        ς: the latent functions have variance 1 / ς.
    prior_mean : float, sequence of float, or callable, default=0.0
        Mean of the latent functions.
    states : int or sequence, default=2
        How many states, or their names.
    method : {"auto", "dense", "features"}, default="auto"
        "dense" draws exactly, with a Cholesky factor of the covariance; "features" draws with random Fourier
        features, linear in the number of places; "auto" takes the first up to a few thousand places.

    Returns
    -------
    Field
        The truth at the places.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> field = cf.simulate.draw_field(np.eye(3), states=["dry", "wet", "ice"], rng=np.random.default_rng(0))
    >>> field.f.shape, field.states
    ((3, 3), ('dry', 'wet', 'ice'))
    """
    X = _places(places)
    names = _names("states", states)
    if len(names) < 2:
        raise InputError("A field needs at least two states.")
    if not (np.isfinite(inverse_scale) and inverse_scale > 0):
        raise InputError(f"inverse_scale must be positive, not {inverse_scale!r}.")
    # A Kernel brings its own length-scale.
    k = kernel_named(kernel, lengthscale) if isinstance(kernel, str) else kernel
    functions = 1 if len(names) == 2 else len(names)
    if method == "auto":
        method = "dense" if len(X) <= DENSE_LIMIT else "features"
    if method == "dense":
        draw = _dense_draw(X, k, functions, rng)
    elif method == "features":
        draw = _feature_draw(X, k, functions, rng)
    else:
        raise InputError(f"method must be 'auto', 'dense' or 'features', not {method!r}.")
    f = _mean_at(X, prior_mean, functions) + draw / np.sqrt(inverse_scale)
    logits = np.hstack([np.zeros_like(f), f]) if functions == 1 else f
    rho = softmax(logits, axis=1)
    t = _categorical(rho, rng)
    return Field(_frozen(X), _frozen(f), _frozen(rho), _frozen(t), names)


def draw_crowd(
    *,
    rng: np.random.Generator,
    reliable: int = 10,
    noisy: int = 10,
    biased: int = 0,
    states: int | Sequence[Hashable] = 2,
    labels: Sequence[Hashable] | None = None,
    sources: Sequence[Hashable] | None = None,
) -> Crowd:
    """Draw confusion matrices as in the paper: reliable sources first, then noisy, then biased ones.

    Parameters
    ----------
    rng : numpy.random.Generator
        All randomness comes from it.
    reliable : int, default=10
        Sources whose rows have pseudo-counts of 10 for the right label and 1 for others.
    noisy : int, default=10
        Sources with pseudo-counts of 5 everywhere.
    biased : int, default=0
        Sources with pseudo-counts [[7, 1], [6, 2]]: they say the first label whatever is true.
    states, labels : int or sequence
        What can be true and what can be said.
    sources : sequence, optional
        Names of the sources; by default numbers.

    Returns
    -------
    Crowd
        The sources and how they err.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> crowd = cf.simulate.draw_crowd(reliable=2, noisy=0, rng=np.random.default_rng(0))
    >>> crowd.confusion.shape, bool((crowd.confusion[:, 0, 0] > 0.5).all())
    ((2, 2, 2), True)
    """
    state_names = _names("states", states)
    label_names = state_names if labels is None else _names("labels", labels)
    counts = {"reliable": reliable, "noisy": noisy, "biased": biased}
    kinds = tuple(kind for kind in KINDS for _ in range(_whole(kind, counts[kind], least=0)))
    if not kinds:
        raise InputError("A crowd needs at least one source: give reliable, noisy or biased.")
    names = tuple(range(len(kinds))) if sources is None else tuple(sources)
    if len(names) != len(kinds):
        raise InputError(f"{len(names)} names in sources, but the crowd has {len(kinds)} sources.")
    alpha = np.stack([_pseudo_counts(kind, len(state_names), len(label_names)) for kind in kinds])
    gammas = rng.standard_gamma(alpha)
    return Crowd(_frozen(gammas / gammas.sum(axis=-1, keepdims=True)), kinds, names, label_names)


def draw_reports(field: Field, crowd: Crowd, site: int | ArrayLike, *, rng: np.random.Generator) -> Reports:
    """Draw reports by random sources on rows of a field: c ~ Categorical(π_t).

    Parameters
    ----------
    field : Field
        The truth.
    crowd : Crowd
        Who reports.
    site : int or array_like [R]
        How many reports to draw on rows picked at random; or the rows to report on, one per report.
    rng : numpy.random.Generator
        All randomness comes from it.

    Returns
    -------
    Reports
        What was said.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdfield as cf
    >>> rng = np.random.default_rng(0)
    >>> field = cf.simulate.draw_field([[0.0, 0.0], [9.0, 0.0]], rng=rng)
    >>> crowd = cf.simulate.draw_crowd(reliable=3, noisy=0, rng=rng)
    >>> len(cf.simulate.draw_reports(field, crowd, 12, rng=rng))
    12
    """
    if len(field.states) != crowd.confusion.shape[1]:
        raise InputError(f"The field has {len(field.states)} states, the crowd knows {crowd.confusion.shape[1]}.")
    picked = np.asarray(site, dtype=np.int64)
    rows = rng.integers(0, len(field), _whole("site", site)) if picked.ndim == 0 else picked
    source = rng.integers(0, len(crowd.sources), len(rows))
    label = _categorical(crowd.confusion[source, field.t[rows]], rng)
    return Reports.from_arrays(
        field.places[rows],
        np.asarray(crowd.labels)[label],
        np.asarray(crowd.sources)[source],
        labels=crowd.labels,
        sources=crowd.sources,
    )


def _pseudo_counts(kind: str, states: int, labels: int) -> Array:
    right = np.eye(states, labels)
    if kind == "reliable":
        return 1.0 + 9.0 * right
    if kind == "noisy":
        return np.full((states, labels), 5.0)
    alpha = 1.0 + right
    alpha[:, 0] = 6.0
    alpha[0, 0] = 7.0
    return alpha


def _dense_draw(X: Array, k: Kernel, functions: int, rng: np.random.Generator) -> Array:
    K = k.covariance(X, X)
    # Neighbouring places make K singular to working precision; this much noise is far below any report's.
    K[np.diag_indices_from(K)] += 1e-8
    root = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(root @ rng.standard_normal((len(X), functions)))


def _feature_draw(X: Array, k: Kernel, functions: int, rng: np.random.Generator) -> Array:
    frequency = _frequencies(k, X.shape[1], rng)
    phase = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    weight = rng.standard_normal((FEATURES, functions)) * np.sqrt(2.0 / FEATURES)
    out = np.empty((len(X), functions))
    for start in range(0, len(X), BLOCK):
        angle = X[start : start + BLOCK] @ frequency.T
        angle += phase
        out[start : start + BLOCK] = np.cos(angle, out=angle) @ weight
    return out


def _frequencies(k: Kernel, dimension: int, rng: np.random.Generator) -> Array:
    """Angular frequencies drawn from the kernel's spectral density: [FEATURES, D]."""
    if isinstance(k, Product):
        frequency = np.empty((FEATURES, dimension))
        for factor, columns in zip(k.factors, k.columns, strict=True):
            frequency[:, list(columns)] = _frequencies(factor, len(columns), rng)
        return frequency
    frequency = rng.standard_normal((FEATURES, dimension)) / k.lengthscales(dimension)
    if isinstance(k, RBF):
        return frequency
    nu = getattr(k, "nu", None)
    if nu is None:
        raise InputError(f"Random features of {type(k).__name__} are not known; use method='dense'.")
    # The spectral density of a Matérn kernel is a multivariate Student t with 2ν degrees of freedom.
    return np.asarray(frequency / np.sqrt(rng.chisquare(2.0 * nu, (FEATURES, 1)) / (2.0 * nu)))


def _mean_at(X: Array, prior_mean: Mean, functions: int) -> Array:
    value = np.asarray(prior_mean(X) if callable(prior_mean) else prior_mean, dtype=np.float64)
    if callable(prior_mean) and value.ndim == 1 and len(value) == len(X):
        value = value[:, None]
    try:
        mean = np.broadcast_to(value, (len(X), functions))
    except ValueError as problem:
        raise InputError(
            f"prior_mean has shape {value.shape}; it must be one number, one for each of the {functions} latent "
            "function(s), or a function of places that gives these."
        ) from problem
    if not np.isfinite(mean).all():
        raise InputError("prior_mean must be finite everywhere.")
    return mean


def _categorical(probability: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One draw from each row; the last column takes what rounding leaves of the sum."""
    u = rng.random(len(probability))
    above = np.zeros(len(probability), dtype=np.int64)
    cumulative = np.zeros(len(probability))
    for column in range(probability.shape[1] - 1):
        cumulative += probability[:, column]
        above += u >= cumulative
    return above


def _output_places(places: Any) -> tuple[Array, Array, Array]:
    if isinstance(places, Grid):
        low, high = np.array([places.west, places.south]), np.array([places.east, places.north])
        return places.centres(), low, high
    if isinstance(places, tuple) and len(places) == 2 and all(np.ndim(n) == 0 for n in places):
        columns, rows = (_whole("places", n) for n in places)
        axes = np.meshgrid(np.arange(float(columns)), np.arange(float(rows)), indexing="ij")
        X = np.stack(axes, axis=-1).reshape(-1, 2)
    else:
        X = _places(places)
    return X, X.min(axis=0), X.max(axis=0)


def _places(places: Any) -> Array:
    X = np.array(places, dtype=np.float64)
    if X.ndim != 2 or X.size == 0 or not np.isfinite(X).all():
        raise InputError(f"places must be a finite array [N, D] with at least one row, not one of shape {X.shape}.")
    return X


def _names(what: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return tuple(range(_whole(what, given)))
    names = tuple(given)
    if not names or len(set(names)) != len(names):
        raise InputError(f"{what} must be different names, not {names!r}.")
    return names


def _whole(what: str, number: Any, least: int = 1) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise InputError(f"{what} must be a whole number of at least {least}, not {number!r}.")
    return int(number)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array.setflags(write=False)
    return array
