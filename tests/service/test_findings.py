"""What docs/security.md promises is tested: every finding of the audit has a line, every test that it names exists."""

import re
from pathlib import Path

import pytest
from tests.io.hostile import EVERY

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
FINDINGS = 15


def lines(title):
    """The rows of the table under a heading, as lists of cells."""
    section = PAGE.split(f"## {title}")[1].split("\n## ")[0]
    rows = [row.strip("|").split(" | ") for row in section.splitlines() if row.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]  # after the head and its rule


AUDIT = lines("What an audit found")
THREATS = lines("Threat model")


def written_in(file):
    found = [path for folder in ("service", "io", "box") for path in (ROOT / "tests" / folder).glob(file)]
    assert len(found) == 1, f"there is no tests/…/{file}"
    return re.findall(r"^def (test_\w+)", found[0].read_text(), re.MULTILINE)


def named(cell):
    """(file, name, case) of each test that a cell names; a name without a file is of the file before it."""
    file = None
    for words in re.findall(r"`([^`]+)`", cell):
        if words.startswith("python -m "):
            continue
        if "test_" in words.split("::")[0]:
            file, _, words = words.partition("::")
        assert file is not None, cell
        words, _, case = words.partition("[")
        yield file, words, case.removesuffix("]")


@pytest.mark.parametrize("row", AUDIT + THREATS, ids=lambda row: row[0][:40])
def test_every_line_names_tests_that_exist(row):
    found = list(named(row[-1]))
    assert found, row
    for file, words, case in found:
        pattern = ".*".join(map(re.escape, words.split("…")))
        assert not words or any(re.fullmatch(pattern, name) for name in written_in(file)), f"{file} has no {words}"
        assert not case or case in EVERY, case


def test_every_numbered_finding_has_a_line():
    numbers = [int(found[0]) for row in AUDIT if (found := re.match(r"\d+(?= )", row[0]))]
    assert numbers == list(range(1, FINDINGS + 1))
