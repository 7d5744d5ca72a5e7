"""Limit BLAS to one thread: matrices are small, and idle BLAS threads take cores from the passes over the sites."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 2_000  # rows of a matrix that one thread factorises before two have woken up


def quiet_blas(rows: int) -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread if matrices have so few rows (half the time at 10⁶ reports)."""
    return one_blas_thread() if rows <= SMALL else nullcontext()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    limits: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limits


@cache
def _libraries() -> ThreadpoolController:
    """Finding the libraries takes as long as a small fit."""
    return ThreadpoolController()
