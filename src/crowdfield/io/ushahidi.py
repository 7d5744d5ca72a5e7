"""Ushahidi's exports: posts of version 3 and later, incidents of version 2, and the Haiti export of 2010.

Ushahidi's older exports name no sender, and nobody reports that nothing happened. So, as in the paper, each category is
an information source that says "here it is": the label is the same for all, and what differs is whom to believe.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from crowdfield.io import columns
from crowdfield.io.column_names import canonical
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan
from crowdfield.io.rejects import Advised
from crowdfield.io.tabular import Tabular

REPORTED = "reported"
EMERGENCY = "emergency"

_CODE = re.compile(r"(?:^|\s)(\d[a-z]?)\.\s*")

# The categories that the paper's authors take as sources, in the order in which one is chosen for a report that has
# several: what endangers life first, the particular before the general. Categories that are missing here (2, 4c-4e, 5b,
# 5e, 7g) were not used by them: leaving out reports that have no other gives the paper's 2,723 reports in its box.
HAITI_CATEGORIES = """1a 1b 1c 1d 1 2a 2b 2c 2d 2e 2f 2g 3a 3b 3c 3d 3e 3 6b 4a 4b 4 5a 5c 5d 5 6a 6
    7a 7b 7c 7d 7e 7f 7 8a 8b 6c 6d 8c 8d 8e 8f 8"""
_RANK = {code: rank for rank, code in enumerate(HAITI_CATEGORIES.split())}
_UNCATEGORISED = "No Category"


def _haiti_source(text: str) -> str | None:
    """The one category of a report: "1c. People trapped"; None if the paper uses none of its categories."""
    parts = _CODE.split(text)
    names = {code: words for code, words in zip(parts[1::2], parts[2::2], strict=True)}
    if not names:
        return _UNCATEGORISED if text.strip().casefold() in ("", _UNCATEGORISED.casefold()) else text.strip()
    known = [code for code in names if code in _RANK]
    if not known:
        return None
    code = min(known, key=_RANK.__getitem__)
    # "Personnes prises au piege | People trapped. ": the English half, without the full stop that ends it.
    return f"{code}. {names[code].rpartition('|')[2].strip().rstrip('.').strip()}"


def _haiti(table: Tabular, options: Options) -> Plan:
    name = {canonical(column): column for column in table.header}
    chosen = {"lat": name["lat"], "lon": name["lon"], "id": name["id"], "text": name["title"]}
    chosen |= {"date": name["date"], "clock": name["time"]}
    category, verified = name["category"], name["verified"]
    made = {"source": "<source>", "label": "<label>"}
    _override(chosen, made, table, options)
    if options.positive and "label" in made:
        # Asked for some categories by name: then they are the labels, and all that is known of a sender is the check.
        del made["label"]
        chosen["label"] = category
    by_category = "source" in made and "label" in made

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        if by_category:
            source = _each(frame[category], _haiti_source)
        else:
            source = frame[verified].fillna("").astype(str).str.strip().str.upper().map({"YES": "verified"})
            source = source.fillna("not verified")
        return frame.assign(**_made(source, EMERGENCY))

    def refuse(frame: pd.DataFrame) -> Mapping[int, tuple[str, str]]:
        if not by_category:
            return {}
        unused = frame["<source>"].isna().to_numpy().nonzero()[0]
        reason = Advised("has only categories that studies of them left out.", "Read it too with --source CATEGORY.")
        return {at: (category, reason) for at in unused.tolist()}

    shown = {"source": category if by_category else verified} if "source" in made else {}
    shown |= {"label": f"'{EMERGENCY}' for all"} if "label" in made else {}
    return options.plan(
        chosen, made=made, shown=shown, prepare=prepare, refuse=refuse, extra_columns=(category, verified)
    )


def _version_2(table: Tabular, options: Options) -> Plan:
    name = {canonical(column): column for column in table.header}
    chosen = {role: name[key] for role, key in (("lat", "latitude"), ("lon", "longitude")) if key in name}
    missing = [role for role in ("lat", "lon") if role not in chosen and options.given(role) is None]
    if missing:
        raise columns.missing_error(missing, table.header, table.name, line=1)
    for role, keys in (
        ("id", ("#", "serial")),
        ("time", ("incident_date",)),
        ("text", ("description", "incident_title")),
    ):
        found = next((name[key] for key in keys if key in name), None)
        if found is not None:
            chosen[role] = found
    category = name.get("category")
    made = {"source": "<source>", "label": "<label>"}
    _override(chosen, made, table, options)
    if options.positive and "label" in made and category is not None:
        del made["label"]
        chosen["label"] = category
    verified = name.get("verified")
    by_category = "source" in made and "label" in made and category is not None

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.assign(**{c: _each(frame[c], html.unescape) for c in _text_columns(frame, chosen, category)})
        if by_category and category is not None:
            source = _each(frame[category], _first_item)
        elif verified is not None:
            source = frame[verified].fillna("").astype(str).str.strip().str.upper().map({"YES": "verified"})
            source = source.fillna("not verified")
        else:
            source = pd.Series("all", index=frame.index)
        return frame.assign(**_made(source, REPORTED))

    extra = tuple(column for column in (category, verified) if column is not None)
    shown = {"source": (category if by_category else verified) or "nowhere"} if "source" in made else {}
    shown |= {"label": f"'{REPORTED}' for all"} if "label" in made else {}
    return options.plan(chosen, made=made, shown=shown, prepare=prepare, extra_columns=extra)


_BASE_3 = (
    "post id|survey|post status|created (utc)|updated (utc)|post date (utc)|contact id|contact|data source id|source|"
    "unstructured description"
)


_AGAIN = re.compile(r" \(\d+\)$")  # what Table adds to the second column of a name


def _version_3(table: Tabular, options: Options) -> Plan:
    name = {column.strip().lower(): column for column in table.header}
    chosen = {"id": name["post id"]}
    for role, key in (("time", "post date (utc)"), ("text", "unstructured description")):
        if key in name:
            chosen[role] = name[key]
    if "time" not in chosen and "created (utc)" in name:
        chosen["time"] = name["created (utc)"]
    contact, origin = name.get("contact id") or name.get("contact"), name.get("source")
    made = {"source": "<source>", "label": "<label>", "lat": "<lat>", "lon": "<lon>"}
    _override(chosen, made, table, options)

    # An export of several surveys has a place and an answer for each, often under the same name; a post fills its own.
    latitudes = [c for c in table.header if ".lat" in c.lower() and c.lower().replace(".lat", ".lon") in name]
    longitudes = [name[c.lower().replace(".lat", ".lon")] for c in latitudes]
    missing = [role for role in ("lat", "lon") if role not in chosen and not latitudes]
    if missing:
        raise columns.missing_error(missing, table.header, table.name, line=1)
    base = _BASE_3.split("|")
    asked = [c for c in table.header if c.strip().lower() not in base and c not in latitudes and c not in longitudes]
    # Of a list the first item speaks for the post, so it is the first items that must differ.
    said_first = {c: [cell and _first_item(cell) for cell in table.column(c)] for c in asked}
    label = chosen.pop("label", None) or columns.question(asked, said_first) or name["survey"]
    made["label"] = "<label>"
    labels = [label, *(c for c in asked if c != label and _AGAIN.sub("", c) == _AGAIN.sub("", label))]

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        source = frame[origin].fillna("").astype(str).str.strip() if origin else pd.Series("", index=frame.index)
        if contact:
            who = frame[contact].fillna("").astype(str).str.strip()
            source = source.where(who == "", "contact " + who)
        said = _first_filled(frame, labels)
        # With --positive any item of a list may be the one; else the first speaks for the post.
        said = said if options.positive else _each(said, lambda text: text and _first_item(text))
        places = {"<lat>": latitudes, "<lon>": longitudes}
        found = {column: _first_filled(frame, places[column]) for column in made.values() if column in places}
        return frame.assign(**_made(source, said), **found)

    extra = [*labels, contact, origin, *latitudes, *longitudes]
    shown = {"label": label}
    if "source" in made:
        shown["source"] = " or ".join(column for column in (contact, origin) if column) or "nowhere"
    shown |= {role: many[0] for role, many in (("lat", latitudes), ("lon", longitudes)) if role in made}
    wanted = tuple(dict.fromkeys(column for column in extra if column))
    return options.plan(chosen, made=made, shown=shown, prepare=prepare, extra_columns=wanted)


def _first_filled(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series[Any]:
    """In each row the first of these columns that is not empty."""
    cells = frame[list(names)].astype(object).where(frame[list(names)].notna(), None)
    return cells.bfill(axis=1).iloc[:, 0].fillna("").astype(str)


def _override(chosen: dict[str, str], made: dict[str, str], table: Tabular, options: Options) -> None:
    for role, given in options.columns.items():
        if given is not None:
            chosen[role] = columns.named(role, given, table.header, table.name)
            made.pop(role, None)
            if role == "time":
                chosen.pop("date", None)
                chosen.pop("clock", None)


def _text_columns(frame: pd.DataFrame, chosen: Mapping[str, str], category: str | None) -> list[str]:
    wanted = {chosen.get("text"), chosen.get("label"), chosen.get("source"), category}
    return [column for column in frame.columns if column in wanted]


def _made(source: Any, label: Any) -> dict[str, Any]:
    return {"<source>": source, "<label>": label}


def _each(values: pd.Series[Any], change: Callable[[str], str | None]) -> pd.Series[Any]:
    """A function of each text, called once for each different one."""
    text = values.astype(object).fillna("").astype(str)
    return text.map({value: change(value) for value in text.unique().tolist()})


def _first_item(text: str) -> str:
    return next((item.strip() for item in text.split(",") if item.strip()), "uncategorised")


def _has(*wanted: str) -> Callable[[Sequence[str]], bool]:
    def matches(header: Sequence[str]) -> bool:
        names = {column.strip().lower() for column in header}
        return all(name in names for name in wanted)

    return matches


_ONE_LABEL = "every report says that something is there; nothing in the file says where nothing is"

HAITI_2010 = Layout(
    "haiti",
    "the Ushahidi export of Haiti 2010",
    matches=_has("id", "category", "date", "time", "lat", "lon", "title", "verified"),
    plan=_haiti,
    labels=(f"no {EMERGENCY}", EMERGENCY),
    notes=("each report is given to one of its categories, and each category is a source", _ONE_LABEL),
)
VERSION_2 = Layout(
    "ushahidi2",
    "an Ushahidi 2 export",
    matches=_has("incident title", "incident date"),
    plan=_version_2,
    labels=(f"not {REPORTED}", REPORTED),
    notes=("the first category of each report is its source", _ONE_LABEL),
)
VERSION_3 = Layout(
    "ushahidi",
    "an Ushahidi 3 (or later) export",
    matches=_has("post id", "survey", "post status"),
    plan=_version_3,
)
