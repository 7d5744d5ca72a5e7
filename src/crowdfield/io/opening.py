"""A file as a watched stream of UTF-8: decompressed, bounded, counted, and stopped where it goes wrong."""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from crowdfield.errors import ReportFormatError

Progress = Callable[[int, int], None]  # bytes done, bytes in all

LONGEST_LINE = 8 * 2**20
# A table of reports shrinks 5 to 30 times; what grows a thousandfold was made to fill a disk.
LARGEST_RATIO = 200
RATIO_COUNTS_FROM = 64 * 2**20
LARGEST_FILE = 64 * 2**30

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"


def first_bytes(path: Path, count: int = 16) -> bytes:
    """The first bytes of a file, as they are on disk."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise ReportFormatError(f"cannot be read: {error.strerror or error}.", file=str(path)) from None


class Watched(io.RawIOBase):
    """The bytes of a text file as UTF-8 without a byte order mark, with every line counted.

    Errors are raised here and kept in ``failure`` as well: a parser in C may report one in its own words.
    """

    def __init__(self, path: Path, *, encoding: str | None = None, progress: Progress | None = None) -> None:
        super().__init__()
        self.path, self.failure = path, None  # type: Path, ReportFormatError | None
        self._encoding_given = encoding
        self._done = 0  # bytes handed out
        self._since_newline = 0
        self._out = b""
        self._progress = progress
        self._count = 0
        start = first_bytes(path)
        self._size = path.stat().st_size
        self._file: IO[bytes] = path.open("rb")
        self._inner: Any = self._file
        self._packed = start.startswith((GZIP, ZIP))
        try:
            if start.startswith(GZIP):
                self._inner = gzip.GzipFile(fileobj=self._file)
            elif start.startswith(ZIP):
                self._inner = self._zip_member()
            head = self._raw(2**16)
        except ReportFormatError:
            self._file.close()
            raise
        for bom, name in _BOMS:
            if head.startswith(bom):
                encoding, head = name, head if name == "utf-16" else head[len(bom) :]
        self.encoding = encoding or "utf-8"
        try:
            decoder = codecs.getincrementaldecoder(self.encoding)
        except LookupError:
            self._file.close()
            raise ReportFormatError(f"there is no encoding called {encoding!r}.", file=str(path)) from None
        self._decoder = decoder()
        self._old_mac = b"\r" in head and b"\n" not in head
        self._pending = head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._out:
            block = self._pending or self._raw(2**18)
            self._pending = b""
            self._out = self._text(block)
            if not block:
                break
        count = min(len(buffer), len(self._out))
        buffer[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _line(self) -> int:
        """The line that the next byte belongs to. Counted again from the start: only a failure asks for it."""
        line, left = 1, self._done
        with Watched(self.path, encoding=self._encoding_given) as again:
            while left > 0 and (block := again.read(min(left, 2**20))):
                line, left = line + block.count(b"\n"), left - len(block)
        return line

    def _fail(self, message: str, line: int | None = None) -> ReportFormatError:
        self.failure = ReportFormatError(message, file=str(self.path), line=line)
        return self.failure

    def _raw(self, count: int) -> bytes:
        try:
            block: bytes = self._inner.read(count)
        except (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
            raise self._fail(f"cannot be read to its end: {error}. Is the file complete?") from None
        self._count += len(block)
        if self._packed and self._count > RATIO_COUNTS_FROM and self._count > LARGEST_RATIO * self._size:
            raise self._fail(
                f"unpacks to more than {LARGEST_RATIO} times its size, which no table of reports does. "
                "Unpack it yourself if you trust it."
            )
        if self._count > LARGEST_FILE:
            raise self._fail(f"is larger than {LARGEST_FILE // 2**30} GiB. Split it.")
        if self._progress is not None:
            self._progress(min(self._file.tell(), self._size), self._size)
        return block

    def _text(self, block: bytes) -> bytes:
        try:
            text = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = self._line() + error.object[: error.start].count(b"\n")
            raise self._fail(
                f"byte 0x{error.object[error.start]:02x} is not {self.encoding.upper()}. Save the file as UTF-8, "
                "or name its encoding (often cp1252 from older spreadsheets).",
                at,
            ) from None
        out = block if self.encoding == "utf-8" and len(text) == len(block) else text.encode("utf-8", "surrogatepass")
        if self._old_mac:
            out = out.replace(b"\r", b"\n")
        last = out.rfind(b"\n")
        self._since_newline = self._since_newline + len(out) if last < 0 else len(out) - last - 1
        longest = self._since_newline if last < 0 else 0
        if longest > LONGEST_LINE:
            raise self._fail(
                f"a line is longer than {LONGEST_LINE // 2**20} MiB. Is this a table with one report a line?",
                self._line(),
            )
        self._done += len(out)
        return out

    def _zip_member(self) -> IO[bytes]:
        try:
            archive = zipfile.ZipFile(self._file)
            members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX")]
            tables = [m for m in members if m.filename.lower().endswith((".csv", ".tsv", ".txt"))] or members
            if len(tables) != 1:
                names = ", ".join(m.filename for m in tables[:5]) or "nothing"
                raise self._fail(f"a zip file must hold one table; this one holds {names}. Unpack the one you want.")
            if tables[0].flag_bits & 0x1:
                raise self._fail("the zip file is protected by a password. Unpack it first.")
            return archive.open(tables[0])
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
            raise self._fail(f"is not a zip file that can be read: {error}.") from None


def opened(path: Path, *, encoding: str | None = None, progress: Progress | None = None) -> io.BufferedReader:
    """The file as UTF-8 bytes; its ``raw`` is the :class:`Watched` stream."""
    return io.BufferedReader(Watched(path, encoding=encoding, progress=progress), buffer_size=2**18)
