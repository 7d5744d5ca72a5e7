"""Responses that are compressed once and sent, with a strong ETag, in an encoding that the client accepts."""

import gzip
import hashlib
import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response

from crowdfield.service.mvt import MEDIA as MVT

# Shorter answers are not compressed: they fit into one packet.
SMALLEST = 1024
# Compression levels: for files that are compressed once and kept, and for answers that somebody waits for.
BEST, FAST = 9, 5
# Media types that are worth compressing; images and archives are compressed already.
COMPRESSIBLE = (
    "text/",
    "application/json",
    "application/geo+json",
    "application/vnd.google-earth.kml",
    "image/svg",
    MVT,
)
FOREVER, ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"
# Answers that depend on the key must not be stored in shared caches.
PRIVATE = "private, no-cache"


@dataclass(frozen=True)
class Packed:
    """An answer in memory, or in files if it is large; `packed` is None if compressing does not help."""

    media: str
    tag: str
    plain: bytes | Path
    packed: bytes | Path | None
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_answer(cls, made: dict[str, Any]) -> "Packed":
        """From the answer of a helper process, which names the files that it wrote."""
        packed = Path(made["packed"]) if made["packed"] else None
        return cls(made["media"], made["tag"], Path(made["plain"]), packed, made["headers"])

    @property
    def files(self) -> list[Path]:
        return [part for part in (self.plain, self.packed) if isinstance(part, Path)]

    @property
    def size(self) -> int:
        return sum(_length(part) for part in (self.plain, self.packed) if part is not None)


def pack(body: bytes, media: str, *, level: int = FAST) -> Packed:
    """An answer, compressed if that helps."""
    packed = gzip.compress(body, level, mtime=0) if len(body) >= SMALLEST and media.startswith(COMPRESSIBLE) else None
    if packed is not None and len(packed) >= len(body):
        packed = None
    return Packed(media, hashlib.sha256(body).hexdigest()[:32], body, packed)


def pack_json(document: Any, media: str = "application/json", *, level: int = FAST) -> Packed:
    """A JSON answer, compressed if that helps."""
    body = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return pack(body, media, level=level)


def pack_files(plain: Path, media: str, headers: dict[str, str]) -> Packed:
    """A large answer: its file, and a compressed copy if that helps."""
    digest = hashlib.sha256()
    packed = plain.with_suffix(".gz") if media.startswith(COMPRESSIBLE) else None
    with plain.open("rb") as file, packed.open("wb") if packed else nullcontext() as out:
        archive = gzip.GzipFile("", "wb", FAST, out, mtime=0) if out is not None else None
        while block := file.read(2**20):
            digest.update(block)
            if archive is not None:
                archive.write(block)
        if archive is not None:
            archive.close()
    return Packed(media, digest.hexdigest()[:32], plain, packed, headers)


def send(headers: Headers, answer: Packed, *, cache: str) -> Response:
    """The response in an encoding that this client accepts; 304 if the client has it already."""
    zipped = answer.packed is not None and takes_gzip(headers)
    # Each encoding needs its own ETag.
    tag = f'"{answer.tag}{"-gzip" if zipped else ""}"'
    response_headers = {"ETag": tag, "Cache-Control": cache, **answer.headers}
    if answer.packed is not None:
        response_headers["Vary"] = "Accept-Encoding"
    known = {name.strip().removeprefix("W/") for name in headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=response_headers)
    if zipped:
        response_headers["Content-Encoding"] = "gzip"
    part = answer.packed if zipped else answer.plain
    assert part is not None
    if isinstance(part, Path):
        return FileResponse(part, media_type=answer.media, headers=response_headers)
    return Response(part, media_type=answer.media, headers=response_headers)


def takes_gzip(headers: Headers) -> bool:
    """Whether a client accepts gzip."""
    for entry in headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = entry.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _length(part: bytes | Path) -> int:
    return len(part) if isinstance(part, bytes) else part.stat().st_size
