"""Maps and tables as CSV that spreadsheets, HDX and people can read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crowdfield.data import Heatmap
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import description, layers, slug
from crowdfield.io.vector import to_lonlat

# A spreadsheet runs a cell that starts with one of these as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(heatmap: Heatmap, path: str | Path) -> None:
    """One row per cell, at its centre; the second row holds HXL tags. Cells outside the mask are left out.

    How the map was made stands in `<name>.csv-metadata.json`, where the W3C's "CSV on the Web" looks for it. Comments
    in the file itself would break HXL tools and many spreadsheets.
    """
    keep = heatmap.mask.ravel()
    centres = heatmap.grid.centres()[keep]
    columns: list[tuple[str, str, Iterable[Any]]] = []
    if heatmap.grid.crs is not None:
        lonlat = to_lonlat(centres, heatmap.grid.crs)
        columns.append(("lat", "#geo+lat", [f"{value:.7f}" for value in lonlat[:, 1]]))
        columns.append(("lon", "#geo+lon", [f"{value:.7f}" for value in lonlat[:, 0]]))
    columns.append(("easting", "#geo+easting+num", [f"{value:.3f}" for value in centres[:, 0]]))
    columns.append(("northing", "#geo+northing+num", [f"{value:.3f}" for value in centres[:, 1]]))
    for name, values in layers(heatmap).items():
        inside = values.ravel()[keep]
        kind, _, state = name.partition("_")
        if name == "most_probable":
            text = [safe(str(heatmap.states[int(code)])) for code in inside]
            columns.append((name, "#status+state", text))
        elif name == "reports":
            columns.append((name, "#meta+reports+count+num", inside.astype(np.int64)))
        elif heatmap.grades is not None and name in ("expected_grade", "sd_grade"):
            columns.append((name, f"#indicator+grade+{kind}+num", [f"{value:.7f}" for value in inside]))
        elif heatmap.grades is not None and name.startswith("at_least_"):
            tag = f"#indicator+probability+at_least_{slug(name.removeprefix('at_least_'))}+num"
            columns.append((safe(name), tag, [f"{value:.7f}" for value in inside]))
        elif name == "entropy":
            columns.append((name, "#indicator+entropy+bits+num", [f"{value:.7f}" for value in inside]))
        else:
            columns.append((safe(name), f"#indicator+{kind}+{slug(state)}+num", [f"{value:.7f}" for value in inside]))
    write_tagged(columns, description(heatmap), Path(path))


def write_tagged(columns: Sequence[tuple[str, str, Iterable[Any]]], said: Mapping[str, Any], path: Path) -> None:
    """Write columns, each with a name, an HXL tag and values; the description goes to a file next to it."""
    about = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": path.name,
        "dialect": {"headerRowCount": 2},
        "tableSchema": {"columns": [{"titles": [name, tag]} for name, tag, _ in columns]},
        "notes": [said],
    }
    with replacing(path.with_name(f"{path.name}-metadata.json")) as beside:
        beside.write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow([name for name, _, _ in columns])
        out.writerow([tag for _, tag, _ in columns])
        out.writerows(zip(*(values for _, _, values in columns), strict=True))


def write_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], path: str | Path) -> None:
    """Write any table: text is made safe for spreadsheets, numbers stay as they are, None becomes an empty cell."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow([safe(name) for name in names])
        out.writerows([safe(cell) for cell in row] for row in rows)


def safe(cell: Any) -> Any:
    """Text that a spreadsheet shows instead of running; numbers pass through, negative ones too."""
    if isinstance(cell, str) and cell.startswith(FORMULA):
        return "'" + cell
    return cell
