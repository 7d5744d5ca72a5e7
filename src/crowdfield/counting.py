"""Numbers as people read them: with their nouns, or with their intervals."""

from math import floor, log10


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one.

    >>> counted(1, "source"), counted(12_342, "report")
    ('1 source', '12,342 reports')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def crowd(reports: int, sources: int) -> str:
    """How many reports there are, and by how many sources.

    >>> crowd(218, 1)
    '218 reports by 1 source'
    """
    return f"{counted(reports, 'report')} by {counted(sources, 'source')}"


def amount_with_interval(value: float, low: float, high: float) -> str:
    """An amount and its interval, all with the decimals that give the upper end two significant digits, at most four.

    >>> amount_with_interval(0.347, 0.144, 0.632), amount_with_interval(5230.2, 12.0, 7412.9)
    ('0.35 (0.14–0.63)', '5,230 (12–7,413)')
    >>> amount_with_interval(0.0000021, 0.0, 0.000017)
    '< 0.0001'
    """
    if 0.0 < high < 0.00005:
        return "< 0.0001"
    decimals = min(max(0, 1 - floor(log10(high))), 4) if high > 0 else 0
    return f"{value:,.{decimals}f} ({low:,.{decimals}f}–{high:,.{decimals}f})"


def share_with_interval(value: float, low: float, high: float) -> str:
    """A share and its interval, in per cent.

    >>> share_with_interval(0.27, 0.11, 0.49)
    '27 % (11–49)'
    """
    return f"{100 * value:.0f} % ({100 * low:.0f}–{100 * high:.0f})"
