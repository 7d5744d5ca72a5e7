"""What a hostile file might make of the process that reads it."""

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

Told = tuple[dict[str, Any], dict[str, Any]]


def echo(path: Path, *, words: str) -> Told:
    return {"words": words, "content": path.read_text()}, {"numbers": np.arange(6.0).reshape(2, 3)}


def sleep(path: Path) -> NoReturn:
    while True:
        time.sleep(1)


def spin(path: Path) -> NoReturn:
    while True:
        pass


def eat(path: Path) -> Told:
    held = []
    while True:
        held.append(bytearray(os.urandom(1) * 2**24))


def crash(path: Path) -> None:
    ctypes.string_at(0)


def vanish(path: Path) -> None:
    os._exit(0)


def flood(path: Path) -> NoReturn:
    while True:
        sys.stdout.buffer.write(b"\x00" * 2**20)


def lie(path: Path) -> None:
    """An answer that claims more numbers than there are."""
    text = b'{"header": {}, "arrays": [["x", "<f8", [1000000000]]]}'
    sys.stdout.buffer.write(len(text).to_bytes(8, "little") + text)
    sys.stdout.buffer.flush()
    os._exit(0)


def run_code(path: Path) -> None:
    """An answer that hopes to be unpickled."""
    text = b'{"header": {}, "arrays": [["x", "|O", [1]]]}'
    sys.stdout.buffer.write(len(text).to_bytes(8, "little") + text + b"cos\nsystem\n(S'id'\ntR.")
    sys.stdout.buffer.flush()
    os._exit(0)


def fail(path: Path) -> None:
    raise KeyError(f"the secret words in {path}")
