"""The pools of one server: which kinds of work share threads or processes, and their limits."""

import os
import time
from collections.abc import Iterator
from typing import Any

from crowdfield.service.helper_pool import HelperPool
from crowdfield.service.pools import Pool

# The niceness of helper processes: lower priority than the server and its intake; exports have the lowest.
LOW_PRIORITY, LOWEST_PRIORITY = 5, 10
# Helper processes of each kind: at most half of the cores, so that the others can take reports and fit maps.
PROCESSES = min(4, max(1, (os.cpu_count() or 1) // 2))


class Pools:
    """One pool for each kind of work; a full pool delays only its own kind."""

    def __init__(self, hello: dict[str, Any]) -> None:
        # Looks up keys, situations and trust for incoming reports; the journal's own thread stores the reports.
        self.intake = Pool("intake", threads=4, waiting=512, per_client=128, seconds=20)
        # Answers about places, and short lists.
        self.reading = Pool("reading", threads=2, waiting=256, per_client=64, seconds=20)
        # Reads files and long lists of reports. The threads wait for the processes that read the files.
        self.imports = Pool("imports", threads=2, waiting=12, per_client=3, seconds=180, clock=time.perf_counter)
        # Health, metrics and keys: an operator must get an answer even if all other pools are full.
        self.operations = Pool("operations", threads=2, waiting=32, per_client=8, seconds=10)
        # Reads new events for all streams, and past events for streams that reconnect.
        self.events = Pool("events", threads=2, waiting=256, per_client=16, seconds=30)
        # Tiles, drawn by helper processes. A page asks for about twenty of them at once.
        near, far = hello | {"niceness": LOW_PRIORITY}, hello | {"niceness": LOWEST_PRIORITY}
        self.tiles = HelperPool("tiles", near, processes=PROCESSES, waiting=256, per_client=64, seconds=20)
        # Reasons and lists of reports. One process is permanent: the code of the models takes seconds to load.
        self.answers = HelperPool(
            "answers", near, processes=PROCESSES, waiting=32, per_client=8, seconds=30, permanent=1
        )
        # Files and outlines: a long export must not delay questions about reasons.
        self.exports = HelperPool("exports", far, processes=PROCESSES, waiting=8, per_client=3, seconds=60)

    def __iter__(self) -> Iterator[Pool]:
        threads = (self.intake, self.reading, self.imports, self.operations, self.events)
        return iter((*threads, self.tiles, self.answers, self.exports))

    def close(self) -> None:
        for pool in self:
            pool.close()
