"""The bytes of a file: decompressed, limited and checked. Text is converted to UTF-8, and its lines are counted."""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from crowdfield.errors import ReportFormatError, TooLargeError
from crowdfield.io import encodings, limits
from crowdfield.io.archives import Archive
from crowdfield.io.kinds import TEXT, Found

Progress = Callable[[int, int], None]  # bytes done, bytes in all

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_UNREADABLE = (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError)


class NotInEncoding(ReportFormatError):
    """Text that is not in the assumed encoding; ``sample`` has the bytes around the first invalid one."""

    sample: bytes = b""


def document(path: Path, found: Found) -> bytes:
    """The whole content of a file, decompressed, for a format that has to be read as a whole."""
    most = limits.LARGEST_DOCUMENT
    if found.member is not None:
        with Archive(path) as archive:
            return archive.read(found.member)
    allowed = most
    if found.gzipped:
        allowed = min(most, max(limits.RATIO_COUNTS_FROM, limits.LARGEST_RATIO * path.stat().st_size))
    try:
        with gzip.open(path) if found.gzipped else path.open("rb") as file:
            content = file.read(allowed + 1)
    except _UNREADABLE:
        raise ReportFormatError("cannot be read to its end. Is the file complete?", file=str(path)) from None
    if len(content) > most:
        raise TooLargeError(f"is larger than {limits.size(most)}. Split it.", file=str(path))
    if len(content) > allowed:
        raise too_much(path)
    return content


def too_much(path: Path) -> ReportFormatError:
    """The error for a file that unpacks to far more than its size."""
    return ReportFormatError(
        f"unpacks to more than {limits.LARGEST_RATIO} times its size, which no table of reports does.",
        advice="Unpack it yourself if you trust it.",
        file=str(path),
    )


class Watched(io.RawIOBase):
    """The bytes of a text file as UTF-8 without a byte order mark, with every line counted.

    Errors are raised and also stored in ``failure``: a parser written in C may report them in its own words.
    """

    def __init__(
        self,
        path: Path,
        found: Found | None = None,
        *,
        encoding: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__()
        self.path, self.failure = path, None  # type: Path, ReportFormatError | None
        self._found = found or Found(TEXT)
        self._encoding_given = encoding
        self._done = 0  # bytes handed out
        self._since_newline = 0
        self._out = b""
        self._progress = progress
        self._count = 0
        self._size = path.stat().st_size
        self._archive: Archive | None = None
        self._file: IO[bytes] = path.open("rb")
        self._inner: Any = self._file
        try:
            if self._found.gzipped:
                self._inner = gzip.GzipFile(fileobj=self._file)
            elif self._found.member is not None:
                self._archive = Archive(path)
                self._inner = self._archive.open(self._found.member)
            head = self._raw(2**16)
        except ReportFormatError:
            self._release()
            raise
        for bom, name in _BOMS:
            if head.startswith(bom):
                encoding, head = name, head if name == "utf-16" else head[len(bom) :]
        self.encoding = encoding or encodings.wide(head) or "utf-8"
        try:
            decoder = codecs.getincrementaldecoder(self.encoding)
        except LookupError:
            self._release()
            raise ReportFormatError(
                f"there is no encoding called {encoding!r}. Common ones are utf-8, cp1252, latin-1 and utf-16.",
                file=str(path),
            ) from None
        self._decoder = decoder()
        self._old_mac = b"\r" in head and b"\n" not in head
        self._pending = head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._out = self._out or self.block()
        count = min(len(buffer), len(self._out))
        buffer[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def block(self) -> bytes:
        """The next bytes, as many as are there already or were read in one go; none at the end."""
        out, self._out = self._out, b""
        while not out:
            block = self._pending or self._raw(2**18)
            self._pending = b""
            out = self._text(block)
            if not block:
                break
        return out

    def close(self) -> None:
        if not self.closed:
            self._release()
        super().close()

    def _release(self) -> None:
        self._file.close()
        if self._archive is not None:
            self._archive.__exit__()

    def _line(self) -> int:
        """The line of the next byte. Lines are counted again from the start, because only error messages need it."""
        line, left = 1, self._done
        with Watched(self.path, self._found, encoding=self._encoding_given) as again:
            while left > 0 and (block := again.read(min(left, 2**20))):
                line, left = line + block.count(b"\n"), left - len(block)
        return line

    def _fail(self, message: str, line: int | None = None, advice: str = "") -> ReportFormatError:
        self.failure = ReportFormatError(message, advice=advice, file=str(self.path), line=line)
        return self.failure

    def _raw(self, count: int) -> bytes:
        try:
            block: bytes = self._inner.read(count)
        except _UNREADABLE:
            raise self._fail("cannot be read to its end. Is the file complete?") from None
        self._count += len(block)
        packed = self._inner is not self._file
        if packed and self._count > max(limits.RATIO_COUNTS_FROM, limits.LARGEST_RATIO * self._size):
            self.failure = too_much(self.path)
            raise self.failure
        if self._count > limits.LARGEST_FILE:
            self.failure = TooLargeError(
                f"is larger than {limits.size(limits.LARGEST_FILE)}. Split it.", file=str(self.path)
            )
            raise self.failure
        if self._progress is not None:
            self._progress(min((self._archive or self._file).tell(), self._size), self._size)
        return block

    def _text(self, block: bytes) -> bytes:
        out = block if self._is_plain(block) else self._decoded(block)
        if self._old_mac:
            out = out.replace(b"\r", b"\n")
        first, last = out.find(b"\n"), out.rfind(b"\n")
        longest = self._since_newline + (len(out) if first < 0 else first)
        self._since_newline = self._since_newline + len(out) if last < 0 else len(out) - last - 1
        if longest > limits.LONGEST_LINE:
            raise self._fail(
                f"a line is longer than {limits.LONGEST_LINE // 2**20} MiB. Is this a table with one report per line?",
                self._line(),
            )
        self._done += len(out)
        return out

    def _is_plain(self, block: bytes) -> bool:
        """Whether a block needs no decoding: it is ASCII, and does not begin inside a multi-byte character."""
        return bool(block) and self.encoding == "utf-8" and block.isascii() and not self._decoder.getstate()[0]

    def _decoded(self, block: bytes) -> bytes:
        before = self._decoder.getstate()[0]  # the beginning of a character whose end comes with this block
        try:
            text = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = self._line() + error.object[: error.start].count(b"\n")
            problem = NotInEncoding(
                f"byte 0x{error.object[error.start]:02x} is not {self.encoding.upper()}. Save the file as UTF-8.",
                advice="Or name its encoding with --encoding (often cp1252 from older spreadsheets).",
                file=str(self.path),
                line=at,
            )
            problem.sample = bytes(error.object)
            self.failure = problem
            raise problem from None
        if self.encoding == "utf-8":
            whole = before + block
            return whole[: len(whole) - len(self._decoder.getstate()[0])]
        return text.encode("utf-8", "surrogatepass")


def opened(
    path: Path, found: Found | None = None, *, encoding: str | None = None, progress: Progress | None = None
) -> io.BufferedReader:
    """The file as UTF-8 bytes; its ``raw`` is the :class:`Watched` stream."""
    return io.BufferedReader(Watched(path, found, encoding=encoding, progress=progress), buffer_size=2**18)
