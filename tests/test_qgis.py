"""What QGIS gets: styles it can read, and a plugin that calls the command. QGIS itself is asked where it is
installed.
"""

import configparser
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree as xml

import numpy as np
import pytest

from crowdfield import io, plot
from crowdfield.data import Grid, Heatmap
from crowdfield.io.qgis_style import write_change_style, write_share_style

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "integrations" / "qgis"
GRID = Grid(690_000, 702_000, 7_796_000, 7_806_000, 12, 10, "EPSG:32736")


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(states=("dry", "flooded")):
    p = np.broadcast_to(np.linspace(0, 1, GRID.columns), GRID.shape)
    sd = np.full((*GRID.shape, 2), 0.05)
    return Heatmap(GRID, states, np.stack([1 - p, p], -1), sd, np.zeros(GRID.shape, int), {"prior_sd": [0.3, 0.3]})


@pytest.mark.parametrize("suffix", [".tif", ".nc", ".geojson", ".gpkg", ".parquet", ".kml"])
def test_a_style_lies_beside_every_raster_and_vector_map(tmp_path, suffix):
    style = io.write_style(make(), tmp_path / f"map{suffix}")
    root = xml.fromstring(style.read_text(encoding="utf-8"))
    assert style.name == "map.qml" and root.tag == "qgis"
    render = root.find("pipe/rasterrenderer")
    assert render.get("type") == "singlebandpseudocolor" and render.get("band") == "1"
    stops = [(float(item.attrib["value"]), item.get("color")) for item in render.iter("item")]
    assert stops[0][0] == 0 and stops[-1][0] == 1
    red, _, blue = (int(stops[-1][1][at : at + 2], 16) for at in (1, 3, 5))
    assert blue > 2 * red  # water is blue
    rules = root.findall("renderer-v2/rules/rule")
    # All states count, as in pictures, totals and spot checks: 0.85 of √(0.3² + 0.3²).
    assert rules[0].get("label") == "nobody knows"
    assert rules[0].get("filter") == 'sqrt("sd_dry"^2 + "sd_flooded"^2) > 0.360624'
    assert len(rules) == len(root.findall("renderer-v2/symbols/symbol")) == 11
    assert '"probability_flooded" < 0.1' in rules[1].get("filter")


def test_a_map_of_changes_has_a_style_from_less_to_more(tmp_path):
    root = xml.fromstring(write_change_style(tmp_path / "change.tif").read_text(encoding="utf-8"))
    stops = [(float(item.attrib["value"]), item.get("color")) for item in root.iter("item")]
    assert (stops[0][0], stops[-1][0]) == (-1, 1) and stops[0][1] == "#2d004b" and stops[-1][1] == "#7f3b08"
    rules = root.findall("renderer-v2/rules/rule")
    assert rules[0].get("filter") == "\"verdict\" = 'unknown'" and rules[-1].get("label") == "+80 to +100 %"


def test_a_map_of_changes_shows_only_changes_that_were_detected(tmp_path):
    root = xml.fromstring(write_change_style(tmp_path / "change.gpkg").read_text(encoding="utf-8"))
    _, same, *others = root.findall("renderer-v2/rules/rule")
    assert same.get("filter") == "\"verdict\" = 'unchanged'" and same.get("label") == "no change detected"
    assert all("IN ('rose', 'fell')" in rule.get("filter") for rule in others)


def test_cells_have_outlines_of_their_colour_so_that_no_lines_show_between_them(tmp_path):
    root = xml.fromstring(io.write_style(make(), tmp_path / "map.gpkg").read_text(encoding="utf-8"))
    for symbol in root.findall("renderer-v2/symbols/symbol")[1:]:
        options = {part.get("k"): part.get("v") for part in symbol.iter("prop")}
        assert options["outline_style"] == "solid" and options["outline_color"] == options["color"]
        assert symbol.get("alpha") == "1"  # otherwise outlines that lie on each other would be darker
    assert root.find("layerOpacity").text == "0.85"


def test_totals_of_districts_have_a_style(tmp_path):
    style = write_share_style(tmp_path / "totals.gpkg", 'a "b"', plot.scale("water"))
    rules = xml.fromstring(style.read_text(encoding="utf-8")).findall("renderer-v2/rules/rule")
    assert [rule.get("label") for rule in rules[:2]] == ["not on the map", "nobody knows"]
    assert '"share_a ""b""" >= 0.9' in rules[-1].get("filter") and rules[-1].get("label") == '90% to 100% a "b"'
    assert write_share_style(tmp_path / "totals.csv", "a", plot.scale("water")) is None


def test_pictures_and_tables_have_no_style(tmp_path):
    assert [io.write_style(make(), tmp_path / name) for name in ("a.png", "a.csv", "a.html", "a.kmz")] == [None] * 4


