"""Where reading has a fast way and a slow one, both read, reject and say the same."""

import copy
import csv
import io as text_io
import itertools
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crowdfield import geography, io
from crowdfield.data.reports import Reports
from crowdfield.errors import CrowdfieldError
from crowdfield.io import delimited, sources, text_words
from crowdfield.io.codes import Codes
from crowdfield.io.lines import starting_lines
from crowdfield.io.names import NameColumn
from crowdfield.io.points import numbers
from crowdfield.io.times import Times

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
COORDINATES = [
    "18.5",
    "18,5",
    " -72.25",
    "7",
    "+1e1",
    "1,5e1",
    "18.",
    ",5",
    "NA",
    "n/a",
    "nan",
    "inf",
    "",
    "x",
    "1e0001",
]
NAMES = ["ann", " ann", "Ann", "bob", "", "NA", "-", "unknown", "Ünal", "none"]
# Spaces that Python strips and Arrow may not, letters that only become ASCII when folded, words for an empty cell.
NAMES += [
    "\u00a0ann",
    "ann\u2003",
    "\x1fbob",
    "\u200bbob",
    "n/\u1d00",
    "—",
    "–",
    "#N/A",
    "\u212aim",
    "kim",
    "ann\x7f",
    "z" * 70,
]
LABELS = ["flooded", "Flooded", " flooded", "dry", "", "null", "3"]
TIMES = ["2020-01-01T10:00:00Z", "2020-01-01 10:00", "1577872800", "1577872800.5", "13/01/2020", "NA", "soon", "", "7"]
TIMES += [
    "0x5e0c7a00",
    "1577872801",
    "-5",
    "3/4/2020",
    "03.04.20 7:05",
    "4-3-2020T23:59:58",
    "5/13/2020",
    "31/2/2020 10:00",
]
TIMES += ["3/4/2020 10:00 pm", "3/4/202", "03//04/2020", "3/4/2020 ", "1/2/2020 25:61", "3/4/2020,10.30", "١/٢/2020"]


