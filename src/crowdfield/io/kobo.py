"""KoboToolbox and ODK: a geopoint question becomes columns for its latitude, longitude and precision."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from crowdfield.io import columns
from crowdfield.io.delimited import Table
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan

_LATITUDE = re.compile(r"_(?P<kobo>.+)_latitude|(?P<odk>.+)[-:]latitude", re.IGNORECASE)
_SOURCES = ("_submitted_by", "username", "SubmitterName", "SubmitterID", "enumerator", "deviceid", "DeviceID")
_TIMES = ("_submission_time", "SubmissionDate", "end", "start", "today")
_IDS = ("_uuid", "KEY", "meta/instanceID", "instanceID", "_id")
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
_STATUS = ("_validation_status", "ReviewState")


def _pair(header: Sequence[str]) -> tuple[str, str] | None:
    lower = {name.lower(): name for name in header}
    for name in header:
        match = _LATITUDE.fullmatch(name)
        if match:
            longitude = lower.get(re.sub("latitude$", "longitude", name.lower()))
            if longitude is not None:
                return name, longitude
    return None


def plan(table: Table, options: Options) -> Plan:
    header = table.header
    pair = _pair(header)
    given = dict(options.columns)
    beside = (*_FORM, *_ODK) if "SubmissionDate" in header else _FORM
    if pair is not None:
        given["lat"], given["lon"] = given.get("lat") or pair[0], given.get("lon") or pair[1]
    for role, names in (("source", _SOURCES), ("time", _TIMES), ("id", _IDS)):
        given[role] = given.get(role) or next((name for name in names if name in header), None)
    own = [name for name in header if not name.startswith("_")]
    own = [name for name in own if name not in given.values() and name.lower() not in beside]
    if given.get("label") is None:
        given["label"] = columns.question(own, {name: table.column(name) for name in own})
    if given.get("label") is None:
        raise columns.missing_error(["label"], own, table.name, line=1)
    chosen = {role: columns.named(role, name, header, table.name) for role, name in given.items() if name is not None}
    missing = [role for role in ("lat", "lon") if role not in chosen]
    if missing:
        raise columns.missing_error(missing, header, table.name, line=1)
    status = next((name for name in _STATUS if name in header), None)

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        # Older exports write n/a into every cell that was not filled.
        text = [column for column in frame.columns if not pd.api.types.is_numeric_dtype(frame[column].dtype)]
        return frame.assign(**{c: frame[c].astype(object).where(frame[c].astype(object) != "n/a", None) for c in text})

    def refuse(frame: pd.DataFrame) -> Mapping[int, tuple[str, str]]:
        if status is None:
            return {}
        said = frame[status].fillna("").astype(str).str.strip().str.lower()
        bad = said.str.endswith("not_approved") | said.isin(["not approved", "rejected"])
        return {at: (status, f"was marked '{said.iloc[at]}'.") for at in bad.to_numpy(dtype=bool).nonzero()[0].tolist()}

    return options.plan(chosen, prepare=prepare, refuse=refuse, extra_columns=(status,) if status else ())


LAYOUT = Layout("kobo", "a KoboToolbox or ODK export", matches=lambda header: _pair(header) is not None, plan=plan)
