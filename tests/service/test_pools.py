"""Pools: work of one kind never waits for work of another, and nobody fills a queue alone."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from crowdfield.service.helper_pool import Helper, HelperDied, ResultCache
from crowdfield.service.pools import Caller, Pool, current_caller
from crowdfield.service.problems import Problem


@pytest.fixture
def pool():
    made = Pool("tests", threads=1, waiting=8, per_client=2, seconds=5)
    yield made
    made.close()


def as_client(name, *, anonymous=True):
    """Run a coroutine as this client would."""

    async def run(work):
        current_caller.set(Caller(name, anonymous))
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
            assert time.perf_counter() - began < pool.seconds  # they did not wait for a place
            assert greedy.value.status_code == 429 and full.value.status_code == 503
            assert full.value.headers["Retry-After"] and pool.refused == 2
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
        assert pool.inside == 1 and pool.refused == 1  # the thread is still at it
        gate.set()
        while pool.inside:
            await asyncio.sleep(0.01)
        pool.seconds = 60  # however busy this machine is
        assert await pool.run(lambda: 7) == 7

    asyncio.run(scene())
    pool.close()


def test_work_is_charged_to_whoever_asked_even_when_it_fails(pool):
    bill: list[float] = []

    async def scene():
        current_caller.set(Caller("c", True, bill.append))
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: sum(range(300_000)) / 0)

    asyncio.run(scene())
    assert len(bill) == 1 and bill[0] > 0


def test_work_for_a_client_that_left_is_taken_out_of_the_queue(pool, monkeypatch):
    monkeypatch.setattr("crowdfield.service.pools.UNWATCHED_SECONDS", 0.01)
    gate = threading.Event()
    done = []

    async def scene():
        held = asyncio.ensure_future(pool.run(gate.wait))
        left = asyncio.Event()

        async def impatient():
            current_caller.set(Caller("c", True, gone=left.wait))
            await pool.run(lambda: done.append("for nobody"))

        waiting = asyncio.ensure_future(impatient())
        await asyncio.sleep(0.05)
        assert pool.inside == 2
        left.set()
        with pytest.raises(Problem):
            await waiting
        assert pool.inside == 1
        gate.set()
        assert await held

    asyncio.run(scene())
    assert done == []


def test_the_same_thing_is_made_once_for_all_who_wait_and_not_for_nobody(pool):
    made = ResultCache()
    gate, calls = threading.Event(), []

    async def scene():
        first = asyncio.ensure_future(pool.run(gate.wait))

        def make():
            calls.append(1)
            return len(calls)

        both = [asyncio.ensure_future(made.get("key", pool, make)) for _ in range(2)]
        nobody = asyncio.ensure_future(made.get("other", pool, make))
        await asyncio.sleep(0.05)
        both[0].cancel()
        nobody.cancel()
        await asyncio.gather(both[0], nobody, return_exceptions=True)
        gate.set()
        assert await both[1] == 1 and await first
        assert await made.get("key", pool, make) == 1 and calls == [1]

    asyncio.run(scene())
    made.close()


def test_whoever_owes_work_waits_before_causing_more_where_work_has_a_price():
    dear = Pool("dear", threads=1, waiting=2, per_client=2, seconds=5, priced=True)
    cheap = Pool("cheap", threads=1, waiting=2, per_client=2, seconds=5)

    async def scene():
        current_caller.set(Caller("c", True, owed=lambda: 7.2))
        with pytest.raises(Problem) as refused:
            await dear.run(lambda: 1)
        assert refused.value.status_code == 429 and refused.value.headers["Retry-After"] == "8"
        assert await cheap.run(lambda: 1) == 1

    asyncio.run(scene())
    dear.close()
    cheap.close()


def test_a_question_that_was_under_way_starts_no_process_after_the_end(monkeypatch):
    """The process had answered before, so one that is gone would otherwise be replaced."""
    program = "import sys, time; sys.stdin.readline(); sys.stdin.readline(); print('{}', flush=True); time.sleep(60)"
    started, popen = [], subprocess.Popen

    def start(command, **options):
        started.append(popen([sys.executable, "-c", program], **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    helper = Helper({})
    assert helper.ask({"task": "first"}, 30) == {}
    outcome = []

    def ask():
        try:
            helper.ask({"task": "second"}, 30)
        except (HelperDied, ValueError, OSError) as error:  # its pipe ends, or is closed while the thread waits
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.2)  # until the second question has been asked
    helper.end()
    thread.join(30)
    assert len(outcome) == len(started) == 1 and started[0].poll() is not None
    with pytest.raises(HelperDied):
        helper.ask({"task": "third"}, 30)
    assert len(started) == 1
