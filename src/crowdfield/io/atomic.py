"""Atomic writing: a file appears complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crowdfield.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to, which replaces `path` only if the block ends without an error.

    The temporary name keeps the suffix, because GDAL chooses a driver by it, and is in a folder of its own, so that
    side files (a journal, a .aux.xml) are removed with it.

    Parameters
    ----------
    path : path
        The file to be written or replaced.

    Yields
    ------
    pathlib.Path
        The temporary path, in the same folder.

    Examples
    --------
    >>> import crowdfield as cf
    >>> with cf.io.replacing("whole.txt") as temporary:
    ...     _ = temporary.write_text("all or nothing")
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it.")
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist. Create it, or write somewhere else.")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        temporary = Path(folder) / target.name
        yield temporary
        # The bytes must be on the disk before the name points at them, or a power cut could leave an empty file.
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
