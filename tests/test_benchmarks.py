"""What a run of the benchmarks says: promises, a comparison of two trees, and a machine that is not quiet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks import compare, machine
from benchmarks.__main__ import FULL, line
from benchmarks.cases import CASES
from benchmarks.promises import PROMISES, judge

GROWTH = [10**k for k in range(3, 8)]


def result(case: str, size: int, quiet: bool = True, **figures: float) -> dict[str, object]:
    return {"case": case, "size": size, "quiet": quiet, **figures}


def verdict(text: str, *results: dict[str, object]) -> tuple[str, float | None]:
    found = next(each for each in judge(results) if each.text.startswith(text))
    return found.verdict, found.value


def test_every_promise_is_measured_by_a_full_run():
    plan = FULL | {"growth": GROWTH, "growth_collapsed": GROWTH}
    for promise in PROMISES:
        assert promise.needs, promise.text
        for case, size in promise.needs:
            assert case in CASES
            assert size in plan[case], promise.text


@pytest.mark.parametrize(
    ("seconds", "quiet", "expected"),
    [(4.0, True, "holds"), (4.0, False, "holds"), (6.0, True, "fails"), (6.0, False, "machine busy")],
)
def test_a_promise_that_fails_on_a_busy_machine_is_not_called_broken(seconds, quiet, expected):
    assert verdict("mean-field VB, 10⁶", result("growth", 10**6, quiet, seconds=seconds)) == (expected, seconds)


def test_a_promise_without_figures_is_not_measured():
    assert verdict("mean-field VB, 10⁶") == ("not measured", None)
    assert verdict("the default at 10⁶, in times", result("growth_collapsed", 10**6, seconds=9.0))[0] == "not measured"
    assert verdict("fits of 100", result("paper", 100, seconds=0.05))[0] == "not measured"


def test_promises_of_two_figures_compare_them():
    growth = [result("growth", 10**5, seconds=1.0), result("growth", 10**7, seconds=50.0)]
    held, power = verdict("growth of mean-field VB", *growth)
    assert held == "holds"
    assert power == pytest.approx(0.849, abs=1e-3)
    beside = [result("growth_collapsed", 10**6, seconds=9.0), result("dawid_skene", 10**6, their_seconds=3.0)]
    assert verdict("the default at 10⁶, in times", *beside) == ("fails", 3.0)
    paper = [result("paper", size, seconds=0.01 * i) for i, size in enumerate((100, 400, 1000, 2400))]
    assert verdict("fits of 100", *paper) == ("holds", 0.03)


def test_two_trees_are_compared_by_their_medians():
    here = [{"cpu_seconds": 2.0, "sweeps": 10}, {"cpu_seconds": 9.0, "sweeps": 10}, {"cpu_seconds": 2.2, "sweeps": 10}]
    there = [{"cpu_seconds": 1.1, "sweeps": 20, "seconds": 3.0}] * 3
    assert compare.ratios(here, there) == {"cpu_seconds": pytest.approx(2.0), "sweeps": 0.5}


def test_another_commit_is_checked_out_and_cleared_away(tmp_path: Path):
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    repository = tmp_path / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "src" / "word.txt").write_text("then")
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "then"]):
        subprocess.run([program, "-C", str(repository), *command], check=True)
    (repository / "src" / "word.txt").write_text("now")
    with compare.checked_out("HEAD", repository) as tree:
        assert (tree / "src" / "word.txt").read_text() == "then"
        assert machine.commit(tree) in machine.commit(repository)
    assert not tree.exists()
    assert machine.git(repository, "worktree", "list").count("\n") == 0
    with pytest.raises(SystemExit, match="is it a commit"), compare.checked_out("no-such-commit", repository):
        pass


def test_the_machine_is_watched_and_a_line_says_who_else_worked():
    others = machine.watched(0.01)
    assert others is None or others >= 0.0
    assert machine.is_quiet(None) is None
    assert machine.is_quiet(0.0) and not machine.is_quiet(1.0)
    told = line(result("growth", 1000, quiet=False, seconds=1.0, cores_taken_by_others=1.5))
    assert "other programs took 1.5 cores" in told
