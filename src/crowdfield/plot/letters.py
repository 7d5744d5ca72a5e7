"""Letters that the default font does not have: drawn with another installed font that has them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.text import Text

from crowdfield.errors import DataWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Fonts of symbols and of placeholders, which hold no writing.
_NO_WRITING = ("Last Resort", "STIX", "cm", "Emoji", "Math", "Symbol")


def find_letters(figure: Figure) -> None:
    """Give every text of a figure a font that has its letters; warn once of letters that no installed font has."""
    nowhere: set[str] = set()
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        missing = {letter for letter in text.get_text() if not letter.isspace()} - _letters(
            findfont(text.get_fontproperties())
        )
        if not missing:
            continue
        other = _font_with(frozenset(missing))
        if other is None:
            nowhere |= missing
        else:
            text.set_fontfamily(["sans-serif", other])
    if nowhere:
        warnings.warn(
            f"no font on this computer has the letters {''.join(sorted(nowhere))[:20]}: the picture shows boxes "
            "instead. Install a font that has them, such as one of the Noto Sans family.",
            DataWarning,
            stacklevel=2,
        )


@contextmanager
def boxes_allowed() -> Iterator[None]:
    """Without Matplotlib's warning for every letter that is drawn as a box: `find_letters` warns once for all.

    Nor does it say that a font has no bold letters: readers see that, and can do nothing about it.
    """
    log = logging.getLogger("matplotlib.font_manager")
    log.addFilter(_is_not_about_weight)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
            yield
    finally:
        log.removeFilter(_is_not_about_weight)


def _is_not_about_weight(record: logging.LogRecord) -> bool:
    return "font weight" not in str(record.msg)


@cache
def _letters(path: str) -> frozenset[str]:
    return frozenset(map(chr, get_font(path).get_charmap()))


@cache
def _font_with(letters: frozenset[str]) -> str | None:
    """The name of an installed font that has all of the letters; fonts without serifs first."""
    fonts = [font for font in fontManager.ttflist if not font.name.startswith(_NO_WRITING) and font.style == "normal"]
    for font in sorted(fonts, key=lambda font: ("Sans" not in font.name, font.name)):
        try:
            found = letters <= _letters(font.fname)
        except (OSError, RuntimeError):  # a font that FreeType cannot open
            continue
        if found:
            return str(font.name)
    return None
