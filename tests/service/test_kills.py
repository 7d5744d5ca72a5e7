"""A few deaths in the suite; `python tests/service/killing.py --kills 200` for the full number."""

import pytest
from tests.service.killing import somewhere, torture


def test_nothing_acknowledged_is_lost_when_server_worker_or_fit_is_killed(database):
    result = torture(database, kills=3, seed=1)
    assert sum(result["kills"].values()) == 3
    assert result["stored"] >= result["acknowledged"] > 0


def test_nothing_acknowledged_is_lost_on_a_disk_that_is_full_now_and_then():
    try:
        with somewhere("sqlite", small_disk=True) as there:
            result = torture(kills=2, seed=3, **there)
    except PermissionError as error:
        pytest.skip(str(error))
    assert result["times the disk was full"] > 0 and result["stored"] >= result["acknowledged"] > 0
