"""What kind of file this is, by its first bytes: never by its name, and never by a library that tries every format it
knows. A kind that is not in these tables is not opened."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePosixPath
from xml.parsers import expat

from crowdfield.errors import ReportFormatError
from crowdfield.io import encodings
from crowdfield.io.archives import ZIP, Archive, ends_as_zip
from crowdfield.io.columns import some

GZIP = b"\x1f\x8b"
LOOK = 2**16  # bytes that are looked at


@dataclass(frozen=True)
class Kind:
    """A kind of file. To add one: an entry here, and a module of `crowdfield.io.features` that reads it."""

    name: str
    title: str
    reader: str | None = None  # the module of `crowdfield.io.features`; None for delimited text
    instead: str = ""  # for a kind that is known and not read: what to do about it
    boxed: bool = False  # read by a large library in another language, so always in a process of its own


@dataclass(frozen=True)
class Found:
    """A file's kind, and how it is packed: as a member of a zip file, or with gzip."""

    kind: Kind
    member: str | None = None
    gzipped: bool = False
    layer: str | None = None  # the layer or sheet that was asked for, where the file itself holds several


TEXT = Kind("text", "a table of text")
GEOJSON = Kind("geojson", "GeoJSON", "geojson")
GEOPACKAGE = Kind("gpkg", "a GeoPackage", "geopackage")
GEOPARQUET = Kind("geoparquet", "GeoParquet", "geoparquet", boxed=True)
SHAPEFILE = Kind("shapefile", "a Shapefile", "shapefile")
KML = Kind("kml", "KML", "kml")
EXCEL = Kind("excel", "an Excel workbook", "excel", boxed=True)
GPX = Kind("gpx", "GPX", "gpx")
HTML = Kind("html", "a web page (HTML)", "html")
FEATURES = {kind.name: kind for kind in (GEOJSON, GEOPACKAGE, GEOPARQUET, SHAPEFILE, KML, GPX, EXCEL, HTML)}
LAYERED = (GEOPACKAGE, EXCEL, HTML, GEOJSON)  # kinds that may hold several layers, sheets, tables or objects

_AS_TABLE = "Save it as CSV."
_AS_POINTS = "Save it as GeoPackage, GeoJSON or CSV."
_UNPACK = "Unpack it, or pack it with zip or gzip."
OLD_EXCEL = Kind(
    "xls",
    "an Excel workbook of the old kind (.xls)",
    instead="Open it in a spreadsheet program and save it as .xlsx or CSV.",
)
LOCKED_EXCEL = Kind(
    "locked",
    "an office document with a password",
    instead="Open it, save it without a password as .xlsx or CSV, and read that.",
)
BINARY = Kind("binary", "a binary file of an unknown kind", instead="Save it as CSV.")
SPREADSHEET = Kind("spreadsheet", "an OpenDocument file", instead=_AS_TABLE)
OTHER_OFFICE = Kind("office", "a document of an office program", instead=_AS_TABLE)
NESTED = Kind("nested", "an archive in an archive", instead="Unpack the outer one.")
UTF_32 = Kind("utf-32", "text in the encoding UTF-32", instead="Save it as CSV in UTF-8.")
OTHER_XML = Kind("xml", "XML that is neither KML nor GPX", instead=_AS_POINTS)

