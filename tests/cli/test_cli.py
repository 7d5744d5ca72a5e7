"""The command line: results on stdout, everything else on stderr, and an exit code that says whose fault it was."""

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdfield import io
from crowdfield.cli import main
from crowdfield.cli.reference import commands, page
from crowdfield.counting import amount_with_interval

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    with pytest.raises(SystemExit) as stop:
        options = ["--truth", str(folder / "truth.csv"), "-n", "300", "--cell", "2km", "--quiet"]
        main(["simulate", str(folder / "reports.csv"), *options])
    assert stop.value.code == 0
    return folder


@pytest.fixture
def reports(simulated, tmp_path):
    for name in ("reports.csv", "truth.csv"):
        shutil.copy(simulated / name, tmp_path / name)
    return tmp_path / "reports.csv"


def test_the_page_about_the_command_line_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text() == page(), "run: python -m crowdfield.cli.reference > docs/cli.md"


# What a process does, and the libraries that take long to load and that it does not need for it.
STARTS = {
    "help": (
        "from crowdfield.cli import main\ntry: main(['fuse', '--help'])\nexcept SystemExit: pass",
        {"numpy", "pandas", "scipy", "sklearn", "matplotlib", "pyproj", "rasterio", "dask", "fastapi"},
    ),
    "answering requests": ("import crowdfield.service.app", {"pandas", "scipy", "sklearn", "matplotlib", "rasterio"}),
    "reading a file": ("import crowdfield.io.reading", {"scipy.stats", "sklearn", "matplotlib", "rasterio"}),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_process_loads_only_what_its_work_needs(start):
    code, heavy = STARTS[start]
    loaded = f"{{*{sorted(heavy)}}} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nsys.exit(str({loaded}) if {loaded} else 0)"],
        capture_output=True, text=True,
    )  # fmt: skip
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


def test_converted_polygons_are_still_areas(tmp_path, run):
    tiles = tmp_path / "tiles.csv"
    wkt = [f'"POLYGON(({x} 10, {x}.1 10, {x}.1 10.1, {x} 10.1, {x} 10))"' for x in (20, 21)]
    tiles.write_text(f"place,label\n{wkt[0]},wet\n{wkt[1]},dry\n")
    code, _, err = run("convert", tiles, tmp_path / "again.csv", "--polygons", "area")
    assert code == 0, err
    before, after = io.read(tiles, polygons="area").reports, io.read(tmp_path / "again.csv").reports
    assert after.area is not None and after.area.all()
    assert abs(before.accuracy - after.accuracy).max() < 0.01


