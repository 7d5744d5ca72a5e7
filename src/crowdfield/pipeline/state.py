"""A run in one file (`run.cf`): a zip of the model as it saves itself, the grid, and what has been fused so far.

run.json      format, grid, settings, what the run says of itself
model         as written by `HeatmapBCC.save`
mask.npy      [rows, columns] bool
reports.npy   [rows, columns] int64, reports in each cell
seen.npy      uint64, the keys of all reports fused, so that none counts twice
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crowdfield import __version__
from crowdfield.data import Grid
from crowdfield.errors import InputError
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import plain
from crowdfield.pipeline.fusing import Fused, make_map
from crowdfield.pipeline.settings import from_plain

FORMAT = 1


def save_run(fused: Fused, path: str | Path) -> None:
    grid = fused.heatmap.grid
    about = {
        "format": FORMAT,
        "software": f"crowdfield {__version__}",
        "grid": {**{name: getattr(grid, name) for name in ("west", "east", "south", "north")},
                 "columns": grid.columns, "rows": grid.rows, "crs": grid.crs},
        "settings": plain(fused.settings.plain()),
        "metadata": plain(dict(fused.heatmap.metadata)),
    }  # fmt: skip
    arrays = {"mask": fused.heatmap.mask, "reports": fused.heatmap.reports, "seen": fused.seen}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("run.json", json.dumps(about, ensure_ascii=False, indent=1))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            file.writestr(f"{name}.npy", buffer.getvalue())
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            fused.model.save(model)
            file.write(model, "model")


def load_run(path: str | Path) -> Fused:
    """The run that `save_run` wrote; its map is drawn again from the model."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no run {path}. Make one with: crowdfield fuse REPORTS -o MAP --state {path}")
    from crowdfield.models.heatmap_bcc import HeatmapBCC

    try:
        with zipfile.ZipFile(path) as file:
            about = json.loads(file.read("run.json"))
            if about.get("format") != FORMAT:
                raise InputError(f"{path} has format {about.get('format')}; this version of crowdfield reads {FORMAT}.")
            arrays = {
                name: np.load(io.BytesIO(file.read(f"{name}.npy")), allow_pickle=False)
                for name in ("mask", "reports", "seen")
            }
            content = file.read("model")
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as problem:
        raise InputError(f"{path} is not a run that crowdfield saved ({problem}).") from problem
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").write_bytes(content)
        model = HeatmapBCC.load(Path(folder) / "model")
    grid = Grid(**about["grid"])
    metadata: dict[str, Any] = about["metadata"]
    heatmap = make_map(model, grid, arrays["reports"], mask=arrays["mask"], metadata=metadata)
    reports = replace(model.reports_, crs=grid.crs)
    return Fused(model, heatmap, reports, from_plain(about["settings"]), arrays["seen"], {})
