"""Which column has which role: it is recognised by the names that people use for latitude, longitude, label, source
…"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from crowdfield.errors import ReportFormatError
from crowdfield.io.column_names import ABOUT, AMBIGUOUS_TIMES, MISSING, NO, SYNONYMS, TAGS, YES, canonical

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
ROLES = {"lat": "latitude", "lon": "longitude"}  # what messages call them
FOOT = 0.3048  # metres
NONE = "none"  # as the name of an optional column: use none, even if one is found


def unique(cells: Sequence[str]) -> list[str]:
    """Header names, each once: a second "lat" becomes "lat (2)", a cell without a name "column 3"."""
    names: list[str] = []
    for i, cell in enumerate(cells, start=1):
        name = base = (_uncommented(cells) if i == 1 else cell).strip().lstrip("\ufeff") or f"column {i}"
        again = 2
        while name in names:
            name, again = f"{base} ({again})", again + 1
        names.append(name)
    return names


def _uncommented(cells: Sequence[str]) -> str:
    """The first name of a header, without the sign that makes the line a comment for other programs."""
    alone = not any(cell.lstrip().startswith("#") for cell in cells[1:])  # else they are tags of HXL
    return re.sub(r"^\ufeff?\s*#+\s*(?=\w)", "", cells[0]) if alone and len(cells) > 1 else cells[0]


def find(role: str, header: Sequence[str], taken: Sequence[str] = ()) -> str | None:
    """The column for a role, by its name."""
    names = _by_name(role, header, taken)
    return next((names[synonym] for synonym in SYNONYMS[role] if synonym in names), None)


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row contains names of both coordinates, so that it must be the header."""
    names = {canonical(cell).lstrip("#_") for cell in cells if len(cell.strip()) > 1}  # "x" and "y" may be anything
    return all(names & set(SYNONYMS[role]) for role in ("lat", "lon"))


# Roles that are also recognised by the last part of a nested name ("answer/label"). Not the id: "user/id" would make
# all reports of one user duplicates.
_NESTED = ("lat", "lon", "label", "source", "time")


_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")  # where a new word begins in names such as damageLevel


def _by_name(role: str, header: Sequence[str], taken: Sequence[str]) -> dict[str, str]:
    """Columns by the canonical form of their names; whole names take precedence over last parts."""
    names: dict[str, str] = {}
    free = [column for column in header if column not in taken]
    for column in free:
        names.setdefault(canonical(column), column)
    for column in free:
        names.setdefault(canonical(_HUMP.sub("_", column)), column)
    if role in _NESTED:
        for column in free:
            names.setdefault(canonical(column.rsplit("/", 1)[-1]), column)
    return names


def named(role: str, name: str, header: Sequence[str], file: str) -> str:
    """The column that the user named for a role; upper and lower case are the same."""
    if name in header:
        return name
    same = [column for column in header if column.strip().lower() == name.strip().lower()]
    if len(same) == 1:
        return same[0]
    close = get_close_matches(name.strip().lower(), [column.lower() for column in header], 1, 0.75)
    meant = next((f" Did you mean '{column}'?" for column in header if close and column.lower() == close[0]), "")
    raise ReportFormatError(
        f"there is no column '{name}' for the {role}; the columns are {some(header)}.{meant}",
        file=file,
        line=1,
    )


