"""Reports whose places are known only roughly, in both report models."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError
from crowdfield.inference import blur, kernels
from crowdfield.models import inexact


def crowd(n=300, seed=0, votes=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 20, (n, 2)).repeat(votes, axis=0)
    wet = X[:, 0] > 10
    source = rng.integers(0, 8, len(X))
    said = np.where(rng.random(len(X)) < 0.85, wet, ~wet).astype(int)
    return X, said, source


def model(**settings):
    return cf.HeatmapBCC(**{"lengthscale": 5.0, "reports_model": "one_state", **settings})


MODELS = [{"reports_model": "one_state"}, {"reports_model": "instrument"}]


@pytest.mark.parametrize("settings", MODELS, ids=lambda s: s["reports_model"])
@pytest.mark.parametrize("given", [0.0, np.nan, 1e-3], ids=["zero", "not known", "far less than the map"])
def test_exact_places_are_what_they_were(settings, given):
    X, y, s = crowd(80)
    plain, told = (model(**settings).fit(X, y, s, accuracy=a) for a in (None, given))
    assert told.predict_proba(X) == pytest.approx(plain.predict_proba(X), abs=0)
    assert told.reports_.accuracy is None


@pytest.mark.parametrize("settings", MODELS, ids=lambda s: s["reports_model"])
def test_engines_agree_on_inexact_places(settings):
    X, y, s = crowd(120)
    accuracy = np.where(np.arange(120) % 2, 3.0, 0.0)
    grid = np.stack(np.meshgrid(np.arange(1, 20, 4.0), np.arange(1, 20, 4.0)), -1).reshape(-1, 2)
    exact, spectral, inducing = (
        model(engine=name, **settings).fit(X, y, s, accuracy=accuracy).predict_proba(grid)[:, 1]
        for name in ("exact", "spectral", "inducing")
    )
    assert spectral == pytest.approx(exact, abs=0.03)
    assert inducing == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("settings", MODELS, ids=lambda s: s["reports_model"])
def test_a_rough_place_pulls_less_at_its_coordinate_and_more_around(settings):
    X, y, s = crowd(120)
    seen = []
    for accuracy in (0.0, 12.0):
        at = np.vstack([X, [[5.0, 5.0]] * 3])
        says = np.r_[y, 1, 1, 1]
        who = np.r_[s, 0, 1, 2]
        rough = np.r_[np.full(120, 1.0), [accuracy] * 3]
        seen.append(model(**settings).fit(at, says, who, accuracy=rough).predict_rate([[5.0, 5.0]])[0][0, 1])
    assert seen[1] < seen[0]


def test_one_coordinate_with_two_accuracies_is_two_sites():
    X, y, s = crowd(60)
    fitted = model().fit(np.vstack([X, X]), np.r_[y, y], np.r_[s, s], accuracy=np.r_[np.full(60, 2.0), np.zeros(60)])
    assert len(fitted.places_) == 120 == len(fitted.posterior_)
    assert fitted.score_reports()["votes"].max() == 1
    assert len(fitted.at_reported_places().places) == 60  # an inexact place is nowhere to be shown
    # The state of the exact site, not of the rough one at the same coordinate:
    rows = inexact.exact_rows(fitted)
    assert fitted.predict_proba(fitted.places_[rows]) == pytest.approx(fitted.posterior_[rows], abs=0)


def test_many_accuracies_are_rounded_to_a_few():
    X, y, s = crowd(90)
    rng = np.random.default_rng(3)
    fitted = model().fit(X, y, s, accuracy=rng.uniform(0.5, 8.0, 90))
    levels = np.unique(fitted.reports_.accuracy)
    assert 2 < len(levels) <= inexact.MOST_LEVELS


def test_the_radius_holds_68_percent_of_true_places():
    rng = np.random.default_rng(4)
    for dimension in (1, 2):
        sd = float(inexact.sd_of(np.array([1.0]), dimension)[0])
        r = np.sqrt(((sd * rng.standard_normal((100_000, dimension))) ** 2).sum(1))
        assert (r < 1.0).mean() == pytest.approx(0.68, abs=0.01)


@pytest.mark.parametrize("settings", MODELS, ids=lambda s: s["reports_model"])
def test_everything_a_model_is_asked_knows_inexact_places(settings, tmp_path):
    X, y, s = crowd(140, votes=2)
    rough = np.where(np.arange(len(X)) % 4 < 2, 2.5, 0.0)
    fitted = model(**settings).fit(X, y, s, gold=([[1.0, 1.0]], [0]), accuracy=rough)
    places = np.array([[3.0, 3.0], [15.0, 7.0]])
    assert np.isfinite(fitted.score_reports()["bits"]).all()
    shares = fitted.explain([3.0, 3.0])
    p = fitted.predict_proba([[3.0, 3.0]])[0].max()
    assert shares["log_odds"].sum() == pytest.approx(np.log(p / (1 - p)), abs=1e-6)
    assert fitted.sample_rate(places, n=20, random_state=0).shape == (20, 2, 2)
    totals = fitted.totals(fitted.places_, np.zeros(len(fitted.places_), dtype=int), draws=50)
    assert 0 < totals["share_1"][0] < 1
    assert len(fitted.suggest(places, n=1)[0]) == 1
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    assert again.predict_proba(places) == pytest.approx(fitted.predict_proba(places), abs=1e-6)
    again.partial_fit([[3.0, 3.0]], [0], ["new"], accuracy=[1.0])
    assert len(again.reports_) == len(X) + 1


def rate_by_integration(kappa):
    """E[ρ] in the middle of one tile that is said to be in the second state: f̄ on a fine grid, f given it."""
    kernel = blur.Blurred(kernels.kernel("rbf", 2.0), 2)
    tile, middle, v = np.array([[0.0, 0.0, 1.5]]), np.array([[0.0, 0.0, 0.0]]), 4.0
    var, cov = v * kernel.covariance(tile, tile)[0, 0], v * kernel.covariance(middle, tile)[0, 0]
    average = np.sqrt(var) * np.linspace(-8, 8, 2001)
    density = np.exp(-0.5 * average**2 / var) / (1 + np.exp(-kappa(v - var) * average))
    mean, rest = cov / var * average, np.sqrt(v - cov**2 / var)
    z = np.linspace(-8, 8, 401)
    given = (1 / (1 + np.exp(-mean[:, None] - rest * z)) * np.exp(-0.5 * z**2)).sum(1) / np.exp(-0.5 * z**2).sum()
    return (density * given).sum() / density.sum()


@pytest.mark.parametrize("engine", ["exact", "spectral"])
@pytest.mark.parametrize("areas", [True, False])
def test_an_area_has_the_log_odds_of_its_average_and_a_place_in_it_flatter_ones(engine, areas):
    known = model(
        lengthscale=2.0, kernel="rbf", engine=engine, scale_shape=1e6, scale_rate=4e6,
        confusion_prior=[[1e6, 1], [1, 1e6]],
    )  # fmt: skip
    reach = 1.5 / inexact.sd_of(np.ones(1), 2)[0]
    known.fit([[0.0, 0.0], [60.0, 60.0]], [1, 0], [0, 0], accuracy=reach, areas=areas)
    true = rate_by_integration(lambda lost: 1.0 if areas else 1 / np.sqrt(1 + np.pi / 8 * lost))
    assert known.predict_rate([[0.0, 0.0]])[0][0, 1] == pytest.approx(true, abs=0.012)


@pytest.mark.parametrize("settings", MODELS, ids=lambda s: s["reports_model"])
def test_a_look_at_an_area_says_more_of_it_than_one_at_a_place_somewhere_in_it(settings, tmp_path):
    X, y, s = crowd(200)
    about = np.arange(200) % 3 == 0
    accuracy = np.where(about, 4.0, 0.0)
    grid = np.stack(np.meshgrid(np.arange(1, 20, 3.0), np.arange(1, 20, 3.0)), -1).reshape(-1, 2)
    area = model(**settings).fit(X, y, s, accuracy=accuracy, areas=about)
    place = model(**settings).fit(X, y, s, accuracy=accuracy)
    assert not np.allclose(area.predict_proba(grid), place.predict_proba(grid), atol=1e-4)
    area.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    assert again.reports_.area.sum() == about.sum()
    assert again.predict_proba(grid) == pytest.approx(area.predict_proba(grid), abs=1e-6)
    assert np.isfinite(area.score_reports()["bits"]).all()
    both = area.partial_fit([[3.0, 3.0]], [0], ["new"]).reports_
    assert len(both) == 201 and not both.area[-1]


def test_a_place_and_an_area_at_one_coordinate_are_two_sites():
    X, y, s = crowd(60)
    fitted = model().fit(np.vstack([X, X[:1]]), np.r_[y, 1], np.r_[s, 0], accuracy=3.0, areas=np.arange(61) == 60)
    assert len(fitted.places_) == 61


@pytest.mark.parametrize(
    ("given", "says"), [({"areas": True}, "how far it reaches"), ({"areas": [1, 0], "accuracy": 1.0}, "True or False")]
)
def test_areas_that_make_no_sense_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        model().fit([[0.0, 0.0], [1.0, 1.0]], [0, 1], [0, 0], **given)


def test_telling_how_exact_places_are_is_worth_it():
    rng = np.random.default_rng(5)
    X, grid = rng.uniform(0, 30, (400, 1)), np.linspace(1, 29, 100)[:, None]
    rate, there = (1.0 / (1.0 + np.exp(-3.0 * np.sin(1.2 * x[:, 0]))) for x in (X, grid))
    y = (rng.random(400) < rate).astype(int)
    seen, source = X + rng.standard_normal(X.shape), rng.integers(0, 3, 400)

    def cross_entropy(accuracy):
        known = model(lengthscale=1.5, kernel="rbf", confusion_prior=[[1000, 1], [1, 1000]])
        p = known.fit(seen, y, source, accuracy=accuracy).predict_rate(grid)[0][:, 1]
        return -(there * np.log2(p) + (1 - there) * np.log2(1 - p)).mean()

    assert cross_entropy(1.0) < cross_entropy(None) - 0.02


@pytest.mark.parametrize(
    ("settings", "accuracy", "says"),
    [
        ({}, [1.0, 2.0], "one per report"),
        ({}, -1.0, "accuracy of -1"),
        ({}, "far", "must be numbers"),
        ({"inference": "vb"}, 3.0, "treats places as exact"),
        ({"inference": "gibbs"}, 3.0, "treats places as exact"),
    ],
)
def test_an_accuracy_that_makes_no_sense_is_refused(settings, accuracy, says):
    X, y, s = crowd(30)
    with pytest.raises(InputError, match=says):
        model(**settings).fit(X, y, s, accuracy=accuracy)
