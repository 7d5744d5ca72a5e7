"""XML as a stream of elements, without entities and without a document type."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Protocol
from xml.parsers import expat

from crowdfield.errors import ReportFormatError
from crowdfield.io import limits
from crowdfield.io.features.common import broken
from crowdfield.io.kinds import Found, refuse_doctype
from crowdfield.io.opening import document

_BLOCK = 2**16


class Handler(Protocol):
    """Receives every element: its name without the namespace, and the names of the elements around it."""

    def start(self, name: str, around: list[str], attributes: dict[str, str]) -> None: ...

    def text(self, words: str) -> None: ...

    def end(self, name: str, around: list[str]) -> None: ...


def parse(path: Path, found: Found, handler: Handler) -> None:
    """Pass every element of a document to a handler. It is an error if the document is not XML, is nested too deeply or
    has a document type."""
    content = document(path, found)
    stack: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) >= limits.DEEPEST:
            raise ReportFormatError(
                f"is XML nested more than {limits.DEEPEST} levels deep, which {found.kind.title} never is.",
                file=str(path),
            )
        name = tag.rpartition(" ")[2]
        handler.start(name, stack, attributes)
        stack.append(name)

    def end(_: str) -> None:
        name = stack.pop()
        handler.end(name, stack)

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = lambda *_: refuse_doctype(path)
    stream = io.BytesIO(content)
    try:
        while block := stream.read(_BLOCK):
            parser.Parse(block, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        what = expat.errors.messages.get(error.code, "it is not XML")
        raise broken(path, found, f"{what}, on line {error.lineno}") from None
    except ReportFormatError:
        raise
    except (ValueError, LookupError):  # an encoding that Python does not know, or that is none of text
        raise broken(path, found, "its encoding is not known") from None
