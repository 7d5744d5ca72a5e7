"""Which column is which: the names people give to latitude, longitude, label, source and time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from crowdfield.errors import ReportFormatError

# In the order they are tried: the plainest name first.
SYNONYMS: dict[str, str] = {
    "lat": """lat latitude latitude_wgs84 lat_dd gps_lat gps_latitude geo_lat location_lat location_latitude point_lat
        decimallatitude decimal_latitude latitud latitudine breitengrad y_lat lat_y y point_y northing y_coord
        coord_y""",
    "lon": """lon long lng longitude longitude_wgs84 lon_dd gps_lon gps_lng gps_long gps_longitude geo_lon geo_lng
        location_lon location_lng location_longitude point_lon decimallongitude decimal_longitude longitud longitudine
        laengengrad langengrad x_lon lon_x x point_x easting x_coord coord_x""",
    "label": """label labels value class classification category categories type incident_type event_type report_type
        status damage damage_level damage_grade grade severity condition state answer response annotation vote
        observation observed report flooded flood choice tag tags categoria categorie kategorie tipo typ estado etat
        zustand grading damage_gra damage_class damage_state damage_category building_damage presence""",
    "source": """source source_id worker worker_id workerid user user_id userid user_name username reporter reporter_id
        annotator annotator_id volunteer volunteer_id observer observer_id contributor contributor_id contact contact_id
        sender sender_id author phone phone_number device device_id deviceid submitted_by enumerator agent who from
        name recorded_by recordedby observed_by reported_by created_by usuario fuente utilisateur quelle""",
    "time": """time timestamp datetime date_time date created_at created created_date reported_at report_date
        report_time submitted_at submission_time submitted observed_at event_date event_time when incident_date
        eventdate ts observed_on observation_date survey_date submission_date submissiondate updated_at fecha datum""",
    "id": "id report_id reportid message_id post_id uuid guid event_id record_id classification_id",
    "text": "text message title description comment comments body content notes details",
    "accuracy": """accuracy_m accuracy_in_m accuracy_meters accuracy_metres gps_accuracy gps_precision
        horizontal_accuracy location_accuracy coordinateuncertaintyinmeters coordinate_uncertainty_in_meters
        positional_accuracy uncertainty_m precision_m accuracy""",
    "count": """count nresp n_reports num_reports number_of_reports report_count reports_count seen_by n_responses
        num_responses number_of_responses""",
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
OPTION = {
    "lat": "--lat",
    "lon": "--lon",
    "label": "--label",
    "source": "--source",
    "time": "--time",
    "place": "--place",
    "accuracy": "--accuracy",
    "count": "--count",
    "score": "--score",
    "reading": "--reading",
}
NONE = "none"  # given for a column that could be missed, it says that no column is to be taken
# Cells that say that nothing is known, in any letter case. "None" is not among them: it may be what a source saw.
MISSING = frozenset({"na", "n/a", "#n/a", "n.a.", "-", "--", "–", "null", "nan", "#null!"})


def canonical(name: str) -> str:
    """A name in the form that the synonyms above have: lower case, without accents, words joined by _."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.strip().lower()) if not unicodedata.combining(c))
    return re.sub(r"[^a-z0-9#+]+", "_", plain).strip("_")


def unique(cells: Sequence[str]) -> list[str]:
    """Header names, each once: a second "lat" becomes "lat (2)", a cell without a name "column 3"."""
    names: list[str] = []
    for i, cell in enumerate(cells, start=1):
        name = base = cell.strip().lstrip("\ufeff") or f"column {i}"
        again = 2
        while name in names:
            name, again = f"{base} ({again})", again + 1
        names.append(name)
    return names


