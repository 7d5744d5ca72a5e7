"""The notebooks run, one after the other in one kernel, and show what their words say."""

import asyncio
import os
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "docs" / "notebooks"
NAMES = ("first_map", "what_changed", "state_in_question")


def test_the_index_lists_every_notebook_and_none_holds_output():
    index = (NOTEBOOKS / "README.md").read_text()
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(NAMES)
    for name in NAMES:
        book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        nbformat.validate(book)
        assert f"]({name}.ipynb)" in index
        assert not any(cell.outputs for cell in book.cells if cell.cell_type == "code")


# Of the libraries that start kernels, not of ours.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_every_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    if sys.platform == "win32":
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    books = [nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4) for name in NAMES]
    # One kernel for all: starting and importing takes longer than the notebooks themselves.
    whole = nbformat.v4.new_notebook(metadata=books[0].metadata)
    for book in books:
        whole.cells += [*book.cells, nbformat.v4.new_code_cell("%reset -f")]
    start = time.monotonic()
    client = NotebookClient(whole, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=dict(os.environ))
    assert time.monotonic() - start < 300
    shown = " ".join(str(cell.outputs) for cell in whole.cells if cell.cell_type == "code")
    assert "<iframe srcdoc=" in shown and "<Fused: 240 reports by 4 sources" in shown and "damaged / undamaged" in shown
    assert {path.name for path in tmp_path.glob("*.*")} >= {"map.png", "change.png", "report.html", "damage.png"}
