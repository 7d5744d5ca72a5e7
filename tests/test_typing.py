"""What a user's type checker and editor see: real types behind `cf.`, and errors where something is wrong."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.public import described

import crowdfield as cf

ROOT = Path(__file__).resolve().parents[1]

CLIENT = """
from collections.abc import Hashable
from typing import assert_type

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import crowdfield as cf
from crowdfield.io import ReadResult
from crowdfield.pipeline import Assessment, Fused, ModelCheck

result = cf.io.read("reports.csv")
assert_type(result, ReadResult)
assert_type(result.reports, cf.Reports)
fused = cf.pipeline.fuse(result.reports, cell="250m")
assert_type(fused, Fused)
assert_type(fused.model, cf.HeatmapBCC)
assert_type(fused.heatmap, cf.Heatmap)
assert_type(fused.heatmap.grid, cf.Grid)
assert_type(fused.table(), pd.DataFrame)
model = cf.HeatmapBCC(lengthscale=3_000.0)
assert_type(model.fit(np.zeros((3, 2)), ["a", "b", "a"]), cf.HeatmapBCC)
mean, sd = model.predict_rate([[0.0, 0.0]])
assert_type(mean, NDArray[np.float64])
assert_type(model.source_table(), pd.DataFrame)
assert_type(cf.check_model(model), ModelCheck)
assert_type(cf.metrics.auc([0, 1], [0.2, 0.8]), float)
assert_type(cf.simulate.simulate(10, rng=np.random.default_rng(0)).reports, cf.Reports)
assert_type(cf.geography.parse_length("2km"), float)
assert_type(cf.geography.wrap(181.0), float)
assert_type(fused.heatmap.positive, Hashable)
assert_type(cf.assess(model, pd.DataFrame()), Assessment)
for estimator in (cf.IBCC(), cf.GPClassifier(), cf.IBCCGP(), cf.KernelDensity(), cf.MajorityVote(), cf.SVM()):
    assert_type(estimator.predict_proba([[0.0]]), NDArray[np.float64])
"""

WRONG = """
import crowdfield as cf

cf.HeatmapBCC(lengthscales=3.0)  # no such parameter
cf.Grid(west="0", east=1, south=0, north=1, columns=1, rows=1)  # not a number
cf.HeatMapBCC()  # no such name
cf.io.read(3)  # not a path
"""


# Parameters that take any object, and why.
TAKES_ANYTHING = {
    ("testing.check_report_classifier", "estimator"),  # whatever follows the contract, without a common base class
}


def public_functions() -> Iterator[tuple[str, Any]]:
    """Public functions, and the public methods and properties of public classes."""
    for name, found in described():
        if not inspect.isclass(found):
            yield name, found
            continue
        for member, value in inspect.getmembers(found):
            function = value.fget if isinstance(value, property) else value
            public = not member.startswith("_") and inspect.isroutine(function)
            if public and getattr(function, "__module__", "").startswith("crowdfield"):
                yield f"{name}.{member}", function


def test_no_public_function_takes_or_returns_any():
    """Keywords that are passed on (**options) are described in words."""
    loose = []
    for name, function in public_functions():
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        loose += [(name, p.name) for p in named if p.annotation in (Any, "Any")]
        if signature.return_annotation in (Any, "Any", inspect.Signature.empty):
            loose.append((name, "return"))
    assert set(loose) == TAKES_ANYTHING


def imported_for_type_checkers(package: str) -> dict[str, str]:
    """The names that a package imports from its own modules, and from which."""
    inside = Path(*package.split("."))
    tree = ast.parse((ROOT / "src" / inside / "__init__.py").read_text())
    return {
        name.asname or name.name: (node.module or "").removeprefix(package).removeprefix(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for name in node.names
    }


def test_editors_see_every_public_name_where_it_is():
    """The imports under TYPE_CHECKING are those that happen when a name is used."""
    seen = imported_for_type_checkers("crowdfield")
    assert seen == {**cf._WHERE, **dict.fromkeys(cf._MODULES, "")}
    assert sorted(seen) == cf.__all__
    assert imported_for_type_checkers("crowdfield.pipeline") == {**cf.pipeline._WHERE, **cf.pipeline._STEPS}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says of both programs, in one run. The cache is that of `make lint`, which has seen the package."""
    folder = tmp_path_factory.mktemp("client")
    for name, text in (("client.py", CLIENT), ("wrong.py", WRONG)):
        (folder / name).write_text(text)
    command = [
        sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--show-error-codes",
        str(folder / "client.py"), str(folder / "wrong.py"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def test_a_typed_program_sees_no_any(found):
    assert not [line for line in found if "wrong.py" not in line]


def test_mistakes_of_a_program_are_found(found):
    wrong = [line for line in found if "wrong.py" in line]
    assert [line.rsplit("[", 1)[1].rstrip("]") for line in wrong] == [
        "call-arg", "arg-type", "attr-defined", "arg-type",
    ]  # fmt: skip