def find(role: str, header: Sequence[str], taken: Sequence[str] = ()) -> str | None:
    """The column that plays a role, by its name."""
    names = _by_name(role, header, taken)
    return next((names[synonym] for synonym in SYNONYMS[role].split() if synonym in names), None)


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row names both coordinates, so that it can only be the names of the columns."""
    names = {canonical(cell) for cell in cells if len(cell.strip()) > 1}  # "x" and "y" may be anything
    return all(names & set(SYNONYMS[role].split()) for role in ("lat", "lon"))


# Roles that a column of nested records ("answer/label") plays by the last part of its name. Not the id: that of a user
# would make all reports of the user one.
_NESTED = ("lat", "lon", "label", "source", "time")


def _by_name(role: str, header: Sequence[str], taken: Sequence[str]) -> dict[str, str]:
    """Columns by the form of their names; whole names go before last parts."""
    names: dict[str, str] = {}
    free = [column for column in header if column not in taken]
    for column in free:
        names.setdefault(canonical(column), column)
    if role in _NESTED:
        for column in free:
            names.setdefault(canonical(column.rsplit("/", 1)[-1]), column)
    return names


def named(role: str, name: str, header: Sequence[str], file: str) -> str:
    """The column a user named for a role; letter case is forgiven."""
    if name in header:
        return name
    same = [column for column in header if column.strip().lower() == name.strip().lower()]
    if len(same) == 1:
        return same[0]
    close = get_close_matches(name.strip().lower(), [column.lower() for column in header], 1, 0.75)
    meant = next((f" Did you mean '{column}'?" for column in header if close and column.lower() == close[0]), "")
    raise ReportFormatError(
        f"there is no column '{name}' to take the {role} from; the columns are {some(header)}.{meant}",
        file=file,
        line=1,
    )


def tagged(role: str, tags: Mapping[str, str], taken: Sequence[str] = ()) -> str | None:
    """The column that plays a role, by its HXL tag."""
    for wanted in TAGS.get(role, ()):
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
    samples: Mapping[str, Sequence[str]],
    *,
    needed: Sequence[str] = ("lat", "lon", "label"),
    tags: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A column for each role: the one the user named, else the one whose name or HXL tag says so.

    ``samples`` are the first cells of each column: a name that could mean several things is believed only where they
    agree with it.
    """
    columns = {
        role: named(role, name, header, file)
        for role, name in given.items()
        if name is not None and not (name == NONE and role in _OPTIONAL and NONE not in header)
    }
    for role in SYNONYMS:
        if role not in columns and given.get(role) is None and role not in ("label", "count"):
            taken = tuple(columns.values())
            found = find(role, header, taken) or tagged(role, tags or {}, taken)
            if found is not None and _plausible(role, found, samples.get(found, ())):
                columns[role] = found
    if "place" not in columns and not {"lat", "lon"} <= columns.keys() and {"lat", "lon"} <= set(needed):
        from crowdfield.io.places import find_column

        place = find_column([name for name in header if name not in columns.values()], samples)
        if place is not None and given.get("lat") is None and given.get("lon") is None:
            columns["place"] = place
    if "place" in columns:
        columns.pop("lat", None)
        columns.pop("lon", None)
        needed = [role for role in needed if role not in ("lat", "lon")]
    if "label" not in columns:
        label = _label(header, file, samples, tuple(columns.values()), tags or {})
        if label is not None:
            columns["label"] = label
    missing = [role for role in needed if role not in columns]
    if missing:
        raise missing_error(missing, header, file, line=1)
    if "count" in given and given["count"] is None:
        _ask_about_counts(header, file, samples, tuple(columns.values()))
    return columns


class CountInDoubtError(ReportFormatError):
    """A column is called like a count, and nobody has said that it is one."""


def _ask_about_counts(
    header: Sequence[str], file: str, samples: Mapping[str, Sequence[str]], taken: Sequence[str]
) -> None:
    found = find("count", header, taken)
    if found is None or not _plausible("count", found, samples.get(found, ())):
        return
    raise CountInDoubtError(
        "may say for how many people each row stands.",
        advice=f"--count {found} counts each row as often as it says, --count none counts every row once.",
        file=file,
        line=1,
        column=found,
    )


_OPTIONAL = ("source", "time", "id", "text", "accuracy", "count", "score")
_RANKS = frozenset({"kingdom", "phylum", "class", "order", "family", "genus", "species"})
MOST_STATES = 12  # more different values than this are too many for labels
DISTINCT_FROM = 20  # from so many rows on, a column whose values all differ does not hold labels


