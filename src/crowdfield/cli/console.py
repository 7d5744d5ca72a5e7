"""What people see: progress and remarks on stderr, results on stdout, as text or as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from crowdfield.cli.options import Voice

errors = Console(stderr=True, highlight=False)


def complain(message: str) -> None:
    """Print an error to stderr."""
    errors.print(f"[bold red]crowdfield:[/] {escape(message)}", soft_wrap=True)


class Talk:
    """How one command talks to its user."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.out = Console(highlight=False)

    @classmethod
    def of(cls, voice: Voice) -> Talk:
        return cls(quiet=voice.quiet, as_json=voice.json)

    def remark(self, message: str) -> None:
        """Print a note to stderr; never part of the result."""
        if not self.quiet:
            errors.print(escape(message), soft_wrap=True)

    @contextmanager
    def progress(self, first: str) -> Iterator[Any]:
        """A progress line on stderr: animated in a terminal, one line per step elsewhere."""
        if self.quiet:
            yield lambda message: None
        elif errors.is_terminal:
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            # With a clock, so that users see that a long fit is still running.
            with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=errors,
                          transient=True) as line:  # fmt: skip
                task = line.add_task(escape(first), total=None)
                yield lambda message: line.update(task, description=escape(message))
        else:
            self.remark(first)
            yield self.remark

    @contextmanager
    def bytes_read(self, title: str) -> Iterator[Any]:
        """A bar for reading a large file, in a terminal; elsewhere nothing, as most files take no time."""
        if self.quiet or not errors.is_terminal:
            yield None
            return
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        shape = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*shape, console=errors, transient=True) as bar:
            task = bar.add_task(escape(title), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    @contextmanager
    def counted(self, title: str) -> Iterator[Any]:
        """A progress bar called with (done, total, title); outside a terminal, a line for every twentieth part."""
        if self.quiet:
            yield None
        elif errors.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            shape = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
            with Progress(*shape, console=errors, transient=True) as bar:
                task = bar.add_task(escape(title), total=None)
                yield lambda done, total, what: bar.update(task, completed=done, total=total, description=escape(what))
        else:
            self.remark(title)
            yield (
                lambda done, total, what: (
                    self.remark(f"{done} of {total}: {what}") if done % max(total // 20, 1) == 0 else None
                )
            )

    @contextmanager
    def warnings_as_remarks(self) -> Iterator[None]:
        """Show our own warnings as remarks, each once; warnings of other libraries stay warnings."""
        from crowdfield.errors import CrowdfieldWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CrowdfieldWarning)
            yield
        for message in dict.fromkeys(
            str(item.message) for item in caught if issubclass(item.category, CrowdfieldWarning)
        ):
            if not self.quiet:
                errors.print(f"[yellow]note:[/] {escape(message)}", soft_wrap=True)

    def result(self, data: Any, text: Any = None) -> None:
        """The answer: `data` with --json, else whatever `text` is (a string, a table, several of them)."""
        if self.as_json:
            json.dump(data, sys.stdout, ensure_ascii=False, indent=2, default=str, allow_nan=False)
            sys.stdout.write("\n")
            return
        for part in text if isinstance(text, list | tuple) else [text]:
            self.out.print(escape(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[int] = ()) -> Table:
    """A table for the terminal; `right`: columns of figures, aligned to the right and never broken into lines."""
    out = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        figures = number in right
        # Long words are broken, not cut: the name of a district must be readable in a narrow window too.
        side: Literal["left", "right"] = "right" if figures else "left"
        out.add_column(name, justify=side, no_wrap=figures, overflow="fold", header_style="dim")
    for row in rows:
        out.add_row(*(escape(str(cell)) for cell in row))
    return out


def share(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.0f} %"


def sources_table(rows: Any, most: int = 40) -> Table:
    """The source table: name, number of reports, accuracy and its interval."""
    ranked = rows.sort_values(["accuracy", "reports"], ascending=False)
    shown = ranked if len(ranked) <= most else ranked.iloc[[*range(most // 2), *range(-(most // 2), 0)]]
    title = "Who can be trusted" + (f" (best and worst {most // 2} of {len(ranked):,})" if len(ranked) > most else "")
    body = [
        [
            f"{row.source}{' *' if getattr(row, 'trusted', False) else ''}",
            f"{int(row.reports):,}",
            share(row.accuracy),
            f"{share(row.accuracy_low)} to {share(row.accuracy_high)}",
            f"{row.informativeness:.2f}",
        ]
        for row in shown.itertuples()
    ]
    return table(
        title, ["source", "reports", "right", "95 % sure between", "bits per report"], body, right=(1, 2, 3, 4)
    )


def looks_table(looks: Sequence[Any]) -> Table:
    """Places to look at next, as a table. Only the proportions of their scores have a meaning (docs/where-next.md)."""
    best = max((look.score for look in looks), default=0.0)
    body = [
        [
            look.rank,
            f"{look.latitude:.5f}, {look.longitude:.5f}",
            f"{look.state} {share(look.probability)} ± {100 * look.sd:.0f}",
            f"{look.reports:,}",
            share(look.score / best) if best > 0 else "none",
        ]
        for look in looks
    ]
    return table(
        "Where to look next",
        ["", "latitude, longitude", "probability now", "reports", "gain (best: 100 %)"],
        body,
        right=(3, 4),
    )
