"""Pools: work of one kind never waits for work of another, and nobody fills a queue alone."""

import asyncio
import threading
import time

import pytest

from crowdfield.service.pools import Caller, Pool, asking
from crowdfield.service.problems import Problem


@pytest.fixture
def pool():
    made = Pool("tests", threads=1, waiting=8, per_client=2, seconds=5)
    yield made
    made.close()


def as_client(name, *, anonymous=True):
    """Run a coroutine as this client would."""

    async def run(work):
        asking.set(Caller(name, anonymous))
        return await work

    return lambda work: asyncio.ensure_future(run(work))


def test_a_client_holds_only_its_share_and_a_full_queue_answers_at_once(pool):
    async def scene():
        gate = threading.Event()
        try:
            held = [as_client(f"c{i // 2}")(pool.run(gate.wait)) for i in range(6)]
            await asyncio.sleep(0.05)
            began = time.perf_counter()
            with pytest.raises(Problem) as greedy:
                await as_client("c0", anonymous=False)(pool.run(gate.wait))
            with pytest.raises(Problem) as full:
                await as_client("c9")(pool.run(gate.wait))
            assert time.perf_counter() - began < 1
            assert greedy.value.status_code == 429 and full.value.status_code == 503
            assert full.value.headers["Retry-After"]
            # The last places are kept for those who have a key.
            held.append(as_client("k", anonymous=False)(pool.run(gate.wait)))
            await asyncio.sleep(0.05)
            assert pool.inside == 7
        finally:
            gate.set()
        assert all(await asyncio.gather(*held))

    asyncio.run(scene())
    assert pool.inside == 0


def test_work_past_its_deadline_is_given_up_and_its_place_is_free_when_it_ends():
    pool = Pool("tests", threads=1, waiting=2, per_client=2, seconds=0.1)
    gate = threading.Event()

    async def scene():
        with pytest.raises(Problem) as late:
            await pool.run(gate.wait)
        assert late.value.status_code == 504 and late.value.headers["Retry-After"]
        assert pool.inside == 1  # the thread is still at it
        gate.set()
        while pool.inside:
            await asyncio.sleep(0.01)
        assert await pool.run(lambda: 7) == 7

    asyncio.run(scene())
    pool.close()


def test_work_is_charged_to_whoever_asked_even_when_it_fails(pool):
    bill = []

    async def scene():
        asking.set(Caller("c", True, bill.append))
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: sum(range(300_000)) / 0)

    asyncio.run(scene())
    assert len(bill) == 1 and bill[0] > 0
