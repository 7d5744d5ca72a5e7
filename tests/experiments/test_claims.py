"""The paper's claims that the data support, on cells of the quick run; and the page that reports them."""

from dataclasses import replace

import numpy as np
import pytest

from crowdfield.experiments import claims, haiti, report, synthetic, tacloban
from crowdfield.experiments.protocol import Store, run
from crowdfield.experiments.reference import AUTHORS


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three data sets of every synthetic setting, with 400 and 1,000 reports."""
    plan = synthetic.plan(quick=True)
    left_out = {name: () for name in (synthetic.PAPER, synthetic.VB, synthetic.GIBBS)}
    small = replace(plan, repeats=3, sizes=(400, 1000), only={**plan.only, **left_out})
    return run([small], Store(tmp_path_factory.mktemp("claims") / "results.jsonl"))


def test_the_papers_claims_hold_on_simulated_data(table):
    found = claims.check(table)
    # What happens as reports pile up needs more of them than a quick run has.
    assert [claim.holds for claim in found].count(None) == 1 and len(found) == 5
    for claim in found:
        assert claim.holds is not False, f"{claim.claim} — {claim.finding}"


def test_a_baseline_that_wins_is_reported_as_such(table):
    swap = {synthetic.OURS: "KDE", "KDE": synthetic.OURS}
    swapped = claims.check(table.assign(method=table.method.replace(swap)))
    assert swapped[0].holds is False and "KDE" in swapped[0].finding


def test_the_page_sets_claim_result_and_authors_side_by_side(table, tmp_path):
    page = report.write(table, {}, tmp_path, command="crowdfield reproduce synthetic --quick").read_text()
    for expected in (
        "With 400 labels and more",
        "least median difference",
        "authors: HeatmapBCC (soft)",
        "figures/synthetic-auc.png",
        "Where paper and data disagree",
    ):
        assert expected in page
    for name in ("results.csv", "summary.csv", "summary.md", "figures/synthetic-nlpd.svg"):
        assert (tmp_path / name).stat().st_size > 0


def test_authors_figures_are_those_of_the_reference():
    assert AUTHORS["synthetic", "50 % noisy"]["HeatmapBCC (soft)"][1000] == {
        "auc": 0.750, "cross_entropy": 0.778, "nlpd": -0.74,
    }  # fmt: skip
    assert AUTHORS["haiti", "675 reports"]["IBCC"][675] == {"cross_entropy": 0.066}


def test_one_haiti_cell_and_the_notes_on_it(data_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("CROWDFIELD_DATA", str(data_folder))
    plan = replace(haiti.plan(quick=True), repeats=1, sizes=(169, 675))
    found = run([plan], Store(tmp_path / "results.jsonl"))
    assert "auc" not in found  # every gold cell is positive
    ce = found.pivot_table(index="n", columns="method", values="cross_entropy")
    # Interpolation helps where reports are sparse; IBCC with all labels is its own gold standard.
    assert ce[haiti.OURS][169] < ce["IBCC"][169]
    assert ce.loc[675].idxmin() == "IBCC"
    assert any("675" in note for note in claims.NOTES["haiti"])


def test_a_responder_changes_his_cell_and_no_distant_one(data_folder, monkeypatch):
    monkeypatch.setenv("CROWDFIELD_DATA", str(data_folder))
    maps = haiti.responder()
    x, y = maps["place"].astype(int)
    assert maps["before"][x, y] > 0.9 and maps["after"][x, y] < 0.2
    change = maps["after rate"] - maps["before rate"]
    # The rate falls around him, and least where nothing ties the map to him.
    assert change[x, y] < -0.005 and change.max() < 0.002
    assert abs(change[99, 99]) < 0.5 * abs(change.min())


def test_tacloban_is_judged_where_the_gold_is_sure(data_folder, monkeypatch):
    monkeypatch.setenv("CROWDFIELD_DATA", str(data_folder))
    problem = tacloban.problem(tacloban.SETTING, np.random.default_rng(0))
    assert len(problem.places) == 572 and (np.abs(problem.truth - 0.5) >= 0.4).all()
    # All positives stay, and about a fifth of the 9,645 negatives.
    assert int((problem.reports.label == 1).sum()) == 1_641
    assert 1_700 < int((problem.reports.label == 0).sum()) < 2_150
