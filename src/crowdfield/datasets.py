"""The paper's two disasters. The data are not ours to ship: they are fetched once from the paper's own repository.

    crowdfield.datasets.tacloban()   satellite images read by volunteers after Typhoon Haiyan, 2013
    crowdfield.datasets.haiti()      text messages gathered by Ushahidi after the earthquake of January 2010
    crowdfield.datasets.unosat()     where buildings were damaged by that earthquake, from remote sensing

Files are checked by SHA-256. With the environment variable CROWDFIELD_DATA they are read from that folder instead, and
nothing is fetched.
"""

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Region, Reports
from crowdfield.errors import DataUnavailableError, MissingDependencyError

__all__ = [
    "HAITI_INTENDED",
    "HAITI_KEPT",
    "HAITI_REGION",
    "HAITI_SOURCES",
    "Haiti",
    "Tacloban",
    "Unosat",
    "haiti",
    "tacloban",
    "unosat",
]

SOURCE = "https://raw.githubusercontent.com/OxfordML/heatmap_expts/master/data/"

# file in CROWDFIELD_DATA: (its path at the source, SHA-256)
_PRN = "prn/prn_{}_structural_damage_3{}.npy"
FILES: dict[str, tuple[str, str]] = {
    "haiti/exported_ushahidi.csv": (
        "exported_ushahidi.csv",
        "d0a2bfa1c42f08f9f6c5f63af33c1f9cb3e411444eb5ec81650c6d2e6fe54805",
    ),
    "haiti/haiti_unosat_target_grid100_100.csv": (
        "haiti_unosat_target_grid100_100.csv",
        "9cdf5bc798bf3cd543d3aa8a8687bcf000347ccdbe9ff3bc8e406b1f1a3f9ee9",
    ),
    **{
        name: (name, digest)
        for name, digest in (
            (
                _PRN.format("crowdlabels", "_0"),
                "3e213dea74b93ce1e02f1966a23cda7d12f29698d54188042bdd044b00f1a115",
            ),
            (_PRN.format("gold_idxs", ""), "ff2d764b7806f9ed277fa1a3bed722faa02cfb106509d867b44e12d7d6a7f313"),
            (_PRN.format("gold_p", ""), "5f06fb97f911b3ec31659fa4aa425b73af9e49b3b80b3c023a745c7b4be175c8"),
            (_PRN.format("gold_x", ""), "5ca5b87fcd838fab4ea7ce9e65d44e40b4d2c195fd41068c0e8c764b2eeccb95"),
            (_PRN.format("gold_y", ""), "88c26007541a4374e2e594b98b96e7772ef8895e1efcbf09ceb1b0adf70231d3"),
        )
    },
}

# The paper's region around Port-au-Prince, and its grid.
HAITI_REGION = Region(west=-72.6, south=18.2, east=-72.0, north=18.8)
HAITI_CELLS = 100

# Categories of Ushahidi's deployment that make one information source, the most urgent first: a report of several is
# counted under the first it belongs to. The grouping is that of the paper's experiments, in which "2" ("Vital Lines")
# and a few rare codes belong to no group; reports of nothing else are left out.
HAITI_SOURCES: dict[str, tuple[str, ...]] = {
    "highly vulnerable": ("1a",),
    "medical emergency": ("1b",),
    "people trapped": ("1c",),
    "emergency": ("1", "1d"),
    "food shortage": ("2a",),
    "water shortage": ("2b",),
    "contaminated water": ("2c",),
    "shelter needed": ("2d",),
    "fuel shortage": ("2e",),
    "power outage": ("2f",),
    "infectious disease": ("3a",),
    "health needs": ("3", "3b", "3c", "3d", "3e", "6b"),
    "looting": ("4a",),
    "security threats": ("4", "4b"),
    "collapsed structure": ("5a",),
    "infrastructure damage": ("5", "5c", "5d"),
    "natural hazards": ("6", "6a"),
    "food distribution": ("7a",),
    "water distribution": ("7b",),
    "non-food aid": ("7c",),
    "services available": ("7", "7d", "7e", "7f"),
    "displaced people": ("8a",),
    "earthquake and aftershocks": ("8b", "6c", "6d"),
    "other": ("8", "8d", "8e", "8f"),
}
UNCATEGORISED = "no category"
# The eight sources that the paper's filter was meant to keep, and the eight that it kept: its source numbers had been
# reassigned in order of first appearance.
HAITI_INTENDED = (
    "highly vulnerable", "medical emergency", "people trapped", "emergency", "infectious disease", "health needs",
    "collapsed structure", "natural hazards",
)  # fmt: skip
HAITI_KEPT = (
    UNCATEGORISED, "earthquake and aftershocks", "emergency", "people trapped", "health needs", "shelter needed",
    "water shortage", "contaminated water",
)  # fmt: skip


@dataclass(frozen=True)
class Tacloban:
    """Planetary Response Network: "major structural damage" (1) or not (0) on a 132 × 92 grid.

    Attributes
    ----------
    reports : Reports
        Places are grid cells.
    cells : ndarray [M, 2]
        All cells with a report.
    gold : ndarray [M]
        The authors' probability of damage there, from all reports by IBCC.
    confident : ndarray [M] of bool
        At least three labels and a probability of at least .9 either way: the 572 cells of the paper's test set.
    shape : (int, int)
        Columns and rows of the grid.
    """

    reports: Reports
    cells: NDArray[np.float64]
    gold: NDArray[np.float64]
    confident: NDArray[np.bool_]
    shape: tuple[int, int] = (132, 92)


