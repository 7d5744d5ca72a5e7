"""Does the model fit the reports? What the reports alone show, and that it is reported."""

import json

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.cli import main
from crowdfield.models import draws as draws_
from crowdfield.pipeline.checking import check_model, quick_warnings


def expit(x):
    return 1.0 / (1.0 + np.exp(-x))


def crowd(g, votes, sources, rng):
    """Reports of equal sources about places of appearance g: row of the place, label, source."""
    at = np.repeat(np.arange(len(g)), votes)
    return at, (rng.random(len(at)) < expit(g[at])).astype(int), rng.integers(0, sources, len(at))


@pytest.fixture(scope="module")
def shadows():
    """Places that look like everything between the states: what fools one source fools all."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (250, 2))
    at, said, who = crowd(-0.5 + 1.5 * rng.standard_normal(250), 10, 20, rng)
    return X[at], said, who


@pytest.fixture(scope="module")
def states():
    """The one-state world: sources that are right four times in five about a state that is certain."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 10.0, (250, 2))
    at, said, who = crowd(np.where(X[:, 0] > 5.0, 1.4, -1.4), 6, 20, rng)
    return X[at], said, who


def fit(reports, **settings):
    return cf.HeatmapBCC(lengthscale=3.0, random_state=0, **settings).fit(*reports)


def test_dependence_within_places_fails_the_check_of_the_one_state_model(shadows):
    found = check_model(fit(shadows, reports_model="one_state"))
    assert not found.holds and found.agreement.p < 0.01 and found.agreement.inflation > 1.15
    assert "agree more than the model expects" in found.warnings[0] and "instrument" in found.warnings[0]
    good = check_model(fit(shadows, reports_model="instrument"))
    assert good.holds, str(good)
    assert good.agreement.inflation < 1.15 and good.calibration_error < 0.03


def test_a_model_that_is_right_passes(states):
    found = check_model(fit(states, reports_model="one_state"))
    assert found.holds, str(found)
    assert found.gain > 5.0 * found.gain_error and found.surprise < found.habit_surprise
    assert found.reports == 1500 and found.by_source["reports"].sum() == 1500 == found.by_votes["reports"].sum()
    assert found.by_place["surprise"].is_monotonic_decreasing


def test_a_map_no_better_than_habits_fails_the_check():
    rng = np.random.default_rng(2)
    who = rng.integers(0, 10, 400)
    said = (rng.random(400) < np.linspace(0.1, 0.9, 10)[who]).astype(int)  # habits, and nothing else
    found = check_model(fit((rng.uniform(0.0, 10.0, (400, 2)), said, who), reports_model="instrument"))
    assert not found.findings[0].holds and "learned nothing about places" in found.warnings[0]
    assert "No place has two reports" in found.findings[1].sentence


def test_labels_that_are_no_state(shadows):
    """With "maybe", probabilities of all three labels are judged."""
    X, said, who = shadows
    rng = np.random.default_rng(3)
    words = np.where(rng.random(len(said)) < 0.2, "maybe", np.where(said == 1, "yes", "no"))
    found = check_model(
        fit((X, words, who), reports_model="instrument", states=["no", "yes"], labels=["no", "yes", "maybe"])
    )
    assert found.label == "yes" and found.reliability.count.sum() == 3 * len(said)
    assert found.calibration_error < 0.03


def test_log_likelihoods_of_draws_against_a_literal_sum(states):
    model = fit(tuple(part[:60] for part in states), reports_model="one_state")
    drawn = draws_.draws_of(model, 3, np.random.default_rng(0))
    fast = drawn.log_likelihood(1)
    for r in (0, 17, 59):
        here = np.flatnonzero(drawn.site == drawn.site[r])
        rho = expit(drawn.f[1, drawn.site[r], 0])
        weights = np.array([1.0 - rho, rho])
        for other in here:
            if other != r:
                weights = weights * drawn.pi[1, drawn.source[other], :, drawn.label[other]]
        weights /= weights.sum()
        assert fast[r] == pytest.approx(np.log(weights @ drawn.pi[1, drawn.source[r], :, drawn.label[r]]))
        assert drawn.predictive(1)[r] @ np.ones(2) == pytest.approx(1.0)


def test_log_likelihoods_of_instrument_draws_against_a_literal_sum(shadows):
    model = fit(tuple(part[:60] for part in shadows), reports_model="instrument")
    drawn = draws_.draws_of(model, 3, np.random.default_rng(0))
    g = np.linspace(-12.0, 12.0, 20_001)
    fast = drawn.log_likelihood(2)
    for r in (0, 30, 59):
        density = np.exp(-0.5 * (g - drawn.f[2, drawn.site[r]]) ** 2 / drawn.nugget[2])

        def says(i):
            p = expit(drawn.theta[2, drawn.source[i], 0] * g + drawn.theta[2, drawn.source[i], 1])
            return p if drawn.label[i] == 1 else 1.0 - p

        for other in np.flatnonzero(drawn.site == drawn.site[r]):
            density = density * (says(other) if other != r else 1.0)
        assert fast[r] == pytest.approx(np.log((density * says(r)).sum() / density.sum()), abs=2e-3)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
