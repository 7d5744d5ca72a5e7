"""Zip files: checked before anything is unpacked, read in memory, and never beyond the limits."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from crowdfield.errors import ReportFormatError, TooLargeError
from crowdfield.io import limits

ZIP = b"PK\x03\x04"
_END = b"PK\x05\x06"  # starts the last record, which is 22 bytes and a comment of up to 65,535
_LONGEST_END = 22 + 65_535
_UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """The files in a zip file. Names are only compared, never used as paths."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size
        try:
            self._zip = zipfile.ZipFile(path)
        except _UNREADABLE:
            raise self._refused("is not a zip file that can be read. Is it complete?") from None
        try:
            self._members = self._checked()
        except ReportFormatError:
            self._zip.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of its files, in their order, without folders and without the files that macOS adds."""
        return list(self._members)

    def ending(self, *endings: str) -> list[str]:
        return [name for name in self._members if name.lower().endswith(endings)]

    def beside(self, name: str, ending: str) -> str | None:
        """The member with the same name and another ending, such as the parts of a Shapefile."""
        wanted = str(PurePosixPath(name).with_suffix(ending)).lower()
        return next((other for other in self._members if other.lower() == wanted), None)

    def first_bytes(self, name: str, count: int) -> bytes:
        return self._read(name, count)

    def read(self, name: str) -> bytes:
        """A whole member. No more bytes than allowed are unpacked, whatever size its entry claims."""
        most = limits.LARGEST_DOCUMENT
        content = self._read(name, most + 1)
        if len(content) > most:
            raise TooLargeError(f"holds a file of more than {limits.size(most)}. Split it.", file=str(self.path))
        return content

    def open(self, name: str) -> IO[bytes]:
        """A member as a stream; the caller counts the bytes, to stop where there are too many."""
        try:
            return self._zip.open(self._members[name])
        except _UNREADABLE:
            raise self._refused("cannot be unpacked. Is it complete?") from None

    def tell(self) -> int:
        """How far the zip file itself has been read."""
        return self._zip.fp.tell() if self._zip.fp is not None else self._size

    def _read(self, name: str, count: int) -> bytes:
        try:
            with self._zip.open(self._members[name]) as file:
                return file.read(count)
        except _UNREADABLE:
            raise self._refused("cannot be unpacked. Is it complete?") from None

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        entries = self._zip.infolist()
        if len(entries) > limits.MOST_MEMBERS:
            raise self._refused(f"holds more than {limits.MOST_MEMBERS:,} files. Pack only the one with the reports.")
        if any(entry.flag_bits & 0x1 for entry in entries):
            raise self._refused("the zip file is protected by a password. Unpack it first.")
        if any(entry.compress_type not in _METHODS for entry in entries):
            raise self._refused("is packed in an unusual way. Pack it with plain zip (deflate), or unpack it.")
        if _overlap(entries, self._size):
            raise self._refused("is a zip file whose entries overlap, which no program writes by honest means.")
        if sum(entry.file_size for entry in entries) > max(limits.RATIO_COUNTS_FROM, limits.LARGEST_RATIO * self._size):
            raise ReportFormatError(
                f"unpacks to more than {limits.LARGEST_RATIO} times its size, which no table of reports does.",
                advice="Unpack it yourself if you trust it.",
                file=str(self.path),
            )
        return {e.filename: e for e in entries if not e.is_dir() and not _hidden(e.filename)}

    def _refused(self, message: str) -> ReportFormatError:
        return ReportFormatError(message, file=str(self.path))


def ends_as_zip(path: Path) -> bool:
    """Whether a file ends like a zip file, even after other bytes: a web server's header, a self-extracting program."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _LONGEST_END))
        end = file.read()
    at = end.rfind(_END)
    # The record ends with a comment whose length it states.
    return at >= 0 and at + 22 <= len(end) and at + 22 + int.from_bytes(end[at + 20 : at + 22], "little") == len(end)


def _overlap(entries: list[zipfile.ZipInfo], size: int) -> bool:
    """Whether two entries share bytes. With overlapping entries a zip bomb of 10 MB unpacks to petabytes."""
    end = 0
    for entry in sorted(entries, key=lambda e: e.header_offset):
        if entry.header_offset < end:
            return True
        end = entry.header_offset + entry.compress_size
    return end > size


def _hidden(name: str) -> bool:
    return name.startswith("__MACOSX") or PurePosixPath(name).name.startswith(".")
