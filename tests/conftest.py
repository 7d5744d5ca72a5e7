"""Fixtures that several tests share: commands, and the paper's data where they are on this machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from crowdfield.cli import main

# The same examples in every run, on every machine; `make fuzz` looks for new ones.
settings.register_profile("same examples", derandomize=True, database=None, deadline=None)
settings.load_profile("same examples")

ROOT = Path(__file__).resolve().parent.parent
# What a process needs at its peak is measured from its start as a copy of this one, which is small at first only.
# Then tests that wait for a server, and most of all those that wait for a browser as well.
FIRST = (ROOT / "tests" / "box", ROOT / "tests" / "service" / "page", ROOT / "tests" / "service")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that wait come first, and together: one process runs them while the others compute, and none of them is
    left for the end, when the other processes have nothing more to do."""

    def place(item: pytest.Item) -> int:
        return next((i for i, folder in enumerate(FIRST) if folder in item.path.parents), len(FIRST))

    items.sort(key=place)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder named by CROWDFIELD_DATA, else `shared/data` beside the repository."""
    folder = Path(os.environ.get("CROWDFIELD_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "prn").is_dir() or not (folder / "haiti").is_dir():
        pytest.skip(f"the paper's data are not at {folder}; name their folder with CROWDFIELD_DATA")
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int | str | None, str, str]]:
    """Run a command; gives (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int | str | None, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call
