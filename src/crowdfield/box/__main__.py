"""The process itself: shut in first, then import what reads, then read one file and answer."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from crowdfield.box.confine import shut
from crowdfield.box.limits import Limits
from crowdfield.errors import CrowdfieldError, ReportFormatError


def main() -> None:
    """Confine this process, run the task, and write its answer."""
    question = json.loads(sys.stdin.buffer.read())
    path = Path(question["path"])
    layers = shut(Limits(**question["limits"]), [path])
    sys.excepthook = tell
    module, _, name = question["task"].partition(":")
    header, arrays = getattr(import_module(module), name)(path, **question["arguments"])
    from crowdfield.box.message import packed

    say(packed({**header, "layers": layers}, arrays))


def say(parts: Iterator[bytes]) -> None:
    """Write the parts of an answer to the pipe."""
    for part in parts:
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Hand an error on. Only our own keep their words: what others say may hold paths, or parts of the file."""
    if isinstance(error, CrowdfieldError):
        failure: dict[str, Any] = {"kind": kind.__name__, "message": getattr(error, "message", str(error))}
        if isinstance(error, ReportFormatError):
            failure |= {"line": error.line, "column": error.column, "advice": error.advice, "choices": error.choices}
    elif isinstance(error, MemoryError):
        failure = {"kind": "MemoryError"}
    else:
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
        failure = {
            "kind": "",
            "message": f"reading it failed in a way that nobody foresaw ({kind.__name__}, {where}).",
        }
    from crowdfield.box.message import packed

    say(packed({"error": failure}))


if __name__ == "__main__":
    main()
