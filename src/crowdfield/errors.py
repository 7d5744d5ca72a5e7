"""One family of exceptions: each message says what is wrong, where, and what to do next."""

from collections.abc import Mapping, Sequence

__all__ = [
    "ConvergenceWarning",
    "CrowdfieldError",
    "CrowdfieldWarning",
    "DataUnavailableError",
    "DataWarning",
    "FallbackWarning",
    "InputError",
    "MissingDependencyError",
    "NumericalError",
    "ReadingFailedError",
    "ReportFormatError",
    "TooLargeError",
]


class CrowdfieldError(Exception):
    """Base of every error that crowdfield raises on purpose.

    Examples
    --------
    >>> import crowdfield as cf
    >>> try:
    ...     cf.Grid(west=1, east=0, south=0, north=1, columns=1, rows=1)
    ... except cf.CrowdfieldError as problem:
    ...     print(str(problem)[:40])
    a grid needs west < east, got west = 1 a
    """


class InputError(CrowdfieldError, ValueError):
    """Arrays or parameters that cannot be used as they are."""


class ReportFormatError(CrowdfieldError, ValueError):
    """A file of reports that cannot be read; says file, line, column and remedy where they are known.

    ``advice`` says which options of the reader would help. It is part of the message; a caller whose users cannot set
    these options, such as the service, shows ``without_advice`` instead. ``choices`` are the options that would resolve
    the ambiguity (such as ``label`` or ``layer``), each with its possible values.
    """

    def __init__(
        self,
        message: str,
        *,
        advice: str = "",
        file: str | None = None,
        line: int | None = None,
        column: str | None = None,
        choices: Mapping[str, Sequence[str]] | None = None,
    ):
        where = ", ".join(
            part for part in (file, f"line {line}" if line else None, f"column '{column}'" if column else None) if part
        )
        self.without_advice = f"{where}: {message}" if where else message
        super().__init__(f"{self.without_advice} {advice}".rstrip())
        self.message, self.advice = message, advice
        self.file, self.line, self.column = file, line, column
        self.choices = {option: tuple(values) for option, values in (choices or {}).items()}


class TooLargeError(ReportFormatError):
    """A valid file that holds more than may be read at once."""


class ReadingFailedError(CrowdfieldError):
    """Reading a file took too much time or memory, or ended the process that read it."""


class NumericalError(CrowdfieldError, ArithmeticError):
    """A numerical failure, such as a matrix that is not positive definite; says what to try."""


class MissingDependencyError(CrowdfieldError, ImportError):
    """An optional library is needed; says which extra installs it."""


class DataUnavailableError(CrowdfieldError, OSError):
    """A data set is neither on this machine nor reachable."""


class CrowdfieldWarning(UserWarning):
    """Base of every warning that crowdfield gives."""


class ConvergenceWarning(CrowdfieldWarning):
    """Inference stopped before it converged."""


class DataWarning(CrowdfieldWarning):
    """The data do not determine what was asked for (for example, all reports have one label)."""


class FallbackWarning(CrowdfieldWarning):
    """The preferred model of reports could not be fitted, and the other one was used; says which, and why."""
