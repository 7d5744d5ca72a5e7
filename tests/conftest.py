"""What several tests need: where the paper's data lie, when they are on this machine at all."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder named by CROWDFIELD_DATA, else `shared/data` beside the repository."""
    folder = Path(os.environ.get("CROWDFIELD_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "prn").is_dir() or not (folder / "haiti").is_dir():
        pytest.skip(f"the paper's data are not at {folder}; name their folder with CROWDFIELD_DATA")
    return folder
