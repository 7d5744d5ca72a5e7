"""Maps as printable pictures: PNG, SVG and PDF of a whole sheet, or the bare colours of the map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdfield import __version__
from crowdfield.data import Heatmap
from crowdfield.errors import InputError
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import description, flat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from crowdfield.data import Reports

PICTURES = (".png", ".svg", ".pdf")

# Text stays text in an SVG or a PDF: it can be searched, copied and translated.
_TEXT_AS_TEXT = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "crowdfield"}


def write_picture(
    heatmap: Heatmap,
    path: str | Path,
    *,
    show: Any = None,
    title: str | None = None,
    size: str | None = None,
    bare: bool = False,
    reports: Reports | None = None,
    looks: Any = None,
) -> None:
    """A map with title, legend, scale bar, north and coast, as PNG, SVG or PDF; or, bare, a PNG of the map alone."""
    path = Path(path)
    suffix = path.suffix.lower()
    if bare:
        if suffix != ".png":
            raise InputError(f"{path.name}: only a .png can be bare; .svg and .pdf are whole sheets.")
        from crowdfield.io.raster import write_bare_png

        return write_bare_png(heatmap, path, show)
    from crowdfield.plot import sheet

    figure = sheet(heatmap, show, title=title, size=size, reports=reports, looks=looks)
    write_figure(figure, path, _about(heatmap, suffix))
    return None


def write_figure(figure: Figure, path: Path, about: dict[str, Any] | None = None) -> None:
    """A figure as PNG, SVG or PDF, by the suffix of the file; about: metadata in the fields that the format has."""
    from matplotlib import rc_context

    from crowdfield.plot.letters import boxes_allowed, find_letters

    suffix = path.suffix.lower()
    find_letters(figure)
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with replacing(path) as temporary, rc_context(_TEXT_AS_TEXT), boxes_allowed():
        figure.savefig(temporary, format=suffix[1:], metadata=dates.get(suffix, {}) if about is None else about)


def _about(heatmap: Heatmap, suffix: str) -> dict[str, Any]:
    """How the map was made, in the fields that each format has."""
    software = f"crowdfield {__version__}"
    if suffix == ".png":
        # Only what Latin 1 can write: a PNG's plain text holds no more.
        return {
            name: text.encode("ascii", "backslashreplace").decode() for name, text in flat(description(heatmap)).items()
        }
    if suffix == ".svg":
        return {"Creator": software, "Date": None}
    return {"Creator": software, "CreationDate": None}