def tagged(role: str, tags: Mapping[str, str], taken: Sequence[str] = ()) -> str | None:
    """The column for a role, by its HXL tag."""
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
    """A column for each role: the one that the user named, else the one with a suitable name or HXL tag.

    ``samples`` are the first cells of each column: an ambiguous name counts only if they agree with it.
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
                if role in ROLES:
                    _ask_if_twice(role, found, header, samples, file)
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
        free = [name for name in header if name not in columns.values()]
        _refuse_taken(missing, columns, given, file)
        raise missing_error(missing, header, file, line=1, likely=with_few_values(free, samples))
    if "count" in given and given["count"] is None:
        _ask_about_counts(header, file, samples, tuple(columns.values()))
    return columns


def _refuse_taken(
    missing: Sequence[str], columns: Mapping[str, str], given: Mapping[str, str | None], file: str
) -> None:
    """It is an error if the column of a missing role was named for another."""
    for role, column in columns.items():
        if given.get(role) is not None and (lost := [r for r in missing if find(r, [column]) is not None]):
            option = f"{OPTION.get(role, role)} {column}"
            raise ReportFormatError(
                f"{option} takes the column of the {ROLES.get(lost[0], lost[0])}, and none is left for that.",
                advice=f"Leave it out, or name the other with {OPTION[lost[0]]} NAME.",
                file=file,
                line=1,
            )


class CountInDoubtError(ReportFormatError):
    """A column has the name of a count, but the user has not confirmed that it is one."""


def _ask_about_counts(
    header: Sequence[str], file: str, samples: Mapping[str, Sequence[str]], taken: Sequence[str]
) -> None:
    found = find("count", header, taken)
    if found is None or not _plausible("count", found, samples.get(found, ())):
        return
    raise CountInDoubtError(
        "may be the number of people that each row stands for.",
        advice=f"--count {found} counts each row as often as it says, --count none counts every row once.",
        file=file,
        line=1,
        column=found,
    )


_OPTIONAL = ("source", "time", "id", "text", "accuracy", "count", "score")
_RANKS = frozenset({"kingdom", "phylum", "class", "order", "family", "genus", "species"})
# Columns beside which a "state" is one of a country.
_ADDRESS = frozenset(
    canonical(name)
    for name in (
        "city", "town", "county", "country", "zip", "zipcode", "zip_code", "postal_code", "postcode",
        "ciudad", "municipio", "país", "cidade", "município", "bairro",
    )
)  # fmt: skip
_PROBABILITY = re.compile("(?:p|prob|proba|probability|score|pct|percent|percentage|share)_")
SENTENCE = 30  # characters: longer labels that all differ are descriptions
MOST_STATES = 12  # more different values than this are too many for labels
DISTINCT_FROM = 20  # from so many rows on, a column whose values all differ does not hold labels


def _label(
    header: Sequence[str],
    file: str,
    samples: Mapping[str, Sequence[str]],
    taken: Sequence[str],
    tags: Mapping[str, str],
) -> str | None:
    """The column of the label, by its name; None if there is none. It is an error if its cells do not look like one."""
    names = _by_name("label", header, taken)
    wanted = [names[word] for word in SYNONYMS["label"] if word in names]
    by_tag = tagged("label", tags, taken)
    doubts: list[str] = []
    for column in [*wanted, *([by_tag] if by_tag is not None else [])]:
        problem = doubt(column, samples.get(column, ()), header)
        if problem is None:
            _ask_if_twice("label", column, header, samples, file)
            return column
        doubts.append(f"'{column}' {problem}")
    if not doubts:
        about = [name for name in header if name not in taken and _is_about(name, samples.get(name, ()), header)]
        return about[0] if len(about) == 1 else None
    likely = [name for name in header if name not in taken and _has_few_values(samples.get(name, ()))]
    others = f" Columns with a few different values: {some(likely)}." if likely else ""
    raise ReportFormatError(
        f"it is not clear which column holds the labels: {'; '.join(doubts)}.{others}",
        advice="Name it with --label NAME.",
        file=file,
        line=1,
        choices={"label": likely or header},
    )


def _ask_if_twice(
    role: str, column: str, header: Sequence[str], samples: Mapping[str, Sequence[str]], file: str
) -> None:
    """It is an error if another column of the same name has other cells."""
    twin = f"{column} (2)"
    if twin in header and list(samples.get(twin, ())) != list(samples.get(column, ())):
        raise ReportFormatError(
            f"two columns are called '{column}', and they differ.",
            advice=f"{OPTION[role]} '{column}' reads the first, {OPTION[role]} '{twin}' the second.",
            file=file,
            line=1,
            choices={role: [column, twin]},
        )


def _is_about(column: str, cells: Sequence[str], header: Sequence[str]) -> bool:
    """Whether the name of a column contains a word about what was seen, and its few values may be labels."""
    said = {cell.strip().casefold() for cell in cells if not is_missing(cell)}
    words = set(canonical(column.rsplit("/", 1)[-1]).split("_"))
    if any(re.fullmatch(r"[-+]?\d*[.,]\d+|.*%", cell) for cell in said) or _PROBABILITY.match(canonical(column)):
        return False  # a depth, a share, a probability
    return bool(ABOUT & words) and 2 <= len(said) <= MOST_STATES and doubt(column, cells, header) is None


_UNITS = {"km": 1000.0, "ft": FOOT, "feet": FOOT}


def metres_in(accuracy: str) -> float:
    """The unit of a column of accuracies in metres: 1 unless its name ends in another."""
    return _UNITS.get(canonical(accuracy).rsplit("_", 1)[-1], 1.0)


def other_labels(
    label: str, header: Sequence[str], samples: Mapping[str, Sequence[str]], taken: Sequence[str]
) -> list[str]:
    """Other columns with the name of a label and a few different values; none if the chosen name is unambiguous."""
    if canonical(label) in ("label", "labels"):
        return []
    names = _by_name("label", header, taken)
    called = dict.fromkeys(names[word] for word in SYNONYMS["label"] if word in names)
    few = [name for name in called if _has_few_values(samples.get(name, ()))]
    flags = [name for name in header if name not in taken and _is_about(name, samples.get(name, ()), header)]
    return [name for name in dict.fromkeys([*few, *flags]) if name != label]


def doubt(column: str, cells: Sequence[str], header: Sequence[str] = ()) -> str | None:
    """Why a column with the name of a label may not be one; None if there is no doubt."""
    if canonical(column) in _RANKS and len(_RANKS & {canonical(name) for name in header}) > 2:
        return "is a rank of the taxonomy"
    filled = [cell.strip() for cell in cells if not is_missing(cell)]
    different = {cell.casefold() for cell in filled}
    if canonical(column) in ("label", "labels") or len(filled) < 2:
        return None
    if len(different) == 1:
        return f"says '{filled[0][:40]}' in every row"
    if len(different) > MOST_STATES and _numbers(different):
        return f"holds {len(different)} different numbers"
    sentences = sum(map(len, filled)) > SENTENCE * len(filled) and len(filled) > 2
    if len(different) == len(filled) and (sentences or len(filled) >= DISTINCT_FROM):
        return "is different in every row"
    if canonical(column) in ("state", "estado") and _ADDRESS & {canonical(name) for name in header}:
        return "may be a part of an address"
    return None


def is_missing(cell: str, words: frozenset[str] = MISSING) -> bool:
    """Whether a cell is empty, or contains a word for "empty"."""
    word = cell.strip().casefold()
    return not word or word in words


def _has_few_values(cells: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in cells if not is_missing(cell)]
    different = set(filled)
    return 2 <= len(different) <= MOST_STATES and len(filled) >= 2 * len(different) and not _numbers(different)


def with_few_values(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns with a few different words, each used more than once on average."""
    return [name for name in header if _has_few_values(samples.get(name, ()))]


