"""One pass over the sites: computes from q the sums that determine the next step.

All sums are additive over sites, so that blocks of one array, files and machines add up.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from crowdfield.errors import NumericalError
from crowdfield.inference import confusion, linearise, quadrature
from crowdfield.inference.data import Block
from crowdfield.inference.fields.base import Array, Statistics
from crowdfield.inference.fields.basis import Pairs
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.sites import Sites, moments_at, over_blocks, rule_out, sum_over_blocks

SITES_AT_A_TIME = 1 << 12  # sites with several reports that are processed at a time


class Coupling(NamedTuple):
    """How the log odds of reports of the coupled sources follow the field: rows h G of every (source, label)."""

    position: NDArray[np.int64]  # [S] among the coupled sources, −1 for the others
    slope: Array  # h G [Sc · L, F, m]
    shared: Array  # h G Σ [Sc · L, F, m]: the covariance with the weights


class Table(NamedTuple):
    """The part of q that a pass over the sites needs, which is sent to other processes."""

    fields: tuple[Any, ...]  # F
    log_pi: Array  # E[log π] [S · L, J], rows by a report's key
    variance: Array  # of its log odds given the field [S · L, F]
    coupling: Coupling | None
    complete: float = 0.0  # share of the missing information that the curvature keeps: 0 is Newton's step, 1 EM's


class Sums(NamedTuple):
    """The sums of a pass over some sites."""

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
    """A block of sites: q(f) there, the Gaussian sites, and the reports of coupled sources."""

    mean: Array  # [n, F]
    site: linearise.Local
    said: CoupledReports | None
    flat: Array | None  # [n, 1] the share of f in the state's log odds, of inexact places


class CoupledReports(NamedTuple):
    """The reports of coupled sources at the sites of a block: the same in every pass with the same sources."""

    position: NDArray[np.int64]  # [S] of the coupling
    site: NDArray[np.int64]  # [Rc]
    key: NDArray[np.int64]  # [Rc] a row of the coupling's tables
    multiplicity: Array  # [Rc]
    pairs: Pairs  # of their sites and keys
    by_source: csr_array  # [Sc, n] how often each source reported about a site
    by_key: csr_array  # [n, Sc · L] how often each source gave each label there
    # Sites with more than one such report, or one that counts several times, and their rows of `by_key`:
    several: list[tuple[NDArray[np.int64], csr_array]]


def sweep(sites: Sites, table: Table) -> Sums:
    """The sums over all sites of this process."""
    found = sum_over_blocks(partial(_pass_over, sites, table), range(len(sites.blocks)))
    sites.kept[TOTAL] = LastSums(table._replace(coupling=None), found)
    return found


def last_sums(sites: Sites, table: Table) -> Sums | None:
    """The sums of the last pass over all sites, if it was made with this q."""
    before = sites.kept.get(TOTAL)
    return before.sums if isinstance(before, LastSums) and has_same_q(before.table, table) else None


def responsibilities(sites: Sites, table: Table) -> Array:
    """q(t) at all sites: [N, J]."""

    def of_block(b: int) -> Array:
        before = sites.kept.get((LAST, b))
        if isinstance(before, LastPass) and has_same_q(before.table, table):
            return before.r
        return local(sites, table, b).site.r

    return np.concatenate(over_blocks(of_block, range(len(sites.blocks))))


class LastPass(NamedTuple):
    """q(t) at the sites of a block in the last pass over it, and what it was computed from."""

    table: Table
    r: Array


class LastSums(NamedTuple):
    """The sums of the last pass over all sites, and what they were computed from."""

    table: Table
    sums: Sums


def has_same_q(one: Table, other: Table) -> bool:
    """Whether both are of the same q: the same fields, and beliefs about the sources."""
    same_fields = all(a is b for a, b in zip(one.fields, other.fields, strict=True))
    return same_fields and np.array_equal(one.log_pi, other.log_pi)


LAST, TOTAL = "last pass", "sums of the last pass"


def local(sites: Sites, table: Table, b: int) -> Local:
    """Site parameters of a block: moments of f, likelihoods of the states, and the coupling of sources and field."""
    block = sites.blocks[b]
    mean, variance = moments_at(sites, table.fields, block)
    if not (variance >= 0.0).all():
        raise NumericalError("the variance of the field is negative at some places: its precision is nearly singular.")
    likelihood = rule_out(confusion.likelihood_by_site(block, table.log_pi), block.known)
    # The same said n times by one source moves x n times as far, and adds n² times the variance.
    each = table.variance[block.key]
    if block.repeats is not None:
        each = each * block.repeats[:, None]
    added, said = confusion.sum_by_site(block, each), None
    flat = None if sites.flat is None else sites.flat[block.sites]
    if table.coupling is not None:
        said = _said(sites, b, table.coupling)
        added += _covariance_with_field(block, said, table.coupling, flat)
    if flat is None:
        site = linearise.collapsed(mean, variance, likelihood, sites.C, added)
        return Local(mean, linearise.with_more_curvature(site, mean, table.complete), said, None)
    # The state of an inexact place has the log odds κ f: a site of κ f is one of f.
    site = linearise.collapsed(flat * mean, flat**2 * variance, likelihood, sites.C, added)
    site = linearise.with_more_curvature(site, flat * mean, table.complete)
    return Local(mean, site._replace(eta=flat * site.eta, lam=flat**2 * site.lam), said, flat)


def _engine(sites: Sites) -> FeatureEngine:
    """The engine of the sites; an error if it has no features."""
    if not isinstance(sites.engine, FeatureEngine):
        raise TypeError(f"the {sites.engine.name} engine has no features to couple sources with.")
    return sites.engine


def _said(sites: Sites, b: int, coupling: Coupling) -> CoupledReports:
    """Which coupled sources reported about which site of a block, and which label; kept for the next pass."""
    kept = sites.kept.get(b)
    if isinstance(kept, CoupledReports) and np.array_equal(kept.position, coupling.position):
        return kept
    sites.kept[b] = said = _coupled_reports(sites, sites.blocks[b], coupling)
    return said


def _coupled_reports(sites: Sites, block: Block, coupling: Coupling) -> CoupledReports:
    """The reports of coupled sources at the sites of a block."""
    labels, keys = sites.data.n_labels, len(coupling.slope)
    position = coupling.position[block.key // labels]
    kept = position >= 0
    site, key = block.site[kept].astype(np.int64), position[kept] * labels + block.key[kept] % labels
    multiplicity = np.ones(len(site)) if block.multiplicity is None else block.multiplicity[kept]
    # Equal entries are added up: else a product of the two would be of every report with every one.
    by_source = coo_array((multiplicity, (key // labels, site)), shape=(keys // labels, block.n)).tocsr()
    by_key = coo_array((multiplicity, (site, key)), shape=(block.n, keys)).tocsr()
    several = np.flatnonzero(np.bincount(site, multiplicity, block.n) > 1)
    parts = [several[start : start + SITES_AT_A_TIME] for start in range(0, len(several), SITES_AT_A_TIME)]
    return CoupledReports(
        coupling.position,
        site,
        key,
        multiplicity,
        _engine(sites).pairs(block.sites, site, key, keys),
        by_source,
        by_key,
        [(part, by_key[part]) for part in parts],
    )


def _covariance_with_field(block: Block, said: CoupledReports, coupling: Coupling, flat: Array | None = None) -> Array:
    """Var(x) less Var(f) and the sources' own variance: x = ψ·w + …, ψ = φ + s, so 2φᵀ Σ s + sᵀ Σ s.   [n, F]"""
    twice = 2.0 if flat is None else 2.0 * flat[said.site, 0]
    added = np.empty((block.n, coupling.slope.shape[1]))
    for f in range(added.shape[1]):
        slope, shared = coupling.slope[:, f], coupling.shared[:, f]
        alone = np.einsum("km,km->k", slope, shared)  # sᵀ Σ s of one report
        each = twice * said.pairs.evaluate(shared) + alone[said.key]
        added[:, f] = np.bincount(said.site, each * said.multiplicity, block.n)
        for chosen, by_key in said.several:
            added[chosen, f] += _summed_over_pairs(by_key, slope, shared) - by_key @ alone
    return added


