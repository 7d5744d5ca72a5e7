"""The words in pictures: English, or those of another language for the pictures of a translated report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

ENGLISH: Mapping[str, str] = {
    "probability": "Probability: {state}",
    "counts": "Reports: {state}",
    "change": "What changed: {state}",
    "share": "Share: {state}",
    "from": "from {reports} by {sources}",
    "report_one": "{count} report",
    "report_many": "{count} reports",
    "source_one": "{count} source",
    "source_many": "{count} sources",
    "district_one": "{count} district",
    "district_many": "{count} districts",
    "hidden": ", {count} of them beyond the map and not shown",
    "date": "{day} {date:%B %Y, %H:%M} {zone}",
    "moment": "as it was on {when}",
    "since": "{before}, to {after}",
    "only_label": "All reports say “{label}”: nothing tells where it is not so.",
    "interval": "in brackets the {level} % interval",
    "longitude": "longitude",
    "latitude": "latitude",
    "easting": "easting",
    "northing": "northing",
    "probability_of": "probability of {state}",
    "share_of": "share of {whole} that is\n“{state}”",
    "area": "the area",
    "known": "well\nknown",
    "unknown": "unknown",
    "nobody_knows": "nobody knows",
    "outside": "outside",
    "not_on_map": "not on the map",
    "look_next": "look here\nnext, by rank",
    "unclear": "reports that tell\ntoo little",
    "reports_in_cell": "reports in a cell",
    "no_reports": "no reports",
    "change_in": "change in probability",
    "no_change": "no change",
    "no_change_detected": "white: no change\ndetected",
    "real_change": "full colour: real with\nat least {sure} % probability",
    "coast": "coast and borders: Natural Earth",
    "water": "rivers and lakes: GSHHG",
}
PREFIX = "picture_"  # of the names of these words in the texts of a report
_WORDS: ContextVar[Mapping[str, str]] = ContextVar("words", default=ENGLISH)


def say(name: str, **values: object) -> str:
    """A text of a picture in the language that is spoken."""
    return _WORDS.get()[name].format(**values)


def numbered(noun: str, count: int) -> str:
    """A number with its noun."""
    return say(f"{noun}_{'one' if count == 1 else 'many'}", count=f"{count:,}")


@contextmanager
def spoken(texts: Mapping[str, str]) -> Iterator[None]:
    """Draw pictures with the words of a report's texts, where it has them."""
    token = _WORDS.set({name: texts.get(f"{PREFIX}{name}", english) for name, english in ENGLISH.items()})
    try:
        yield
    finally:
        _WORDS.reset(token)
