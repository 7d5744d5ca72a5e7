"""The public names: all that `crowdfield.__all__` lists, and all that the modules among them list."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import crowdfield as cf


def public_names() -> Iterator[tuple[str, Any]]:
    """(name as written after ``cf.``, the object itself)."""
    for name in cf.__all__:
        found = getattr(cf, name)
        if not isinstance(found, ModuleType):
            yield name, found
            continue
        for inner in found.__all__:
            yield f"{name}.{inner}", getattr(found, inner)


def described() -> Iterator[tuple[str, Any]]:
    """The public classes and functions, which have docstrings; constants have none."""
    for name, found in public_names():
        if inspect.isclass(found) or inspect.isroutine(found):
            yield name, found
