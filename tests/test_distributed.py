"""The same answer over Dask as in one process, whatever form the reports have, and even if a worker dies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdfield as cf
from crowdfield.data import Reports
from crowdfield.errors import InputError, MissingDependencyError
from crowdfield.inference import lengthscale_selection
from crowdfield.inference.posed import at_sites, thinned
from crowdfield.models import problem

distributed = pytest.importorskip("distributed", reason="dask is not installed")
from crowdfield import distributed as over_dask  # noqa: E402
from crowdfield.distributed import partitions  # noqa: E402
from crowdfield.distributed.reading import hold  # noqa: E402

# Tight, so that what is compared is the answer and not where the iteration happened to stop.
SETTINGS: dict[str, Any] = {"lengthscale": 4.0, "engine": "spectral", "tol": 1e-6, "random_state": 0}


def reports(n=900, sources=8, seed=1) -> pd.DataFrame:
    """Several reports at many places, some sources no better than a coin."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 24, (n, 2)) / 2.4
    truth = np.sin(X[:, 0] / 2) + np.cos(X[:, 1] / 2) > 0
    source = rng.integers(0, sources, n)
    right = rng.random(n) < np.where(source < sources // 2, 0.9, 0.5)
    label = np.where(truth == right, "damage", "none")
    return pd.DataFrame(
        {"easting": X[:, 0], "northing": X[:, 1], "label": label, "source": [f"s{s:02d}" for s in source]}
    )


def one_process(frame, **settings):
    model = cf.HeatmapBCC(**{**SETTINGS, **settings})
    return model.fit(frame[["easting", "northing"]].to_numpy(), frame["label"], sources=frame["source"])


def differs_by(a, b) -> float:
    places = np.random.default_rng(0).random((300, 2)) * 10
    rates = np.abs(a.predict_rate(places)[0] - b.predict_rate(places)[0]).max()
    return float(max(rates, np.abs(a.confusion_ - b.confusion_).max(), np.abs(np.log(a.scale_ / b.scale_)).max()))


@pytest.fixture(scope="module")
def client():
    # On a free port: without an address its HTTP server wants 8787, which another process of the tests may have.
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def frame():
    return reports()


@pytest.fixture
def files(frame, tmp_path):
    """Three files; places are in no order, so that reports at one place are in different files."""
    for i, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"reports-{i}.parquet", row_group_size=400)
    return tmp_path


@pytest.mark.parametrize("inference", ["vb", "collapsed"])
def test_files_give_the_answer_of_one_process(client, frame, files, tmp_path, inference):
    settings = cf.HeatmapBCC(**SETTINGS, inference=inference)
    fitted = over_dask.fit(str(files / "*.parquet"), client, model=settings, partitions=3, sites_to=tmp_path / "sites")
    alone = one_process(frame, inference=inference)
    assert differs_by(fitted, alone) < 1e-6
    assert fitted.sources_seen_.tolist() == alone.sources_seen_.tolist()
    pd.testing.assert_frame_equal(fitted.source_table(), alone.source_table(), rtol=1e-5)
    assert not hasattr(settings, "classes_")  # the settings given are not changed
    sites = pd.read_parquet(tmp_path / "sites")
    assert np.array_equal(sites[["easting", "northing"]], alone.places_)
    np.testing.assert_allclose(sites[["p_damage", "p_none"]], alone.posterior_, atol=1e-6)
    # Elsewhere is the map; what is said at a place is not at hand.
    np.testing.assert_array_equal(fitted.predict_proba(alone.places_[:5]), fitted.predict_rate(alone.places_[:5])[0])
    with pytest.raises(InputError, match="not in this process"):
        fitted.partial_fit(alone.places_, ["none"] * len(alone.places_))


def test_reports_in_memory_give_an_ordinary_model(client, frame, tmp_path):
    gold = (np.array([[1.0, 1.0], [2.0, 20.0]]), ["damage", "none"])
    fitted = over_dask.fit(Reports.from_frame(frame), client, model=cf.HeatmapBCC(**SETTINGS), gold=gold)
    alone = cf.HeatmapBCC(**SETTINGS).fit(
        frame[["easting", "northing"]].to_numpy(), frame["label"], sources=frame["source"], gold=gold
    )
    assert type(fitted) is cf.HeatmapBCC
    assert fitted.reports_model_ == "one_state" and "Dask" in fitted.reports_model_reason_
    assert differs_by(fitted, alone) < 1e-6
    np.testing.assert_allclose(fitted.predict_proba(alone.places_), alone.posterior_, atol=1e-6)
    fitted.save(tmp_path / "model.cf")
    assert differs_by(cf.HeatmapBCC.load(tmp_path / "model.cf"), fitted) < 1e-12


