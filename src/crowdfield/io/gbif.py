"""GBIF: occurrences in Darwin Core. Nearly all say that something was found, so what the map is of must be said."""

from __future__ import annotations

from collections.abc import Sequence

from crowdfield.errors import ReportFormatError
from crowdfield.io import columns
from crowdfield.io.column_names import canonical
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan
from crowdfield.io.tabular import Tabular

_PLACES = {"decimallatitude", "decimallongitude"}
_DARWIN_CORE = {"scientificname", "basisofrecord", "occurrenceid", "gbifid", "taxonrank"}
_ROLES = {
    "lat": ("decimallatitude",),
    "lon": ("decimallongitude",),
    "source": ("recordedby", "institutioncode", "datasetkey"),
    "time": ("eventdate",),
    "id": ("gbifid", "occurrenceid"),
    "accuracy": ("coordinateuncertaintyinmeters",),
}
# What a map of occurrences can be of, in the order in which it is offered.
_OFFERED = ("species", "scientificname", "occurrencestatus", "lifestage", "sex")


def _matches(header: Sequence[str]) -> bool:
    names = {canonical(name) for name in header}
    return names >= _PLACES and len(names & _DARWIN_CORE) >= 2


def plan(table: Tabular, options: Options) -> Plan:
    """How to read occurrences; an error that asks for the label if it is in doubt."""
    names = {canonical(name): name for name in reversed(table.header)}
    given = {role: name for role, name in options.columns.items() if name not in (None, columns.NONE)}
    chosen = {role: columns.named(role, str(name), table.header, table.name) for role, name in given.items()}
    for role, known in _ROLES.items():
        if options.given(role) is None and (column := _filled(table, names, known)):
            chosen[role] = column[0]
    if missing := [role for role in ("lat", "lon") if role not in chosen and "place" not in chosen]:
        raise columns.missing_error(missing, table.header, table.name, line=1)
    if "label" not in chosen:
        status = _filled(table, names, ("occurrencestatus",))
        if not status or columns.doubt(status[0], table.column(status[0])) is not None:
            raise _ask(table, names)
        chosen["label"] = status[0]
    return options.plan(chosen)


def _filled(table: Tabular, names: dict[str, str], wanted: Sequence[str]) -> list[str]:
    """Those of the wanted columns that are there and hold something."""
    there = [names[name] for name in wanted if name in names]
    return [column for column in there if any(cell.strip() for cell in table.column(column))]


def _ask(table: Tabular, names: dict[str, str]) -> ReportFormatError:
    offered = _filled(table, names, _OFFERED)
    first = offered[0] if offered else "NAME"
    return ReportFormatError(
        "all records say that something was found and none that it was absent, so it is not clear which column holds "
        f"the labels. It may be {columns.some(offered)}.",
        advice=f"Name it with --label, for example --label {first}.",
        file=table.name,
        line=1,
        choices={"label": offered},
    )


LAYOUT = Layout("gbif", "GBIF occurrences (Darwin Core)", matches=_matches, plan=plan)
