"""The log is the truth: durable when acknowledged, once whatever is sent twice, the same map however often replayed."""

import sqlite3
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from crowdfield.data import Region
from crowdfield.service.database import open_database
from crowdfield.service.journal import Entry, Journal, JournalClosed, Ledger
from crowdfield.service.layouts import plan
from crowdfield.service.records import Situation
from crowdfield.service.store import Store


@pytest.fixture
def journal(database):
    engine = open_database(database)
    Store(engine).create(situation("one"))
    journal = Journal(engine)
    yield journal, engine
    journal.close()
    engine.dispose()


def situation(name):
    region = Region(-1.0, -1.0, 1.0, 1.0)
    grid = plan(region, 8)
    return Situation(
        name, name, ("no", "yes"), ("no", "yes"), region, str(grid.crs), grid.extent,
        grid.columns, grid.rows, {}, 0.0,
    )  # fmt: skip


def report(id, label="yes", **more):
    return Entry("report", id, 0.1, 0.2, label, "somebody", **more)


def ledger(engine):
    folded = Ledger("one")
    folded.follow(engine)
    return folded


def test_the_same_entry_twice_is_stored_once_and_another_under_its_name_is_refused(journal):
    log, engine = journal
    assert log.append("one", [report("a"), report("a")]) == ["stored", "duplicate"]
    assert log.append("one", [report("a"), report("a", "no"), report("b")]) == ["duplicate", "conflict", "stored"]
    assert list(ledger(engine).reports) == ["a", "b"]


def test_many_threads_lose_nothing_and_share_transactions(journal):
    log, engine = journal

    def send(k):
        for i in range(20):
            assert log.append("one", [report(f"{k}-{i}")]) == ["stored"]

    threads = [threading.Thread(target=send, args=(k,)) for k in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger(engine).reports) == 240
    assert log.commits < 240  # what came together was made durable together


def test_a_bad_request_does_not_take_its_neighbours_with_it(journal):
    log, engine = journal
    futures = [log.submit(name, [report("x")]) for name in ("one", "nowhere", "one")]
    assert futures[0].result() == ["stored"]
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        futures[1].result()
    assert futures[2].result() == ["duplicate"]
    assert list(ledger(engine).reports) == ["x"]


def test_closing_stores_what_was_accepted_and_refuses_the_rest(journal):
    log, engine = journal
    futures = [log.submit("one", [report(str(i))]) for i in range(50)]
    log.close()
    assert all(future.result() == ["stored"] for future in futures)
    with pytest.raises(JournalClosed):
        log.submit("one", [report("late")])
    assert len(ledger(engine).reports) == 50


def test_the_head_is_where_the_log_ends(journal):
    log, engine = journal
    log.append("one", [report("a"), report("b")])
    assert Store(engine).situation("one").head == ledger(engine).head > 0
    log.append("one", [report("a")])
    assert Store(engine).situation("one").head == ledger(engine).head


def test_sqlite_syncs_fully_and_writes_ahead(tmp_path):
    engine = open_database(str(tmp_path / "w.db"))
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    engine.dispose()
    assert (tmp_path / "w.db").stat().st_mode & 0o077 == 0  # nobody else reads it
    sqlite3.connect(tmp_path / "w.db").close()


STEPS = st.lists(st.tuples(st.sampled_from(["report", "retract", "trust"]), st.integers(0, 5)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_report_stands_if_it_was_made_and_never_retracted(steps):
    folded = Ledger("one")
    for seq, (kind, number) in enumerate(steps, start=1):
        name = str(number)
        more = {"report": report(name), "retract": Entry("retract", name, value=name)}
        folded.apply(seq, more.get(kind) or Entry("trust", f"t{seq}", source=name, value="high"))
    made, gone = ({str(n) for kind, n in steps if kind == what} for what in ("report", "retract"))
    assert set(folded.reports) == set(folded.seq) == made - gone
    assert set(folded.trust) == {str(n) for kind, n in steps if kind == "trust"}
    assert folded.head == len(steps)


def test_a_log_read_in_two_goes_folds_to_what_it_folds_to_in_one(journal):
    log, engine = journal
    apart = Ledger("one")
    log.append("one", [report("a"), report("b"), Entry("trust", "t", source="somebody", value="high")])
    apart.follow(engine)
    log.append("one", [Entry("retract", "a", value="a"), report("c")])
    assert apart.follow(engine) == 2
    whole = ledger(engine)
    assert apart.reports == whole.reports and list(whole.reports) == ["b", "c"]
    assert (apart.trust, apart.head, apart.seq) == (whole.trust, whole.head, whole.seq)
    assert [row.id for row in Store(engine).active_reports("one")] == list(whole.reports)
