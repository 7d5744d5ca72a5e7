"""The caller's side: start a process, give it a question, and take its answer or say what became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

import crowdfield
from crowdfield import errors
from crowdfield.box.limits import MIB, Limits
from crowdfield.box.message import Garbled, unpacked

_INSIDE = "CROWDFIELD_IN_A_BOX"
_BLOCK = 2**20
# Of the choices that an error may bring: how many options, values of each, and characters of a value.
_MOST_OPTIONS, _MOST_VALUES, _LONGEST_VALUE = 10, 1000, 300
# The errors that a process may hand on. Any other name becomes the first.
_KNOWN = {
    kind.__name__: kind
    for kind in (
        errors.ReadingFailedError,
        errors.ReportFormatError,
        errors.TooLargeError,
        errors.InputError,
        errors.MissingDependencyError,
    )
}


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back, and what it cost."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    layers: tuple[str, ...]
    """What shut the process in: see `crowdfield.box.confine`."""
    seconds: float
    peak: int
    """Bytes of memory at most."""


@dataclass
class _Ended:
    """How a process ended."""

    content: bytes = b""
    status: int = 0
    peak: int = 0
    too_long: bool = False
    too_much: bool = False
    seconds: float = 0.0


def is_inside() -> bool:
    """Whether this process is such a box already."""
    return _INSIDE in os.environ


def ask(
    task: str,
    path: Path,
    limits: Limits | None = None,
    *,
    shown: str,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[float, int], None] | None = None,
    **arguments: Any,
) -> Answer:
    """What the function `task` ("module:name") makes of a file, called in a process of its own.

    Errors call the file ``shown``. ``environment`` is added to the few variables that the process gets. ``watch`` is
    called with the seconds and the bytes of memory that it took, however it ended.
    """
    limits = limits or Limits()
    question = {"task": task, "path": str(path.resolve()), "arguments": arguments, "limits": limits.plain()}
    ended = _run(json.dumps(question).encode(), limits, _environment() | dict(environment or {}))
    if watch is not None:
        watch(ended.seconds, ended.peak)
    if ended.too_long:
        raise errors.ReadingFailedError(f"{shown}: reading it took longer than {limits.seconds:g} s and was stopped.")
    if ended.too_much:
        raise errors.ReadingFailedError(f"{shown}: holds more than can be handed over at once. Split it.")
    if ended.status == -signal.SIGXCPU:
        raise errors.ReadingFailedError(
            f"{shown}: reading it took more than {limits.processor_seconds:g} s of processor time and was stopped."
        )
    try:
        header, arrays = unpacked(ended.content)
    except Garbled:
        raise errors.ReadingFailedError(
            f"{shown}: the process that read it ended unexpectedly. Is the file complete?"
        ) from None
    if "error" in header:
        raise _error(header["error"], limits, shown)
    layers = tuple(str(layer) for layer in header.pop("layers", ()))
    return Answer(header, arrays, layers, ended.seconds, ended.peak)


@contextmanager
def believing(shown: str) -> Iterator[None]:
    """While an answer is looked at: one that is not of the form it should have is an error in our own words, as it may
    come from a process that the file has taken over."""
    try:
        yield
    except errors.CrowdfieldError:
        raise
    except (Garbled, KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise errors.ReadingFailedError(f"{shown}: the process that read it gave no valid answer.") from None


def _run(question: bytes, limits: Limits, environment: dict[str, str]) -> _Ended:
    """Start the process, send it the question, and take its answer within the limits of time and size."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-P", "-s", "-B", "-m", "crowdfield.box"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what libraries say of a hostile file may hold what is in it
        env=environment,
        cwd="/" if os.name == "posix" else None,
        start_new_session=True,
    )
    ended = _Ended()

    def stop() -> None:
        ended.too_long = True
        process.kill()

    clock = threading.Timer(limits.seconds, stop)
    clock.start()
    try:
        assert process.stdin is not None and process.stdout is not None
        _send(process.stdin, question)
        ended.content, ended.too_much = _receive(process.stdout, limits.answer)
        if ended.too_much:
            process.kill()
        ended.status, ended.peak = _wait(process)
    finally:
        clock.cancel()
        if process.returncode is None:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    ended.seconds = time.monotonic() - began
    return ended


def _environment() -> dict[str, str]:
    """The environment of the process: only the path of the code. No settings, no keys, no database."""
    from crowdfield.box.gdal import SWITCHES

    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        **SWITCHES,
        _INSIDE: "1",
        "PYTHONPATH": str(Path(crowdfield.__file__).parents[1]),
        "PYTHONHASHSEED": "random",
        "LC_ALL": "C.UTF-8",
        # One thread and the system's own allocator: others reserve far more than they use.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "2",
    }


def _send(pipe: IO[bytes], question: bytes) -> None:
    """Write the question to the process and close its input."""
    try:
        pipe.write(question)
        pipe.close()
    except BrokenPipeError:
        pass  # it ended before it listened; its answer says so by not being there


def _receive(pipe: IO[bytes], most: int) -> tuple[bytes, bool]:
    """Read an answer of at most so many bytes; and whether it would have been longer."""
    parts, size = [], 0
    while block := pipe.read(_BLOCK):
        size += len(block)
        if size > most:
            return b"", True
        parts.append(block)
    return b"".join(parts), False


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """(status, peak memory) of a process that has closed its pipe."""
    if not hasattr(os, "wait4"):
        return process.wait(), 0
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _error(failure: Any, limits: Limits, shown: str) -> errors.CrowdfieldError:
    """The error that the process reported, as one of ours; texts are cut to a length, because they may be hostile."""
    failure = failure if isinstance(failure, dict) else {}
    name, message = str(failure.get("kind", "")), str(failure.get("message", ""))[:2000]
    if name == "MemoryError":
        message = f"reading it needs more than the {limits.memory // MIB:,} MB of memory that it may take. Split it."
    kind: type[errors.CrowdfieldError] = _KNOWN.get(name, errors.ReadingFailedError)
    if issubclass(kind, errors.ReportFormatError):
        line, column = failure.get("line"), failure.get("column")
        return kind(
            message,
            advice=str(failure.get("advice", ""))[:500],
            file=shown,
            line=line if isinstance(line, int) else None,
            column=str(column)[:200] if column is not None else None,
            choices=_choices(failure.get("choices")),
        )
    if kind is errors.ReadingFailedError:
        message = f"{shown}: {message}"
    return kind(message)


def _choices(failure: Any) -> dict[str, list[str]]:
    """The choices of an error, as far as they have the form that they should have."""
    options = list(failure.items())[:_MOST_OPTIONS] if isinstance(failure, dict) else []
    return {
        str(option)[:_LONGEST_VALUE]: [str(value)[:_LONGEST_VALUE] for value in values[:_MOST_VALUES]]
        for option, values in options
        if isinstance(values, list)
    }