@pytest.mark.parametrize("model", ["one_state", "instrument"])
def test_arviz_leaves_out_what_we_leave_out(states, model):
    """`arviz.loo` on draws of the Gaussian posterior agrees with our own left-out scores."""
    arviz = draws_.library()
    fitted = fit(states, reports_model=model)
    data = fitted.to_arviz(draws=400, random_state=0)
    assert data.posterior.sizes["draw"] == 400 and data.log_likelihood["label"].shape == (1, 400, 1500)
    loo = arviz.loo(data, pointwise=True)
    bits = float(loo.elpd_loo) / 1500 / np.log(2.0)
    assert bits == pytest.approx(fitted.score_reports().attrs["bits"], abs=0.02)
    assert float((loo.pareto_k > 0.7).mean()) < 0.02


def test_draws_of_gibbs_keep_their_chains_and_psis_applies(states):
    fitted = fit(tuple(part[::3] for part in states), reports_model="one_state", inference="gibbs",
                 confusion_prior=[[2, 1], [1, 2]])  # fmt: skip
    data = fitted.to_arviz()
    assert data.posterior.sizes["chain"] == 4
    # The draws of one chain belong together: its own mean of π is that of its own draws.
    assert float(draws_.library().rhat(data, var_names=["inverse_scale"])["inverse_scale"]) < 1.1
    found = check_model(fitted)
    assert found.psis["applies"] and found.psis["k_above_0.7"] < 0.05
    assert found.psis["surprise_bits"] == pytest.approx(found.surprise, abs=0.03)


def test_what_was_found_as_json_and_as_a_picture(shadows, tmp_path):
    found = check_model(fit(shadows, reports_model="one_state"), draws=20)
    told = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert told["holds"] is False and told["findings"][1]["name"] == "agreement"
    found.figure().savefig(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 20_000


def test_failed_checks_are_printed_and_are_in_the_map_and_on_its_page(shadows, tmp_path, capsys):
    """`fuse` says it, the file of the map says it, the page shows it."""
    X, said, who = shadows
    rows = [
        f"s{s},{50 + y / 1000:.6f},{8 + x / 1000:.6f},{'yes' if v else 'no'}"
        for (x, y), v, s in zip(X, said, who, strict=True)
    ]
    (tmp_path / "reports.csv").write_text("\n".join(["source,lat,lon,label", *rows]))
    options = ["--lengthscale", "300m", "--duplicates", "keep"]

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        assert stop.value.code == 0
        return capsys.readouterr()

    out, err = run("fuse", tmp_path / "reports.csv", *options, "--inference", "collapsed", "-o", tmp_path / "map.html",
                   "--state", tmp_path / "run.cf")  # fmt: skip
    assert "note: Reports about one place agree more than the model expects" in err
    assert "agree more than the model expects" in (tmp_path / "map.html").read_text()
    out, err = run("check-model", tmp_path / "run.cf", "-o", tmp_path / "check.png", "-o", tmp_path / "check.json")
    assert "FAILS: Reports about one place agree more" in out and "wrong together" in out
    assert json.loads((tmp_path / "check.json").read_text())["holds"] is False


def test_nothing_is_asked_of_models_without_reports_to_ask():
    assert quick_warnings(object()) == []


@pytest.mark.parametrize(
    ("settings", "states", "more"),
    [
        ({}, 3, {}),
        ({"communities": 2, "reports_model": "one_state"}, 2, {}),
        ({"inference": "vb"}, 2, {}),
        ({"reports_model": "instrument", "confusion_prior": {0: [[50, 2], [2, 50]]}}, 2, {}),
        ({}, 2, {"tasks": np.arange(320) // 2}),
        ({"reports_model": "instrument"}, 3, {}),
    ],
    ids=["three states", "communities", "vb", "a trusted source", "tasks", "an instrument of three states"],
)
def test_every_kind_of_model_can_be_asked(settings, states, more):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(0.0, 10.0, (80, 2)), 4, axis=0)
    truth = (X[:, 0] * states / 10.0).astype(int)
    said = np.where(rng.random(320) < 0.7, truth, rng.integers(0, states, 320))
    who = rng.integers(0, 8, 320)
    model = cf.HeatmapBCC(lengthscale=3.0, random_state=0, **settings).fit(X, said, who, **more)
    found = check_model(model, draws=20)
    trusted = np.count_nonzero(who == 0) if "confusion_prior" in settings else 0
    assert found.reports == 320 - trusted and found.gain > 0.0
    assert json.loads(json.dumps(found.plain(), allow_nan=False))["reports"] == found.reports
    assert model.to_arviz(draws=20).log_likelihood["label"].shape == (1, 20, found.reports)