def told(path: Path) -> object:
    """All that reading a file says, for comparison; the words of the error where it is refused."""
    try:
        result = io.read(path)
    except CrowdfieldError as error:
        return str(error)
    r = result.reports
    seconds = None if r.time is None else [None if np.isnan(t) else t for t in r.time.tolist()]
    said = [r.labels[i] for i in r.label], [r.sources[i] for i in r.source], r.labels, r.sources, r.places.tolist()
    return *said, seconds, result.row.tolist(), list(result.rejects), result.notes, result.summary()


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Tables of few rows, mostly of one way of writing, as files are."""
    kinds = [st.sampled_from(draw(st.lists(st.sampled_from(x), min_size=1, max_size=4))) for x in COLUMNS]
    rows = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=14))
    return "source;lat;lon;label;time\n" + "".join(";".join(row) + "\n" for row in rows)


COLUMNS = (NAMES, COORDINATES, COORDINATES, LABELS, TIMES)


@quick
@given(table=tables())
def test_tables_are_read_alike_with_arrow_and_without_and_in_chunks_of_any_size(tmp_path, table):
    path = tmp_path / "t.csv"
    path.write_text(table, encoding="utf-8")
    whole = told(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "CHUNK", 3)
        patch.setattr(sources, "ROWS_AT_ONCE", 4)
        assert told(path) == whole
    with pytest.MonkeyPatch.context() as patch:
        # pandas itself reaches for pyarrow where it is installed, so only our own use of it is taken away.
        patch.setattr(delimited, "_text_type", lambda: object)
        assert told(path) == whole


digits = st.text("0123456789", min_size=1, max_size=9)
written = st.one_of(
    st.sampled_from(COORDINATES),
    st.builds("{}{}{}{}{}".format, st.sampled_from(["", "-", "+"]), digits, st.sampled_from(",."), digits, st.just("")),
    st.text("0123456789+-,.eE _", max_size=8),
)


@quick
@given(cells=st.lists(written, min_size=1, max_size=12))
@example(cells=["+158731713.318826391"])
@example(cells=["+158731713,318826391", "7"])
def test_a_number_is_the_same_whatever_else_its_column_holds(tmp_path, cells):
    path = tmp_path / "n.csv"
    path.write_text("lat;lon;label\n" + "".join(f"{cell};1;a\n" for cell in cells), encoding="utf-8")
    table = delimited.Table(path)
    table.delimiter = ";"  # a table of very odd numbers may look cut elsewhere
    table.header = ["lat", "lon", "label"]
    table.sample = [[cell, "1", "a"] for cell in cells]
    (chunk,) = table.chunks(["lat"], numeric=["lat"], missing=frozenset({"na"}))
    one_by_one = numbers(pd.Series(cells, dtype=object))
    read = numbers(chunk.frame["lat"])
    # What is not finite is refused, whatever it is.
    read, one_by_one = (np.where(np.isfinite(x), x, np.nan) for x in (read, one_by_one))
    np.testing.assert_array_equal(read, one_by_one)


@quick
@given(
    text=st.text("ab, \t\r\n\n", max_size=60),
    delimiter=st.sampled_from(",\t"),
    size=st.integers(1, 20),
)
def test_counting_line_ends_finds_the_lines_that_a_reader_of_cells_finds(text, delimiter, size):
    reader = csv.reader(text_io.StringIO(text, newline=""), delimiter=delimiter)
    wanted, line = [], 1
    for cells in reader:
        if cells and not (len(cells) == 1 and not cells[0].strip()):
            wanted.append(line)
        line = reader.line_num + 1
    data = text.encode()
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    rows = np.arange(len(wanted), dtype=np.int64)
    found = starting_lines(blocks, rows, delimiter)
    if found is None:
        assert "\r" in text.replace("\r\n", "")
    else:
        assert found.tolist() == wanted
        assert (every_other := starting_lines(blocks, rows[::2], delimiter)) is not None
        assert every_other.tolist() == wanted[::2]


def test_lines_are_not_counted_where_a_cell_may_hold_line_breaks():
    blocks = [b'a,b\n"1\n2",3\n4,5\n']
    assert starting_lines(blocks, np.array([2]), ",") is None
    unquoted = starting_lines(blocks, np.array([0, 3, 9]), ",", quote=None)
    assert unquoted is not None
    assert unquoted.tolist() == [1, 4, 0]


def test_a_name_is_spelt_as_in_the_first_row_that_is_used():
    column, codes = NameColumn(frozenset({"na"})), Codes(fold=True)
    cells, empty = column.read(pd.Series(["Wet", "wet", None, " NA ", "dry", "Wet"], dtype=object))
    assert empty.tolist() == [False, False, True, True, False, False]
    assert codes.of(cells[np.array([1, 4, 5])]).tolist() == [0, 1, 0]
    assert codes.names == ["wet", "dry"]


@pytest.mark.parametrize("name", ["user{}", "{}-9f3a-4c1d-8e77-0123456789ab", " Ünal {} ", "{}"])
@pytest.mark.parametrize("at_once", [sources.ROWS_AT_ONCE, 20_000])
def test_sources_with_one_report_each_are_read_as_those_with_many(tmp_path, monkeypatch, name, at_once):
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", at_once)
    rng = np.random.default_rng(1)
    said = [name.format(number) for number in rng.integers(0, 10**6, 40_000)]
    for row, word in ((5, ""), (6, "NA"), (7, "n/a"), (8, "Nadia")):
        said[row] = word
    rows = [f"{18 + i / 1e5:.5f},-72.3,{'dry' if i % 2 else 'wet'},{who}" for i, who in enumerate(said)]
    file = tmp_path / "many.csv"
    file.write_text("\n".join(["lat,lon,label,source", *rows]), encoding="utf-8")
    reports = io.read(file).reports
    wanted = ["unknown" if who in ("", "NA", "n/a") else who.strip() for who in said]
    assert reports.n_sources == len(set(wanted))
    assert reports.sources == tuple(sorted(set(wanted)))
    assert [reports.sources[code] for code in reports.source] == wanted


@pytest.mark.parametrize("changed", ["read", "copied", "pickled", "taken", "replaced", "joined"])
def test_names_that_nobody_asked_for_yet_survive_changes(tmp_path, changed):
    file = tmp_path / "named.csv"
    file.write_text("lat,lon,label,source,id\n18.5,-72.3,wet,user2,a\n18.6,-72.3,dry,user1,\n18.7,-72.3,wet,user2,c\n")
    reports = io.read(file).reports
    reports = {
        "read": lambda: reports,
        "copied": lambda: copy.deepcopy(reports),
        "pickled": lambda: pickle.loads(pickle.dumps(reports)),  # noqa: S301 (our own)
        "taken": lambda: reports.take([0, 1, 2]),
        "replaced": lambda: replace(reports, time=np.arange(3.0)),
        "joined": lambda: reports.take([0]).join(reports.take([1, 2])),
    }[changed]()
    assert repr(reports).startswith("Reports(3 reports, 2 sources")
    assert reports.sources == ("user1", "user2")
    assert reports.id == ("a", None, "c")
    assert reports.source.tolist() == [1, 0, 1]


def test_a_table_of_reports_needs_its_sources():
    with pytest.raises(TypeError, match="sources"):
        Reports(places=np.zeros((1, 2)), label=np.zeros(1, int), source=np.zeros(1, int), labels=("a",))
    assert Reports.from_arrays([[0, 0]], ["a"]).id is None


def test_equal_hashes_alone_make_no_duplicates(tmp_path):
    # A million hashes of 32 bits hold about a hundred equal pairs by chance.
    rng = np.random.default_rng(5)
    n = 200_000
    frame = pd.DataFrame({"lat": rng.uniform(1, 2, n), "lon": rng.uniform(1, 2, n), "label": "a", "source": "s"})
    again = pd.concat([frame, frame.iloc[[7, 11]], frame.iloc[[7]]])
    again.to_csv(tmp_path / "d.csv", index=False)
    result = io.read(tmp_path / "d.csv")
    assert (result.used, result.duplicate) == (n, 3)
    assert result.row.tolist() == list(range(n))


@quick
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 400),
    far=st.integers(0, 12),
    spread=st.floats(1e-4, 60),
)
def test_looking_at_some_places_never_changes_the_region_of_the_bulk_of_them(seed, count, far, spread):
    rng = np.random.default_rng(seed)
    places = rng.normal(0, spread, (count, 2)).clip(-80, 80) + np.array([20.0, 5.0])
    places[: min(far, count)] += rng.uniform(-60, 60, (min(far, count), 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geography.regions, "_none_is_far", lambda *_: False)
        slow = geography.main_bounds(places)
    assert geography.main_bounds(places) == slow


texts = st.lists(st.text(max_size=20).filter(lambda text: text.isprintable() or "\0" in text), min_size=1, max_size=20)


@quick
@given(cells=texts)
@example(cells=["a", "a\0", "a\0b", "aaaaaaaa", "aaaaaaaaa", "ß", "z"])
@example(cells=["9", "10", "11"])
def test_text_compared_as_numbers_has_the_order_of_text(cells):
    array = pa.array(cells)
    assert [cells[i] for i in text_words.in_order(array).rows] == sorted(cells)
    assert (columns := text_words.words(array)) is not None
    by_length = [(len(cell.encode()), cell.encode()) for cell in cells]
    assert text_words.strictly_increasing(columns) == all(a < b for a, b in itertools.pairwise(by_length))
    assert text_words.contains_any(array, ["a", "ß", "10"]) == bool({"a", "ß", "10"} & set(cells))


written_dates = st.from_regex(
    r"[0-3]?[0-9][/.-][0-3]?[0-9][/.-](19|20)?[0-9][0-9]([ T,][0-2]?[0-9][:.][0-6][0-9]([:.][0-6][0-9])?)?",
    fullmatch=True,
    alphabet=st.characters(codec="ascii"),
)


@quick
@given(cells=st.lists(written_dates, min_size=1, max_size=8), empty=st.booleans())
@example(cells=["1/2/2020", "1/2/20 3:04"], empty=False)
@example(cells=["13/1/2020 10:00"], empty=True)
@example(cells=["13/01/2020 10:00:01", "31/02/2020 10:00:02", "01/02/2020 25:00:00", "01/02/2020 23:59:60"], empty=True)
@example(cells=["13/01/20", "01/02/71", "01.02/71"], empty=False)
def test_dates_in_numbers_are_read_alike_as_columns_of_digits_and_one_by_one(cells, empty):
    rows = np.arange(len(cells) + empty)
    text = cells + [None] * empty
    fast, slow = Times("f", "t", order="dmy"), Times("f", "t", order="dmy")
    fast.add(pd.Series(text, dtype=pd.ArrowDtype(pa.string())), rows)
    slow.add(pd.Series(text, dtype=object), rows)
    assert (fast._day_first, fast._month_first) == (slow._day_first, slow._month_first)
    np.testing.assert_array_equal(fast.seconds(int), slow.seconds(int))
    assert (fast.unread, fast.ambiguous, fast.serial) == (slow.unread, slow.ambiguous, slow.serial)
