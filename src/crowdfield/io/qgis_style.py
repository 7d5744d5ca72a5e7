"""Style files for QGIS (.qml), beside a map of the same name: it opens looking as it does everywhere else.

A raster shows band 1, the probability of the state in question; a vector map the column of the same name. Colours are
those of the printed map. One file holds both, since QGIS looks for it by name alone: `map.tif` and `map.gpkg` share
`map.qml`. A raster's style cannot mix in the grey of "unknown"; that of a vector map has a rule for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import numpy as np

from crowdfield.data import Heatmap
from crowdfield.data.knowledge import joint_sd
from crowdfield.io.atomic import replacing

RASTERS = (".tif", ".tiff", ".nc")
VECTORS = (".geojson", ".json", ".gpkg", ".parquet", ".kml")
# Oldest QGIS whose files look like this.
VERSION = "3.16.0"
STOPS = 11  # colours of a ramp: QGIS interpolates between them
CLASSES = 10  # of a vector map: a tenth of probability each


SEE_THROUGH = "0.85"  # opacity of a layer, so that a background map can be seen through it
STROKES = "#a9a9ae"  # colour of the hatching of what nobody knows


@dataclass(frozen=True)
class Rule:
    """Which features of a vector map are drawn how."""

    where: str  # an expression of QGIS
    label: str
    colour: str
    fill: str = "solid"
    # By default the colour of the fill: without an outline, the edges of neighbouring cells would show as pale lines.
    outline: str | None = None


def write_style(heatmap: Heatmap, path: str | Path) -> Path | None:
    """Write a QGIS style beside a map that was written, so that QGIS shows it in the colours of the printed map.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    path : path
        The file that it was written to, for example "flood.tif"; the style is then "flood.qml".

    Returns
    -------
    pathlib.Path or None
        The style; None, and no file, for formats that QGIS does not style.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> path = cf.io.write(fused.heatmap, "flood.geojson")
    >>> cf.io.write_style(fused.heatmap, path).name
    'flood.qml'
    """
    from crowdfield.plot import scale_of

    values = np.linspace(0.0, 1.0, STOPS)
    labels = [f"{value:.0%} {heatmap.positive}" if value in (0.0, 1.0) else f"{value:.0%}" for value in values]
    return _write(path, values, _hex(scale_of(heatmap)(values)), labels, _rules(heatmap))


def write_change_style(path: str | Path) -> Path | None:
    """The style of a map of changes: band 1, or the column `change`, from −1 (purple) to 1 (orange)."""
    from crowdfield.plot.changes import DIFFERENCE

    values = np.linspace(-1.0, 1.0, STOPS)
    shades = _hex(DIFFERENCE((values + 1) / 2))
    rules = [
        Rule("\"verdict\" = 'unknown'", "nobody knows", STROKES, "b_diagonal", "none"),
        Rule("\"verdict\" = 'unchanged'", "no change detected", "#ffffff"),
    ]
    for number, (low, high) in enumerate(pairwise(values)):
        to = "<=" if high == values[-1] else "<"
        where = f'"verdict" IN (\'rose\', \'fell\') AND "change" >= {low:g} AND "change" {to} {high:g}'
        rules.append(Rule(where, f"{100 * low:+.0f} to {100 * high:+.0f} %", shades[number + (low >= 0)]))
    return _write(path, values, shades, [f"{100 * value:+.0f} %" for value in values], rules)


def write_share_style(path: str | Path, state: str, shades: Any) -> Path | None:
    """The style of totals of districts: the column `share_STATE`, from 0 to 1, in colours that `shades` gives."""
    from crowdfield.plot import UNKNOWN_SHARE

    column, border = _column("share", state), "#55555a"
    nobody = f'"unknown_share" > {UNKNOWN_SHARE:g}'
    rules = [
        Rule(f"{column} IS NULL", "not on the map", "#ffffff", outline=border),
        Rule(f"{column} IS NOT NULL AND {nobody}", "nobody knows", STROKES, "b_diagonal", border),
    ]
    edges = np.linspace(0.0, 1.0, CLASSES + 1)
    for low, high, shade in zip(edges[:-1], edges[1:], _hex(shades((edges[:-1] + edges[1:]) / 2)), strict=True):
        to = "<=" if high == 1.0 else "<"
        where = f"NOT ({nobody}) AND {column} >= {low:g} AND {column} {to} {high:g}"
        rules.append(Rule(where, f"{low:.0%} to {high:.0%} {state}", shade, outline=border))
    values = np.linspace(0.0, 1.0, STOPS)
    return _write(path, values, _hex(shades(values)), [f"{value:.0%}" for value in values], rules)


def _write(path: str | Path, values: Any, shades: list[str], labels: list[str], rules: list[Rule]) -> Path | None:
    path = Path(path)
    if path.suffix.lower() not in (*RASTERS, *VECTORS):
        return None
    root = xml.Element("qgis", version=VERSION, styleCategories="Symbology", hasScaleBasedVisibilityFlag="0")
    _raster(root, values, shades, labels)
    _vector(root, rules)
    xml.indent(root)
    target = path.with_suffix(".qml")
    with replacing(target) as temporary:
        text = xml.tostring(root, encoding="unicode")
        temporary.write_text(f"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n{text}\n", encoding="utf-8")
    return target


def _raster(root: xml.Element, values: Any, shades: list[str], labels: list[str]) -> None:
    pipe = xml.SubElement(root, "pipe")
    low, high = f"{values[0]:g}", f"{values[-1]:g}"
    render = xml.SubElement(
        pipe, "rasterrenderer", type="singlebandpseudocolor", band="1", opacity=SEE_THROUGH, alphaBand="-1",
        nodataColor="", classificationMin=low, classificationMax=high,
    )  # fmt: skip
    xml.SubElement(render, "rasterTransparency")
    shader = xml.SubElement(xml.SubElement(render, "rastershader"), "colorrampshader", {
        "colorRampType": "INTERPOLATED", "classificationMode": "2", "clip": "0", "minimumValue": low,
        "maximumValue": high, "labelPrecision": "2",
    })  # fmt: skip
    for value, shade, label in zip(values, shades, labels, strict=True):
        xml.SubElement(shader, "item", value=f"{value:g}", color=shade, alpha="255", label=label)
    xml.SubElement(pipe, "brightnesscontrast", brightness="0", contrast="0", gamma="1")
    xml.SubElement(pipe, "huesaturation", saturation="0", grayscaleMode="0", colorizeOn="0")
    xml.SubElement(pipe, "rasterresampler", maxOversampling="2")
    xml.SubElement(root, "blendMode").text = "0"


def _vector(root: xml.Element, rules: list[Rule]) -> None:
    render = xml.SubElement(root, "renderer-v2", type="RuleRenderer", symbollevels="0", enableorderby="0")
    listed, symbols = xml.SubElement(render, "rules", key="all"), xml.SubElement(render, "symbols")
    for number, rule in enumerate(rules):
        xml.SubElement(listed, "rule", key=f"r{number}", symbol=str(number), filter=rule.where, label=rule.label)
        _symbol(symbols, str(number), rule)
    xml.SubElement(root, "layerOpacity").text = SEE_THROUGH


def _rules(heatmap: Heatmap) -> list[Rule]:
    """Grey where nobody knows, else a colour per tenth of the probability."""
    from crowdfield.plot import UNKNOWN_SHARE, ignorance, scale_of

    column = _column("probability", heatmap.positive)
    deviation = _doubt(heatmap, [_column("sd", state) for state in heatmap.states])
    prior = np.array([ignorance(heatmap, state) for state in heatmap.states])
    # The same formula at the prior: `doubt` is the share of it.
    steps = range(1, len(prior))
    graded = heatmap.grades is not None
    most = sum(joint_sd(prior, k) for k in steps) if graded else np.sqrt((prior**2).sum())
    limit = UNKNOWN_SHARE * float(most)
    edges = np.linspace(0.0, 1.0, CLASSES + 1)
    rules = [Rule(f"{deviation} > {limit:.6g}", "nobody knows", STROKES, "b_diagonal", "none")]
    for low, high, shade in zip(
        edges[:-1], edges[1:], _hex(scale_of(heatmap)((edges[:-1] + edges[1:]) / 2)), strict=True
    ):
        above = f"{column} >= {low:g}" if low > 0 else "TRUE"
        below = f"{column} < {high:g}" if high < 1 else "TRUE"
        words = f"{low:.0%} to {high:.0%} {heatmap.positive}"
        rules.append(Rule(f"{deviation} <= {limit:.6g} AND {above} AND {below}", words, shade))
    return rules


def _doubt(heatmap: Heatmap, columns: list[str]) -> str:
    """`crowdfield.data.knowledge.doubt`, not yet divided by that of the prior, as an expression of QGIS."""
    squares = [f"{column}^2" for column in columns]
    if heatmap.grades is None:
        return f"sqrt({' + '.join(squares)})"
    # A side of one grade counts by itself (`knowledge.joint_sd`).
    between = range(2, len(squares) - 1)
    sums = (f"sqrt(min({' + '.join(squares[k:])}, {' + '.join(squares[:k])}))" for k in between)
    return " + ".join([columns[0], *sums, columns[-1]])


def _column(layer: str, state: Any) -> str:
    # A quote inside a column's name is doubled, as in SQL.
    name = str(state).replace('"', '""')
    return f'"{layer}_{name}"'


def _symbol(parent: xml.Element, name: str, rule: Rule) -> None:
    symbol = xml.SubElement(parent, "symbol", type="fill", name=name, alpha="1", clip_to_extent="1", force_rhr="0")
    layer = xml.SubElement(symbol, "layer", {"class": "SimpleFill", "pass": "0", "locked": "0", "enabled": "1"})
    edge = rule.colour if rule.outline is None else rule.outline
    options: dict[str, Any] = {
        "color": _rgba(rule.colour), "style": rule.fill, "outline_style": "no" if edge == "none" else "solid",
        "outline_color": "0,0,0,0" if edge == "none" else _rgba(edge), "outline_width": "0.1",
        "outline_width_unit": "MM", "joinstyle": "bevel", "offset": "0,0",
    }  # fmt: skip
    values = xml.SubElement(layer, "Option", type="Map")
    for key, value in options.items():
        xml.SubElement(layer, "prop", k=key, v=value)
        xml.SubElement(values, "Option", name=key, type="QString", value=value)


def _rgba(shade: str) -> str:
    red, green, blue = (int(shade[at : at + 2], 16) for at in (1, 3, 5))
    return f"{red},{green},{blue},255"


def _hex(shades: Any) -> list[str]:
    parts = np.round(np.asarray(shades)[:, :3] * 255).astype(int)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in parts.tolist()]
