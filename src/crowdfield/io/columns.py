"""Which column is which: the names people give to latitude, longitude, label, source and time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from crowdfield.errors import ReportFormatError

# In the order they are tried: the plainest name first.
SYNONYMS: dict[str, str] = {
    "lat": """lat latitude latitude_wgs84 lat_dd gps_lat gps_latitude geo_lat location_lat location_latitude point_lat
        decimallatitude decimal_latitude latitud breitengrad y_lat lat_y y point_y northing y_coord coord_y""",
    "lon": """lon long lng longitude longitude_wgs84 lon_dd gps_lon gps_lng gps_long gps_longitude geo_lon geo_lng
        location_lon location_lng location_longitude point_lon decimallongitude decimal_longitude longitud laengengrad
        x_lon lon_x x point_x easting x_coord coord_x""",
    "label": """label labels value class classification category categories type incident_type event_type report_type
        status damage damage_level damage_grade grade severity condition state answer response annotation vote
        observation observed report flooded flood choice tag tags categoria categorie kategorie tipo typ""",
    "source": """source source_id worker worker_id workerid user user_id userid user_name username reporter reporter_id
        annotator annotator_id volunteer volunteer_id observer observer_id contributor contributor_id contact contact_id
        sender sender_id author phone phone_number device device_id deviceid submitted_by enumerator agent who from
        name""",
    "time": """time timestamp datetime date_time date created_at created created_date reported_at report_date
        report_time submitted_at submission_time submitted observed_at event_date event_time when""",
    "id": "id report_id reportid message_id post_id uuid guid event_id record_id classification_id",
    "text": "text message title description comment comments body content notes details",
}
# HXL tags that say what a column is, whatever its name: the tag and the attributes it needs.
TAGS: dict[str, tuple[str, ...]] = {
    "lat": ("#geo+lat",),
    "lon": ("#geo+lon",),
    "label": ("#status", "#severity", "#event+type", "#report+type", "#impact+type", "#cause+type"),
    "source": ("#contact", "#meta+source"),
    "time": ("#date",),
    "id": ("#meta+id", "#id"),
    "text": ("#description",),
}
OPTION = {"lat": "--lat", "lon": "--lon", "label": "--label", "source": "--source", "time": "--time"}


def plain(name: str) -> str:
    """A name as the synonyms are written: lower case, words joined by _."""
    return re.sub(r"[^a-z0-9#+]+", "_", name.strip().lower()).strip("_")


def find(role: str, header: Sequence[str], taken: Sequence[str] = ()) -> str | None:
    """The column that plays a role, by its name."""
    names: dict[str, str] = {}
    for column in header:
        if column not in taken:
            names.setdefault(plain(column), column)
    return next((names[synonym] for synonym in SYNONYMS[role].split() if synonym in names), None)


def named(role: str, name: str, header: Sequence[str], file: str) -> str:
    """The column a user named for a role; letter case is forgiven."""
    if name in header:
        return name
    same = [column for column in header if column.strip().lower() == name.strip().lower()]
    if len(same) == 1:
        return same[0]
    raise ReportFormatError(
        f"there is no column '{name}' to take the {role} from; the columns are {some(header)}.", file=file, line=1
    )


def tagged(role: str, tags: Mapping[str, str], taken: Sequence[str] = ()) -> str | None:
    """The column that plays a role, by its HXL tag."""
    for wanted in TAGS[role]:
        base, *needed = wanted.split("+")
        for column, tag in tags.items():
            own, *attributes = re.split(r"[+\s]+", tag.strip().lower())
            if column not in taken and own == base and set(needed) <= set(attributes):
                return column
    return None


def choose(
    header: Sequence[str],
    file: str,
    given: Mapping[str, str | None],
    *,
    needed: Sequence[str] = ("lat", "lon", "label"),
    tags: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A column for each role: the one the user named, else the one whose name or HXL tag says so."""
    columns = {role: named(role, name, header, file) for role, name in given.items() if name is not None}
    for role in SYNONYMS:
        if role not in columns:
            taken = tuple(columns.values())
            found = find(role, header, taken) or tagged(role, tags or {}, taken)
            if found is not None:
                columns[role] = found
    missing = [role for role in needed if role not in columns]
    if missing:
        raise missing_error(missing, header, file, line=1)
    return columns


_ABOUT = frozenset(
    "damage damaged destroyed collapsed flood flooded flooding fire status severity condition category type".split()  # noqa: SIM905
)


def question(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> str | None:
    """The question of a survey that reports are about: by its name, by a word in it, or by how it is answered.

    The last: the first one with two to twelve different answers, given more than once on average, that are not numbers.
    """
    short = {name: name.rsplit("/", 1)[-1] for name in header}
    found = find("label", list(short.values()))
    if found is not None:
        return next(name for name, own in short.items() if own == found)
    for name, own in short.items():
        if _ABOUT & set(plain(own).split("_")):
            return name
    for name in header:
        answers = [cell.strip() for cell in samples.get(name, ()) if cell.strip().lower() not in ("", "n/a")]
        different = set(answers)
        if 2 <= len(different) <= 12 and len(answers) >= 2 * len(different) and not _numbers(different):
            return name
    return None


def _numbers(cells: set[str]) -> bool:
    return all(re.fullmatch(r"[-+]?\d+([.,:/-]\d+)*", cell) for cell in cells)


def missing_error(
    missing: Sequence[str], header: Sequence[str], file: str, line: int | None = None
) -> ReportFormatError:
    """The error for a file in which no column plays these roles."""
    roles = {"lat": "latitude", "lon": "longitude"}
    what = " and ".join(roles.get(role, role) for role in missing)
    options = " ".join(f"{OPTION[role]} NAME" for role in missing)
    hint = " There is only one column: is the delimiter one of , ; tab or | ?" if len(header) == 1 else ""
    names = " and ".join(f"'{role}'" for role in missing)
    return ReportFormatError(
        f"no column for the {what} among {some(header)}.{hint} A column called {names} would be found.",
        advice=f"Or name yours with {options}.",
        file=file,
        line=line,
    )


def some(names: Sequence[str], most: int = 12) -> str:
    """A few names, for a message."""
    shown = ", ".join(f"'{name[:40]}'" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
