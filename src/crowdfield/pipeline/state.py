"""A run in one file (`run.cf`): a zip of the model as it saves itself, the grid, and what has been fused so far.

run.json      format, grid, settings, what the run says of itself
model         as written by `HeatmapBCC.save`
mask.npy      [rows, columns] bool
reports.npy   [rows, columns] int64, reports in each cell
seen.npy      uint64, the keys of all reports fused, so that none counts twice
covariates.npy  [cells, C], where the run has covariates: their values in every cell
"""

from __future__ import annotations

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import __version__
from crowdfield.data import Grid
from crowdfield.errors import CrowdfieldError, InputError, ReportFormatError
from crowdfield.io.archives import Archive
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import plain
from crowdfield.models.covariates import KnownCovariates, raw_values
from crowdfield.pipeline.fusing import Fused
from crowdfield.pipeline.layers import covariates_of
from crowdfield.pipeline.mapping import make_map
from crowdfield.pipeline.quiet import without_silence
from crowdfield.pipeline.settings import from_plain

FORMAT = 1


def save_run(fused: Fused, path: str | Path) -> None:
    """Write a run to one file: the model, the grid and which reports have been fused. No pickle.

    Parameters
    ----------
    fused : Fused
        The run.
    path : path
        The file, by convention ``run.cf``.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> cf.pipeline.save_run(fused, "run.cf")
    >>> cf.pipeline.load_run("run.cf").heatmap.states
    ('dry', 'flooded')
    """
    if fused.settings.moving:
        raise InputError("a map that moves cannot be saved as a run. Write the map itself, and fuse all reports again.")
    grid = fused.heatmap.grid
    about = {
        "format": FORMAT,
        "software": f"crowdfield {__version__}",
        "grid": {**{name: getattr(grid, name) for name in ("west", "east", "south", "north")},
                 "columns": grid.columns, "rows": grid.rows, "crs": grid.crs},
        "settings": plain(fused.settings.plain()),
        "metadata": plain(dict(fused.heatmap.metadata)),
    }  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {"mask": fused.heatmap.mask, "reports": fused.heatmap.reports, "seen": fused.seen}
    if fused.model.covariates is not None:
        arrays["covariates"] = raw_values(fused.model.covariates, grid.centres())
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


def load_run(path: str | Path, covariates: Sequence[str] = ()) -> Fused:
    """Read a run that `save_run` wrote; its map is drawn again from the model.

    Parameters
    ----------
    path : path
        The file.
    covariates : sequence of str
        The rasters that it was made with, for places where it does not hold their values.

    Returns
    -------
    Fused
        The run, which `extend` can continue.

    Examples
    --------
    With `fused` of the example of `fuse`:

    >>> cf.pipeline.save_run(fused, "kept.cf")
    >>> len(cf.pipeline.load_run("kept.cf").reports)
    60
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no run {path}. Make one with: crowdfield fuse REPORTS -o MAP --state {path}")
    from crowdfield.models.heatmap_bcc import HeatmapBCC

    not_ours = f"{path} is not a run that crowdfield saved, or is damaged."
    # A run may come from somebody else: what it claims to hold is checked before it is unpacked.
    try:
        archive = Archive(path)
    except ReportFormatError as problem:
        raise InputError(f"{not_ours} It {problem.message}") from problem
    with archive as file:
        try:
            about = json.loads(file.read("run.json"))
            if about.get("format") != FORMAT:
                raise InputError(f"{path} has format {about.get('format')}; this version of crowdfield reads {FORMAT}.")
            arrays = {name: _array(file.read(f"{name}.npy")) for name in ("mask", "reports", "seen")}
            known = _array(file.read("covariates.npy")) if "covariates.npy" in file.names else None
            content = file.read("model")
            grid = Grid(**about["grid"])
            metadata: dict[str, Any] = about["metadata"]
        except CrowdfieldError:
            raise
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as problem:
            raise InputError(not_ours) from problem
    if arrays["mask"].shape != grid.shape or arrays["reports"].shape != grid.shape:
        raise InputError(not_ours)
    if known is not None and (known.ndim != 2 or len(known) != grid.size or known.dtype != np.float64):
        raise InputError(not_ours)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").write_bytes(content)
        with Archive(Path(folder) / "model"):
            pass  # the model is an archive too, whose unpacked size must be limited as well
        rasters = covariates_of(covariates, grid)
        model = HeatmapBCC.load(
            Path(folder) / "model", rasters if known is None else KnownCovariates.of_cells(grid, known, rasters)
        )
    heatmap = make_map(model, grid, arrays["reports"], mask=arrays["mask"], metadata=metadata)
    reports = replace(without_silence(model.reports_), crs=grid.crs)
    return Fused(model, heatmap, reports, from_plain(about["settings"]), arrays["seen"], {})


def _array(content: bytes) -> NDArray[Any]:
    """An array as `numpy.save` wrote it, if it is as large as it says."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read_header(file)
    if kind.hasobject or math.prod(shape) * kind.itemsize != len(content) - file.tell():
        raise ValueError("an array is not as large as it says")
    file.seek(0)
    return np.asarray(np.load(file, allow_pickle=False))
