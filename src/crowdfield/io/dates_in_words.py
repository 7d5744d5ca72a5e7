"""Dates with the name of a month: "6 février 2023 04:17", "06-Feb-23", "Mon Feb 06 04:17:00 +0000 2023"."""

from __future__ import annotations

import re

import pandas as pd

from crowdfield.io.column_names import without_accents

# The months in English, French, Spanish, Portuguese, German, Italian, Turkish and Indonesian, without accents.
_MONTHS = tuple(
    tuple(names.split())
    for names in (
        "january janvier enero janeiro januar gennaio ocak januari",
        "february fevrier febrero fevereiro februar febbraio subat februari",
        "march mars marzo marco marz mart maret",
        "april avril abril aprile nisan",
        "may mai mayo maio maggio mayis mei",
        "june juin junio junho juni giugno haziran",
        "july juillet julio julho juli luglio temmuz",
        "august aout agosto agustos agustus",
        "september septembre septiembre setembro settembre eylul",
        "october octobre octubre outubro oktober ottobre ekim",
        "november novembre noviembre novembro kasim",
        "december decembre diciembre dezembro dezember dicembre aralik desember",
    )
)
_ABBREVIATED = 3  # letters at least
_TUESDAY = "mar"  # or March: mardi, martes, martedì
_CLOCK = re.compile(r"(?<!\d)(\d{1,2})[:.h](\d{2})(?:[:.](\d{2})(?:[.,]\d+)?)?(?!\d)(?:\s*([ap])\.?\s?m\b\.?)?")
_ZONE = re.compile(r"\s*(?:z|utc|gmt)?\s*(?:([+-])(\d{1,2}):?(\d{2})?(?!\d))?(?![a-z])\s*(?:\([^\d)]*\))?")
_AFTER = re.compile(r"\b(?:uhr|h|hs|hrs|hours)\b")  # words after a time of day that do not change it
_SHORT_YEAR = re.compile(r"\b(\d{1,2})([-/. ])[a-z]+\.?\2(\d{2})\b")


def in_words(value: str) -> str | None:
    """A date with the name of a month, as ISO; None if it is not a date, or its time zone is a name.

    Names of time zones are not read because they are ambiguous: IST is in India, Ireland or Israel.
    """
    text = without_accents(value.strip().casefold())
    hour = minute = second = shift = 0
    if clock := _CLOCK.search(text):
        hour, minute, second = (int(part or 0) for part in clock.group(1, 2, 3))
        if clock[4]:
            hour = hour % 12 + (12 if clock[4] == "p" else 0)
        zone = _ZONE.match(text, clock.end())
        if zone is not None and zone[1]:
            shift = (1 if zone[1] == "+" else -1) * (60 * int(zone[2]) + int(zone[3] or 0))
        after = _AFTER.sub("", text[zone.end() if zone is not None else clock.end() :])
        if any(_month(word) is None and not _is_weekday(word) for word in re.findall(r"[a-z]+", after)):
            return None
        text = f"{text[: clock.start()]} {after}"
    months = {(word, month) for word in re.findall(r"[^\W\d_]+", text) if (month := _month(word)) is not None}
    if len({month for _, month in months}) > 1:
        months = {(word, month) for word, month in months if word != _TUESDAY}
    if len({month for _, month in months}) != 1:
        return None
    ((_, month), *_) = months
    numbers = re.findall(r"\d+", text)
    year = next((int(number) for number in numbers if len(number) == 4), None)
    day = next((int(number) for number in numbers if len(number) <= 2), None)
    if year is None and (short := _SHORT_YEAR.search(text)):
        day, year = int(short[1]), int(short[3]) + (2000 if int(short[3]) < 70 else 1900)
    if day is None or year is None or len(numbers) > 2 or not 1900 <= year <= 2200:
        return None
    try:
        stamp = pd.Timestamp(year, month, day, hour, minute, second)
    except ValueError:
        return None
    return (stamp - pd.Timedelta(minutes=shift)).isoformat()


def _month(word: str) -> int | None:
    """The month that a word names, or begins to name; None if it is no month, or could be two."""
    found = [
        number
        for number, names in enumerate(_MONTHS, start=1)
        if len(word) >= _ABBREVIATED and any(name.startswith(word) for name in names)
    ]
    return found[0] if len(found) == 1 else None


_WEEKDAYS = (
    "monday tuesday wednesday thursday friday saturday sunday lundi mardi mercredi jeudi vendredi samedi dimanche "
    "lunes martes miercoles jueves viernes sabado domingo montag dienstag mittwoch donnerstag freitag samstag sonntag"
)


def _is_weekday(word: str) -> bool:
    return len(word) >= 2 and any(name.startswith(word) for name in _WEEKDAYS.split())
