"""Real crowds with truth that no crowd made: what they said, where, and what experts found there.

The files are public research data, not ours to ship: put them into the folder `real` of CROWDFIELD_DATA. Each set is
two files, NAME_reports.csv.gz and NAME_truth.csv.gz; DESCRIPTIONS says where they come from.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield import datasets
from crowdfield.arrays import Array as Array
from crowdfield.errors import DataUnavailableError

METRES = (111_320.0, 110_540.0)  # of a degree of longitude at the equator, and of latitude
PHOTO_DISTANCE = 1e5  # pixels between photographs whose place is not known: further than any length-scale
THIN_SEED = 0  # which votes are kept where a crowd is thinned: the same for all methods and draws

DESCRIPTIONS = {
    "cayes": "MapSwipe, Les Cayes after the earthquake of August 2021: is a building in this tile damaged? Truth: two "
    "experts and a tie-break (Gross and others; simon-gross/mapswipe_rapid_damage_assessment on GitHub).",
    "heron": "Virtual Reef Diver, Heron Reef: is there hard coral at this point of a photograph? Truth: an expert "
    "(Santos-Fernandez and others; EdgarSantos-Fernandez/staircase).",
    "mturk": "The same question to paid workers, 26 a point. Truth: an expert (EdgarSantos-Fernandez/reef).",
    "haiti": "Ushahidi's messages after the earthquake of January 2010 against UNOSAT's map of damaged buildings, on "
    "10,000 cells. All messages say that something is wrong.",
}


@dataclass(frozen=True)
class Crowd:
    """Reports [R] at places, and the places [M] whose truth is known. The second state is the one asked about."""

    X: Array
    label: NDArray[np.object_]
    source: NDArray[np.object_]
    places: Array
    truth: NDArray[np.bool_]
    states: tuple[str, str]
    labels: tuple[str, ...]


def thinned(reports: pd.DataFrame, votes: int | None) -> pd.DataFrame:
    """At most so many reports about each task, at random."""
    if votes is None:
        return reports
    return reports.sample(frac=1, random_state=THIN_SEED).groupby("task").head(votes)


def cayes(votes: int | None = None) -> Crowd:
    """ "Bad imagery" is left out; "maybe" is a label and no state."""
    reports, truth = _read("les_cayes")
    reports = thinned(reports[reports.label != "bad imagery"], votes)
    lon, lat = truth.lon.mean(), truth.lat.mean()
    truth = truth.assign(
        e=((truth.lon - lon) * METRES[0] * np.cos(np.radians(lat))).round(1),
        n=((truth.lat - lat) * METRES[1]).round(1),
    )
    reports = reports[reports.task.isin(truth.index)]
    at = truth.loc[reports.task]
    return Crowd(
        at[["e", "n"]].to_numpy(), reports.label.to_numpy(object), reports.source.to_numpy(object),
        truth[["e", "n"]].to_numpy(), (truth.truth == "yes").to_numpy(), ("no", "yes"), ("no", "yes", "maybe"),
    )  # fmt: skip


def heron(votes: int | None = None) -> Crowd:
    """A photograph is about a metre wide; its points lie around its own place."""
    reports, truth = _read("reef_heron")
    lon, lat = reports.lon.mean(), reports.lat.mean()
    e = (reports.lon - lon) * METRES[0] * np.cos(np.radians(lat)) + reports.x
    n = (reports.lat - lat) * METRES[1] + reports.y
    return _reef(reports.assign(e=e.round(3), n=n.round(3)), truth, votes)


def mturk(votes: int | None = None) -> Crowd:
    """Where the photographs were taken is not known: within one, space is pixels."""
    reports, truth = _read("reef_mturk")
    photo = np.unique(reports.photo, return_inverse=True)[1]
    return _reef(reports.assign(e=reports.x + PHOTO_DISTANCE * photo, n=reports.y), truth, votes)


SETS: dict[str, Callable[[int | None], Crowd]] = {"cayes": cayes, "heron": heron, "mturk": mturk}
FILES = {"cayes": "les_cayes", "heron": "reef_heron", "mturk": "reef_mturk"}


@lru_cache(maxsize=16)
def crowd(name: str, votes: int | None) -> Crowd:
    """A crowd by name, thinned to so many votes per task."""
    return SETS[name](votes)


def at_hand() -> tuple[str, ...]:
    """The sets whose files are there, Haiti included."""
    found = [name for name, stem in FILES.items() if _folder() is not None and _path(stem, "truth").is_file()]
    try:
        datasets.haiti()
        datasets.unosat()
    except (DataUnavailableError, ImportError):
        return tuple(found)
    return (*found, "haiti")


def _reef(reports: pd.DataFrame, truth: pd.DataFrame, votes: int | None) -> Crowd:
    points = reports.drop_duplicates("task")
    said = thinned(reports, votes)
    label = np.where(said.label == "hard", "hard coral", "other").astype(object)
    known = (truth.truth.loc[points.task] == "hard").to_numpy()
    states = ("other", "hard coral")
    return Crowd(
        said[["e", "n"]].to_numpy(float), label, said.source.to_numpy(object), points[["e", "n"]].to_numpy(float),
        known, states, states,
    )  # fmt: skip


def _read(stem: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    if _folder() is None or not _path(stem, "truth").is_file():
        raise DataUnavailableError(
            f"real/{stem}_reports.csv.gz and real/{stem}_truth.csv.gz are not there. Put them into a folder and name "
            "it with --data or CROWDFIELD_DATA; docs/experiments.md says where they come from."
        )
    return pd.read_csv(_path(stem, "reports")), pd.read_csv(_path(stem, "truth")).set_index("task")


def _path(stem: str, part: str) -> Path:
    return (_folder() or Path()) / "real" / f"{stem}_{part}.csv.gz"


def _folder() -> Path | None:
    folder = os.environ.get("CROWDFIELD_DATA")
    return Path(folder) if folder else None
