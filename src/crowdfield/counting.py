"""Numbers with their nouns, in messages."""


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