def _plausible(role: str, column: str, cells: Sequence[str]) -> bool:
    """Whether the cells of a column agree with what its name may mean."""
    if role == "time" and canonical(column) in AMBIGUOUS_TIMES:
        return any(re.search(r"\d[-./]\d", cell) for cell in cells)
    if role == "area":
        return all(cell.strip().casefold() in YES | NO for cell in cells if not is_missing(cell))
    if role not in ("accuracy", "count"):
        return True
    filled = [cell.strip().replace(",", ".") for cell in cells if not is_missing(cell)]
    if role == "accuracy" and not all(re.fullmatch(r"\d+(\.\d+)?", cell) for cell in filled):
        return all(WITH_UNIT.fullmatch(cell) for cell in filled)
    if not all(re.fullmatch(r"\d+(\.\d+)?", cell) for cell in filled):
        return False
    if role == "count":
        return all(float(cell).is_integer() for cell in filled)
    # The share of correct answers is also called accuracy.
    return canonical(column) != "accuracy" or any(float(cell) > 1 for cell in filled)


# A length with its unit, such as "± 5 m" or "1,5 km".
WITH_UNIT = re.compile(r"\s*(?:±|\+/?-)?\s*(\d+(?:[.,]\d+)?)\s*(m|km|ft|feet|met(?:er|re)s?)?\s*", re.IGNORECASE)


