"""What kind of file this is: by our own look at its bytes, never by its name, and never by a library that offers the
bytes to every format it knows. What is not in these tables is not opened."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from crowdfield.errors import ReportFormatError
from crowdfield.io.archives import ZIP, Archive

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


TEXT = Kind("text", "a table of text")
GEOJSON = Kind("geojson", "GeoJSON", "geojson")
GEOPACKAGE = Kind("gpkg", "a GeoPackage", "geopackage")
GEOPARQUET = Kind("geoparquet", "GeoParquet", "geoparquet", boxed=True)
SHAPEFILE = Kind("shapefile", "a Shapefile", "shapefile")
KML = Kind("kml", "KML", "kml")
FEATURES = {kind.name: kind for kind in (GEOJSON, GEOPACKAGE, GEOPARQUET, SHAPEFILE, KML)}

_AS_TABLE = "Save it as CSV."
_AS_POINTS = "Save it as GeoPackage, GeoJSON or CSV."
_UNPACK = "Unpack it, or pack it with zip or gzip."
EXCEL = Kind("excel", "an Excel workbook", instead=_AS_TABLE)
SPREADSHEET = Kind("spreadsheet", "an OpenDocument file", instead=_AS_TABLE)
NESTED = Kind("nested", "an archive in an archive", instead="Unpack the outer one.")
OTHER_XML = Kind("xml", "XML that is not KML", instead=_AS_POINTS)

# The first bytes of each kind. Those without a reader are here to be named when they are refused.
SIGNATURES: tuple[tuple[bytes, Kind], ...] = (
    (b"SQLite format 3\x00", GEOPACKAGE),
    (b"PAR1", GEOPARQUET),
    (b"\x00\x00\x27\x0a", SHAPEFILE),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", EXCEL),
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
_ENDINGS = ((".shp",), (".kml",), (".gpkg",), (".geojson", ".json"), (".csv", ".tsv", ".txt"))


def look(path: Path) -> Found:
    """What a file is. Raises an error that says what to do where it is of a kind that is not read."""
    start = first_bytes(path)
    if start.startswith(ZIP):
        found = _in_zip(path)
    elif start.startswith(GZIP):
        found = _in_gzip(start, path)
    else:
        found = Found(by_bytes(start, path))
    if found.kind.instead:
        raise ReportFormatError(
            f"{_inside(found)}is {found.kind.title}, which is not read. {found.kind.instead}", file=str(path)
        )
    return found


def by_bytes(start: bytes, path: Path) -> Kind:
    """The kind of a file that begins like this."""
    for signature, kind in SIGNATURES:
        if start.startswith(signature):
            return kind
    text = start.removeprefix(_BOM).lstrip()
    if text.startswith(b"{"):
        return GEOJSON
    if text.startswith(b"<"):
        return KML if _root(start, path) == "kml" else OTHER_XML
    return TEXT


def first_bytes(path: Path, count: int = LOOK) -> bytes:
    """The first bytes of a file, as they are on disk."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise ReportFormatError(f"cannot be read: {error.strerror or error}.", file=str(path)) from None


def _in_zip(path: Path) -> Found:
    with Archive(path) as archive:
        names = archive.names
        if "[Content_Types].xml" in names:
            return Found(EXCEL)
        if "mimetype" in names and "content.xml" in names:
            return Found(SPREADSHEET)
        wanted = next((found for endings in _ENDINGS if (found := archive.ending(*endings))), names)
        if not wanted or (len(wanted) > 1 and not wanted[0].lower().endswith((".shp", ".kml"))):
            shown = ", ".join(f"'{name[:60]}'" for name in wanted[:5]) or "nothing"
            raise ReportFormatError(
                f"a zip file must hold one table; this one holds {shown}. Unpack the one you want.", file=str(path)
            )
        member = next((name for name in wanted if name.lower() == "doc.kml"), wanted[0])
        start = archive.first_bytes(member, LOOK)
    kind = NESTED if start.startswith((ZIP, GZIP)) else by_bytes(start, path)
    return Found(kind, member)


def _in_gzip(packed: bytes, path: Path) -> Found:
    try:
        start = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(packed, LOOK)
    except zlib.error:
        raise ReportFormatError("is packed with gzip, and damaged. Is the file complete?", file=str(path)) from None
    return Found(NESTED if start.startswith((ZIP, GZIP)) else by_bytes(start, path), gzipped=True)


def _inside(found: Found) -> str:
    return "" if found.member is None else f"'{found.member[:80]}' in it "


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
    # What is wrong with it is said by whoever reads the whole.
    with suppress(_Stop, expat.ExpatError):
        parser.Parse(start, False)
    return names[0].lower() if names else ""


def refuse_doctype(path: Path) -> None:
    raise ReportFormatError(
        "is XML with a document type (<!DOCTYPE …>), which can make a small file grow without end or fetch others. "
        "Remove that line.",
        file=str(path),
    )
