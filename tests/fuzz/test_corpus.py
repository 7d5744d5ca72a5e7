"""Every seed and everything that fuzzing ever found, tried again."""

from pathlib import Path

import pytest
from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
KEPT = sorted(path for kind in ("corpus", "found") for path in (HERE / kind).glob("*/*"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}/{path.name}")
def test_inputs_that_once_broke_a_reader_no_longer_do(path, monkeypatch):
    monkeypatch.setenv("CROWDFIELD_IN_A_BOX", "1")
    TARGETS[path.parent.name](path.read_bytes())


def test_every_fuzz_target_has_a_valid_seed():
    assert (
        {target for target, _, _ in seeds.seeds()}
        == set(TARGETS)
        == {path.name for path in (HERE / "corpus").iterdir()}
    )