def with_unit(cell: str) -> float:
    """A length in metres from a cell that may name its unit; NaN for anything else."""
    found = WITH_UNIT.fullmatch(cell)
    unit = _UNITS.get((found[2] or "m").lower(), 1.0) if found else 1.0
    return float(found[1].replace(",", ".")) * unit if found else float("nan")


def question(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> str | None:
    """The question of a survey that is the label: by its name, by a word in it, or by its answers.

    By its answers: the first question with two to twelve different answers that are not numbers, each given more than
    once on average. Questions that everybody answers in the same way, or with several answers at once, are skipped.
    """
    several = set(multiple_choices(header))
    short = {name: name.rsplit("/", 1)[-1] for name in header if name not in several}
    asked = [name for name in short if doubt(name, samples.get(name, ())) is None]
    found = find("label", [short[name] for name in asked])
    if found is not None:
        return next(name for name in asked if short[name] == found)
    for name in asked:
        if ABOUT & set(canonical(short[name]).split("_")):
            return name
    return next((name for name in asked if _has_few_values(samples.get(name, ()))), None)


def multiple_choices(header: Sequence[str]) -> dict[str, list[str]]:
    """Questions with several answers at once, each with its columns "question/answer"."""
    beside = {name: [other for other in header if other.startswith(f"{name}/")] for name in header}
    return {name: answers for name, answers in beside.items() if answers}


def _numbers(cells: set[str]) -> bool:
    return all(re.fullmatch(r"[-+]?\d+([.,:/-]\d+)*\s*%?", cell) for cell in cells)


def missing_error(
    missing: Sequence[str],
    header: Sequence[str],
    file: str,
    line: int | None = None,
    likely: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> ReportFormatError:
    """The error for a file without columns for these roles. likely: columns that may contain the labels; notes: what
    may explain that no columns were found."""
    what = " and ".join(ROLES.get(role, role) for role in missing)
    options = " ".join(f"{OPTION[role]} NAME" for role in missing)
    # For a survey, `header` holds only its questions: a single question does not point to a wrong delimiter.
    alone = len(header) == 1 and "lat" in missing
    hint = " There is only one column: is the delimiter one of , ; tab or | ?" if alone else ""
    if sum(bool(re.fullmatch(r"[-+]?\d+([.,]\d+)?", name.strip())) for name in header) > 1:
        hint = " They look like a report: the file has no line of column names. Add one at its top."
    if "label" in missing and likely:
        hint += f" Columns with a few different values: {some(likely)}."
    if not header:
        why = "; ".join(notes) or "the file contains only places"
        return ReportFormatError(f"there is no column for the {what}: {why}.", file=file, line=line)
    names = " and ".join(f"'{role}'" for role in missing)
    whole = ", or a column of whole places with --place NAME" if "lat" in missing or "lon" in missing else ""
    return ReportFormatError(
        f"no column for the {what} among {some(header)}.{hint} Call {'them' if len(missing) > 1 else 'it'} {names}.",
        advice=f"Or name yours with {options}{whole}.",
        file=file,
        line=line,
        choices={role: likely if role == "label" and likely else header for role in missing},
    )


def some(names: Sequence[str], most: int = 12) -> str:
    """A few names, for a message."""
    shown = ", ".join(f"'{name[:40]}'" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
