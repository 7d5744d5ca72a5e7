"""The sections of a report as HTML. Every text comes from the texts file, every value is escaped."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdfield import __version__
from crowdfield.geography.lengths import length_in_words
from crowdfield.geography.projection import crs_in_words
from crowdfield.pipeline.comparing import SURE
from crowdfield.pipeline.report import check_table, district_table
from crowdfield.pipeline.report.content import LEAST_CHANGE, Content
from crowdfield.pipeline.report.html_table import BAR, NUMBER, TEXT, note, table

if TYPE_CHECKING:
    import pandas as pd

Texts = Mapping[str, str]
MOST_SOURCES = 14
MOST_ROWS = 60  # rows shown of a table that is passed in


def heading(content: Content, texts: Texts) -> str:
    """Title, dates and numbers of reports and sources."""
    state = str(content.heatmap.positive)
    about = content.about
    parts = [texts["made"].format(when=moment(about.get("created")))] if about.get("created") else []
    n, crowd = about.get("reports"), about.get("sources")
    words = "reports_one" if n == 1 else "reports_one_source" if crowd == 1 else "reports"
    parts.append(texts[words].format(reports=_count(n), sources=_count(crowd)))
    parts.append(texts["printed"].format(when=moment(content.written.isoformat())))
    title = content.title or str(about.get("title") or texts["title"].format(state=state))
    return f'<header><h1>{escape(title)}</h1><p class="faint">{escape(" · ".join(parts))}</p></header>'


def keys(content: Content, texts: Texts) -> str:
    """The figures a reader wants first; where all reports say the same there are none, and the reader must know it."""
    if (only := content.about.get("only_label")) is not None:
        said = texts["only_label"].format(label=only, state=content.heatmap.positive)
        return f'<div class="doubt"><p>{escape(said)}</p></div>'
    state, found, area = str(content.heatmap.positive), content.figures(), content.square_km()
    cards = []
    for name, text in (
        ("share", "key_share"),
        ("likely", "key_likely"),
        ("sure", "key_sure"),
        ("unknown", "key_unknown"),
    ):
        below = [texts["of_map"].format(share=percent(found[name]))]
        value = percent(found[name])
        if area is not None:
            value = texts["square_km"].format(area=_figures(found[name] * area))
        label = escape(texts[text].format(state=state))
        cards.append(f"<div><b>{escape(value)}</b><span>{label}</span><span>{escape(below[0])}</span></div>")
    return f'<div class="keys">{"".join(cards)}</div>'


def map_section(content: Content, texts: Texts) -> str:
    """The map."""
    from crowdfield import plot

    state = str(content.heatmap.positive)
    places = np.array([(look.easting, look.northing) for look in content.looks])
    figure = plot.sheet(content.heatmap, title=f"Probability: {state}", looks=places if len(places) else None)
    says = texts["map_says"].format(state=state)
    return _section(texts["map"], _figure(figure, texts["map_alt"].format(state=state), says))


def change_section(content: Content, texts: Texts) -> str:
    """What changed since the last report."""
    if content.change is None or content.since is None:
        return ""
    from crowdfield.plot.changes import change_sheet

    found = content.change.summary()
    reports = found["reports"]
    new = max(int(reports["after"] or 0) - int(reports["before"] or 0), 0)
    when = moment(content.since.metadata.get("created"))
    lines = [texts["changed_since"].format(when=when, new=_count(new))]
    for word in ("rose", "fell"):
        if found[word]:
            area = (
                f" ({texts['square_km'].format(area=_figures(found[f'{word}_km2']))})" if f"{word}_km2" in found else ""
            )
            lines.append(texts[f"changed_{word}"].format(cells=_count(found[word]), area=area, sure=percent(SURE)))
    if not (found["rose"] or found["fell"]):
        lines.append(texts["changed_none"].format(sure=percent(SURE)))
    note = texts["changed_note"].format(least=percent(LEAST_CHANGE))
    picture = _figure(change_sheet(content.change), texts["changed_alt"], note)
    return _section(texts["changed"], _list(lines) + picture)


def districts_section(content: Content, texts: Texts) -> str:
    """The figures of districts: those of totals with a map of them and with what is odd about them."""
    from crowdfield.pipeline.totals import DistrictTotals

    if content.districts is None:
        return ""
    state, found = str(content.heatmap.positive), content.districts
    if isinstance(found, DistrictTotals):
        from crowdfield.pipeline.totals_picture import choropleth

        frame = found.table.copy()
        frame.attrs |= {"unit": found.unit, "level": found.level}
        picture = _figure(choropleth(found), texts["districts_alt"].format(state=state), "")
        remarks = _list([f"{text[0].upper()}{text[1:]}." for text in found.notes]) if found.notes else ""
        return _section(texts["districts"], picture + district_table.html(frame, state, texts) + remarks)
    if not len(found):
        return ""
    if district_table.is_totals(found, state):
        return _section(texts["districts"], district_table.html(found, state, texts))
    return _section(texts["districts"], _frame(found))


def sources_section(content: Content, texts: Texts) -> str:
    """The sources and their accuracy."""
    rows = content.table.sort_values(["accuracy", "reports"], ascending=False)
    left_out = max(len(rows) - MOST_SOURCES, 0)
    if left_out:
        rows = rows.iloc[[*range(MOST_SOURCES // 2), *range(-(MOST_SOURCES // 2), 0)]]
    heads = (("source", TEXT), ("source_reports", NUMBER), ("source_right", NUMBER), ("source_interval", BAR))
    chance = content.table.attrs.get("chance", 1.0 / len(content.heatmap.states))
    meaning = texts["source_note"].format(chance=percent(chance))
    if left_out:
        meaning += " " + texts["source_more"].format(count=_count(left_out))
    shown = table([(texts[name], kind) for name, kind in heads], map(_source_row, rows.itertuples()))
    return _section(texts["sources"], shown + note(meaning))


def looks_section(content: Content, texts: Texts) -> str:
    """Where to look next."""
    if not content.looks:
        return ""
    state = str(content.heatmap.positive)
    now = texts["look_now"].format(state=state)
    heads = [("", TEXT), (texts["look_place"], TEXT), (now, NUMBER), (texts["look_reports"], NUMBER)]
    rows = [
        (
            str(look.rank),
            f"{look.latitude:.5f}, {look.longitude:.5f}",
            f"{percent(look.probability)} ± {100 * look.sd:.0f}",
            f"{look.reports:,}",
        )
        for look in content.looks
    ]
    return _section(texts["looks"], table(heads, rows) + note(texts["looks_note"]))


def checks_section(content: Content, texts: Texts) -> str:
    """The spot checks."""
    if content.checks is None or not len(content.checks):
        return ""
    import pandas as pd

    checks = content.checks
    if not isinstance(checks, pd.DataFrame):
        return _section(texts["checks"], _list([str(line) for line in checks]))
    shown = check_table.html(checks, texts) if check_table.is_assessment(checks) else _frame(checks)
    return _section(texts["checks"], shown)


def unknown_section(content: Content, texts: Texts) -> str:
    """What is not known, and warnings."""
    found, about, state = content.figures(), content.about, str(content.heatmap.positive)
    lines = [texts["unknown_share"].format(share=percent(found["unknown"]))] if found["unknown"] else []
    lines.append(texts["unknown_undecided"].format(share=percent(found["undecided"]), state=state))
    if about.get("outside"):
        lines.append(texts["unknown_outside"].format(count=_count(about["outside"])))
    if rejected := sum(int(read.get("rejected", 0)) for read in about.get("read") or [] if isinstance(read, Mapping)):
        lines.append(texts["unknown_rejected"].format(count=_count(rejected)))
    lines += [str(warning) for warning in about.get("warnings") or []]
    lines.append(texts["unknown_model"])
    return _section(texts["unknown"], f'<div class="doubt">{_list(lines)}</div>')


def provenance_section(content: Content, texts: Texts) -> str:
    """How the report was made."""
    about, grid = content.about, content.heatmap.grid
    reach = sorted({float(value) for value in np.ravel(about.get("lengthscale") or [])})
    rows = [(texts["software"], f"crowdfield {__version__}")]
    for file in about.get("input") or []:
        rows.append((texts["files"], f"{file.get('file')} ({file.get('hash')})"))
    if reach:
        rows.append(
            (texts["lengthscale"], texts["lengthscale_value"].format(value=", ".join(map(length_in_words, reach))))
        )
    where = texts["cells_value"].format(
        columns=_count(grid.columns),
        rows=_count(grid.rows),
        size=length_in_words(grid.cell_width) if grid.crs else _figures(grid.cell_width),
        crs=crs_in_words(grid.crs),
    )
    rows.append((texts["cells"], where))
    shown = ", ".join(f"{name} = {_setting(value)}" for name, value in (about.get("settings") or {}).items())
    rows.append((texts["settings"], shown or texts["no_settings"]))
    body = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in rows)
    return _section(texts["provenance"], f"<dl>{body}</dl>")


def moment(when: Any) -> str:
    """A time without a language: 2026-11-17 04:00 UTC."""
    try:
        return f"{datetime.fromisoformat(str(when)):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return "?"


def percent(share: float) -> str:
    """A share as a percentage, with a digit more for small ones."""
    # Small shares keep a digit: "0 %" of a country may be a town.
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def _figures(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _setting(value: Any) -> str:
    """A setting as it would be written in a settings file, without quotation marks around names."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_setting(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _count(value: Any) -> str:
    return f"{int(value):,}" if value is not None else "?"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _figure(figure: Any, alternative: str, caption: str) -> str:
    """A picture inside the page, with its description and caption."""
    from crowdfield.plot.letters import boxes_allowed, find_letters

    buffer = io.BytesIO()
    find_letters(figure)
    with boxes_allowed():
        figure.savefig(buffer, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    image = f'<img alt="{escape(alternative, quote=True)}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}{below}</figure>"


def _source_row(row: Any) -> tuple[str, str, str, str]:
    """Name, number of reports, accuracy and interval of a source, as cells of a table."""
    star = " *" if getattr(row, "trusted", False) else ""
    low, high, middle = (100 * float(value) for value in (row.accuracy_low, row.accuracy_high, row.accuracy))
    track = f'<i style="left:{low:.1f}%;width:{high - low:.1f}%"></i><em style="left:calc({middle:.1f}% - 1px)"></em>'
    name = f"{escape(str(row.source))}{star}"
    return name, f"{int(row.reports):,}", percent(row.accuracy), f'<span class="track">{track}</span>'


def _frame(frame: pd.DataFrame) -> str:
    """Any table, as it was passed in."""
    numbers = [str(kind).startswith(("int", "float", "Int", "Float")) for kind in frame.dtypes]
    columns = [(str(name), NUMBER if number else TEXT) for name, number in zip(frame.columns, numbers, strict=True)]
    rows = [
        [_cell(value, number) for value, number in zip(row, numbers, strict=True)]
        for row in frame.head(MOST_ROWS).itertuples(index=False)
    ]
    return table(columns, rows) + (note(f"… {len(frame) - MOST_ROWS:,}") if len(frame) > MOST_ROWS else "")


def _cell(value: Any, number: bool) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return ""
    if number:
        return f"{int(value):,}" if float(value).is_integer() and abs(value) >= 1 else f"{value:,.3g}"
    return escape(str(value))
