"""A few deaths in the suite; `python tests/service/killing.py --kills 200` for the full number."""

from tests.service.killing import torture


def test_nothing_acknowledged_is_lost_when_server_or_worker_is_killed(database):
    result = torture(database, kills=4, seed=1)
    assert sum(result["kills"].values()) == 4
    assert result["stored"] >= result["acknowledged"] > 0
