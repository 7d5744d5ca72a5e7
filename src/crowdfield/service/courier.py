"""Compares alerts with every new map version, and sends their messages. It runs in a thread of the worker, so that
neither a slow receiver nor a set of many districts delays a fit."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from crowdfield.errors import CrowdfieldError
from crowdfield.service import mail, webhooks
from crowdfield.service.alerts import Alert, Alerts, AreaCoverage, Message
from crowdfield.service.database import connect
from crowdfield.service.districts import Districts
from crowdfield.service.maps import Maps, RecentCache
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store, Unknown
from crowdfield.service.weights import Weights

if TYPE_CHECKING:
    from crowdfield.pipeline.districts import Located

log = logging.getLogger("crowdfield.worker")
POLL_SECONDS = 0.5
# Pause before a database that did not answer is asked again.
RETRY_SECONDS = 5.0
# How many messages are sent at once, and how many sets of districts are cached with their cells.
SENDERS, SETS_KEPT = 4, 8
MAP_BYTES = 64 * 2**20


class Courier:
    """Compares alerts with new map versions and sends their messages."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._engine = connect(settings.database, pool_size=SENDERS)
        self._store = Store(self._engine)
        self._alerts, self._districts = Alerts(self._engine), Districts(self._engine)
        self._weights = Weights(self._engine)
        self._maps = Maps(self._store, size=MAP_BYTES)
        self._located: RecentCache[Located] = RecentCache(SETS_KEPT)

    def run(self, stop: threading.Event) -> None:
        """Compare and send until `stop` is set."""
        while not stop.is_set():
            try:
                self.compare()
                self.deliver()
            except SQLAlchemyError as error:
                log.error("alerts wait for the database", extra={"error": type(error).__name__})
                stop.wait(RETRY_SECONDS)
            stop.wait(POLL_SECONDS)
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def compare(self) -> int:
        """Compare every alert with the newest version of its map; returns how many queued a message."""
        count = 0
        for one, number in self._alerts.not_compared():
            try:
                count += self._compare(one, number)
            except Unknown:
                continue  # the map, its version or its districts were removed meanwhile
            except CrowdfieldError:
                # One set of districts that does not fit its map must not stop the other alerts.
                log.exception("an alert could not be compared", extra={"alert": one.id, "situation": one.situation})
                self._alerts.skip(one, number)
        return count

    def _compare(self, one: Alert, number: int) -> bool:
        situation = self._store.situation(one.situation)
        if one.state not in situation.states:
            raise CrowdfieldError(f"the map no longer has a state '{one.state}'")
        return self._alerts.compare(one, situation, number, self._covered(one, number).limited_to(one.area))

    def _covered(self, one: Alert, number: int) -> AreaCoverage:
        """The share of each district where the state is more probable than the alert's limit, without unknown cells."""
        from crowdfield.service import figures, tiles  # late: a worker without alerts does not need them

        situation = self._store.situation(one.situation)
        now = self._maps.load(situation, number)
        stored = self._districts.find(situation.id, one.districts)
        areas = self._districts.load(situation.id, one.districts)
        key = (situation.id, situation.created, situation.layout_tag, stored.name, stored.created)
        located = self._located.get(key, lambda: figures.on_grid(areas, now.grid))
        j = situation.states.index(one.state)
        known = 1.0 - now.sd[..., j] / tiles.prior_sd(now, j) >= tiles.UNKNOWN_BELOW
        above = (now.probability[..., j] > one.probability) & known
        weights = self._weights.load(situation)
        shares, amounts = (
            dict(zip(areas.names, values.tolist(), strict=True)) for values in figures.covered(located, above, weights)
        )
        return AreaCoverage(shares) if weights is None else AreaCoverage(shares, amounts, weights.name)

    def deliver(self) -> int:
        """Send the messages that are due; returns how many were delivered."""
        due = self._alerts.due(SENDERS)
        if not due:
            return 0
        with ThreadPoolExecutor(len(due), thread_name_prefix="alerts") as senders:
            return sum(senders.map(self._deliver, due))

    def _deliver(self, message: Message) -> bool:
        """Send one message unless another worker does; whether it was delivered, which is also stored."""
        if not self._alerts.claim(message, self._settings.alert_retry_seconds):
            return False
        about = {"alert": message.alert.id, "message_id": message.id, "attempts": message.attempts + 1}
        try:
            self._send(message)
        except CrowdfieldError as error:
            final = isinstance(error, webhooks.NotSent) and error.final
            state = self._alerts.not_sent(message, str(error), final=final)
            log.warning("an alert was not delivered", extra=about | {"why": str(error), "state": state})
            return False
        self._alerts.sent(message)
        log.info("an alert was delivered", extra=about)
        return True

    def _send(self, message: Message) -> None:
        one, settings = message.alert, self._settings
        if one.email is not None:
            mail.send(settings, one.email, message.id, message.body)
            return
        assert one.webhook is not None
        # Checked again: the operator's list and the address of the host may have changed since the alert was set.
        target = webhooks.allowed(one.webhook, settings.alert_hosts)
        address = webhooks.reachable(target, settings.alert_networks)
        body = message.text
        webhooks.send(target, address, body, webhooks.signed(one.secret, message.id, body))