@dataclass(frozen=True)
class Haiti:
    """Reports of emergencies; every label is 1, because nobody reports that all is well.

    Attributes
    ----------
    reports : Reports
        Places are cells (longitude, latitude) of the 100 × 100 grid over HAITI_REGION; sources are categories.
    lonlat : ndarray [R, 2]
        The reports' own coordinates.
    """

    reports: Reports
    lonlat: NDArray[np.float64]


@dataclass(frozen=True)
class Unosat:
    """Remote sensing damage assessment: UNITAR/UNOSAT, EC JRC and World Bank.

    Attributes
    ----------
    cells : ndarray [10000, 2]
        (longitude, latitude) on the grid of `haiti`.
    damaged : ndarray [10000]
        0 or 1.
    """

    cells: NDArray[np.float64]
    damaged: NDArray[np.int64]


def tacloban() -> Tacloban:
    """Load volunteers' reports of structural damage in Tacloban, and the authors' gold standard.

    The files are fetched once and checked by SHA-256, or read from the folder that CROWDFIELD_DATA names.

    Returns
    -------
    Tacloban
        The reports and the gold standard.

    Examples
    --------
    >>> import crowdfield as cf
    >>> data = cf.datasets.tacloban()  # doctest: +SKIP
    >>> len(data.cells), int(data.confident.sum())  # doctest: +SKIP
    (3886, 572)
    """
    crowd = np.load(_file(_PRN.format("crowdlabels", "_0")), allow_pickle=False)
    x, y, p, enough = (
        np.load(_file(_PRN.format(f"gold_{part}", "")), allow_pickle=False) for part in ("x", "y", "p", "idxs")
    )
    reports = Reports.from_arrays(crowd[:, 1:3].astype(float), crowd[:, 3], crowd[:, 0], labels=(0, 1))
    cells = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    confident = enough.ravel().astype(bool) & (p.max(axis=1) >= 0.9)
    return Tacloban(reports, cells, p[:, 1].astype(float), confident)


def haiti(sources: tuple[str, ...] | None = None) -> Haiti:
    """Load Ushahidi's reports in the paper's region; each group of categories is one information source.

    Parameters
    ----------
    sources : tuple of str, optional
        Keep only these groups, for example HAITI_KEPT; by default all that belong to a group.

    Returns
    -------
    Haiti
        The reports and their own coordinates.

    Examples
    --------
    >>> import crowdfield as cf
    >>> len(cf.datasets.haiti(cf.datasets.HAITI_KEPT).reports)  # doctest: +SKIP
    675
    """
    import pandas as pd

    frame = pd.read_csv(_file("haiti/exported_ushahidi.csv"))
    lonlat = frame[["LON", "LAT"]].to_numpy(dtype=float)
    west, south, east, north = HAITI_REGION
    # To the nearest grid point, as in the paper's experiments.
    cell = np.round((lonlat - [west, south]) / [east - west, north - south] * HAITI_CELLS)
    source = np.array([_haiti_source(text) for text in frame["CATEGORY"].astype(str)], dtype=object)
    wanted = (*HAITI_SOURCES, UNCATEGORISED) if sources is None else sources
    keep = ((cell >= 0) & (cell < HAITI_CELLS)).all(axis=1) & np.isin(source, wanted)
    named = tuple(name for name in (*HAITI_SOURCES, UNCATEGORISED) if name in set(source[keep]))
    reports = Reports.from_arrays(
        cell[keep], np.ones(int(keep.sum()), dtype=int), source[keep], labels=(0, 1), sources=named
    )
    return Haiti(reports, lonlat[keep])


def unosat() -> Unosat:
    """Load where buildings were damaged in and around Port-au-Prince.

    Returns
    -------
    Unosat
        Damaged or not, on 10,000 cells.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.datasets.unosat().damaged.shape  # doctest: +SKIP
    (10000,)
    """
    grid = np.loadtxt(_file("haiti/haiti_unosat_target_grid100_100.csv"), delimiter=",")
    latitude, longitude = np.meshgrid(np.arange(len(grid)), np.arange(grid.shape[1]), indexing="ij")
    return Unosat(np.column_stack([longitude.ravel(), latitude.ravel()]).astype(float), grid.ravel().astype(np.int64))


def _haiti_source(categories: str) -> str | None:
    codes = set(re.findall(r"\b([1-8][a-g]?)\.", categories))
    for name, group in HAITI_SOURCES.items():
        if codes.intersection(group):
            return name
    return None if codes else UNCATEGORISED


def _file(name: str) -> Path:
    folder = os.environ.get("CROWDFIELD_DATA")
    path = Path(folder) / name if folder else _fetched(name)
    if not path.is_file():
        raise DataUnavailableError(f"{path} does not exist. CROWDFIELD_DATA must name the folder that holds {name}.")
    if folder and sha256(path.read_bytes()).hexdigest() != FILES[name][1]:
        raise DataUnavailableError(f"{path} is not the file it should be (its SHA-256 differs). Copy it again.")
    return path


def _fetched(name: str) -> Path:
    try:
        import pooch
    except ImportError as problem:
        raise MissingDependencyError(
            "Fetching data sets needs pooch: pip install 'crowdfield[datasets]'. "
            "Or put the files in a folder and name it with CROWDFIELD_DATA."
        ) from problem
    remote, digest = FILES[name]
    try:
        return Path(
            pooch.retrieve(SOURCE + remote, known_hash=digest, fname=name.replace("/", "-"), path=_cache(pooch))
        )
    except (OSError, ValueError) as problem:  # no network, no such file, or another content than expected
        raise DataUnavailableError(
            f"{name} could not be fetched from {SOURCE + remote}: {problem}. Without a network, copy the files from "
            "another machine and name their folder with CROWDFIELD_DATA."
        ) from problem


def _cache(pooch: object) -> Path:
    return Path(pooch.os_cache("crowdfield"))  # type: ignore[attr-defined]
