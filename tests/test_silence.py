"""Silence as evidence: a crowd that only ever says yes, and what it leaves unsaid."""

import warnings
from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield import metrics, silence
from crowdfield.errors import DataWarning, InputError

GRID = cf.Grid(0.0, 20.0, 0.0, 20.0, 20, 20)


def positive_only(seed):
    """Trouble in the south-west; people in half of the cells report most of it, and now and then what is none."""
    rng = np.random.default_rng(seed)
    places = GRID.centres()
    truth = (places.sum(1) < 17.0).astype(int)
    people = np.where(rng.random(len(places)) < 0.5, 2.0, 0.0)
    calls = rng.poisson(people * np.where(truth == 1, 0.8, 0.08))
    at = np.repeat(np.arange(len(places)), calls)
    who = rng.integers(0, 6, len(at))
    return cf.Reports.from_arrays(places[at], ["flooded"] * len(at), who, labels=["dry", "flooded"]), people, truth


def score(reports, truth, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = cf.HeatmapBCC(lengthscale=5.0, states=["dry", "flooded"], labels=["dry", "flooded"], **settings)
        model.fit(
            reports.places,
            np.array(reports.labels)[reports.label],
            np.array(reports.sources, dtype=object)[reports.source],
        )
    p = model.predict_rate(GRID.centres())[0][:, 1]
    return metrics.cross_entropy(truth.astype(float), p), metrics.auc(truth == 1, p), model


@pytest.mark.parametrize("seed", [0, 1])
def test_silence_makes_a_map_out_of_calls_for_help(seed):
    reports, people, truth = positive_only(seed)
    rng = np.random.default_rng(seed)
    told = silence.as_reports(
        reports, GRID, negative="dry", positive="flooded", exposure=people.reshape(GRID.shape), rng=rng
    )
    with_it, ranked, model = score(told, truth, confusion_prior={silence.SOURCE: silence.PRIOR})
    without, _, _ = score(reports, truth)
    assert with_it < without - 0.1 and ranked > 0.85
    row = model.source_table().set_index("source").loc[silence.SOURCE]
    assert 0.02 < row.informativeness < 0.7  # it says something, and not everything


def test_only_exposed_cells_speak_by_their_silence():
    reports, people, _ = positive_only(2)
    layer = people.reshape(GRID.shape)
    told = silence.as_reports(
        reports, GRID, negative="dry", positive="flooded", exposure=layer, rng=np.random.default_rng(0)
    )
    cells = GRID.index(told.places[len(reports) :])
    assert (people[cells] > 0).all() and len(set(cells)) == len(cells)
    spoken = np.isin(cells, GRID.index(reports.places))
    assert [told.labels[i] for i in told.label[len(reports) :]] == np.where(spoken, "flooded", "dry").tolist()
    assert {told.sources[i] for i in told.source[len(reports) :]} == {silence.SOURCE}
    exposed = (people > 0).sum()
    assert len(cells) == pytest.approx((1.0 - np.exp(-2.0)) * exposed, abs=4 * np.sqrt(exposed * 0.12))


def test_nobody_there_means_no_silence():
    reports, _, _ = positive_only(3)
    assert (
        silence.as_reports(
            reports, GRID, negative="dry", positive="flooded", exposure=0.0, rng=np.random.default_rng(0)
        )
        is reports
    )


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "shape": (dict(exposure=np.ones(7)), "exposure"),
    "negative": (dict(exposure=-1.0), "exposure"),
    "NaN": (dict(exposure=np.full(GRID.shape, np.nan)), "exposure"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_exposure_is_refused(case):
    reports, _, _ = positive_only(0)
    settings, message = BAD[case]
    with pytest.raises(InputError, match=message):
        silence.as_reports(reports, GRID, negative="dry", positive="flooded", rng=np.random.default_rng(0), **settings)


def test_silence_is_added_once():
    reports, _, _ = positive_only(0)
    told = silence.as_reports(reports, GRID, negative="dry", positive="flooded", rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="already"):
        silence.as_reports(told, GRID, negative="dry", positive="flooded", rng=np.random.default_rng(0))
