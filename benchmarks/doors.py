"""Whether a file gives the same map through `crowdfield fuse` and through the page: the probabilities of all cells to
0.01, and the first five suggestions.

    python -m benchmarks doors reports.csv damage.gpkg
    python -m benchmarks doors damage.gpkg --plan '{"layer": "agg_results", "polygons": "inner-point"}'

Each file is imported as the page does it, with default settings and the plan, fitted until the map rests, and compared
with `fuse` of the same file. `--access public` shows how far from the map of `fuse` a map is that others may see than
those who may see its reports: it is fitted to cells. Exit status 1 if a map with default settings differs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tests.service.workspace import Workspace

from crowdfield import io, pipeline
from crowdfield.errors import CrowdfieldError, CrowdfieldWarning
from crowdfield.pipeline.grading import with_grades
from crowdfield.pipeline.quiet import only_label
from crowdfield.service.import_schemas import ImportPlan
from crowdfield.service.maps import unpack
from crowdfield.service.settings import Settings

# What must hold of a file that is imported with default settings.
MOST_DIFFERENT, SUGGESTIONS = 0.01, 5


def fused(path: Path, plan: ImportPlan, states: tuple[str, ...]) -> pipeline.Fused:
    """The map that `crowdfield fuse` makes. If all reports say the same, `fuse` asks for the states: these."""
    options: dict[str, Any] = {str(role): column for role, column in plan.columns.items()}
    others = {"layer": plan.layer, "format": plan.format, "polygons": plan.polygons}
    options |= {name: value for name, value in others.items() if value is not None}
    read = io.read(path, **options)
    region = None if plan.region is None else tuple(plan.region)
    told = states if only_label(read.reports) is not None else None
    settings = pipeline.Settings(region=region, silence=plan.silence, states=told)
    return pipeline.fuse(read.reports, with_grades(settings, read.reports, read.grades))


def imported(path: Path, plan: str, folder: Path) -> dict[str, Any]:
    """The map that the page makes: its grid, its states, its arrays and its suggestions; or why there is none."""
    space = Workspace(Settings(database=str(folder / "w.db"), worker=False, coalesce_seconds=0, rest_seconds=0))
    try:
        with path.open("rb") as file:
            made = space.client("admin").post("/import", files={"file": (path.name, file)}, data={"plan": plan})
        if made.status_code != 201:
            return {"refused": made.json()["detail"]}
        space.fit()
        store, name = space.service.store, made.json()["id"]
        situation, version = store.situation(name), store.version(name)
        assert version is not None
        looks = store.blob(name, version.number, "suggestions")
        return {
            "grid": situation.grid,
            "states": situation.states,
            "rested": version.info["rested"],
            "looks": [(look["easting"], look["northing"]) for look in looks],
            **unpack(store.blob(name, version.number, "arrays")),
        }
    finally:
        space.close()


def compare(path: Path, plan: str) -> dict[str, Any]:
    """How far the two maps of a file are from each other. `plan`: an `ImportPlan` as JSON."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdfieldWarning)  # of the data, and the same for both
        page = imported(path, plan, Path(folder))
        try:
            ours = fused(path, ImportPlan.model_validate_json(plan), page.get("states", ()))
        except CrowdfieldError as error:
            return {"file": path.name, "refused": str(error), "agrees": "refused" in page}
    if "refused" in page:
        return {"file": path.name, "refused": page["refused"], "agrees": False}
    found: dict[str, Any] = {
        "file": path.name, "reports": len(ours.reports), "cell": ours.heatmap.grid.cell_width,
        "lengthscale": float(np.ravel(ours.model.lengthscale_)[0]), "rested": page["rested"],
    }  # fmt: skip
    same = page["grid"] == ours.heatmap.grid and sorted(page["states"]) == sorted(map(str, ours.heatmap.states))
    if not same:
        return found | {"agrees": False, "reason": "another grid, or other states"}
    columns = [page["states"].index(str(state)) for state in ours.heatmap.states]
    apart = np.abs(page["probability"][..., columns] - ours.heatmap.probability)
    looks = [(look.easting, look.northing) for look in pipeline.next_looks(ours, SUGGESTIONS)]
    found |= {"largest": round(float(apart.max()), 4), "mean": round(float(apart.mean()), 4)}
    found["same_suggestions"] = sum(a == b for a, b in zip(page["looks"], looks, strict=False))
    agrees = found["largest"] <= MOST_DIFFERENT and found["same_suggestions"] == len(looks)
    return found | {"agrees": agrees}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks doors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--plan", default="{}", help="how to read the files, as JSON: docs/service.md")
    parser.add_argument("--access", choices=["public", "keys", "trusted"], help="who may see the maps")
    given = parser.parse_args(arguments)
    plan = json.dumps(json.loads(given.plan) | ({} if given.access is None else {"access": given.access}))
    results = []
    for path in given.files:
        results.append(compare(path, plan))
        print(json.dumps(results[-1]), flush=True)
    return 0 if given.access in ("public", "keys") or all(result["agrees"] for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
