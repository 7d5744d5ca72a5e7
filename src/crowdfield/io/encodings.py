"""Guessing the encoding of a text file that is not UTF-8."""

from __future__ import annotations

# What spreadsheets and older programs write. Others are so rare that a guess among them is more often wrong than right.
CANDIDATES = (
    "cp1252",
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "cp1256",
    "cp932",
    "gb18030",
    "big5",
    "euc_kr",
    "mac_roman",
)
COMMON = "cp1252"  # Western European Windows: by far the most frequent, so it wins where another fits no better
TURKISH = "cp1254"
_TURKISH_LETTERS = "ğĞıİşŞ".encode(TURKISH)
_ICELANDIC = "áÁéÉíÍóÓúÚæÆ".encode(COMMON)
MUCH_BETTER = 0.1  # of coherence (0 to 1): by this much another must look more like a language
NUL_SHARE = 0.2  # of the bytes at even or odd places: more of them zero, and it is UTF-16 without a mark


def wide(start: bytes) -> str | None:
    """The kind of UTF-16 of bytes without a byte order mark, by the zero bytes between letters; None if it is not."""
    some = start[:4096]
    if len(some) < 4 or b"\x00" not in some:
        return None
    even, odd = (part.count(0) / len(part) for part in (some[::2], some[1::2]))
    if max(even, odd) < NUL_SHARE or min(even, odd) > max(even, odd) / 4:
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


def guess(sample: bytes) -> str | None:
    """The likeliest encoding of bytes that are not UTF-8; None where none fits."""
    from charset_normalizer import from_bytes

    # Lines without any letter outside ASCII tell nothing.
    telling = b"\n".join(line for line in sample.split(b"\n") if not line.isascii()) or sample
    matches = list(from_bytes(telling, cp_isolation=list(CANDIDATES)))
    if not matches:
        return None
    best = matches[0]
    for match in matches:
        fits = COMMON in match.could_be_from_charset
        if fits and match.chaos <= best.chaos and match.coherence >= best.coherence - MUCH_BETTER:
            return TURKISH if _is_turkish(telling) else COMMON
    return best.encoding


def _is_turkish(text: bytes) -> bool:
    """Whether the six letters that set cp1254 and cp1252 apart are those of Turkish: Icelandic has accents as well."""
    return any(letter in text for letter in _TURKISH_LETTERS) and not any(letter in text for letter in _ICELANDIC)
