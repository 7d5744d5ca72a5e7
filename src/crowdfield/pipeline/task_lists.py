"""Places to check as a task list for other tools: a form for KoboToolbox or ODK, and a Zooniverse manifest.

Neither shows what the map says: who checks a place must not know the answer that is expected.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crowdfield.io.checks import HIDDEN
from crowdfield.io.layers import slug
from crowdfield.io.requirements import library
from crowdfield.io.table import safe

# What `assess result` needs of a place beside its state.
CARRIED = ("longitude", "latitude", "stratum", "stratum_cells")
PICTURES = "check-{id}.png"


def write_xlsform(rows: Sequence[Mapping[str, Any]], states: Sequence[Any], path: Path) -> None:
    """An XLSForm: choose the place on a map or in a list, say what is true there, take a photo if you like.

    What `assess result` needs is looked up by the form itself, so that the export of the answers is enough.
    """
    book = library("openpyxl", "excel").Workbook()
    survey = book.active
    survey.title = "survey"
    survey.append(["type", "name", "label", "required", "appearance", "choice_filter", "calculation"])
    # The choice filter makes every form builder keep the list of places as a table, which the calculations look into.
    survey.append(["select_one place", "place", "Which place?", "yes", "map", "true()", None])
    survey.append(["select_one state", "state", "What is true there?", "yes", None, None, None])
    survey.append(["image", "photo", "A photo, if you can", None, None, None, None])
    for name in CARRIED:
        found = f"instance('place')/root/item[name = ${{place}}]/{name}"
        survey.append(["calculate", name, None, None, None, None, found])
    choices = book.create_sheet("choices")
    choices.append(["list_name", "name", "label", "geometry", *CARRIED])
    for row in rows:
        latitude, longitude = row["latitude"], row["longitude"]
        label = f"check {row['id']} ({latitude}, {longitude})"
        carried = [safe(row[name]) for name in CARRIED]
        choices.append(["place", str(row["id"]), label, f"{latitude} {longitude} 0 0", *carried])
    for state in states:
        choices.append(["state", slug(state), safe(str(state))])
    settings = book.create_sheet("settings")
    settings.append(["form_title", "form_id"])
    settings.append(["Places to check", "crowdfield_checks"])
    book.save(path)


def write_manifest(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A Zooniverse manifest: one subject per place, with the name of the picture that is to show it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "filename", *(HIDDEN + name for name in CARRIED)])
        for row in rows:
            picture = PICTURES.format(id=row["id"])
            out.writerow([row["id"], picture, *(safe(row[name]) for name in CARRIED)])
