"""The report as one file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from crowdfield.errors import InputError
from crowdfield.io.atomic import replacing
from crowdfield.io.toml_files import read_toml
from crowdfield.pipeline.fusing import Fused
from crowdfield.pipeline.report import sections
from crowdfield.pipeline.report.content import Content, gather
from crowdfield.pipeline.report.pdf import print_pdf
from crowdfield.plot.words import spoken

if TYPE_CHECKING:
    import pandas as pd

    from crowdfield.data import Heatmap
    from crowdfield.pipeline.looks import Look
    from crowdfield.pipeline.totals import DistrictTotals

FORMATS = (".html", ".pdf")
# Nothing may be fetched, and nothing runs: the page has no script.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(
    fused: Fused,
    path: str | Path,
    *,
    texts: Mapping[str, str] | None = None,
    title: str | None = None,
    since: Heatmap | None = None,
    districts: DistrictTotals | pd.DataFrame | None = None,
    checks: pd.DataFrame | Sequence[str] | None = None,
    looks: Sequence[Look] | None = None,
    written: datetime | None = None,
) -> Path:
    """Write a situation report as one page: map, changes, sources, places to look at, what is not known.

    Parameters
    ----------
    fused : Fused
        The run.
    path : path
        The file, .html or .pdf. For .pdf Chromium or Chrome must be installed.
    texts : mapping, optional
        The words of the report in another language; English by default (docs/report.md).
    title : str, optional
        Of the page.
    since : Heatmap, optional
        An earlier map, to show what has changed.
    districts : DistrictTotals or DataFrame, optional
        Totals of districts, or a table of them.
    checks : DataFrame or sequence of str, optional
        The result of spot checks, shown as it is.
    looks : sequence of Look, optional
        Places to look at next; computed if they are not given.
    written : datetime, optional
        The time of writing; now by default.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> cf.pipeline.write_report(fused, "report.html", title="Flood, 06:00").name
    'report.html'
    """
    path = Path(path)
    check_report_path(path)
    content = gather(fused, title=title, since=since, districts=districts, checks=checks, looks=looks, written=written)
    text = page(content, texts)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".pdf":
            print_pdf(text, temporary)
        else:
            temporary.write_text(text, encoding="utf-8")
    return path


def check_report_path(path: Path) -> None:
    """Raise an error if the report cannot be written, before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path.name}: a report is written as .html or .pdf.")
    if path.suffix.lower() == ".pdf":
        from crowdfield.pipeline.report.pdf import browser

        browser()


def page(content: Content, texts: Mapping[str, str] | None = None) -> str:
    """The whole page, self-contained: no script, no request."""
    words = dict(texts or read_texts())
    with spoken(words):
        return _page(content, words)


def _page(content: Content, words: Mapping[str, str]) -> str:
    css = files("crowdfield.pipeline.report").joinpath("page.css").read_text(encoding="utf-8")
    title = content.title or words["title"].format(state=content.heatmap.positive)
    body = [
        sections.heading(content, words),
        sections.keys(content, words),
        sections.map_section(content, words),
        sections.change_section(content, words),
        sections.districts_section(content, words),
        sections.looks_section(content, words),
        sections.sources_section(content, words),
        sections.checks_section(content, words),
        sections.unknown_section(content, words),
        sections.provenance_section(content, words),
    ]
    return (
        f'<!doctype html>\n<html lang="{escape(words["language"])}" dir="{escape(words["direction"])}">\n<head>\n'
        f'<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def read_texts(path: str | Path | None = None) -> dict[str, str]:
    """The words of a report: English, or those of a translated file, which must have the same names."""
    english = tomllib.loads(files("crowdfield.pipeline.report").joinpath("text.en.toml").read_text(encoding="utf-8"))
    if path is None:
        return english
    found = read_toml(path)
    missing = [name for name in english if not isinstance(found.get(name), str)]
    strange = [name for name in found if name not in english]
    if missing or strange:
        what = f"lacks the text {missing[0]!r}" if missing else f"has a text {strange[0]!r} that no report uses"
        raise InputError(f"{path}: {what}.")
    return found
