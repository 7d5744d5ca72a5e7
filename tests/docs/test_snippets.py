"""Every example in the README and in docs/ is tried: Python is run, commands are held against the command line.

A block that cannot run here says so above itself: <!-- not run: reason -->.
"""

import re
import shlex
import shutil
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from crowdfield.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.parts),
]
FENCE = re.compile(r"(?P<above>[^\n]*)\n+(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)\n(?P=indent)```", re.S)
NOT_RUN = re.compile(r"<!-- not run: .{10,} -->")


def blocks(page):
    """(language, code, whether it is to be run) of each fenced block."""
    for found in FENCE.finditer("\n" + page.read_text()):
        yield found["language"], found["code"], NOT_RUN.search(found["above"]) is None


def name(page):
    return str(page.relative_to(ROOT))


WITH_PYTHON = [page for page in PAGES if any(language == "python" for language, _, _ in blocks(page))]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_the_python_of_every_page_runs(page, tmp_path, monkeypatch, capsys):
    """All blocks of a page in one namespace, in a folder of their own that holds the gallery's file of reports."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "docs" / "gallery" / "reports.csv", tmp_path)
    names = {"__name__": "__main__"}
    for language, code, wanted in blocks(page):
        if language == "python" and wanted:
            exec(compile(textwrap.dedent(code), name(page), "exec"), names)  # noqa: S102


COMMAND: Any = typer.main.get_command(app)  # Typer has a copy of Click of its own
PLACEHOLDER = re.compile(r"[\[\]{}…]|\.\.\.")


def commands(page):
    """Lines of code blocks, and code within sentences, that start with `crowdfield`."""
    text = page.read_text()
    fenced = "\n".join("    " + line for _, code, _ in blocks(page) for line in code.splitlines())
    lines = re.findall(r"^ {4,}(?:\$ )?(crowdfield [a-z].*)$", f"{text}\n{fenced}", re.M)
    inline = [" ".join(code.split()) for code in re.findall(r"`(crowdfield [a-z][^`]*)`", text)]
    for line in [*lines, *inline]:
        words = line.split("  #")[0].split(" #")[0].split(" | ")[0].split(" && ")[0].split(" > ")[0].rstrip(" \\&")
        if not PLACEHOLDER.search(words):
            yield words


EVERY = [(page, line) for page in PAGES for line in dict.fromkeys(commands(page))]


@pytest.mark.parametrize(("page", "line"), EVERY, ids=lambda value: name(value) if isinstance(value, Path) else value)
def test_every_command_on_a_page_exists_with_its_options(page, line):
    first, *arguments = shlex.split(line)[1:]
    command = COMMAND.commands.get(first)
    assert command is not None, f"there is no command {first}"
    try:
        command.make_parser(click.Context(command)).parse_args(list(arguments))
    except click.UsageError as problem:
        # A sentence may name a command without its arguments; what matters is that its options exist.
        assert "Missing argument" in problem.format_message(), problem.format_message()


def test_there_are_snippets_to_try():
    assert len(WITH_PYTHON) > 10 and len(EVERY) > 40
