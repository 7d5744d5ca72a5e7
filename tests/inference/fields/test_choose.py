"""Which engine is chosen, and that every choice says the same about the same sites."""

from __future__ import annotations

import numpy as np
import pytest

from crowdfield.errors import DataWarning, InputError
from crowdfield.inference.fields.choose import choose, default_tolerance
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.inference.kernels import RBF, Matern12, Matern32

RNG = np.random.default_rng(0)
MAP = RNG.random((5000, 2)) * 8


@pytest.mark.parametrize(
    ("what", "kernel", "X", "expected"),
    [
        ("few sites", Matern32(1.0), MAP[:100], "exact"),
        ("more features than sites", Matern32(0.2), MAP[:1000], "exact"),
        ("a map", Matern32(1.0), MAP, "spectral"),
        ("a line", Matern12(1.0), MAP[:, :1], "spectral"),
        ("a smooth volume", RBF(4.0), RNG.random((5000, 3)) * 8, "spectral"),
        ("many columns", Matern32(1.0), RNG.random((5000, 5)), "inducing"),
        ("a few sites of many columns", Matern32(1.0), RNG.random((500, 5)), "exact"),
        ("many more length-scales than features", Matern32(1e-3), MAP, "inducing"),
        ("an outlier among few sites", Matern32(1.0), np.vstack([MAP[:900], [[1e6, 1e6]]]), "exact"),
        ("all at one place", Matern32(1.0), np.zeros((1, 2)), "exact"),
    ],
)
def test_auto_takes_the_engine_that_suits(what, kernel, X, expected):
    assert choose("auto", kernel, X).name == expected


@pytest.mark.parametrize("name", ["exact", "inducing", "spectral"])
def test_a_named_engine_is_the_one_given(name):
    engine = choose(name, Matern32(1.0), MAP[:200])
    assert engine.name == name
    assert engine.n_sites == 200


def test_many_features_are_never_a_matrix():
    engine = choose("auto", Matern32(0.15), MAP, affordable=200)
    assert isinstance(engine, IterativeEngine)
    assert 1000 < engine.size < 10_000


def test_an_outlier_does_not_cost_the_map_its_engine():
    X = np.vstack([MAP, [[8e6, 8e6]]])
    with pytest.warns(DataWarning, match="1 of 5001 places lie far"):
        engine = choose("auto", Matern32(1.0), X)
    assert engine.name == "spectral" and engine.size < 4000
    field = engine.posterior(engine.summarise(engine.blocks[0], np.ones(5001), np.ones(5001)), 1.0)
    mean, variance = engine.at_sites(field, engine.blocks[0])
    assert np.all(np.isfinite(mean)) and np.all(np.isfinite(variance))
    # The map is as if the outlier had not been sent.
    without = choose("auto", Matern32(1.0), MAP)
    reference = without.posterior(without.summarise(without.blocks[0], np.ones(5000), np.ones(5000)), 1.0)
    np.testing.assert_allclose(mean[:5000], without.at_sites(reference, without.blocks[0])[0], atol=1e-6)


def test_the_default_tolerance_is_as_fine_as_is_cheap():
    small, _ = default_tolerance(Matern32(20.0), np.array([[0.0, 0.0], [39.0, 39.0]]))
    large, features = default_tolerance(Matern32(1.0), np.array([[0.0, 0.0], [10.0, 10.0]]))
    assert small <= 2e-3 < large <= 2e-2
    assert features < 1000


def test_engines_agree_on_one_map():
    """Same sites, same posterior: to the tolerance on the kernel, here about .005, in units of the prior sd."""
    rng = np.random.default_rng(1)
    X = rng.random((300, 2)) * 4
    eta, lam = rng.standard_normal(300), np.full(300, 0.25)
    outputs = rng.random((200, 2)) * 4
    moments = {}
    for name in ("exact", "inducing", "spectral"):
        engine = choose(name, Matern32(2.0), X)
        total = engine.empty()
        for block in engine.blocks:
            total = total + engine.summarise(block, eta[block], lam[block])
        moments[name] = engine.posterior(total, 1.0).at(outputs)
    for name in ("inducing", "spectral"):
        np.testing.assert_allclose(moments[name][0], moments["exact"][0], atol=0.02)
        np.testing.assert_allclose(np.sqrt(moments[name][1]), np.sqrt(moments["exact"][1]), rtol=0.02)


@pytest.mark.parametrize(
    ("name", "X", "message"),
    [
        ("warp", MAP, "choose one of auto, exact, inducing, spectral"),
        ("spectral", np.zeros((3, 4)), "one to three input columns"),
        ("spectral", np.array([[0.0, 0.0], [1e6, 1e6]]), "Fourier features"),
    ],
)
def test_bad_input_is_refused(name, X, message):
    with pytest.raises(InputError, match=message):
        choose(name, Matern32(1.0), X)