def _summed_over_pairs(by_key: csr_array, slope: Array, shared: Array) -> Array:
    """sᵀ Σ s at every site, where s is the sum of the slopes of its reports.   [n, K], [K, m], [K, m] -> [n]"""
    if len(slope) < slope.shape[1]:  # fewer keys than features
        pairs, row = by_key @ (slope @ shared.T), np.repeat(np.arange(by_key.shape[0]), np.diff(by_key.indptr))
        return np.asarray(np.bincount(row, by_key.data * pairs[row, by_key.indices], by_key.shape[0]), float)
    return np.asarray(np.einsum("im,im->i", by_key @ slope, by_key @ shared))


def _pass_over(sites: Sites, table: Table, b: int) -> Sums:
    """The sums of one block of sites."""
    data, engine, block = sites.data, sites.engine, sites.blocks[b]
    at = local(sites, table, b)
    r, lam, kappa = at.site.r, at.site.lam, at.site.missing
    sites.kept[LAST, b] = LastPass(table._replace(coupling=None), r)
    # Engines see g = f − μ: exp(η f − ½ λ f²) ∝ exp((η − λμ) g − ½ λ g²).
    eta = at.site.eta - lam * block.mean
    projected, shifted = _projections(sites, block, at, table.coupling)
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
    """K = Σ κ, the missing information by source and label: [S, L, F]."""
    each = kappa[block.site]
    if block.repeats is not None:
        each = each * block.repeats[:, None]
    columns = [np.bincount(block.key, weights=e, minlength=sources * labels) for e in block.times(each).T]
    return np.stack(columns, axis=1).astype(np.float64, copy=False).reshape(sources, labels, -1)


def _projections(sites: Sites, block: Block, at: Local, coupling: Coupling | None) -> tuple[Array, Array]:
    """B = Σ κ φ and Σ κ ψ, the sums that couple sources and field."""
    said, missing = at.said, at.site.missing
    if said is None or coupling is None:
        return np.zeros(0), np.zeros(0)
    labels = sites.data.n_labels
    keys, F, m = coupling.slope.shape
    projected, shifted = np.empty((keys, F, m)), np.empty((keys // labels, F, m))
    often, site, start = said.by_source.data, said.by_source.indices, said.by_source.indptr
    for f in range(F):
        weight = missing[said.site, f] * said.multiplicity
        of_field = weight if at.flat is None else weight * at.flat[said.site, 0]
        projected[:, f] = said.pairs.project(of_field)
        # Σ κ s over the sites of a source: how often it met which others there, times their slopes.
        met = csr_array((often * missing[site, f], site, start), shape=said.by_source.shape) @ said.by_key
        shifted[:, f] = projected[:, f].reshape(-1, labels, m).sum(1) + met @ coupling.slope[:, f]
    return projected, shifted