def test_a_lost_worker_does_not_lose_the_fit(client, frame, files):
    killed: list[int] = []

    def kill_one(sweep: int, bound: float, change: float) -> None:
        if sweep >= 4 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    fitted = over_dask.fit(
        [files / "reports-0.parquet", files / "reports-[12].parquet"],
        client,
        model=cf.HeatmapBCC(**SETTINGS),
        partitions=4,
        progress=kill_one,
    )
    assert killed
    assert differs_by(fitted, one_process(frame)) < 1e-6


def test_a_dask_dataframe_with_what_is_learned_around(client, frame):
    """Length-scale and communities: searched on the same sites as in one process."""
    dataframe = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    frame = frame.head(400)
    asked: dict[str, Any] = {"lengthscale": "learn", "communities": 1, "tol": 1e-3, "lengthscale_bounds": (3.0, 5.0)}
    fitted = over_dask.fit(
        dataframe.from_pandas(frame.rename(columns={"label": "says"}), npartitions=2),
        client,
        model=cf.HeatmapBCC(**{**SETTINGS, **asked}),
        label="says",
    )
    alone = one_process(frame, **asked)
    np.testing.assert_allclose(fitted.lengthscale_, alone.lengthscale_, rtol=1e-6)
    assert differs_by(fitted, alone) < 1e-3


BAD: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "no such file": (lambda d: str(d / "nothing-*.parquet"), {}, "no Parquet files"),
    "not Parquet": (lambda d: d / "text.parquet", {}, "cannot be read as Parquet"),
    "no such column": (lambda d: d / "reports-0.parquet", {"label": "verdict"}, "no column 'verdict'.*label="),
    "no source column": (lambda d: d / "reports-0.parquet", {"source": "who"}, "source=None"),
    "no coordinates": (lambda d: d / "bare.parquet", {}, "no coordinate columns"),
    "no place": (lambda d: d / "nan.parquet", {}, "nan.parquet: report 1 of its part has nan as northing"),
    "no label": (lambda d: d / "unsaid.parquet", {}, "unsaid.parquet: a report has no label"),
    "a label nobody named": (
        lambda d: d / "reports-0.parquet",
        {"model": cf.HeatmapBCC(states=["damage"], labels=["damage", "fine"])},
        "none",
    ),
    "an array": (lambda d: np.zeros((3, 2)), {}, "HeatmapBCC.fit takes arrays"),
    "gibbs": (lambda d: d / "reports-0.parquet", {"model": cf.HeatmapBCC(inference="gibbs")}, "Gibbs"),
    "exact": (lambda d: d / "reports-0.parquet", {"model": cf.HeatmapBCC(engine="exact")}, "exact engine"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_and_where(client, files, case):
    (files / "text.parquet").write_text("easting,northing,label,source")
    good = pd.read_parquet(files / "reports-0.parquet").head(3)
    good[["label", "source"]].to_parquet(files / "bare.parquet")
    good.assign(northing=[1.0, np.nan, 2.0]).to_parquet(files / "nan.parquet")
    good.assign(label=pd.Series(["none", None, "none"])).to_parquet(files / "unsaid.parquet")
    given, keywords, message = BAD[case]
    with pytest.raises(InputError, match=message):
        over_dask.fit(given(files), client, **keywords)


def test_an_address_without_a_scheduler_is_an_error_that_names_it(frame, monkeypatch):
    monkeypatch.setattr(over_dask, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        over_dask.fit(Reports.from_frame(frame), "tcp://127.0.0.1:9")


def test_without_dask_it_says_what_to_install(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"crowdfield\[scale\]"):
        over_dask.fit(Reports.from_frame(frame))


def test_a_large_search_sees_the_sites_and_sources_that_one_process_would_see(client):
    rng = np.random.default_rng(4)
    X, source, said = rng.uniform(0, 9, (12_000, 2)), rng.integers(0, 300, 12_000), rng.integers(0, 2, 12_000)
    gold = problem.gold(None, (0, 1), 2)
    posed = problem.pose(cf.HeatmapBCC(random_state=3), Reports.from_arrays(X, said, source), (0, 1), gold)
    here = thinned(posed, lengthscale_selection.SEARCH_SITES)
    cuts = [np.arange(5000), np.arange(5000, 12_000)]
    parts = [client.submit(hold, at_sites(posed.data, cut), pure=False) for cut in cuts]
    there = partitions.sample(client, posed, parts, [len(cut) for cut in cuts])
    for name in ("X", "site", "source", "label", "known"):
        np.testing.assert_array_equal(getattr(there.data, name), getattr(here.data, name))
    assert len(here.data.X) == lengthscale_selection.SEARCH_SITES and len(set(here.data.source.tolist())) < 300
    # Those who are seen are seen with nearly all their reports; with sites drawn alone it would be five in six.
    assert len(here.data.source) > 0.95 * np.isin(source, here.data.source).sum()
