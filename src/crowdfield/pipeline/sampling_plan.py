"""Which places to check: a stratified random sample of a map's cells, by mapped state and certainty."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import numpy as np
import pandas as pd

from crowdfield.counting import counted
from crowdfield.data import Heatmap
from crowdfield.errors import InputError
from crowdfield.geography import unproject
from crowdfield.inference import stratified
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import description, plain, slug
from crowdfield.io.table import safe
from crowdfield.io.vector import DIGITS, write_features
from crowdfield.models.unknown import is_unknown
from crowdfield.pipeline import task_lists

SURE = 0.9  # probability of the mapped state from which on a cell counts as sure
FEWEST_PER_STRATUM = 10  # least number of checks in a stratum, if it has that many cells
# The map's own error rates may be too low: assume at least this error rate in every stratum.
LEAST_WRONG = 0.1
GROWTH = 1.05  # growth of a sample that is too small for the wanted interval
MARGIN = 0.05  # half width of an interval of a share of the map, where no size is asked for
FORMATS = (".geojson", ".csv", ".kml", ".xlsx")
MANIFEST = ".manifest.csv"  # the end of the name of a Zooniverse manifest


@dataclass(frozen=True, eq=False)
class Strata:
    """Cells of a map by mapped state and certainty."""

    names: tuple[str, ...]
    mapped: np.ndarray  # [H] state
    cells: np.ndarray  # [H] how many
    code: np.ndarray  # [rows * columns] stratum of every cell, −1 outside the map

    @classmethod
    def of(cls, heatmap: Heatmap) -> Strata:
        """The strata of a map: mapped state and certainty of every cell."""
        states = len(heatmap.states)
        probability, sd = (a.reshape(-1, states) for a in (heatmap.probability, heatmap.sd))
        shown = heatmap.mask.ravel()
        mapped = np.where(shown, np.nan_to_num(heatmap.most_probable.ravel()), 0).astype(np.int64)
        prior = heatmap.metadata.get("prior_sd")
        unknown = np.zeros(len(shown), dtype=bool)
        if prior is not None:
            unknown[shown] = is_unknown(
                sd[shown], np.asarray(prior, dtype=np.float64), ordered=heatmap.grades is not None
            )
        sure = probability[np.arange(len(mapped)), mapped] >= SURE
        certainty = np.where(unknown, 0, np.where(sure, 2, 1))
        codes, code = np.unique(np.where(shown, 3 * mapped + certainty, -1), return_inverse=True)
        kept = codes >= 0
        code = code.ravel() - int(np.count_nonzero(~kept))
        codes = codes[kept]
        words = ("unknown", "unsure", "sure")
        names = tuple(f"{slug(heatmap.states[c // 3])}-{words[c % 3]}" for c in codes)
        return cls(names, codes // 3, np.bincount(code[code >= 0], minlength=len(codes)), np.maximum(code, -1))


@dataclass(frozen=True, eq=False)
class Plan:
    """Places to check, one row each, and what to expect of the checks."""

    places: pd.DataFrame
    strata: pd.DataFrame
    states: tuple[Any, ...]
    seed: int
    level: float
    margin: float  # to expect
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Plan: {self.lines()[0]}>"

    def lines(self) -> list[str]:
        return [
            f"{counted(len(self.places), 'place')} to check, drawn with seed {self.seed}",
            f"expect the share that is right to ± {100 * self.margin:.1f} % (intervals of {100 * self.level:.0f} %)",
            "write what is true at each place into the column 'state', then: crowdfield assess result RUN FILE",
        ]


def plan(
    heatmap: Heatmap, *, size: int | None = None, margin: float = MARGIN, level: float = 0.95, seed: int = 0
) -> Plan:
    """A stratified random sample of cells.

    size: how many places; without it, as many as leave an interval of ± `margin` on the share of the map that is right,
    if the map errs as often as it says.
    """
    strata = Strata.of(heatmap)
    if not 0.0 < margin < 0.5 or not 0.0 < level < 1.0:
        raise InputError("margin must lie between 0 and 0.5, and level between 0 and 1.")
    probability = heatmap.probability.reshape(-1, len(heatmap.states))
    shown = strata.code >= 0
    best = np.where(shown, np.nan_to_num(probability).max(axis=1), 0.0)
    right = np.bincount(strata.code[shown], best[shown], minlength=len(strata.cells)) / strata.cells
    wrong = np.clip(1.0 - right, LEAST_WRONG, 0.5)
    spread = np.sqrt(wrong * (1.0 - wrong))
    wanted = stratified.size_for(strata.cells, spread, margin, level) if size is None else size
    least = min(2 * len(strata.cells), int(strata.cells.sum()))
    if wanted < least:
        raise InputError(f"{wanted} places are too few: the map has {len(strata.cells)} strata. Take {least} or more.")
    each = _allocated(strata, spread, wanted)
    while size is None and stratified.margin_of(strata.cells, spread, each, level) > margin and wanted < shown.sum():
        wanted = int(np.ceil(GROWTH * wanted))  # small strata take more than their share
        each = _allocated(strata, spread, wanted)
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(strata.code == h), n, replace=False) for h, n in enumerate(each)]
    table = pd.DataFrame({
        "stratum": strata.names, "mapped": [plain(heatmap.states[j]) for j in strata.mapped], "cells": strata.cells,
        "checks": each, "expected_wrong": wrong,
    })  # fmt: skip
    margin_found = stratified.margin_of(strata.cells, spread, each, level)
    about = {
        **description(heatmap),
        "sample": {"seed": seed, "level": level, "strata": plain(table.to_dict("records"))},
    }
    places = _places(heatmap, strata, np.concatenate(chosen), each, rng)
    return Plan(places, table, heatmap.states, seed, level, margin_found, about)


def _allocated(strata: Strata, spread: np.ndarray, size: int) -> np.ndarray:
    return stratified.allocate(strata.cells, spread, size, min(FEWEST_PER_STRATUM, max(2, size // len(strata.cells))))


def _places(
    heatmap: Heatmap, strata: Strata, cells: np.ndarray, each: np.ndarray, rng: np.random.Generator
) -> pd.DataFrame:
    """In random order, so that checks which stop early are still a random sample of every stratum."""
    cells = rng.permutation(cells)
    grid = heatmap.grid
    centres = grid.centres()[cells]
    lonlat = unproject(centres, grid.crs) if grid.crs is not None else np.full_like(centres, np.nan)
    code = strata.code[cells]
    probability = heatmap.probability.reshape(-1, len(heatmap.states))[cells]
    return pd.DataFrame({
        "id": np.arange(1, len(cells) + 1),
        "latitude": np.round(lonlat[:, 1], DIGITS), "longitude": np.round(lonlat[:, 0], DIGITS),
        "easting": np.round(centres[:, 0], 2), "northing": np.round(centres[:, 1], 2),
        "stratum": [strata.names[h] for h in code], "stratum_cells": strata.cells[code],
        "weight": np.round(strata.cells[code] / each[code], 4),  # cells that this place stands for
        "mapped": [plain(heatmap.states[j]) for j in strata.mapped[code]],
        "probability": np.round(probability.max(axis=1), 4),
        "state": "",
    })  # fmt: skip


def write_plan(found: Plan, path: str | Path) -> Path:
    """By the suffix: .geojson, .csv, .kml, .xlsx (a form for KoboToolbox or ODK), .manifest.csv (for Zooniverse).

    The column `state` of .geojson and .csv is empty, for what is found there.
    """
    path = Path(path)
    check_format(path)
    rows = plain(found.places.to_dict("records"))
    with replacing(path) as temporary:
        if path.name.lower().endswith(MANIFEST):
            task_lists.write_manifest(rows, temporary)
        elif path.suffix.lower() == ".xlsx":
            task_lists.write_xlsform(rows, found.states, temporary)
        elif path.suffix.lower() == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                out = csv.writer(file)
                out.writerow(found.places.columns)
                out.writerows([safe(value) for value in row.values()] for row in rows)
        elif path.suffix.lower() == ".geojson":
            features = (
                {
                    "type": "Feature",
                    "id": row["id"],
                    "properties": row,
                    "geometry": {"type": "Point", "coordinates": [row["longitude"], row["latitude"]]},
                }
                for row in rows
            )
            write_features(temporary, features, {"metadata": plain(found.about)})
        else:
            temporary.write_bytes(_kml(rows))
    return path


def check_format(path: str | Path) -> None:
    """Raise an error for a suffix that plans are not written as."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"{Path(path).name}: places to check are written as {', '.join(FORMATS)}.")


def _kml(rows: list[dict[str, Any]]) -> bytes:
    """Placemarks for a phone; the mapped state is left out, so that nobody sees what to say."""
    root = xml.Element("kml", xmlns="http://www.opengis.net/kml/2.2")
    document = xml.SubElement(root, "Document")
    xml.SubElement(document, "name").text = "Places to check"
    for row in rows:
        mark = xml.SubElement(document, "Placemark")
        xml.SubElement(mark, "name").text = f"check {row['id']}"
        data = xml.SubElement(mark, "ExtendedData")
        for name in ("id", "stratum", "stratum_cells"):
            xml.SubElement(xml.SubElement(data, "Data", name=name), "value").text = str(row[name])
        point = xml.SubElement(mark, "Point")
        xml.SubElement(point, "coordinates").text = f"{row['longitude']},{row['latitude']}"
    body: bytes = xml.tostring(root, encoding="utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + body
