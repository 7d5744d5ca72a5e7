"""Install the wheel with each extra alone and try what the extras are for: it works, or says which extra is missing.

    make wheels-check                              # all extras; downloads more than a gigabyte
    python deploy/wheels_check.py geo excel        # some of them; "core" is the wheel alone

Versions are those of requirements.lock. Prints a table for docs/explanation/dependencies.md; the exit code is 1 when
something neither works nor says what is missing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = "core"
EXTRAS = (CORE, "geo", "excel", "scale", "datasets", "arviz", "serve")
# What each extra must make possible; an extra may hold others.
HOLDS = {"serve": ("serve", "geo", "excel")}

# Runs in the new environment and prints {task: "works" or the message of the error}.
PROBE = """
import json, sys, tempfile
from pathlib import Path
import numpy as np
import crowdfield as cf
from crowdfield.errors import DataUnavailableError, MissingDependencyError

folder, book = Path(tempfile.mkdtemp()), sys.argv[1]
rng = np.random.default_rng(0)
places = rng.uniform([-72.4, 18.5], [-72.3, 18.6], (60, 2))
said = np.where(places[:, 0] > -72.35, "flooded", "dry")
reports = cf.Reports.from_arrays(places, said, rng.integers(0, 5, 60), crs="EPSG:4326")
fused = cf.pipeline.fuse(reports, cell="1km", lengthscale="3km")

def write(*suffixes):
    for suffix in suffixes:
        assert cf.io.write(fused.heatmap, folder / f"map{suffix}").stat().st_size > 0

def live_map():
    from crowdfield.cli.app import app
    from typer.testing import CliRunner
    database = f"sqlite:///{folder}/live.db"
    done = CliRunner().invoke(app, ["keys", "create", "--name", "a", "--database", database], catch_exceptions=False)
    assert done.exit_code == 0, done.output

def download():
    try:
        cf.datasets.tacloban()
    except DataUnavailableError:
        pass  # there is no network here, or the data's server does not answer: pooch was there to ask it

TASKS = {
    "core: map as CSV, GeoJSON, HTML, PNG, KML": lambda: write(".csv", ".geojson", ".html", ".png", ".kml"),
    "geo: map as GeoTIFF": lambda: write(".tif"),
    "geo: map as NetCDF": lambda: write(".nc"),
    "geo: map as GeoPackage": lambda: write(".gpkg"),
    "geo: map as GeoParquet": lambda: write(".parquet"),
    "excel: reports from a workbook": lambda: cf.io.read(book),
    "scale: fit over Dask": lambda: cf.pipeline.fuse(
        reports, cell="1km", lengthscale="3km", engine="spectral", fit=cf.pipeline.on_cluster("local")
    ),
    "datasets: download": download,
    "arviz: posterior": lambda: fused.model.to_arviz(),
    "serve: keys of the live map": live_map,
}

def tried(task):
    try:
        task()
    except MissingDependencyError as problem:
        return f"missing: {problem}"
    except Exception as problem:
        return f"FAILS: {type(problem).__name__}: {problem}"
    return "works"

if __name__ == "__main__":
    print(json.dumps({name: tried(task) for name, task in TASKS.items()}))
"""


def locked_versions() -> str:
    """The lock file as constraints, without its hashes: what is built here has none."""
    lock = (ROOT / "requirements.lock").read_text()
    return "\n".join(re.findall(r"^[A-Za-z0-9_.-]+==[^ \\]+(?: ;[^\\]*)?", lock, re.M)) + "\n"


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def workbook(path: Path) -> Path:
    from openpyxl import Workbook

    book = Workbook()
    for row in (["source", "lat", "lon", "label"], ["ann", 18.5, -72.3, "dry"], ["bob", 18.6, -72.4, "flooded"]):
        book.active.append(row)
    book.save(path)
    return path


def check(extra: str, wheel: Path, folder: Path) -> tuple[int, dict[str, str]]:
    """Megabytes of the environment's packages, and what became of every task in it."""
    home = folder / extra
    venv.create(home, with_pip=False)
    constraints, probe = folder / "constraints.txt", folder / "probe.py"
    constraints.write_text(locked_versions())
    probe.write_text(PROBE)
    wanted = str(wheel) if extra == CORE else f"{wheel}[{extra}]"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", home / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-compile", "--constraint", constraints, wanted)
    packages = Path(
        run(home / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
    answer = run(home / "bin" / "python", "-I", probe, workbook(folder / "reports.xlsx"))
    return round(size / 1e6), json.loads(answer.splitlines()[-1])


def wrong(extra: str, found: dict[str, str]) -> list[str]:
    """Tasks that fail, that the extra should have made possible, or that do not say which extra they need."""
    held = (CORE, *HOLDS.get(extra, (extra,)))
    out = []
    for task, outcome in found.items():
        needs = task.split(":")[0]
        if outcome == "works" or (needs not in held and f"crowdfield[{needs}]" in outcome):
            continue
        out.append(f"with {extra}: {task}: {outcome}")
    return out


def main(extras: list[str]) -> int:
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="wheels-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        wheel = next(folder.glob("crowdfield-*.whl"))
        print("| installed | MB | works | says what is missing |\n|---|---|---|---|")
        for extra in extras or EXTRAS:
            size, found = check(extra, wheel, folder)
            works = [task for task, outcome in found.items() if outcome == "works"]
            print(f"| {extra} | {size} | {len(works)} of {len(found)} | {len(found) - len(works)} |", flush=True)
            problems += wrong(extra, found)
    print("\n".join(["", *problems]) if problems else "\nEverything works or says what is missing.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
