"""The public names: all that `crowdfield.__all__` lists, all that the modules among them list, and the kernels."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import crowdfield as cf
from crowdfield.inference import kernels


def public_names() -> Iterator[tuple[str, Any]]:
    """(name as written after ``cf.``, the object itself)."""
    for name in cf.__all__:
        found = getattr(cf, name)
        if not isinstance(found, ModuleType):
            yield name, found
            continue
        for inner in found.__all__:
            yield f"{name}.{inner}", getattr(found, inner)
    # `HeatmapBCC(kernel=...)` takes them, and `space_time` is the way to maps in time.
    for name in kernels.__all__:
        yield f"inference.kernels.{name}", getattr(kernels, name)


def described() -> Iterator[tuple[str, Any]]:
    """The public classes and functions, which have docstrings; constants have none."""
    for name, found in public_names():
        if inspect.isclass(found) or inspect.isroutine(found):
            yield name, found
