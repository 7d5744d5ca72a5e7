"""KoboToolbox and ODK, as they export tables and as their servers answer.

In an export a geopoint question becomes columns for its latitude, longitude and precision. Servers give it whole: Kobo
as "lat lon alt acc", ODK Central as GeoJSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from crowdfield.errors import ReportFormatError
from crowdfield.io import columns, places
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan
from crowdfield.io.tabular import Tabular

_LATITUDE = re.compile(r"_(?P<kobo>.+)_latitude|(?P<odk>.+)[-:]latitude", re.IGNORECASE)
_SOURCES = (
    "_submitted_by",
    "username",
    "SubmitterName",
    "__system/submitterName",
    "SubmitterID",
    "__system/submitterId",
    "enumerator",
    "deviceid",
    "DeviceID",
)
_TIMES = (
    "_submission_time",
    "SubmissionDate",
    "__system/submissionDate",
    "*meta-submission-date*",
    "end",
    "start",
    "today",
)
_IDS = ("_uuid", "KEY", "__id", "*meta-instance-id*", "meta/instanceID", "instanceID", "_id")
# What their servers put beside the questions of a form; "meta/instanceID" alone is in the exports of both.
_SERVED = frozenset({"_submission_time", "_geolocation", "meta/instanceID", "SubmissionDate"})
_CENTRAL = "__system/submissionDate"  # in every answer of ODK Central
_FORM = (
    "start",
    "end",
    "today",
    "imei",
    "deviceid",
    "phonenumber",
    "simserial",
    "subscriberid",
    "username",
    "name",
    "photo",
)
# What ODK Central adds to every form: Status is that of the upload, and says nothing about the ground. In a KoboToolbox
# form such a name is a question.
_ODK = """status reviewstate submitterid submittername attachmentspresent attachmentsexpected devicemanufacturer
    devicemodel formversion edits parent_key""".split()  # noqa: SIM905
_STATUS = ("_validation_status", "_validation_status/uid", "ReviewState", "__system/reviewState")
_ADDED = ("__", "meta/", "meta:", "*meta-", "formhub/", "column ")  # prefixes of columns that are not questions


def _pairs(header: Sequence[str]) -> list[tuple[str, str]]:
    """Latitude and longitude of every geopoint question."""
    lower = {name.lower(): name for name in header}
    latitudes = [name for name in header if _LATITUDE.fullmatch(name)]
    longitudes = [lower.get(re.sub("latitude$", "longitude", name.lower())) for name in latitudes]
    return [(lat, lon) for lat, lon in zip(latitudes, longitudes, strict=True) if lon is not None]


def _matches(header: Sequence[str]) -> bool:
    return bool(_pairs(header)) or _CENTRAL in header or len(_SERVED & set(header)) >= 2


def _set_place(given: dict[str, str | None], table: Tabular) -> tuple[str, ...]:
    """Set the columns of places, unless the user named them: two columns, else one with whole places; returns notes."""
    if given.get("place") is not None or (given.get("lat") is not None and given.get("lon") is not None):
        return ()
    filled = [pair for pair in _pairs(table.header) if any(cell.strip() for cell in table.column(pair[0]))]
    pairs = filled or _pairs(table.header)
    if not pairs:
        given["place"] = places.find_column(table.header, table.samples())
        return ()
    pair, *others = pairs
    given["lat"], given["lon"] = given.get("lat") or pair[0], given.get("lon") or pair[1]
    precision = re.sub("latitude$", "", pair[0], flags=re.IGNORECASE)
    beside = (f"{precision}{word}" for word in ("precision", "Precision", "Accuracy", "accuracy"))
    given["accuracy"] = given.get("accuracy") or next((name for name in beside if name in table.header), None)
    return tuple(
        f"the places could also be those of '{lat}'; --lat '{lat}' --lon '{lon}' reads them" for lat, lon in others
    )


def plan(table: Tabular, options: Options) -> Plan:
    """How to read an export of a form, or the answer of its server."""
    header = table.header
    given = dict(options.columns)
    beside = (*_FORM, *_ODK) if "SubmissionDate" in header else _FORM
    notes = _set_place(given, table)
    for role, names in (("source", _SOURCES), ("time", _TIMES), ("id", _IDS)):
        given[role] = given.get(role) or next((name for name in names if name in header), None)
    own = [name for name in header if not name.startswith(("_", *_ADDED))]
    own = [name for name in own if name not in given.values() and name.lower() not in beside]
    if given.get("label") is None:
        given["label"] = columns.question(own, {name: table.column(name) for name in own})
    if given.get("label") is None and (several := columns.multiple_choices(own)):
        raise _several_answers(several, table.name)
    if given.get("label") is None:
        raise columns.missing_error(["label"], own, table.name, line=1)
    chosen = {
        role: columns.named(role, name, header, table.name)
        for role, name in given.items()
        if name not in (None, columns.NONE)
    }
    missing = [role for role in ("lat", "lon") if role not in chosen and "place" not in chosen]
    if missing:
        raise columns.missing_error(missing, header, table.name, line=1)
    status = next((name for name in _STATUS if name in header), None)

    def refuse(frame: pd.DataFrame) -> Mapping[int, tuple[str, str]]:
        if status is None:
            return {}
        said = frame[status].fillna("").astype(str).str.strip().str.lower()
        bad = said.str.contains("not_approved") | said.isin(["not approved", "rejected"])
        return {at: (status, f"was marked '{said.iloc[at]}'.") for at in bad.to_numpy(dtype=bool).nonzero()[0].tolist()}

    return options.plan(chosen, refuse=refuse, extra_columns=(status,) if status else (), notes=notes)


def _several_answers(several: Mapping[str, Sequence[str]], file: str) -> ReportFormatError:
    question, answers = next(iter(several.items()))
    return ReportFormatError(
        f"'{question}' allows several answers at once, so it is not clear which of them is the label.",
        advice=f"Name one answer as the label, for example --label '{answers[0]}': 1 where it was given, 0 elsewhere.",
        file=file,
        line=1,
    )


LAYOUT = Layout("kobo", "a KoboToolbox or ODK export", matches=_matches, plan=plan)