def _label(
    header: Sequence[str],
    file: str,
    samples: Mapping[str, Sequence[str]],
    taken: Sequence[str],
    tags: Mapping[str, str],
) -> str | None:
    """The column that says what was seen, by its name; None if there is none. Where its cells leave doubt: an error."""
    names = _by_name("label", header, taken)
    wanted = [names[word] for word in SYNONYMS["label"].split() if word in names]
    by_tag = tagged("label", tags, taken)
    doubts: list[str] = []
    for column in [*wanted, *([by_tag] if by_tag is not None else [])]:
        problem = doubt(column, samples.get(column, ()), header)
        if problem is None:
            return column
        doubts.append(f"'{column}' {problem}")
    if not doubts:
        return None
    likely = [name for name in header if name not in taken and _has_few_values(samples.get(name, ()))]
    others = f" Columns with a few different values: {some(likely)}." if likely else ""
    raise ReportFormatError(
        f"which column says what was seen is in doubt: {'; '.join(doubts)}.{others}",
        advice="Name it with --label NAME.",
        file=file,
        line=1,
    )


def other_labels(
    label: str, header: Sequence[str], samples: Mapping[str, Sequence[str]], taken: Sequence[str]
) -> list[str]:
    """Further columns that are called like a label and hold a few different values; none where the name is plain."""
    if canonical(label) in ("label", "labels"):
        return []
    names = _by_name("label", header, taken)
    called = dict.fromkeys(names[word] for word in SYNONYMS["label"].split() if word in names)
    return [name for name in called if name != label and _has_few_values(samples.get(name, ()))]


def doubt(column: str, cells: Sequence[str], header: Sequence[str] = ()) -> str | None:
    """Why a column that is called like a label may be none; None where there is no doubt."""
    if canonical(column) in _RANKS and len(_RANKS & {canonical(name) for name in header}) > 2:
        return "is a rank of the taxonomy"
    filled = [cell.strip() for cell in cells if not is_missing(cell)]
    different = {cell.casefold() for cell in filled}
    if canonical(column) in ("label", "labels") or len(filled) < 2:
        return None
    if len(different) == 1:
        return f"says '{filled[0][:40]}' in every row"
    if len(different) > MOST_STATES and _numbers(different) and any("." in cell for cell in different):
        return f"holds {len(different)} different numbers"
    if len(different) == len(filled) >= DISTINCT_FROM:
        return "is different in every row"
    return None


def is_missing(cell: str, words: frozenset[str] = MISSING) -> bool:
    word = cell.strip().casefold()
    return not word or word in words


def _has_few_values(cells: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in cells if not is_missing(cell)]
    different = set(filled)
    return 2 <= len(different) <= MOST_STATES and len(filled) >= 2 * len(different) and not _numbers(different)


def with_few_values(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns that hold a few different words, each more than once on average."""
    return [name for name in header if _has_few_values(samples.get(name, ()))]


def _plausible(role: str, column: str, cells: Sequence[str]) -> bool:
    """Whether the cells of a column agree with what its name may mean."""
    if role not in ("accuracy", "count"):
        return True
    filled = [cell.strip().replace(",", ".") for cell in cells if not is_missing(cell)]
    if not all(re.fullmatch(r"\d+(\.\d+)?", cell) for cell in filled):
        return False
    if role == "count":
        return all(float(cell).is_integer() for cell in filled)
    # Shares of right answers are called accuracy too.
    return canonical(column) != "accuracy" or any(float(cell) > 1 for cell in filled)


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
        if _ABOUT & set(canonical(own).split("_")) and doubt(name, samples.get(name, ())) is None:
            return name
    return next((name for name in header if _has_few_values(samples.get(name, ()))), None)


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
    if sum(bool(re.fullmatch(r"[-+]?\d+([.,]\d+)?", name.strip())) for name in header) > 1:
        hint = " They look like a report: the file has no line of column names. Add one at its top."
    names = " and ".join(f"'{role}'" for role in missing)
    whole = ", or a column of whole places with --place NAME" if "lat" in missing or "lon" in missing else ""
    return ReportFormatError(
        f"no column for the {what} among {some(header)}.{hint} A column called {names} would be found.",
        advice=f"Or name yours with {options}{whole}.",
        file=file,
        line=line,
    )


def some(names: Sequence[str], most: int = 12) -> str:
    """A few names, for a message."""
    shown = ", ".join(f"'{name[:40]}'" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
