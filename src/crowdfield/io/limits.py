"""Limits on files, beyond which they are refused. The service, which reads files of strangers, sets tighter ones: see
`crowdfield.box`."""

LARGEST_FILE = 64 * 2**30
"""The most bytes of a table, uncompressed. Tables are read in chunks, so this limits time and not memory."""

LARGEST_DOCUMENT = 2**30
"""The most bytes of a file that is read as a whole: JSON, XML, a member of a zip file that is not a table."""

LARGEST_RATIO = 200
"""The factor by which a compressed file may expand. A table of reports expands 5 to 30 times; a file that expands a
thousandfold was made to fill a disk."""

RATIO_COUNTS_FROM = 64 * 2**20
"""Below this many bytes the ratio does not matter: a small file of zeros does no harm."""

LONGEST_LINE = 8 * 2**20
"""The most bytes of a line of text. The longest known, the JSON of a Zooniverse row, has a hundredth of it."""

MOST_COLUMNS = 4096
"""The most columns of a table, or properties of a feature. The widest known survey export has about 700."""

MOST_MEMBERS = 10_000
"""The most files in a zip file. A KMZ may contain one picture for each of its points."""

DEEPEST = 64
"""The most levels of nesting in XML. KML with nested folders needs about ten."""

ROW_OVERHEAD = 128
"""The size in bytes that a row counts with even if its cells are empty: about what it needs in Python's memory."""


def tighten(largest: int) -> None:
    """Lower the limits of this whole process, for one that reads a single file and ends."""
    global LARGEST_FILE, LARGEST_DOCUMENT
    LARGEST_FILE, LARGEST_DOCUMENT = min(LARGEST_FILE, largest), min(LARGEST_DOCUMENT, largest)


def size(count: int) -> str:
    """A number of bytes in words."""
    if count >= 2**30:
        return f"{count / 2**30:g} GiB"
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count:,} bytes"


class Allowance:
    """How many bytes may still be unpacked from a compressed file of a given size."""

    def __init__(self, size: int) -> None:
        self.left = max(LARGEST_RATIO * size, RATIO_COUNTS_FROM)

    def take(self, count: int) -> bool:
        """Count further unpacked bytes; whether they are still allowed."""
        self.left -= count
        return self.left >= 0
