"""One pass over the sites: what q says there goes in, sums that determine the next step come out.

All sums are additive over sites, so that blocks of one array, files and machines add up.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crowdfield.inference import confusion, linearise, quadrature
from crowdfield.inference.data import Block
from crowdfield.inference.fields.base import Array, Statistics
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.sites import Sites, moments_at, over_blocks, rule_out, sum_over_blocks


class Coupling(NamedTuple):
    """How the log odds of reports of the coupled sources follow the field: rows h G of every (source, label)."""

    position: NDArray[np.int64]  # [S] among the coupled sources, −1 for the others
    slope: Array  # h G [Sc · L, F, m]
    shared: Array  # h G Σ [Sc · L, F, m]: the covariance with the weights


class Table(NamedTuple):
    """As much of q as a pass over the sites needs: what travels to other processes."""

    fields: tuple[Any, ...]  # F
    log_pi: Array  # E[log π] [S · L, J], rows by a report's key
    variance: Array  # of its log odds given the field [S · L, F]
    coupling: Coupling | None


class Sums(NamedTuple):
    """What a pass over some sites adds up to."""

    counts: Array  # Σ r [S, J, L]
    missing: Array  # K = Σ κ [S, L, F], κ = E[r(1 − r)]: the missing information
    statistics: tuple[Statistics, ...]  # F, with η = E[r − ρ] + λ f̂ and λ = E[ρ(1−ρ)] − κ
    projected: Array  # B = Σ κ φ [Sc · L, F, m]
    shifted: Array  # Σ κ ψ [Sc, F, m], ψ = φ + the slopes of all reports at the site
    targets: float  # Σ E[log Σ_j e^{x_j} − log Σ_j e^{f_j}]
    probe: Array  # [P, J] state probabilities at the watched sites

    def __add__(self, other: Sums) -> Sums:  # type: ignore[override]
        return Sums(
            self.counts + other.counts,
            self.missing + other.missing,
            tuple(a + b for a, b in zip(self.statistics, other.statistics, strict=True)),
            self.projected + other.projected,
            self.shifted + other.shifted,
            self.targets + other.targets,
            np.concatenate([self.probe, other.probe]),
        )


class Local(NamedTuple):
    """A block of sites: q(f) there, the Gaussian sites, and the features where sources are coupled."""

    mean: Array  # [n, F]
    site: linearise.Local
    design: Design | None


class Design(NamedTuple):
    """The features of a block's sites, and who of the coupled sources said what there."""

    phi: Array  # [n, m]
    by_key: csr_array  # [n, Sc · L]
    by_source: csr_array  # [n, Sc]


def sweep(sites: Sites, table: Table) -> Sums:
    return sum_over_blocks(partial(_pass_over, sites, table), range(len(sites.blocks)))


def responsibilities(sites: Sites, table: Table) -> Array:
    """q(t) at all sites: [N, J]."""
    parts = over_blocks(lambda b: local(sites, table, b).site.r, range(len(sites.blocks)))
    return np.concatenate(parts)


def local(sites: Sites, table: Table, b: int) -> Local:
    block = sites.blocks[b]
    mean, variance = moments_at(sites, table.fields, block)
    likelihood = rule_out(confusion.sum_by_site(block, table.log_pi[block.key]), block.known)
    # The same said n times by one source moves x n times as far, and adds n² times the variance.
    each = table.variance[block.key]
    if block.repeats is not None:
        each = each * block.repeats[:, :1]
    added, design = confusion.sum_by_site(block, each), None
    if table.coupling is not None:
        design = _design(sites, block, table.coupling)
        added += _covariance_with_field(design, table.coupling)
    return Local(mean, linearise.collapsed(mean, variance, likelihood, sites.C, added), design)


def _design(sites: Sites, block: Block, coupling: Coupling) -> Design:
    labels = sites.data.n_labels
    if not isinstance(sites.engine, FeatureEngine):
        raise TypeError(f"the {sites.engine.name} engine has no dense features to couple sources with.")
    position = coupling.position[block.key // labels]
    kept = position >= 0
    start = np.concatenate([[0], np.cumsum(np.bincount(block.site[kept], minlength=block.n))])
    chosen, ones = position[kept], np.ones(int(kept.sum()))
    count = len(coupling.slope) // labels
    by_key = csr_array((ones, chosen * labels + block.key[kept] % labels, start), shape=(block.n, count * labels))
    by_source = csr_array((ones, chosen, start), shape=(block.n, count))
    return Design(sites.engine.features(block.sites), by_key, by_source)


def _covariance_with_field(design: Design, coupling: Coupling) -> Array:
    """Var(x) less Var(f) and the sources' own variance: x = ψ·w + …, ψ = φ + s, so (2φ + s)ᵀ Σ s.   [n, F]"""
    added = np.empty((len(design.phi), coupling.slope.shape[1]))
    for f in range(added.shape[1]):
        slope, shared = design.by_key @ coupling.slope[:, f], design.by_key @ coupling.shared[:, f]
        slope += 2.0 * design.phi
        added[:, f] = np.einsum("ij,ij->i", slope, shared)
    return added


def _pass_over(sites: Sites, table: Table, b: int) -> Sums:
    data, engine, block = sites.data, sites.engine, sites.blocks[b]
    at = local(sites, table, b)
    r, lam, kappa = at.site.r, at.site.lam, at.site.missing
    # Engines see g = f − μ: exp(η f − ½ λ f²) ∝ exp((η − λμ) g − ½ λ g²).
    eta = at.site.eta - lam * block.mean
    projected, shifted = _projections(at.design, table.coupling, kappa)
    return Sums(
        counts=confusion.counts(block, r, data.n_sources, data.n_labels),
        missing=_missing(block, kappa, data.n_sources, data.n_labels),
        statistics=tuple(engine.summarise(block.sites, eta[:, f], lam[:, f]) for f in range(eta.shape[1])),
        projected=projected,
        shifted=shifted,
        targets=at.site.bound,
        probe=quadrature.softmax(at.mean[sites.watched(block)] @ sites.C.T),
    )


def _missing(block: Block, kappa: Array, sources: int, labels: int) -> Array:
    """K [S, L, F]"""
    each = kappa[block.site]
    if block.repeats is not None:
        each = each * block.repeats[:, :1]
    columns = [np.bincount(block.key, weights=e, minlength=sources * labels) for e in each.T]
    return np.stack(columns, axis=1).astype(np.float64, copy=False).reshape(sources, labels, -1)


def _projections(design: Design | None, coupling: Coupling | None, kappa: Array) -> tuple[Array, Array]:
    """B and Σ κ ψ."""
    if design is None or coupling is None:
        return np.zeros(0), np.zeros(0)
    projected = np.empty_like(coupling.slope)
    shifted = np.empty((design.by_source.shape[1], *coupling.slope.shape[1:]))
    for f in range(kappa.shape[1]):
        seen = kappa[:, f, None] * design.phi
        projected[:, f] = design.by_key.T @ seen
        shifted[:, f] = design.by_source.T @ (seen + kappa[:, f, None] * (design.by_key @ coupling.slope[:, f]))
    return projected, shifted