def test_a_state_with_quotes_does_not_break_out_of_the_style(tmp_path):
    style = io.write_style(make(('a" OR 1=1 --', "no <b>")), tmp_path / "m.gpkg")
    rule = xml.fromstring(style.read_text(encoding="utf-8")).find("renderer-v2/rules/rule")
    assert '"sd_a"" OR 1=1 --"' in rule.get("filter")


def test_the_plugin_is_a_zip_that_qgis_can_install(tmp_path):
    build = load(PLUGIN / "build.py", "qgis_build").build
    one, two = build(tmp_path / "one.zip"), build(tmp_path / "two.zip")
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        names = archive.namelist()
        about = configparser.ConfigParser()
        about.read_string(archive.read("crowdfield_qgis/metadata.txt").decode())
    assert {name.split("/")[0] for name in names} == {"crowdfield_qgis"} and "crowdfield_qgis/__init__.py" in names
    general = about["general"]
    needed = (
        "name",
        "qgisMinimumVersion",
        "description",
        "about",
        "version",
        "author",
        "email",
        "repository",
        "tracker",
    )
    assert all(general.get(name) for name in needed) and general["hasProcessingProvider"] == "yes"


def test_every_file_of_the_plugin_compiles():
    for path in (PLUGIN / "crowdfield_qgis").glob("*.py"):
        compile(path.read_text(), str(path), "exec")


def test_the_plugin_calls_the_command_and_tells_its_errors(tmp_path, monkeypatch):
    command = load(PLUGIN / "crowdfield_qgis" / "command.py", "qgis_command")
    program = tmp_path / "crowdfield"
    program.write_text(
        f'#!/bin/sh\nexport PYTHONPATH={str(ROOT / "src")!r}\nexec {sys.executable!r} -m crowdfield "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv(command.VARIABLE, str(program))
    io.write(make(), tmp_path / "a.tif")
    said: list[str] = []
    arguments = command.compare(tmp_path / "a.tif", tmp_path / "a.tif", tmp_path / "c.tif")
    answer = command.call(arguments, said.append)
    assert answer["rose"] == 0 and (tmp_path / "c.tif").is_file() and said
    with pytest.raises(command.CommandError, match=r"no file .*none\.tif"):
        command.call(command.compare(tmp_path / "none.tif", tmp_path / "a.tif", tmp_path / "c.tif"))


def test_arguments_are_those_of_the_command_line():
    command = load(PLUGIN / "crowdfield_qgis" / "command.py", "qgis_command")
    text = (ROOT / "docs" / "cli.md").read_text()
    every = [
        command.fuse("r", "o", cell="1km", lengthscale="2km", show="s", positive="p", mask="m", run="r.cf", looks="n"),
        command.looks("r", "o"),
        command.compare("a", "b", "o"),
        command.report("r", "o", title="t", since="s"),
    ]
    for name, *rest in every:
        page = text.split(f"## crowdfield {name}\n")[1].split("\n## ")[0]
        assert all(option in page for option in rest if option.startswith("-"))


def test_where_the_command_is_missing_the_plugin_says_how_to_install_it(monkeypatch):
    command = load(PLUGIN / "crowdfield_qgis" / "command.py", "qgis_command")
    monkeypatch.delenv(command.VARIABLE, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(command.CommandError, match="pip install"):
        command.program()


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from qgis.core import QgsApplication, QgsRasterLayer, QgsVectorLayer
application = QgsApplication([], False)
application.initQgis()
from crowdfield_qgis.provider import CrowdfieldProvider
provider = CrowdfieldProvider()
QgsApplication.processingRegistry().addProvider(provider)
raster, vector = QgsRasterLayer(sys.argv[2] + "/map.tif"), QgsVectorLayer(sys.argv[2] + "/map.geojson")
print(json.dumps({"algorithms": sorted(a.name() for a in provider.algorithms()),
                  "raster": raster.renderer().type(), "vector": vector.renderer().type()}))
"""


def test_qgis_loads_the_provider_and_opens_maps_in_their_style(tmp_path):
    python = "/usr/bin/python3"
    if not Path(python).exists() or subprocess.run([python, "-c", "import qgis.core"], capture_output=True).returncode:
        pytest.skip("QGIS is not installed (Debian: python3-qgis); its own Python cannot be asked")
    for suffix in (".tif", ".geojson"):
        io.write_style(make(), io.write(make(), tmp_path / f"map{suffix}"))
    done = subprocess.run(
        [python, "-c", SCRIPT, str(PLUGIN), str(tmp_path)],
        capture_output=True, text=True, env={"QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["algorithms"] == ["compare", "fuse", "next", "report"]
    assert (found["raster"], found["vector"]) == ("singlebandpseudocolor", "RuleRenderer")
