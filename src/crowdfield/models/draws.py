"""Draws from a fitted model's posterior, and the same as ArviZ's InferenceData, so that its tools work on them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdfield.errors import InputError, MissingDependencyError
from crowdfield.inference import state_draws
from crowdfield.inference.instrument.draws import InstrumentDraws
from crowdfield.inference.instrument.draws import draw as draw_instrument
from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.inference.instrument.several.draws import StatesDraws
from crowdfield.inference.instrument.several.draws import draw as draw_several
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.sampling import SamplePredictor
from crowdfield.inference.state_draws import StateDraws
from crowdfield.models import inexact
from crowdfield.models.base import Array, find_sites

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

MOST_ENTRIES = 1 << 28  # draws times reports: 2 GiB of log likelihoods


AnyDraws = InstrumentDraws | StatesDraws | StateDraws


def draws_of(model: MapQueries, size: int, rng: np.random.Generator) -> AnyDraws:
    """`size` posterior draws (for Gibbs, all that were kept), with the reports that they refer to."""
    if model.reports_model_ == "instrument":
        fitted = model._instrument
        if isinstance(fitted, Sampled):
            return fitted.reports_given_draws()
        return (
            draw_several(fitted, size, rng) if isinstance(fitted, FittedStates) else draw_instrument(fitted, size, rng)
        )
    reports, X = model.reports_, model.places_
    site, sites = inexact.report_sites(model), inexact.sites(model)
    known = np.full(len(X), -1)
    known[find_sites(sites, inexact.with_site_columns(sites, model._gold_.places))] = model._gold_.state
    if isinstance(model._predictor, SamplePredictor):
        predictor = model._predictor
        f, pi, scale = state_draws.of_chains(predictor.posterior, X, predictor.prior_mean(X))
        chains = predictor.posterior.chains
    else:
        mean, variance = inexact.latent(model)
        covariance = None
        if len(X) <= state_draws.JOINT_SITES:
            flat = inexact.flattening(model._posed, sites)
            covariance = [flat[:, None] * one * flat for one in model._predictor.covariance(sites)]
        f = state_draws.gaussian_fields(mean, variance, covariance, size, rng)
        pi = state_draws.confusion_draws(model.alpha_, size, rng)
        scale, chains = np.full(size, float(model.scale_[0])), 1
    return StateDraws(f, pi, site, reports.source, reports.label, known, scale, chains)


def log_likelihoods(draws: AnyDraws) -> Array:
    """[D, R]: log likelihood of every report given the draw and the other reports about the same thing."""
    if draws.size * len(draws.site) > MOST_ENTRIES:
        raise InputError(
            f"{draws.size} draws of {len(draws.site):,} log likelihoods are more than fit into memory. Ask for fewer."
        )
    return np.stack([draws.log_likelihood(d) for d in range(draws.size)])


def left_out(model: MapQueries) -> Array:
    """log P of every report's label given all others, by weighing draws of Gibbs: [R].

    P(c | others) is the harmonic mean of P(c | draw). Weights are cut off at √D times their mean (Ionides 2008), so
    that one draw cannot decide alone.
    """
    draws = draws_of(model, 0, np.random.default_rng(0))
    total, cut, value = (np.zeros(len(draws.site)) for _ in range(3))
    for d in range(draws.size):
        total += np.exp(-draws.log_likelihood(d))
    most = np.sqrt(draws.size) * total / draws.size
    for d in range(draws.size):
        p = np.exp(draws.log_likelihood(d))
        weight = np.minimum(1.0 / p, most)
        cut += weight
        value += weight * p
    return np.asarray(np.log(value / cut))


def to_arviz(model: MapQueries, size: int, rng: np.random.Generator) -> Any:
    """InferenceData with groups posterior, log_likelihood and observed_data."""
    arviz = library()
    draws = draws_of(model, size, rng)
    by_chain = (draws.chains, draws.size // draws.chains)

    def chained(values: Array) -> Array:
        return values.reshape(*by_chain, *values.shape[1:])

    reports = model.reports_
    crowd = np.ones(len(reports), dtype=bool) if isinstance(draws, StateDraws) else model._setup.crowd
    names = {
        "source": [str(source) for source in reports.sources],
        "state": [str(state) for state in model.classes_],
        "report": np.flatnonzero(crowd),
        "place": np.arange(len(model.places_)),
    }
    if isinstance(draws, InstrumentDraws):
        variables, dims, more = _of_instrument(model, draws)
    elif isinstance(draws, StatesDraws):
        variables, dims, more = _of_several(model, draws)
    else:
        variables, dims, more = _of_states(draws, [str(label) for label in reports.labels])
    return arviz.from_dict(
        posterior={name: chained(values) for name, values in variables.items()},
        log_likelihood={"label": chained(log_likelihoods(draws))},
        observed_data={"label": reports.label[crowd]},
        coords={**names, **more},
        dims={**dims, "label": ["report"]},
        attrs={"reports_model": model.reports_model_, "inference": model.inference_},
    )


def _of_instrument(
    model: MapQueries, draws: InstrumentDraws
) -> tuple[dict[str, Array], dict[str, list[str]], dict[str, Any]]:
    """Variables, names of dimensions and coordinates for ArviZ, of the instrument model."""
    labels = [str(model.reports_.labels[code]) for code in model._setup.order[1:]]
    covariates = model._setup.covariates
    variables = {
        "sensitivity": draws.theta[:, :, 0],
        "lean": draws.theta[:, :, 1 : 1 + len(labels)],
        "intercept": draws.linear[:, 0],
        "link": draws.link,
        "field": draws.f,
    }
    dims = {"sensitivity": ["source"], "lean": ["source", "lean_to"], "link": ["link_part"], "field": ["thing"]}
    shifts = [f"shift to {state}" for state in model.classes_[1:]]
    coords: dict[str, Any] = {
        "lean_to": labels,
        "link_part": ["slope", *shifts],
        "thing": np.arange(draws.f.shape[1]),
    }
    if covariates is not None:
        variables["weight"], dims["weight"] = draws.linear[:, 1:], ["covariate"]
        coords["covariate"] = list(covariates.names)
    return variables, dims, coords


def _of_several(model: MapQueries, draws: StatesDraws) -> tuple[dict[str, Array], dict[str, list[str]], dict[str, Any]]:
    """Variables, names of dimensions and coordinates for ArviZ, of the instrument model of states without an order."""
    variables = {
        "sensitivity": draws.theta[:, :, 0],
        "lean": draws.theta[:, :, 1 : 1 + len(model.reports_.labels)],
        "intercept": draws.linear[:, :, 0],
        "link": draws.link,
        "field": draws.f,
    }
    dims = {
        "sensitivity": ["source"],
        "lean": ["source", "lean_to"],
        "intercept": ["contrast"],
        "link": ["link_part"],
        "field": ["thing", "contrast"],
    }
    coords: dict[str, Any] = {
        "lean_to": [str(model.reports_.labels[code]) for code in model._setup.order],
        "link_part": ["slope", *(f"shift to {state}" for state in model.classes_)],
        "thing": np.arange(draws.f.shape[1]),
        "contrast": np.arange(draws.f.shape[2]),
    }
    if model._setup.covariates is not None:
        variables["weight"], dims["weight"] = draws.linear[:, :, 1:], ["contrast", "covariate"]
        coords["covariate"] = list(model._setup.covariates.names)
    return variables, dims, coords


def _of_states(draws: StateDraws, labels: list[str]) -> tuple[dict[str, Array], dict[str, list[str]], dict[str, Any]]:
    variables = {"confusion": draws.pi, "field": draws.f, "inverse_scale": draws.scale}
    dims = {"confusion": ["source", "state", "said"], "field": ["place", "function"]}
    return variables, dims, {"said": labels, "function": np.arange(draws.f.shape[2])}


def library() -> Any:
    """ArviZ, or an error that says how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it announces its own next version
            import arviz
    except ImportError as problem:
        raise MissingDependencyError("ArviZ is not installed: pip install 'crowdfield[arviz]'.") from problem
    return arviz
