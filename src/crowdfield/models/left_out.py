"""How probable every report's label was given all other reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.arrays import Array
from crowdfield.inference.data import contrast
from crowdfield.inference.instrument.left_out import Habits
from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.inference.quadrature import latent_nodes, logsumexp, softmax
from crowdfield.models import draws, inexact

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

ROWS = 1 << 14  # places processed at a time
LEAST_SHARE = 1e-3  # smallest share of a precision that a cavity keeps, so that rounding cannot make it negative


def of_model(model: MapQueries) -> Array:
    """log P of every report's label given all other reports, in nats: [R]. NaN for those of trusted sources."""
    reports = model.reports_
    if model.reports_model_ == "instrument":
        fitted, out = model._instrument, np.full(len(reports), np.nan)
        out[model._setup.crowd] = draws.left_out(model) if isinstance(fitted, Sampled) else fitted.left_out()
        return out
    if model.inference_ == "gibbs":
        return draws.left_out(model)
    mean, variance = inexact.latent(model)
    site = inexact.report_sites(model)
    return log_probabilities(
        mean, variance, model.alpha_, model.posterior_, site, reports.source, reports.label, reports.count
    )


def table(model: MapQueries) -> pd.DataFrame:
    """One row per report; see `HeatmapBCC.score_reports`."""
    values = model.left_out() / np.log(2.0)
    reports = model.reports_
    habits = Habits.learn(reports, len(reports.sources), len(reports.labels), reports.count)
    habit = habits.left_out(reports) / np.log(2.0)
    site = inexact.report_sites(model)
    frame = pd.DataFrame(
        {
            "source": pd.Series([reports.sources[s] for s in reports.source], dtype=object),
            "label": pd.Series([reports.labels[code] for code in reports.label], dtype=object),
            "place": site,
            "votes": reports.tally(site, len(model.places_))[site],
            "bits": values,
            "habit_bits": habit,
        }
    )
    known = np.isfinite(values)
    multiplicity = None if reports.count is None else reports.count[known]
    for name, each in (("bits", values), ("habit_bits", habit)):
        frame.attrs[name] = float(np.average(each[known], weights=multiplicity))
    return frame


def log_probabilities(
    mean: Array,
    variance: Array,
    alpha: Array,
    r: Array,
    site: NDArray[np.int64],
    source: NDArray[np.int64],
    label: NDArray[np.int64],
    count: NDArray[np.int64] | None = None,
) -> Array:
    """log P(label | all other reports) under the one-state model: [R]. For a row that counts several times, of one of
    its reports.

    mean, variance [N, F] of q(f) at the sites; alpha [S, J, L] of q(π); r [N, J] q(t). The report is taken out of its
    source's counts, of its place's state, and its place's message out of the field (the cavity).
    """
    C = contrast(alpha.shape[1])
    said = _log_ratio(alpha, source, label)  # [R, J] log E[π_jc]
    each = said if count is None else said * count[:, None]
    sums = [np.bincount(site, each[:, j], len(mean)) for j in range(said.shape[1])]
    at_site = np.stack(sums, axis=1).astype(np.float64, copy=False)
    cavity_mean, cavity_variance = _cavity(mean, variance, at_site, C)
    log_rate = np.log(_rates(cavity_mean, cavity_variance, C))
    own = r[site]
    counts = np.maximum(alpha[source, :, label] - own, 1e-6)
    totals = np.maximum(alpha[source].sum(-1) - own, 1e-6)
    others = softmax(log_rate[site] + at_site[site] - said)
    return np.asarray(np.log((others * np.minimum(counts / totals, 1.0)).sum(1)))


def _log_ratio(alpha: Array, source: NDArray[np.int64], label: NDArray[np.int64]) -> Array:
    return np.asarray(np.log(alpha[source, :, label] / alpha[source].sum(-1)))


def _cavity(mean: Array, variance: Array, log_likelihood: Array, C: Array) -> tuple[Array, Array]:
    """q(f) without the Gaussian message of the place's own reports: E[r − ρ] and E[ρ(1−ρ) − r(1−r)] under q(f)."""
    out_mean, out_variance = np.empty_like(mean), np.empty_like(variance)
    for start in range(0, len(mean), ROWS):
        rows = slice(start, start + ROWS)
        m, v = mean[rows], variance[rows]
        f, w = latent_nodes(m, v)
        logits = f @ C.T
        rho = np.exp(logits - logsumexp(logits)[..., None]) @ C
        joint = logits + log_likelihood[rows, None, :]
        state = np.exp(joint - logsumexp(joint)[..., None]) @ C
        lam = np.einsum("nqf,q->nf", rho * (1.0 - rho) - state * (1.0 - state), w)
        eta = np.einsum("nqf,q->nf", state - rho, w) + lam * m
        precision = np.maximum(1.0 / v - lam, LEAST_SHARE / v)
        out_variance[rows] = 1.0 / precision
        out_mean[rows] = out_variance[rows] * (m / v - eta)
    return out_mean, out_variance


def _rates(mean: Array, variance: Array, C: Array) -> Array:
    """E[ρ] [N, J]."""
    out = np.empty((len(mean), len(C)))
    for start in range(0, len(mean), ROWS):
        rows = slice(start, start + ROWS)
        f, w = latent_nodes(mean[rows], variance[rows])
        out[rows] = np.einsum("nqj,q->nj", softmax(f @ C.T), w)
    return out
