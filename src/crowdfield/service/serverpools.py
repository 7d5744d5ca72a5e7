"""The pools of one server: which work shares threads or processes, and how much of it there may be."""

import os
import time
from collections.abc import Iterator
from typing import Any

from crowdfield.service.helpers import HelperPool
from crowdfield.service.pools import Pool

# How far helper processes stand back behind the server and its intake; an export behind those who look at the map.
BEHIND, FAR_BEHIND = 5, 10
# Helper processes of each kind: half the cores at most, so that the others take reports and fit maps.
PROCESSES = min(4, max(1, (os.cpu_count() or 1) // 2))


class Pools:
    """Every kind of work in its own pool; a full one holds up only its own kind."""

    def __init__(self, hello: dict[str, Any]) -> None:
        # Looking up keys, situations and trust for those who report; reports themselves go to the journal's own thread.
        self.intake = Pool("intake", threads=4, waiting=512, per_client=128, seconds=20)
        # Places and short lists.
        self.reading = Pool("reading", threads=2, waiting=256, per_client=64, seconds=20)
        # Reading files and long lists of reports. The threads wait for the processes that read the files.
        self.imports = Pool("imports", threads=2, waiting=12, per_client=3, seconds=180, clock=time.perf_counter)
        # Health, metrics and keys: an operator must get an answer when all else is full.
        self.operations = Pool("operations", threads=2, waiting=32, per_client=8, seconds=10)
        # The one reader of events for all streams, and what streams missed.
        self.events = Pool("events", threads=2, waiting=256, per_client=16, seconds=30)
        # Drawn by processes of their own. A page asks for some twenty tiles at once.
        near, far = hello | {"niceness": BEHIND}, hello | {"niceness": FAR_BEHIND}
        self.tiles = HelperPool("tiles", near, processes=PROCESSES, waiting=256, per_client=64, seconds=20)
        # Reasons and lists of reports, likewise. One process stays: the code of the models takes seconds to load.
        self.answers = HelperPool("answers", near, processes=PROCESSES, waiting=32, per_client=8, seconds=30, staying=1)
        # Files and outlines, likewise: a long export does not keep anybody from asking why.
        self.exports = HelperPool("exports", far, processes=PROCESSES, waiting=8, per_client=3, seconds=60)

    def __iter__(self) -> Iterator[Pool]:
        threads = (self.intake, self.reading, self.imports, self.operations, self.events)
        return iter((*threads, self.tiles, self.answers, self.exports))

    def close(self) -> None:
        for pool in self:
            pool.close()