# The first bytes of each kind. Those without a reader are here to be named when they are refused.
SIGNATURES: tuple[tuple[bytes, Kind], ...] = (
    (b"SQLite format 3\x00", GEOPACKAGE),
    (b"PAR1", GEOPARQUET),
    (codecs.BOM_UTF32_LE, UTF_32),  # begins like UTF-16
    (codecs.BOM_UTF32_BE, UTF_32),
    (b"\x00\x00\x27\x0a", SHAPEFILE),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLD_EXCEL),
    (b"fgb\x03", Kind("flatgeobuf", "FlatGeobuf", instead=_AS_POINTS)),
    (b"%PDF-", Kind("pdf", "a PDF document", instead=_AS_TABLE)),
    (b"\x89PNG\r\n\x1a\n", Kind("png", "a PNG picture", instead="Reports are read from tables and points.")),
    (b"\xff\xd8\xff", Kind("jpeg", "a JPEG picture", instead="Reports are read from tables and points.")),
    (b"II*\x00", Kind("tiff", "a raster (TIFF)", instead="Reports are read from tables and points.")),
    (b"MM\x00*", Kind("tiff", "a raster (TIFF)", instead="Reports are read from tables and points.")),
    (b"II+\x00", Kind("tiff", "a raster (BigTIFF)", instead="Reports are read from tables and points.")),
    (b"\x89HDF\r\n\x1a\n", Kind("hdf5", "HDF5 or NetCDF", instead="Reports are read from tables and points.")),
    (b"CDF\x01", Kind("netcdf", "NetCDF", instead="Reports are read from tables and points.")),
    (b"ARROW1", Kind("arrow", "Arrow or Feather", instead="Save it as CSV or GeoParquet.")),
    (b"BZh", Kind("bzip2", "packed with bzip2", instead=_UNPACK)),
    (b"\xfd7zXZ\x00", Kind("xz", "packed with xz", instead=_UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", Kind("7z", "packed with 7-Zip", instead=_UNPACK)),
    (b"Rar!\x1a\x07", Kind("rar", "packed with RAR", instead=_UNPACK)),
    (b"\x28\xb5\x2f\xfd", Kind("zstd", "packed with Zstandard", instead=_UNPACK)),
)
_BOM = b"\xef\xbb\xbf"
# Which members of a zip file are looked at first, by their endings. Their kind is decided by their bytes all the same.
_ENDINGS = (
    (".shp",), (".kml",), (".gpkg",), (".gpx",), (".geojson", ".topojson", ".json"), (".csv", ".tsv", ".txt"),
    (".xls", ".html", ".htm"),
)  # fmt: skip

_REMARKS = frozenset({"readme", "read_me", "read me", "license", "licence", "copying", "about"})  # files beside data


_BESIDE_SHAPES = (".dbf", ".shx", ".prj", ".cpg", ".sbn", ".sbx", ".qpj")


def look(path: Path, layer: str | None = None) -> Found:
    """The kind of a file. A kind that cannot be read is an error that says what to do.

    layer: which of several files in a zip file, layers of a GeoPackage or sheets of a workbook to read.
    """
    if path.suffix.lower() in _BESIDE_SHAPES and (shapes := _shapes_beside(path)) is not None:
        raise ReportFormatError(f"is a part of the Shapefile {shapes.name}. Give that file instead.", file=str(path))
    start = first_bytes(path)
    if start.startswith(ZIP) or (_is_unmarked(start) and ends_as_zip(path)):
        found = _in_zip(path, layer)
    elif start.startswith(GZIP):
        found = _in_gzip(start, path)
    else:
        found = Found(by_bytes(start, path))
    if found.kind.instead:
        raise ReportFormatError(
            f"{_inside(found)}is {found.kind.title}, which is not read. {found.kind.instead}", file=str(path)
        )
    if layer is not None and found.layer is None and found.member is None:
        if found.kind not in LAYERED:
            raise without_layers(found, path)
        found = replace(found, layer=layer)
    return found


def _shapes_beside(path: Path) -> Path | None:
    """The Shapefile that a file belongs to by its name; None if there is none."""
    return next((p for p in (path.with_suffix(".shp"), path.with_suffix(".SHP")) if p.is_file()), None)


def without_layers(found: Found, path: Path) -> ReportFormatError:
    """The error if a layer is requested from a file without layers."""
    return ReportFormatError(f"is {found.kind.title} and has no layers.", advice="Leave out --layer.", file=str(path))


def _is_unmarked(start: bytes) -> bool:
    """Whether nothing in its first bytes says what a file is."""
    return not start.startswith((GZIP, *(signature for signature, _ in SIGNATURES)))


def by_bytes(start: bytes, path: Path) -> Kind:
    """The kind of a file that begins like this."""
    for signature, kind in SIGNATURES:
        if start.startswith(signature):
            return LOCKED_EXCEL if kind is OLD_EXCEL and _is_locked(start) else kind
    text = start.removeprefix(_BOM).lstrip(b" \t\r\n\x1e")  # some programs put a record separator before each feature
    if text.startswith(b"{") or (text.startswith(b"[") and text[1:].lstrip().startswith((b"{", b"]", b"["))):
        return GEOJSON
    if is_html(start):
        return HTML
    if text.startswith(b"<"):
        return {"kml": KML, "gpx": GPX}.get(_root(start, path), OTHER_XML)
    return BINARY if _is_binary(start) else TEXT


_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the part of a document with a password that holds all others


def _is_locked(start: bytes) -> bool:
    """Whether a document of the old kind holds an encrypted one. Its table of parts is at a sector that it names."""
    size = 1 << min(int.from_bytes(start[30:32], "little"), 12)
    table = (int.from_bytes(start[48:52], "little") + 1) * size
    return _ENCRYPTED in start[table : table + 4096] or _ENCRYPTED in start[:4096]


# Bytes that text hardly ever contains, and the share of them above which a file is not text.
_CONTROL = bytes([*range(9), *range(14, 26), 127])
_MOST_CONTROL = 0.02


def _is_binary(start: bytes) -> bool:
    some = start[:4096]
    if some.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or encodings.wide(some):
        return False
    return len(some) - len(some.translate(None, _CONTROL)) > _MOST_CONTROL * len(some)


def first_bytes(path: Path, count: int = LOOK) -> bytes:
    """The first bytes of a file, as they are on disk."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise ReportFormatError(f"cannot be read: {error.strerror or error}.", file=str(path)) from None


def _in_zip(path: Path, layer: str | None) -> Found:
    with Archive(path) as archive:
        names = archive.names
        if "[Content_Types].xml" in names:
            # What every file of Microsoft's office programs has; only a workbook has this beside it.
            workbook = any(name.lower() == "xl/workbook.xml" for name in names)
            return Found(EXCEL if workbook else OTHER_OFFICE, layer=layer)
        if "Index/Document.iwa" in names:
            return Found(OTHER_OFFICE)  # of Apple's programs
        if "mimetype" in names and "content.xml" in names:
            return Found(SPREADSHEET)
        wanted = next((found for endings in _ENDINGS if (found := archive.ending(*endings))), names)
        wanted = [name for name in wanted if PurePosixPath(name).stem.casefold() not in _REMARKS] or wanted
        if not wanted:
            raise ReportFormatError("is a zip file with nothing in it.", file=str(path))
        member = _one_of(wanted, layer, path)
        start = archive.first_bytes(member, LOOK)
    if start.startswith((ZIP, GZIP)):
        return Found(NESTED, member)
    kind = by_bytes(start, path)
    # The name was that of a layer inside the only file.
    inner = layer if kind is GEOPACKAGE and len(wanted) == 1 else None
    return Found(kind, member, layer=inner)


def _one_of(members: list[str], layer: str | None, path: Path) -> str:
    """The member of a zip file to read; if there are several candidates, an error that lists them."""
    first = next((name for name in members if name.lower() == "doc.kml"), members[0])
    if first.lower().endswith((".kml", ".gpkg")) and (len(members) == 1 or first.lower() == "doc.kml"):
        return first
    if layer is None and len(members) == 1:
        return first
    return pick(members, layer, path, what="files with layers of their own")


def pick(names: Sequence[str], wanted: str | None, path: Path, *, what: str) -> str:
    """One of several layers: by its whole name, the name without its ending, or a part that only one of them has."""
    shown = some(_short([PurePosixPath(name).name for name in names]), 40)
    if wanted is None:
        raise ReportFormatError(
            f"holds {len(names)} {what}: {shown}.",
            advice="Name the one that is wanted with --layer NAME; a part of its name is enough.",
            file=str(path),
            choices={"layer": names},
        )
    asked = wanted.strip().casefold()
    forms: tuple[Callable[[str], bool], ...] = (
        lambda name: name.casefold() == asked,
        lambda name: asked in (PurePosixPath(name).name.casefold(), PurePosixPath(name).stem.casefold()),
        lambda name: asked in PurePosixPath(name).stem.casefold(),
    )
    for fits in forms:
        found = [name for name in names if fits(name)]
        if len(found) == 1:
            return found[0]
    several = "several layers have" if sum(map(forms[-1], names)) > 1 else "no layer has"
    raise ReportFormatError(f"{several} '{wanted[:60]}' in the name; there are {shown}.", file=str(path))


def _short(names: list[str]) -> list[str]:
    """Names without the long prefix that all of them share."""
    pairs = zip(min(names), max(names), strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) if len(names) > 1 else 0
    return [f"…{name[shared:]}" for name in names] if shared > 12 else names


def _in_gzip(packed: bytes, path: Path) -> Found:
    try:
        start = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(packed, LOOK)
    except zlib.error:
        raise ReportFormatError("is packed with gzip, and damaged. Is the file complete?", file=str(path)) from None
    return Found(NESTED if start.startswith((ZIP, GZIP)) else by_bytes(start, path), gzipped=True)


def _inside(found: Found) -> str:
    return "" if found.member is None else f"'{found.member[:80]}' in it "


_BLANKS = re.compile(r"\s*")
_HTML_BEGINS = ("<!doctype html", "<html", "<table", "<head", "<meta", "<body", "<style", "<div", "<title")


def is_html(start: bytes) -> bool:
    """Whether a file begins like a web page, after comments and an XML declaration."""
    wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = start.decode("utf-16" if wide else "latin-1", "ignore").removeprefix(_BOM.decode("latin-1")).lstrip("\ufeff")
    at = 0
    while True:
        at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # nothing at all is a match too
        remark = next((end for begin, end in (("<!--", "-->"), ("<?xml", "?>")) if text.startswith(begin, at)), None)
        if remark is None:
            return text[at : at + 20].lower().startswith(_HTML_BEGINS)
        closed = text.find(remark, at)
        if closed < 0:
            return False
        at = closed + len(remark)


class _Stop(Exception):
    """The first element was seen."""


def _root(start: bytes, path: Path) -> str:
    """The name of the outermost element of XML, without its namespace."""
    names: list[str] = []

    def element(name: str, _: object) -> None:
        names.append(name.rpartition(":")[2])
        raise _Stop

    parser = expat.ParserCreate()
    parser.StartElementHandler = element
    parser.StartDoctypeDeclHandler = lambda *_: refuse_doctype(path)
    # The reader of the whole file reports what is wrong with it.
    with suppress(_Stop, expat.ExpatError):
        parser.Parse(start, False)
    return names[0].lower() if names else ""


def refuse_doctype(path: Path) -> None:
    """Raise an error for XML with a document type."""
    raise ReportFormatError(
        "is XML with a document type (<!DOCTYPE …>), which can make a small file grow without end or fetch others. "
        "Remove that line.",
        file=str(path),
    )