def test_quiet_commands_print_only_the_result(tmp_path, run, reports):
    _, _, err = run("convert", reports, tmp_path / "x.geojson", "--quiet")
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fuse", "{reports}"], 2, "say where the map goes"),
        (["fuse", "{reports}", "-o", "map.shp"], 2, "Use one of: .tif"),
        (["fuse", "{reports}", "-o", "map.tif", "--cell", "wide"], 2, "is not a length"),
        (["fuse", "{reports}", "-o", "map.tif", "--region", "1,2,3"], 2, "west,south,east,north"),
        (["fuse", "{reports}", "-o", "map.tif", "--trust", "fire"], 2, "SOURCE=LEVEL"),
        (["fuse", "{reports}", "-o", "map.tif", "--trust", "fire=huge"], 2, "certain, high"),
        (["fuse", "{reports}", "-o", "map.tif", "--wrong"], 2, "--wrong"),
        (["fuse", "{reports}", "--cluster", "local", "--state", "run.cf"], 2, "leave out --cluster"),
        (["fuse", "nothere.csv", "-o", "map.tif"], 1, "nothere.csv"),
        (["fuse", "{reports}", "-o", "map.tif", "--config", "nothere.toml"], 1, "nothere.toml"),
        (["inspect", "{reports}", "--lat", "height"], 1, "height"),
        (["convert", "{reports}", "x.shp"], 2, "can be written as"),
        (["sources", "nothere.cf"], 1, "fuse REPORTS"),
        (["sources", "{reports}", "-o", "x.doc"], 2, ".csv or .png"),
        (["reproduce", "everything"], 2, "synthetic"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_are_explained_with_the_right_exit_code(tmp_path, monkeypatch, run, reports, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    found, out, err = run(*(argument.format(reports=reports) for argument in arguments))
    assert (found, out) == (code, "") and words in " ".join(err.split())
    assert "Traceback" not in err and set(tmp_path.iterdir()) == before


FAST = ("--cell", "1km", "--lengthscale", "3km", "--seed", 0)


def test_fuse_writes_what_was_asked_for_and_says_so(tmp_path, run, reports):
    names = [f"map{suffix}" for suffix in (".tif", ".geojson", ".html", ".csv", ".kmz")]
    wanted = [item for name in names for item in ("-o", tmp_path / name)]
    extras = ("--figure", tmp_path / "page.png", "--next", tmp_path / "next.geojson")
    code, out, err = run("fuse", reports, *wanted, *extras, *FAST, "--json")
    result = json.loads(out)
    assert code == 0 and result["reports"] == 300 and result["sources"] == 20
    assert result["states"] == ["dry", "flooded"] and result["grid"]["cell"] == 1000
    assert {Path(path).name for path in result["written"]} == {*names, "map.qml", "page.png", "next.geojson"}
    assert all(Path(path).stat().st_size > 500 for path in result["written"])
    assert "300 used" in err  # progress and remarks never mix with the result
    heatmap = io.read_map(tmp_path / "map.tif")
    assert heatmap.metadata["input"][0]["hash"].startswith("sha256:") and heatmap.metadata["settings"]["cell"] == "1km"
    looks = json.loads((tmp_path / "next.geojson").read_text())["features"]
    assert [look["properties"]["rank"] for look in looks] == list(range(1, 11))


def test_a_map_names_its_input_but_not_where_it_lay(tmp_path, run, reports):
    run("fuse", reports, "-o", tmp_path / "a.geojson", *FAST)
    about = (tmp_path / "a.geojson").read_text(encoding="utf-8")
    assert reports.name in about and str(reports.parent) not in about


def test_pictures_and_command_count_the_same_reports(tmp_path, run):
    rng = np.random.default_rng(0)
    rows = [
        f"{-1.3 + x},{36.8 + y},{'wet' if x > 0.02 else 'dry'},s{k % 5},3"
        for k, (x, y) in enumerate(rng.random((40, 2)) / 20)
    ]
    (tmp_path / "counted.csv").write_text("\n".join(["lat,lon,label,source,seen_by", *rows]))
    code, out, _ = run("fuse", tmp_path / "counted.csv", "--count", "seen_by", "-o", tmp_path / "a.svg", "--json")
    assert code == 0 and json.loads(out)["reports"] == 120
    assert "from 120 reports by 5 sources" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_the_same_seed_gives_the_same_map(tmp_path, run, reports):
    for name in ("a.csv", "b.csv"):
        assert run("fuse", reports, "-o", tmp_path / name, *FAST, "--quiet")[0] == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_map_can_be_converted_later(tmp_path, run, reports):
    run("fuse", reports, "-o", tmp_path / "map.tif", *FAST, "--quiet")
    code, out, _ = run("inspect", tmp_path / "map.tif", "--json")
    assert code == 0 and json.loads(out)["grid"]["cell"] == 1000 and json.loads(out)["reports"] == 300
    code, out, _ = run("convert", tmp_path / "map.tif", tmp_path / "map.nc")
    assert code == 0 and "NetCDF" in out
    first, second = io.read_map(tmp_path / "map.tif"), io.read_map(tmp_path / "map.nc")
    assert abs(first.probability - second.probability).max() < 1e-6 and first.states == second.states


def test_a_config_file_is_used_and_the_command_line_overrides_it(tmp_path, run, reports):
    config = tmp_path / "run.toml"
    config.write_text(
        '[map]\ncell = "1km"\n[model]\nlengthscale = "3km"\nseed = 0\n[sources.reliable-01]\ntrust = "high"\n'
    )
    code, out, _ = run("fuse", reports, "-c", config, "--cell", "2km", "-o", tmp_path / "map.tif", "--json", "-q")
    assert code == 0 and json.loads(out)["grid"]["cell"] == 2000 and json.loads(out)["lengthscale"] == [3000.0] * 2
    code, out, _ = run("sources", reports, "-c", config, "--json", "-q")
    table = {row["source"]: row for row in json.loads(out)}
    assert table["reliable-01"]["trusted"] and not table["reliable-02"]["trusted"]
    assert table["reliable-01"]["accuracy_low"] > 0.85


def test_questions_can_be_asked_of_a_file_of_reports(tmp_path, run, reports):
    code, out, _ = run("sources", reports, "--lengthscale", "3km", "-q", "-o", tmp_path / "sources.csv",
                       "-o", tmp_path / "sources.png")  # fmt: skip
    assert code == 0 and "Who can be trusted" in out and "reliable-01" in out
    assert (tmp_path / "sources.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "sources.csv").read_text().startswith("source,reports,accuracy")
    code, out, _ = run("next", reports, "-n", 3, "--lengthscale", "3km", "-q", "--json")
    assert code == 0 and [look["rank"] for look in json.loads(out)] == [1, 2, 3]
    code, out, _ = run("score", reports, tmp_path / "truth.csv", "--lengthscale", "3km", "-q", "--json")
    result = json.loads(out)
    assert code == 0 and result["auc"] > 0.7 and result["places"] > 50


def test_a_saved_run_continues_with_only_the_new_reports(tmp_path, run, reports):
    lines = reports.read_text().splitlines(keepends=True)
    early = tmp_path / "early.csv"
    early.write_text("".join(lines[:200]))
    state, output = tmp_path / "run.cf", tmp_path / "map.tif"
    arguments = ("--state", state, "-o", output, *FAST, "--json", "--quiet")
    assert json.loads(run("fuse", early, *arguments)[1])["reports"] == 199
    later = json.loads(run("fuse", reports, *arguments)[1])
    assert (later["reports"], later["new"], later["already_fused"]) == (300, 101, 199)
    assert io.read_map(output).reports.sum() + later["outside"] == 300
    # and questions need no second fit
    code, out, _ = run("sources", state, "--json")
    assert code == 0 and sum(row["reports"] for row in json.loads(out)) == 300


def test_a_trusted_source_without_reports_gets_a_note(tmp_path, run, reports):
    _, _, err = run("fuse", reports, "-o", tmp_path / "map.csv", "--trust", "fire-brigade=high", *FAST)
    assert "no report is by 'fire-brigade'" in err


def test_rejected_rows_are_kept_with_their_reasons(tmp_path, run, reports):
    with reports.open("a") as file:
        file.write("900,somebody,118.2,34.8,dry\n")
    code, _, err = run("fuse", reports, "-o", tmp_path / "map.csv", *FAST)
    assert code == 0 and "1 rejected" in err
    (kept,) = tmp_path.glob("*.rejects.csv")
    assert "118.2" in kept.read_text() or "latitude" in kept.read_text()


def test_rejects_lie_beside_the_output_where_the_input_cannot_be_written_to(tmp_path, run, reports, monkeypatch):
    from crowdfield.io import result as results
    from crowdfield.io import table

    with reports.open("a") as file:
        file.write("900,somebody,118.2,34.8,dry\n")
    maps = tmp_path / "maps"
    maps.mkdir()
    write_rows = table.write_rows

    def read_only(names, rows, path):
        if path.parent == tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        write_rows(names, rows, path)

    monkeypatch.setattr(results, "write_rows", read_only)
    code, _, err = run("fuse", reports, "-o", maps / "map.csv", *FAST)
    assert code == 0 and str(maps / "reports.csv.rejects.csv") in err.replace("\n", "")
    assert sorted(path.name for path in maps.iterdir()) == [
        "map.csv",
        "map.csv-metadata.json",
        "reports.csv.rejects.csv",
    ]


def test_fuse_says_what_length_scale_it_learned_and_how_sure_that_is(tmp_path, run, reports):
    code, out, err = run("fuse", reports, "-o", tmp_path / "map.tif", "--cell", "2km", "--seed", 0, "--json")
    found = json.loads(out)
    (low, high), reach = found["lengthscale_interval"][0], found["lengthscale"][0]
    assert code == 0 and low < reach < high and "Learning the length-scale" in err
    assert io.read_map(tmp_path / "map.tif").metadata["lengthscale_interval"] == [[low, high]]
    _, out, err = run("fuse", reports, "-o", tmp_path / "map.tif", *FAST)
    assert "learned" not in out and "Learning" not in err


def test_options_are_shown_one_by_one_and_handed_over_in_groups():
    from crowdfield.cli import options as opt

    seen = []

    @opt.grouped
    def command(file: str, *, content: opt.Content, voice: opt.Voice) -> None:
        seen.append((file, content, voice))

    assert list(inspect.signature(command).parameters) == [
        "file", "format", "positive", "map_labels", "duplicates", "region", "config", "json", "quiet",
    ]  # fmt: skip
    command(file="x", **{**opt.Content().given(), "format": "kobo"}, json=True, quiet=False)
    assert seen == [("x", opt.Content(format="kobo"), opt.Voice(json=True))]


def test_reproduce_hands_over_what_was_said(tmp_path, run, monkeypatch):
    """The experiments have tests of their own; here only that the command asks for the right ones."""
    asked: dict[str, Any] = {}

    def reproduce(names, output, *, quick, seed, jobs, progress):
        asked.update(names=names, quick=quick, seed=seed, jobs=jobs)
        progress(1, 2, "half")
        return output / "index.html"

    monkeypatch.setattr("crowdfield.experiments.reproduce", reproduce)
    code, out, err = run("reproduce", "synthetic", "haiti", "--quick", "--seed", 3, "-o", tmp_path)
    assert code == 0 and f"wrote {tmp_path / 'index.html'}" in out and "1 of 2: half" in err
    assert asked == {"names": ["synthetic", "haiti"], "quick": True, "seed": 3, "jobs": None}


def test_a_run_is_compared_drawn_and_reported(tmp_path, run, reports):
    state, picture = tmp_path / "run.cf", tmp_path / "map.png"
    code, fused, _ = run("fuse", reports, "--state", state, "-o", picture, "--bare", "--show", "dry", *FAST, "--json")
    assert code == 0 and json.loads(fused)["positive"] == "dry" and (tmp_path / "map.png.aux.xml").is_file()
    code, out, _ = run("compare", state, state, "-o", tmp_path / "change.geojson", "--json")
    found = json.loads(out)
    assert code == 0 and (found["state"], found["rose"], found["fell"]) == ("dry", 0, 0)
    assert found["shared_reports"] == json.loads(fused)["reports"]
    assert f"{found['shared_reports']} reports are in both maps" in run("compare", state, state)[1]
    table = tmp_path / "districts.csv"
    table.write_text("district,km2\n#adm1+name,#indicator+num\nNorth,4.5\n")
    page = tmp_path / "report.html"
    code, _, _ = run("report", state, "--since", state, "--districts", table, "--title", "Now", "-o", page, "--quiet")
    text = page.read_text()
    assert code == 0 and "<h1>Now</h1>" in text and "North" in text and "#adm1" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fuse", "{reports}", "-o", "m.png", "--size", "huge"], "1600x1200"),
        (["report", "{reports}", "-o", "r.doc"], ".html or .pdf"),
        (["report", "{reports}", "--texts", "none.toml"], "cannot be read"),
    ],
)
def test_wrong_use_of_pictures_and_reports_is_noticed_before_any_work(run, reports, arguments, words):
    code, _, err = run(*(str(reports) if part == "{reports}" else part for part in arguments))
    assert code == 2 and words in " ".join(err.split())


def test_a_state_that_is_not_there_is_named_before_the_fit(run, reports, tmp_path):
    code, _, err = run("fuse", reports, "-o", tmp_path / "m.tif", "--show", "wett", *FAST)
    assert code == 1 and "the map has: dry, flooded" in " ".join(err.split())


def test_a_file_with_few_usable_rows_gives_a_warning_with_advice(tmp_path, capsys):
    path = tmp_path / "photos.csv"
    rows = [f"-19.8,34.8,ann,{'wet' if k % 2 else 'dry'}" for k in range(20)]  # twenty points of one photo
    path.write_text("\n".join(["lat,lon,source,label", *rows]))
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    said = capsys.readouterr().out
    assert "18 of 20 rows repeat another row" in said and "--duplicates keep" in said
    rows = [f"{100 + k},34.8,ann,wet" for k in range(20)]  # no latitudes
    path.write_text("\n".join(["lat,lon,source,label", *rows, "-19.8,34.8,bob,dry"]))
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    said = capsys.readouterr().out
    assert "20 of 21 rows cannot be used" in said and "--lat" in said


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ((0.347, 0.144, 0.635), "0.35 (0.14–0.64)"),
        ((0.0029, 0.00007, 0.0031), "0.0029 (0.0001–0.0031)"),
        ((5230.2, 12.0, 7412.9), "5,230 (12–7,413)"),
        ((0.0, 0.0, 0.0), "0 (0–0)"),
    ],
)
def test_amounts_have_as_many_digits_as_their_interval_supports(amounts, text):
    assert amount_with_interval(*amounts) == text
