"""KoboToolbox and ODK, as they export tables and as their servers answer.

In an export a geopoint question becomes columns for its latitude, longitude and precision. Servers give it whole: Kobo
as "lat lon alt acc", ODK Central as GeoJSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

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
_TIMES = ("_submission_time", "SubmissionDate", "__system/submissionDate", "end", "start", "today")
_IDS = ("_uuid", "KEY", "__id", "meta/instanceID", "instanceID", "_id")
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
_ADDED = ("__", "meta/", "formhub/", "column ")  # how the names begin that are no questions


def _pair(header: Sequence[str]) -> tuple[str, str] | None:
    lower = {name.lower(): name for name in header}
    for name in header:
        match = _LATITUDE.fullmatch(name)
        if match:
            longitude = lower.get(re.sub("latitude$", "longitude", name.lower()))
            if longitude is not None:
                return name, longitude
    return None


def _matches(header: Sequence[str]) -> bool:
    return _pair(header) is not None or _CENTRAL in header or len(_SERVED & set(header)) >= 2


def _set_place(given: dict[str, str | None], table: Tabular) -> None:
    """Where the places are, unless the user has said: two columns, else one of whole places."""
    if given.get("place") is not None or (given.get("lat") is not None and given.get("lon") is not None):
        return
    pair = _pair(table.header)
    if pair is None:
        given["place"] = places.find_column(table.header, table.samples())
        return
    given["lat"], given["lon"] = given.get("lat") or pair[0], given.get("lon") or pair[1]
    precision = re.sub("latitude$", "", pair[0], flags=re.IGNORECASE)
    beside = (f"{precision}{word}" for word in ("precision", "Precision", "Accuracy", "accuracy"))
    given["accuracy"] = given.get("accuracy") or next((name for name in beside if name in table.header), None)


def plan(table: Tabular, options: Options) -> Plan:
    header = table.header
    given = dict(options.columns)
    beside = (*_FORM, *_ODK) if "SubmissionDate" in header else _FORM
    _set_place(given, table)
    for role, names in (("source", _SOURCES), ("time", _TIMES), ("id", _IDS)):
        given[role] = given.get(role) or next((name for name in names if name in header), None)
    own = [name for name in header if not name.startswith(("_", *_ADDED))]
    own = [name for name in own if name not in given.values() and name.lower() not in beside]
    if given.get("label") is None:
        given["label"] = columns.question(own, {name: table.column(name) for name in own})
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

    return options.plan(chosen, refuse=refuse, extra_columns=(status,) if status else ())


LAYOUT = Layout("kobo", "a KoboToolbox or ODK export", matches=_matches, plan=plan)
