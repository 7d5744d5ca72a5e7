"""Limits on files, beyond which they are refused. The service, which reads files of strangers, sets tighter ones: see
`crowdfield.box`."""

LARGEST_FILE = 64 * 2**30
"""Bytes of a table, unpacked. Tables are read in chunks, so this bounds time and not memory."""

LARGEST_DOCUMENT = 2**30
"""Bytes of a file that has to be held as a whole: JSON, XML, a member of a zip file that is no table."""

LARGEST_RATIO = 200
"""Times that a packed file may grow. A table of reports shrinks 5 to 30 times; what grows a thousandfold was made to
fill a disk."""

RATIO_COUNTS_FROM = 64 * 2**20
"""Bytes below which the ratio does not matter: a small file of zeros does no harm."""

LONGEST_LINE = 8 * 2**20
"""Bytes of a line of text. The longest seen in the wild, the JSON of a Zooniverse row, is a hundredth of it."""

MOST_COLUMNS = 4096
"""Columns of a table, or properties of a feature. The widest survey export seen has some 700."""

MOST_MEMBERS = 10_000
"""Files in a zip file. A KMZ may bring one picture for each of its points."""

DEEPEST = 64
"""Levels of nesting in XML. KML with folders in folders needs about ten."""

ROW_OVERHEAD = 128
"""Bytes that a row counts for even when its cells are empty: about what Python needs to hold one."""


def tighten(largest: int) -> None:
    """Let no file be larger than this, in the whole process: for one that reads a single file and ends."""
    global LARGEST_FILE, LARGEST_DOCUMENT
    LARGEST_FILE, LARGEST_DOCUMENT = min(LARGEST_FILE, largest), min(LARGEST_DOCUMENT, largest)


def size(count: int) -> str:
    """A number of bytes in words."""
    if count >= 2**30:
        return f"{count / 2**30:g} GiB"
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count:,} bytes"


class Allowance:
    """How much may come out of a file of this size, counted while it comes out."""

    def __init__(self, size: int) -> None:
        self.left = max(LARGEST_RATIO * size, RATIO_COUNTS_FROM)

    def take(self, count: int) -> bool:
        """Whether so many more bytes are allowed."""
        self.left -= count
        return self.left >= 0
