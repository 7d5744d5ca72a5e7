"""Whose turn it is: what every map needs, which need goes first, and what is tried after a failure.

Everything here is arithmetic on what was seen, with a monotonic clock; nothing waits, fits or writes.
"""

import math
import time
from collections.abc import Collection
from dataclasses import dataclass

from crowdfield.service.effort import MOST_LEVELS
from crowdfield.service.fitter import Job, Outcome, Task
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store, VersionInfo

# A fit that takes longer than this is slow: it may not use the process that is kept for quick ones.
QUICK_SECONDS = 3.0
# After a failure a map waits twice as long as after the one before, between these bounds. Something new in its log may
# be the cure (for example a retracted report): then it does not wait at first, and never longer than after the third.
FIRST_WAIT, LONGEST_WAIT, LONGEST_WITH_NEWS = 2.0, 300.0, 15.0
# A fit that was ended by its deadline would hardly make it with a quarter of its reports: it goes down two levels.
LEVELS_AFTER_DEADLINE = 2
# Causes of a failure that a coarser fit avoids: the deadline, the limit on memory, the end of the process.
LIMITS = frozenset({"time", "memory", "crash"})
# How long a coarser map rests before one that is finer is tried.
FINER_AFTER = 900.0
# A map that still moves after so many rounds moves back and forth, too little to say which end is right.
MOST_SETTLING = 50
# News first, then what makes a map better without anything new.
URGENCY: dict[Task, int] = {"news": 0, "settle": 1, "rest": 2, "finer": 3}


@dataclass
class MapState:
    """What the worker knows of one map."""

    head: int = 0
    number: int = 0
    newest: VersionInfo | None = None
    behind_since: float | None = None
    served: float = -math.inf
    slow: bool = False
    settled: bool = True
    settling: int = 0
    level: int = 0
    failures: int = 0
    failed_head: int = 0
    failed_at: float = -math.inf
    rested_head: int = -1
    finer_at: float = math.inf
    used: float = -math.inf
    held: bool = False

    @property
    def fitted(self) -> int:
        """How far in the log the newest map has seen."""
        return self.newest.head if self.newest is not None else 0


@dataclass(frozen=True)
class Turn:
    """The next fit: of which map, for which task, and how coarse."""

    situation: str
    task: Task
    level: int
    slow: bool


