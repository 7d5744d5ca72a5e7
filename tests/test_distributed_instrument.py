"""The instrument model over Dask gives the answer of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdfield as cf
from crowdfield.data import Reports
from crowdfield.errors import InputError

distributed = pytest.importorskip("distributed", reason="dask is not installed")
from crowdfield import distributed as over_dask  # noqa: E402

# A smooth kernel has few features, which is what a sweep over a cluster takes its time for.
SETTINGS: dict[str, Any] = {
    "kernel": "rbf",
    "lengthscale": 8.0,
    "engine": "spectral",
    "reports_model": "instrument",
    "tol": 1e-3,
    "random_state": 0,
}
PLACES = ["easting", "northing"]


@pytest.fixture(scope="module")
def client():
    """Threads of this process: what is computed is the same as on other machines, without the time to start them."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def crowd(states: tuple[str, ...] = ("damage", "none"), n: int = 400, seed: int = 1) -> pd.DataFrame:
    """Several reports at many places, by sources of which the last are no better than chance."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (n, 2)) / 1.2
    height = np.sin(X[:, 0] / 2) + np.cos(X[:, 1] / 2)
    truth = np.searchsorted(np.linspace(-0.8, 0.8, len(states) + 1)[1:-1], height)
    source = rng.integers(0, 8, n)
    said = np.where(rng.random(n) < np.where(source < 6, 0.8, 0.0), truth, rng.integers(0, len(states), n))
    names = [f"s{s:02d}" for s in source]
    return pd.DataFrame({PLACES[0]: X[:, 0], PLACES[1]: X[:, 1], "label": np.array(states)[said], "source": names})


def one_process(frame: pd.DataFrame, gold: Any = None, **settings: Any) -> Any:
    model = cf.HeatmapBCC(**{**SETTINGS, **settings})
    return model.fit(frame[PLACES].to_numpy(), frame["label"], sources=frame["source"], gold=gold)


def differs_by(a: Any, b: Any) -> float:
    places = np.random.default_rng(0).random((300, 2)) * 10
    pairs = [*zip(a.predict_rate(places), b.predict_rate(places), strict=True), (a.confusion_, b.confusion_)]
    columns = ["accuracy", "sensitivity", "sensitivity_low", "lean", "lean_high"]
    tables = [model.source_table().sort_values("source")[columns].to_numpy() for model in (a, b)]
    return max(float(np.abs(x - y).max()) for x, y in [*pairs, tables])


def test_files_give_the_answer_of_one_process(client, tmp_path):
    """Grades, with checked places and a trusted source."""
    grades = ("low", "middle", "high")
    frame = crowd(grades)
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_parquet(tmp_path / f"reports-{i}.parquet")
    trusted = {"s00": np.full((3, 3), 5.0) + 85.0 * np.eye(3)}
    asked: dict[str, Any] = {"states": list(grades), "ordered": True, "confusion_prior": trusted}
    gold = (np.array([[2.5, 2.5], [2.0, 20.0]]), ["low", "high"])
    fitted = over_dask.fit(
        str(tmp_path / "*.parquet"),
        client,
        model=cf.HeatmapBCC(**SETTINGS, **asked),
        gold=gold,
        partitions=2,
        sites_to=tmp_path / "sites",
    )
    alone = one_process(frame, gold, **asked)
    assert fitted.reports_model_ == "instrument" and fitted.n_iter_ == alone.n_iter_
    assert differs_by(fitted, alone) < 1e-6
    sites = pd.read_parquet(tmp_path / "sites")
    np.testing.assert_array_equal(sites[PLACES], alone.places_)
    np.testing.assert_allclose(sites[["p_low", "p_middle", "p_high"]], alone.posterior_, atol=1e-6)
    assert fitted.source_table()["reports"].sum() == len(frame)
    assert len(fitted.suggest(alone.places_ + 0.1, 3)[0]) == 3
    for lost in (fitted.score_reports, fitted.left_out, lambda: fitted.explain([1.0, 1.0])):
        with pytest.raises(InputError, match="not in this process"):
            lost()


def test_reports_in_memory_give_an_ordinary_model_with_the_same_learned_length_scale(client, tmp_path):
    frame = crowd(n=200)
    asked: dict[str, Any] = {**SETTINGS, "lengthscale": "learn", "lengthscale_bounds": (6.0, 8.0)}
    fitted = over_dask.fit(Reports.from_frame(frame), client, model=cf.HeatmapBCC(**asked), partitions=2)
    alone = one_process(frame, **asked)
    assert type(fitted) is cf.HeatmapBCC and differs_by(fitted, alone) < 1e-6
    np.testing.assert_allclose(fitted.lengthscale_, alone.lengthscale_, rtol=1e-9)
    np.testing.assert_allclose(fitted.posterior_, alone.posterior_, atol=1e-6)
    np.testing.assert_allclose(fitted.left_out(), alone.left_out(), atol=1e-5)
    fitted.save(tmp_path / "model.cf")
    assert differs_by(cf.HeatmapBCC.load(tmp_path / "model.cf"), fitted) < 1e-6


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "covariates": ({"covariates": {"east": lambda X: X[:, 0]}}, "covariates are standardised"),
    "states without order": ({"states": ["damage", "none", "other"], "labels": ["damage", "none", "other"]}, "ordered"),
    "an inference of the other model": ({"inference": "vb"}, "method of the one-state model"),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_a_cluster_cannot_fit_are_refused(client, case):
    settings, words = BAD[case]
    with pytest.raises(InputError, match=words):
        over_dask.fit(Reports.from_frame(crowd(n=300)), client, model=cf.HeatmapBCC(**SETTINGS, **settings))
