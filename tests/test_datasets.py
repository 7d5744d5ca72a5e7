"""The data sets hold what is known about them, and say what to do when they are not there."""

import numpy as np
import pytest

from crowdfield import datasets
from crowdfield.errors import DataUnavailableError


@pytest.fixture
def here(data_folder, monkeypatch):
    monkeypatch.setenv("CROWDFIELD_DATA", str(data_folder))


def test_the_tacloban_data_have_their_known_sizes(here):
    data = datasets.tacloban()
    assert len(data.reports) == 11_286 and len(data.reports.sources) == 738
    assert len(data.reports.sites().places) == 3_886 == len(data.cells)
    assert int((data.reports.label == 1).sum()) == 1_641
    assert int(data.confident.sum()) == 572
    assert int((data.gold[data.confident] > 0.5).sum()) == 330
    assert data.reports.places.max(axis=0).tolist() == [130, 90]


def test_the_haiti_data_have_their_known_sizes_and_lie_in_their_region(here):
    data = datasets.haiti()
    assert len(data.reports) == 2_722  # the paper counts 2,723
    assert len(data.reports.sites().places) == 460
    assert set(data.reports.label.tolist()) == {1}
    west, south, east, north = datasets.HAITI_REGION
    assert (np.abs(data.lonlat - [(west + east) / 2, (south + north) / 2]) <= 0.303).all()


def test_haiti_filter_of_the_paper_and_the_one_it_meant(here):
    kept = datasets.haiti(datasets.HAITI_KEPT).reports
    assert len(kept) == 675 and len(kept.sites().places) == 213
    meant = datasets.haiti(datasets.HAITI_INTENDED).reports
    assert len(meant) == 577 and set(meant.sources) <= set(datasets.HAITI_INTENDED)


def test_the_unosat_data_have_their_known_size_and_are_clustered(here):
    data = datasets.unosat()
    assert data.cells.shape == (10_000, 2) and int(data.damaged.sum()) == 544
    # Port-au-Prince lies in the south-west quarter's north-east: the damage is not spread at random.
    assert np.linalg.norm(data.cells[data.damaged == 1].std(axis=0)) < 0.8 * np.linalg.norm(data.cells.std(axis=0))


def test_categories_go_to_the_most_urgent_group():
    assert (
        datasets._haiti_source("2a. Penurie | Food Shortage. 1c. Prises au piege | People trapped.") == "people trapped"
    )
    assert datasets._haiti_source("2. Urgences logistiques | Vital Lines.") is None
    assert datasets._haiti_source("No Category") == datasets.UNCATEGORISED


def test_a_missing_folder_says_which_file_and_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("CROWDFIELD_DATA", str(tmp_path))
    with pytest.raises(DataUnavailableError, match="CROWDFIELD_DATA must name the folder"):
        datasets.tacloban()


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "haiti").mkdir()
    (tmp_path / "haiti" / "haiti_unosat_target_grid100_100.csv").write_text("0,1\n1,0\n")
    monkeypatch.setenv("CROWDFIELD_DATA", str(tmp_path))
    with pytest.raises(DataUnavailableError, match="SHA-256"):
        datasets.unosat()


def test_without_a_network_the_message_says_what_to_do(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("CROWDFIELD_DATA", raising=False)

    def no_network(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path)
    with pytest.raises(DataUnavailableError, match=r"(?s)could not be fetched.*CROWDFIELD_DATA"):
        datasets.unosat()