class Schedule:
    """Which map is fitted next."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._maps: dict[str, MapState] = {}

    def update(self, store: Store) -> None:
        """Look at every log and at every newest version that was not seen before."""
        now = time.monotonic()
        found = store.heads()
        for name, head, number in found:
            known = self._maps.get(name)
            if known is None or number < known.number:  # new to us, or another map of the same name
                known = self._maps[name] = self._first_sight(store.version(name) if number else None, now)
            elif number and (known.number != number or known.newest is None):
                known.newest = store.version(name)
            known.head, known.number = head, number
            if head <= known.fitted:
                known.behind_since = None
            elif known.behind_since is None:
                known.behind_since = now
        for name in set(self._maps) - {name for name, _, _ in found}:
            del self._maps[name]

    def _first_sight(self, newest: VersionInfo | None, now: float) -> MapState:
        """What the newest version tells of a map that this worker has not fitted yet."""
        if newest is None:
            return MapState()
        told = newest.info.get("coarser") or {}
        # With a longer deadline than then, all of it is tried again.
        level = int(told.get("level", 0)) if told.get("deadline", math.inf) >= self._settings.fit_seconds else 0
        finer_at = now + FINER_AFTER if level else math.inf
        return MapState(newest=newest, slow=newest.seconds > QUICK_SECONDS, level=level, finer_at=finer_at)

    def turns(self, running: Collection[str]) -> list[Turn]:
        """The maps that need a fit now, the most urgent first; among those, who was served longest ago."""
        now = time.monotonic()
        waiting = []
        for name, known in self._maps.items():
            task = None if name in running else self._task(known, now)
            if task is not None:
                level = max(0, known.level - 1) if task == "finer" else known.level
                turn = Turn(name, task, level, known.slow or task in ("rest", "finer"))
                waiting.append(((URGENCY[task], known.served, -known.head), turn))
        return [turn for _, turn in sorted(waiting, key=lambda item: item[0])]

    def _task(self, known: MapState, now: float) -> Task | None:
        if known.failures and now < known.failed_at + self._pause(known):
            return None
        if known.behind_since is not None:
            # A moment's wait, so that a burst is fitted once.
            return "news" if now - known.behind_since >= self._settings.coalesce_seconds else None
        if known.newest is None:
            return None
        if not known.settled:
            return "settle"
        if self._due_to_rest(known):
            return "rest"
        return "finer" if known.level and now >= known.finer_at else None

    def _pause(self, known: MapState) -> float:
        if known.head == known.failed_head:
            return min(FIRST_WAIT * 2.0 ** min(known.failures - 1, 30), LONGEST_WAIT)
        return min(FIRST_WAIT * (2.0 ** min(known.failures - 1, 30) - 1.0), LONGEST_WITH_NEWS)

    def _due_to_rest(self, known: MapState) -> bool:
        newest = known.newest
        if newest is None or newest.info.get("rested") or known.rested_head >= known.head:
            return False
        # The clock on the wall may jump: a version that seems to come from the future rests from now on.
        age = time.time() - newest.created
        return newest.reports < self._settings.distribute_above and not 0.0 <= age < self._settings.rest_seconds

    def is_slow(self, job: Job) -> bool:
        known = self._maps.get(job.situation)
        return job.patient or (known is not None and known.slow)

    def behind(self, situation: str) -> bool:
        known = self._maps.get(situation)
        return known is not None and known.behind_since is not None

    # What became of a turn

    def started(self, turn: Turn) -> None:
        known = self._maps[turn.situation]
        known.served = known.used = time.monotonic()
        known.held = True

    def elsewhere(self, situation: str) -> None:
        """Another worker has this map; there is no hurry to ask again."""
        self._maps[situation].served = time.monotonic()

    def interrupted(self, job: Job) -> None:
        known = self._maps.get(job.situation)
        if known is not None and not job.patient:
            known.slow = True

    def ended(self, job: Job, outcome: Outcome) -> None:
        known = self._maps.get(job.situation)
        if known is None or outcome.result == "lost":
            return
        known.used = time.monotonic()
        if outcome.result == "overtaken":
            return
        known.failures = 0
        known.settling = known.settling + 1 if job.task == "settle" else 0
        known.settled = outcome.settled or job.patient or known.settling >= MOST_SETTLING
        if not job.patient:
            known.slow = outcome.seconds > QUICK_SECONDS
        else:
            known.rested_head = known.head if known.behind_since is None else known.rested_head
        known.level = job.level
        known.finer_at = known.used + FINER_AFTER if job.level else math.inf
        known.newest = None  # read it again: a rest that changed nothing is noted at the version that is there

    def failed(self, job: Job, outcome: Outcome) -> int:
        """Note a failure; how coarsely the map is fitted from now on."""
        known = self._maps.get(job.situation)
        if known is None:
            return job.level
        now = time.monotonic()
        known.used = now
        known.failures, known.failed_head, known.failed_at = known.failures + 1, known.head, now
        known.settled = True
        if job.patient:
            # The map that is there is good: what could have made it better is not tried again before the log moves.
            known.rested_head = known.head
            known.finer_at = now + 2 * FINER_AFTER if job.task == "finer" else known.finer_at
            return job.level
        if outcome.cause in LIMITS:
            steps = LEVELS_AFTER_DEADLINE if outcome.cause == "time" else 1
            known.level = min(job.level + steps, MOST_LEVELS)
            known.slow = True
            if known.level > job.level:
                known.failed_at = -math.inf  # something else is tried, at once
        return known.level

    def to_release(self, running: Collection[str]) -> list[str]:
        """Maps that nothing was done for in a while: another worker may have them."""
        now = time.monotonic()
        over = [
            name
            for name, known in self._maps.items()
            if known.held and name not in running and now - known.used > self._settings.lease_seconds
        ]
        for name in over:
            self._maps[name].held = False
        return over
