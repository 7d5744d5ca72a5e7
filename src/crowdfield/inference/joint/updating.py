"""The sums over the sites of a new fit at the q where an earlier one ended: those of the earlier fit, corrected at the
sites that differ.

Sums over sites add up, so that the first pass after one new report among many is a pass over one site.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference import quadrature
from crowdfield.inference.fields.base import Array, Statistics
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.joint.sums import Sums, Table, last_sums, sweep
from crowdfield.inference.posed import at_sites
from crowdfield.inference.sites import Sites, moments_at

MOST_CHANGED = 1_000  # sites; with more, a pass over all of them is simpler


class Changed(NamedTuple):
    """The sites that differ: those that are gone or have other reports, and what is there instead."""

    before: NDArray[np.int64]
    now: NDArray[np.int64]


def updated(before: Sites, now: Sites, table: Table) -> Sums | None:
    """The sums over `now`; None where they are not known for `before`, or too many sites differ."""
    known, changed = last_sums(before, table), changed_sites(before, now)
    if known is None or changed is None:
        return None
    less, more = _sums_over(before, changed.before, table), _sums_over(now, changed.now, table)
    return Sums(
        _corrected(known.counts, less and less.counts, more and more.counts),
        _corrected(known.missing, less and less.missing, more and more.missing),
        tuple(
            Statistics(
                _corrected(old.linear, less and less.statistics[f].linear, more and more.statistics[f].linear),
                _corrected(old.quadratic, less and less.statistics[f].quadratic, more and more.statistics[f].quadratic),
            )
            for f, old in enumerate(known.statistics)
        ),
        _corrected(known.projected, less and less.projected, more and more.projected),
        _corrected(known.shifted, less and less.shifted, more and more.shifted),
        known.targets - (less.targets if less else 0.0) + (more.targets if more else 0.0),
        _probe(now, table),
    )


def changed_sites(before: Sites, now: Sites) -> Changed | None:
    """Where the places or their reports differ; None where that is not seen at a glance, or too much does."""
    old, new = before.data, now.data
    if any(each is not None for data in (old, new) for each in (data.repeats, data.multiplicity)):
        return None
    a, b = old.X[:, 0], new.X[:, 0]
    if old.X.shape[1] != new.X.shape[1] or (a[1:] <= a[:-1]).any() or (b[1:] <= b[:-1]).any():
        return None  # places are sorted; that the first column tells them all apart is the usual case
    at = np.minimum(np.searchsorted(b, a), len(b) - 1)
    same = (new.X[at] == old.X).all(1) & (_signatures(before) == _signatures(now)[at])
    same &= (old.known == new.known[at]) & (before.prior.mean == now.prior.mean[at]).all(1)
    others = np.ones(len(b), dtype=bool)
    others[at[same]] = False
    found = Changed(np.flatnonzero(~same), np.flatnonzero(others))
    return found if max(map(len, found)) <= MOST_CHANGED else None


def _signatures(sites: Sites) -> Array:
    """A number for the reports of every site that other reports do not have: [N]."""
    data = sites.data
    of_report = np.random.default_rng(0).random(data.n_sources * data.n_labels)
    key = data.source.astype(np.int64) * data.n_labels + data.label
    return np.asarray(np.bincount(data.site, of_report[key], data.n_sites))


def _part(sites: Sites, rows: NDArray[np.int64]) -> Sites:
    """Some of the sites, in ascending order."""
    assert isinstance(sites.engine, FeatureEngine)
    data = at_sites(sites.data, rows)
    return Sites(data, sites.prior._replace(mean=sites.prior.mean[rows]), FeatureEngine(sites.engine.basis, data.X))


def _sums_over(sites: Sites, rows: NDArray[np.int64], table: Table) -> Sums | None:
    return sweep(_part(sites, rows), table) if len(rows) else None


def _corrected(known: Array, less: Array | None, more: Array | None) -> Array:
    out = known if less is None else known - less
    return out if more is None else out + more


def _probe(sites: Sites, table: Table) -> Array:
    """State probabilities at the watched sites: [P, J]."""
    every = np.arange(sites.data.n_sites)
    rows = np.concatenate([every[block.sites][sites.watched(block)] for block in sites.blocks])
    part = _part(sites, rows)
    return np.asarray(quadrature.softmax(moments_at(part, table.fields, part.blocks[0])[0] @ sites.C.T))
