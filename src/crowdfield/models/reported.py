"""State probabilities at places that have reports, which tell more about them than the field does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from crowdfield.inference.data import contrast
from crowdfield.inference.quadrature import latent_nodes, softmax
from crowdfield.models import inexact
from crowdfield.models.base import Array, find_sites

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

ROWS = 1 << 14  # places processed at a time
# In length-scales. Coordinates that differ by less are the same place, written with other digits or by way of another
# projection; nothing that a map could show lies between them.
SAME_PLACE = 1e-6


class ReportedPlaces(NamedTuple):
    """P(t) of every distinct place that has reports or gold, and its standard deviation.

    The standard deviation is due to the uncertainty of the field, of the appearance and of the link between appearance
    and state.
    """

    places: Array  # [P, D]
    probability: Array  # [P, J]
    sd: Array  # [P, J]


def reported_places(model: MapQueries) -> ReportedPlaces:
    """P(t) and its standard deviation at every reported place."""
    sd = _sd_by_instrument_model(model) if model.reports_model_ == "instrument" else _sd_by_one_state_model(model)
    # No distribution over [0, 1] with mean p has a larger variance; it is zero where the state is certain.
    most = np.sqrt(model.posterior_ * (1.0 - model.posterior_))
    rows = inexact.exact_rows(model)  # the true places of inexact sites are not known
    return ReportedPlaces(model.places_[rows], model.posterior_[rows], np.minimum(sd, most)[rows])


def _sd_by_instrument_model(model: MapQueries) -> Array:
    """The standard deviation of P(t) at every place: the root mean square over the things reported on there. [P, J]"""
    fitted, thing_at = model._instrument, model._setup.place
    variance = fitted.site_sds**2
    count = np.bincount(thing_at, minlength=len(model.places_))
    sums = [np.bincount(thing_at, column, minlength=len(count)) for column in variance.T]
    return np.asarray(np.sqrt(np.stack(sums, axis=1) / np.maximum(count, 1)[:, None]))


def _sd_by_one_state_model(model: MapQueries) -> Array:
    """The standard deviation of P(t | f, reports) over q(f) at every place: [P, J]."""
    mean, variance = inexact.latent(model)
    said = log_likelihoods(model)
    C = contrast(said.shape[1])
    sd = np.empty_like(said)
    for start in range(0, len(mean), ROWS):
        rows = slice(start, start + ROWS)
        f, weight = latent_nodes(mean[rows], variance[rows])
        r = softmax(f @ C.T + said[rows, None, :])
        first, second = np.einsum("nqj,q->nj", r, weight), np.einsum("nqj,q->nj", r**2, weight)
        sd[rows] = np.sqrt(np.maximum(second - first**2, 0.0))
    return sd


def log_likelihoods(model: MapQueries) -> Array:
    """ℓ: log P(reports of a place | state), by the expected confusion matrices: [P, J]."""
    data, log_pi = model._posed.data, np.log(model.confusion_)
    each = log_pi[data.source, :, data.label]  # [R, J]
    if data.multiplicity is not None:
        each = each * data.multiplicity[:, None]
    columns = [np.bincount(data.site, each[:, j], minlength=data.n_sites) for j in range(each.shape[1])]
    return np.stack(columns, axis=1).astype(np.float64)


def same_places(model: MapQueries, X: Array) -> NDArray[np.int64]:
    """The reported place at each row of X, or −1: coordinates are equal, or within the tolerance."""
    rows = inexact.exact_rows(model)
    places = model.places_[rows]
    where = find_sites(places, X)
    unknown = np.flatnonzero(where < 0)
    if len(unknown) and len(places):
        scale = np.broadcast_to(model.lengthscale_, places.shape[1])
        far, near = cKDTree(places / scale).query(X[unknown] / scale, distance_upper_bound=SAME_PLACE)
        found = np.isfinite(far)
        where[unknown[found]] = near[found]
    where[where >= 0] = rows[where[where >= 0]]
    return where
