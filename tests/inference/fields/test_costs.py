"""What a sweep costs, in transforms and in memory: counts and ratios, never seconds."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import finufft
import numpy as np

from crowdfield.inference import vb
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.fields import inducing
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Matern32
from crowdfield.inference.sites import Sites


def sites_of(n: int, block: int, basis_of) -> Sites:
    rng = np.random.default_rng(0)
    X = rng.random((n, 2)) * 10
    label, source = rng.integers(0, 2, n), rng.integers(0, 5, n)
    data = arrange(X, np.arange(n), source, label, n_sources=5, n_labels=2, n_states=2)
    prior = Prior(np.tile([[2.0, 1.0], [1.0, 2.0]], (5, 1, 1)), 1.0, 1.0, np.zeros((n, 1)))
    return Sites(data, prior, FeatureEngine(basis_of(X), X, block=block))


def test_a_sweep_is_one_transform_each_way_for_every_block(monkeypatch):
    calls: Counter[str] = Counter()
    for name in ("setpts", "execute", "execute_adjoint"):
        original = getattr(finufft.Plan, name)

        def counted(*args, name=name, original=original, **options):
            calls[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(finufft.Plan, name, counted)
    sites = sites_of(4000, 1000, lambda X: SpectralBasis(Matern32(1.0), X))
    iteration = vb.Iteration.over(sites, vb.SCHEMES["polya_gamma"])
    state = iteration.start()
    calls.clear()
    state = iteration.evaluate(state).image
    assert calls == {"setpts": 4, "execute": 4, "execute_adjoint": 4}
    calls.clear()
    iteration.evaluate(state)
    assert calls == {"execute": 4, "execute_adjoint": 4}  # places are sorted once for a whole fit


def peak_entries(sites: Sites) -> float:
    """float64 entries that one update allocates at its worst."""
    iteration = vb.Iteration.over(sites, vb.SCHEMES["polya_gamma"])
    state = iteration.start()
    tracemalloc.start()
    iteration.evaluate(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 8


def test_memory_of_a_sweep_is_blocks_and_features_never_their_product():
    n, block = 60_000, 10_000
    sites = sites_of(n, block, lambda X: SpectralBasis(Matern32(1.0), X))
    m = sites.engine.size
    # q(t) is kept for every site (2 numbers each); a block has some 40 temporaries; an update some 12 m × m matrices.
    assert peak_entries(sites) < 3 * n + 40 * block + 12 * m**2 < 0.2 * n * m


def test_inducing_points_never_hold_the_features_of_all_sites(monkeypatch):
    monkeypatch.setattr(inducing, "ENTRIES", 1 << 17)
    n, block = 60_000, 30_000
    sites = sites_of(n, block, lambda X: InducingBasis(Matern32(1.0), X, 200, candidates=500))
    assert peak_entries(sites) < 10 * inducing.ENTRIES + 40 * block + 3 * n < 0.25 * n * sites.engine.size
