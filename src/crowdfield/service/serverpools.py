"""The pools of one server: which work shares threads, and how much of it there may be."""

import time
from collections.abc import Iterator
from typing import Any

from crowdfield.service.helpers import HelperPool
from crowdfield.service.pools import Pool


class Pools:
    """The pools of one server."""

    def __init__(self, hello: dict[str, Any]) -> None:
        # Looking up keys, situations and trust for those who report; reports themselves go to the journal's own thread.
        self.intake = Pool("intake", threads=4, waiting=512, per_client=128, seconds=20)
        # Tiles, places and short lists. A page asks for some twenty tiles at once.
        self.reading = Pool("reading", threads=2, waiting=256, per_client=64, seconds=20)
        # Reading files and long lists of reports. The threads wait for the processes that read the files.
        self.imports = Pool("imports", threads=2, waiting=12, per_client=3, seconds=180, clock=time.perf_counter)
        # Health, metrics and keys: an operator must get an answer when all else is full.
        self.operations = Pool("operations", threads=2, waiting=32, per_client=8, seconds=10)
        # The one reader of events for all streams, and what streams missed.
        self.events = Pool("events", threads=2, waiting=256, per_client=16, seconds=30)

        # Reasons and lists of reports, by a process of their own.
        self.answers = HelperPool("answers", hello, processes=1, waiting=32, per_client=8, seconds=30)
        # Files and outlines, likewise: a long export does not keep anybody from asking why.
        self.exports = HelperPool("exports", hello, processes=1, waiting=8, per_client=3, seconds=120)

    def __iter__(self) -> Iterator[Pool]:
        return iter((self.intake, self.reading, self.imports, self.operations, self.events, self.answers, self.exports))

    def close(self) -> None:
        for pool in self:
            pool.close()
