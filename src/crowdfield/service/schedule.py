"""Which map is fitted next: what every map needs, which need is the most urgent, and what is tried after a failure.

Everything here is computed from observed states and a monotonic clock; nothing waits, fits or writes.
"""

import math
import time
from collections.abc import Collection
from dataclasses import dataclass

from crowdfield.service.effort import MOST_LEVELS
from crowdfield.service.fitter import CAN_WAIT, Job, Outcome, Task
from crowdfield.service.records import VersionInfo
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store

# A fit that takes longer than this is slow: it may not use the process that is reserved for quick ones.
QUICK_SECONDS = 3.0
# After each failure a map waits twice as long as before, from FIRST_WAIT to LONGEST_WAIT seconds. New entries (for
# example a retraction) may solve the problem: then the first failure causes no wait, and later ones at most
# LONGEST_WITH_NEWS.
FIRST_WAIT, LONGEST_WAIT, LONGEST_WITH_NEWS = 2.0, 300.0, 15.0
# A fit that was killed at its deadline would probably also be too slow with a quarter of its reports: it becomes
# coarser by this many levels.
LEVELS_AFTER_DEADLINE = 2
# Causes of a failure that a coarser fit may avoid: the deadline, the memory limit, a crash of the process.
LIMITS = frozenset({"time", "memory", "crash"})
# How many seconds after a coarser map a finer one is tried.
FINER_AFTER = 900.0
# A map that has not converged after this many rounds oscillates; the changes are too small to matter.
MOST_SETTLING = 50
# A map settles when no report has come for so many times the pause that gathers a burst of reports (judgement: after a
# second).
SETTLE_AFTER = 10.0
# The order of tasks: new reports first, then what improves a map without new reports.
URGENCY: dict[Task, int] = {"news": 0, "settle": 1, "rest": 2, "finer": 3}


@dataclass
class MapState:
    """What the worker knows about one map."""

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
        """The log position that the newest version includes."""
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
        """Read the head of every log, and every new version."""
        now = time.monotonic()
        found = store.heads()
        for name, head, number in found:
            known = self._maps.get(name)
            if known is None or number < known.number:  # a new map, or another one with the same id
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
        """The state of a map that this worker has not fitted yet, from its newest version."""
        if newest is None:
            return MapState()
        coarser = newest.info.get("coarser") or {}
        # If the deadline is longer now than it was then, all reports are tried again.
        level = int(coarser.get("level", 0)) if coarser.get("deadline", math.inf) >= self._settings.fit_seconds else 0
        finer_at = now + FINER_AFTER if level else math.inf
        return MapState(newest=newest, slow=newest.seconds > QUICK_SECONDS, level=level, finer_at=finer_at)

    def turns(self, running: Collection[str]) -> list[Turn]:
        """The maps that need a fit now, the most urgent first; among equals, the one served longest ago."""
        now = time.monotonic()
        waiting = []
        for name, known in self._maps.items():
            task = None if name in running else self._task(known, now)
            if task is not None:
                level = max(0, known.level - 1) if task == "finer" else known.level
                turn = Turn(name, task, level, known.slow or task in CAN_WAIT)
                waiting.append(((URGENCY[task], known.served, -known.head), turn))
        return [turn for _, turn in sorted(waiting, key=lambda item: item[0])]

    def _task(self, known: MapState, now: float) -> Task | None:
        """What a map needs now, if anything."""
        if known.failures and now < known.failed_at + self._pause(known):
            return None
        if known.behind_since is not None:
            # Wait a moment, so that a burst of reports is fitted once.
            return "news" if now - known.behind_since >= self._settings.coalesce_seconds else None
        if known.newest is None:
            return None
        if not known.settled:
            # Not at once: the next report would have to wait for what was begun.
            moment = SETTLE_AFTER * self._settings.coalesce_seconds
            return "settle" if known.settling or now - known.used >= moment else None
        if self._due_to_rest(known):
            return "rest"
        return "finer" if known.level and now >= known.finer_at else None

    def _pause(self, known: MapState) -> float:
        if known.head == known.failed_head:
            return min(FIRST_WAIT * 2.0 ** min(known.failures - 1, 30), LONGEST_WAIT)
        return min(FIRST_WAIT * (2.0 ** min(known.failures - 1, 30) - 1.0), LONGEST_WITH_NEWS)

    def _due_to_rest(self, known: MapState) -> bool:
        """Whether a map has had no news for long enough to be fitted from the log alone."""
        newest = known.newest
        if newest is None or newest.info.get("rested") or known.rested_head >= known.head:
            return False
        # The system clock may jump: a version that seems to be from the future counts as old enough.
        age = time.time() - newest.created
        return newest.reports < self._settings.distribute_above and not 0.0 <= age < self._settings.rest_seconds

    def is_slow(self, job: Job) -> bool:
        known = self._maps.get(job.situation)
        return job.can_wait or (known is not None and known.slow)

    def behind(self, situation: str) -> bool:
        known = self._maps.get(situation)
        return known is not None and known.behind_since is not None

    # The outcomes of turns

    def started(self, turn: Turn) -> None:
        """A turn has begun: the map goes to the end of the queue."""
        known = self._maps[turn.situation]
        known.served = known.used = time.monotonic()
        known.held = True

    def held_elsewhere(self, situation: str) -> None:
        """Another worker has the lease of this map: it is tried again after all others."""
        self._maps[situation].served = time.monotonic()

    def interrupted(self, job: Job) -> None:
        known = self._maps.get(job.situation)
        if known is not None and not job.can_wait:
            known.slow = True

    def ended(self, job: Job, outcome: Outcome) -> None:
        """Take in the outcome of a fit."""
        known = self._maps.get(job.situation)
        if known is None or outcome.result == "lost":
            return
        known.used = time.monotonic()
        if outcome.result == "overtaken":
            return
        known.failures = 0
        known.settling = known.settling + 1 if job.task == "settle" else 0
        known.settled = outcome.settled or job.can_wait or known.settling >= MOST_SETTLING
        if not job.can_wait:
            known.slow = outcome.seconds > QUICK_SECONDS
        else:
            known.rested_head = known.head if known.behind_since is None else known.rested_head
        known.level = job.level
        known.finer_at = known.used + FINER_AFTER if job.level else math.inf
        known.newest = None  # read it again: the newest version may have been marked as rested

    def failed(self, job: Job, outcome: Outcome) -> int:
        """Record a failure; returns the level of coarseness for the next fit."""
        known = self._maps.get(job.situation)
        if known is None:
            return job.level
        now = time.monotonic()
        known.used = now
        known.failures, known.failed_head, known.failed_at = known.failures + 1, known.head, now
        known.settled = True
        if job.can_wait:
            # The published map is good: the improvement is not tried again before there are new entries.
            known.rested_head = known.head
            known.finer_at = now + 2 * FINER_AFTER if job.task == "finer" else known.finer_at
            return job.level
        if outcome.cause in LIMITS:
            steps = LEVELS_AFTER_DEADLINE if outcome.cause == "time" else 1
            known.level = min(job.level + steps, MOST_LEVELS)
            known.slow = True
            if known.level > job.level:
                known.failed_at = -math.inf  # the coarser fit is tried at once
        return known.level

    def to_release(self, running: Collection[str]) -> list[str]:
        """Maps that have needed nothing for a while: their leases are given up, so that other workers can take them."""
        now = time.monotonic()
        over = [
            name
            for name, known in self._maps.items()
            if known.held and name not in running and now - known.used > self._settings.lease_seconds
        ]
        for name in over:
            self._maps[name].held = False
        return over
