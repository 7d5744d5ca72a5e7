"""Text cells compared as numbers: the same answers as comparing the text."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crowdfield.io import names, text_words
from crowdfield.io.names import NameColumn

CELLS = ["", "a", "a\0", "user1", "user12345678", "12345678", "123456789", "é", "日本語日本語", " ann", "ann", "x" * 64]


@pytest.mark.parametrize("offset", [0, 3])
def test_cells_are_equal_in_all_words_exactly_where_their_text_is(offset):
    rng = np.random.default_rng(0)
    cells = rng.choice(np.array(CELLS, dtype=object), 500).tolist()
    cells[7] = cells[90] = None
    array = pa.array(cells).slice(offset)
    columns = text_words.words(array)
    assert columns is not None
    words = np.stack(columns)
    text = array.to_pylist()
    for i in range(40):
        assert (words == words[:, i : i + 1]).all(axis=0).tolist() == [cell == text[i] for cell in text]


@pytest.mark.parametrize("many", [1, 3, 5_000])
def test_names_are_numbered_in_the_order_they_are_met_chunk_after_chunk(monkeypatch, many):
    monkeypatch.setattr(names, "MANY_NAMES", many)
    rng = np.random.default_rng(1)
    text = pd.ArrowDtype(pa.string())
    column, plain = NameColumn(frozenset({"na"})), NameColumn(frozenset({"na"}))
    for size in (50, 0, 400, 300):
        cells = rng.choice(np.array([*CELLS, " user1 ", "NA", "y" * 200], dtype=object), size).tolist()
        cells[3:5] = [None, None] if size else []
        found, blank = column.read(pd.Series(cells, dtype=text))
        expected, absent = plain.read(pd.Series(cells, dtype=object))
        assert found.names().tolist() == expected.names().tolist()
        assert blank.tolist() == absent.tolist()


def test_two_cells_with_one_digest_are_told_apart(monkeypatch):
    monkeypatch.setattr(names, "MANY_NAMES", 1)
    monkeypatch.setattr(text_words, "digests", lambda columns: columns[0] * np.uint64(0))
    column = NameColumn(frozenset())
    found, _ = column.read(pd.Series(["ann", "bob", "ann", "eve"], dtype=pd.ArrowDtype(pa.string())))
    assert found.names().tolist() == ["ann", "bob", "ann", "eve"]


ALPHABETS = {
    "few letters, zero bytes and accents": (["a", "b", "\0", "é", " "], 24),
    "many that are equal": (["a", "b", "\0"], 4),
    "digits": (list("0123456789"), 9),
    "one letter": (["x"], 2),
    "too long for words": (["long"], 40),
}


@pytest.mark.parametrize("kind", ALPHABETS)
@pytest.mark.parametrize("count", [1, 2, 3000])
@pytest.mark.parametrize("beginnings", [[""], ["organisation-0001-user-"], ["volunteer/", "telephone/", "Ünal "]])
def test_cells_are_numbered_in_the_order_in_which_python_sorts_them(kind, count, beginnings):
    rng = np.random.default_rng(2)
    letters, longest = ALPHABETS[kind]
    ends = ["".join(rng.choice(letters, rng.integers(0, longest))) for _ in range(count)]
    cells = [beginning + end for beginning, end in zip(itertools.cycle(beginnings), ends, strict=False)]
    found = text_words.in_order(pa.array(["x", *cells]).slice(1))
    names = sorted(set(cells))
    assert [cells[row] for row in found.rows[found.new]] == names
    assert [names[code] for code in found.codes()] == cells
