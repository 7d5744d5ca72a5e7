"""Which model of reports `reports_model="auto"` takes."""

import numpy as np
import pytest

import crowdfield as cf


def crowd_with_bad_imagery(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tiles with six answers each. In the south images are bad; what is damaged does not depend on that."""
    tiles = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), -1).reshape(-1, 2)
    damaged = (tiles[:, 0] < 5) & (tiles[:, 1] > 4)
    bad = tiles[:, 1] < 4
    tile = np.repeat(np.arange(len(tiles)), 6)
    misleading = rng.normal(0.0, 1.0, len(tiles))  # a shadow that misleads everybody who sees the tile
    says_yes = rng.random(len(tile)) < 1.0 / (1.0 + np.exp(-(np.where(damaged, 1.5, -1.5) + misleading)[tile]))
    says_bad = rng.random(len(tile)) < np.where(bad[tile], 0.9, 0.01)
    label = np.where(says_bad, "bad imagery", np.where(says_yes, "yes", "no"))
    return tiles, damaged, tile, label


def test_answers_that_name_no_state_do_not_decide_which_model_is_used():
    rng = np.random.default_rng(0)
    tiles, damaged, tile, label = crowd_with_bad_imagery(rng)
    source = rng.integers(0, 20, len(tile))
    model = cf.HeatmapBCC(lengthscale=4.0, states=["no", "yes"], random_state=0).fit(tiles[tile], label, source)
    seen = np.bincount(tile[label != "bad imagery"], minlength=len(tiles)) >= 3
    p = model.predict_proba(tiles)[:, 1]
    assert model.reports_model_ == "instrument"
    assert p[seen & damaged].mean() > 0.7
    assert p[seen & ~damaged].mean() < 0.3
    assert p[~seen].max() < 0.9  # where nobody could see anything, the map is not sure of damage


def test_few_reports_that_name_a_state_are_not_compared():
    rng = np.random.default_rng(0)
    tiles, _, tile, label = crowd_with_bad_imagery(rng)
    label = np.where(np.arange(len(label)) < 90, label, "bad imagery")
    model = cf.HeatmapBCC(lengthscale=4.0, states=["no", "yes"], random_state=0)
    model.fit(tiles[tile], label, rng.integers(0, 20, len(tile)))
    assert "reports that name a state" in model.reports_model_reason_


@pytest.mark.parametrize("sweeps", [2, 5])
def test_the_limit_of_sweeps_includes_those_that_learn_variances(sweeps):
    with pytest.warns(cf.errors.ConvergenceWarning):
        model = cf.HeatmapBCC(reports_model="instrument", lengthscale=3.0, max_iter=sweeps).fit(
            *cf.testing.example_crowd()
        )
    assert model.n_iter_ == sweeps
