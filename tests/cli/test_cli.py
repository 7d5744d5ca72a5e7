"""The command line: results on stdout, everything else on stderr, and an exit code that says whose fault it was."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crowdfield import io
from crowdfield.cli import main
from crowdfield.cli.reference import commands, page

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def run(capsys):
    """Run a command; gives (exit code, stdout, stderr)."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


@pytest.fixture
def reports(tmp_path, run):
    path = tmp_path / "reports.csv"
    assert run("simulate", path, "--truth", tmp_path / "truth.csv", "-n", 300, "--cell", "2km", "--quiet")[0] == 0
    return path


def test_the_page_about_the_command_line_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text() == page(), "run: python -m crowdfield.cli.reference > docs/cli.md"


def test_help_imports_nothing_heavy():
    heavy = "{'numpy', 'pandas', 'scipy', 'sklearn', 'matplotlib', 'pyproj', 'rasterio', 'dask', 'fastapi'}"
    code = (
        "import sys\nfrom crowdfield.cli import main\n"
        "try: main(['fuse', '--help'])\nexcept SystemExit: pass\n"
        f"sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", commands())
def test_every_command_explains_itself(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0 and "Usage: " in out


def test_simulated_reports_are_the_same_for_the_same_seed(tmp_path, run):
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        assert run("simulate", path, "-n", 50, "--seed", seed, "--quiet")[0] == 0
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()


def test_inspect_says_what_is_in_a_file(run, reports):
    code, out, _ = run("inspect", reports, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["read"], found["used"], found["duplicate"], found["rejected"]) == (300, 300, 0, 0)
    assert found["layout"] == "plain" and found["columns"]["lat"] == "lat"
    assert set(found["labels"]) == {"dry", "flooded"} and len(found["region"]) == 4
    code, out, _ = run("inspect", reports)
    assert code == 0 and "300 reports by 20 sources" in out


@pytest.mark.parametrize("suffix", [".csv", ".geojson", ".gpkg", ".parquet"])
def test_reports_say_the_same_in_every_format(tmp_path, run, reports, suffix):
    other = tmp_path / f"other{suffix}"
    code, out, err = run("convert", reports, other)
    assert code == 0 and f"wrote {other}" in out and "300 used" in err
    before, after = io.read(reports).reports, io.read(other).reports
    assert before.labels == after.labels and before.sources == after.sources
    assert (before.label == after.label).all() and (before.source == after.source).all()
    assert abs(before.places - after.places).max() < 1e-6


def test_quiet_is_quiet(tmp_path, run, reports):
    _, _, err = run("convert", reports, tmp_path / "x.geojson", "--quiet")
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fuse", "{reports}"], 2, "say where the map goes"),
        (["fuse", "{reports}", "-o", "map.shp"], 2, "Use one of: .tif"),
        (["fuse", "{reports}", "-o", "map.tif", "--cell", "wide"], 2, "is not a length"),
        (["fuse", "{reports}", "-o", "map.tif", "--region", "1,2,3"], 2, "west,east,south,north"),
        (["fuse", "{reports}", "-o", "map.tif", "--trust", "fire"], 2, "SOURCE=LEVEL"),
        (["fuse", "{reports}", "-o", "map.tif", "--trust", "fire=huge"], 2, "certain, high"),
        (["fuse", "{reports}", "-o", "map.tif", "--wrong"], 2, "--wrong"),
        (["fuse", "nothere.csv", "-o", "map.tif"], 1, "nothere.csv"),
        (["fuse", "{reports}", "-o", "map.tif", "--config", "nothere.toml"], 1, "nothere.toml"),
        (["inspect", "{reports}", "--lat", "height"], 1, "height"),
        (["convert", "{reports}", "x.shp"], 2, "can be written as"),
        (["sources", "nothere.cf"], 1, "fuse REPORTS"),
        (["sources", "{reports}", "-o", "x.doc"], 2, ".csv or .png"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_are_explained_with_the_right_exit_code(tmp_path, monkeypatch, run, reports, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    found, out, err = run(*(argument.format(reports=reports) for argument in arguments))
    assert (found, out) == (code, "") and words in " ".join(err.split())
    assert "Traceback" not in err and set(tmp_path.iterdir()) == before
