"""The design holds: small files, short functions, and what docs/design.md names is there."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from crowdfield.inference import kernels
from crowdfield.inference.fields import base
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.choose import choose
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.iterate import Method

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "crowdfield"
INFERENCE = sorted((SOURCE / "inference").rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 350, 50


@pytest.mark.parametrize("path", INFERENCE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_inference_can_be_read(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno - f.lineno >= LONGEST_FUNCTION}
    assert not long


# Not here: schemas, whose docstrings clients see as parts of the API's description, routes, and migrations.
ELSEWHERE = {
    "schemas.py", "alert_schemas.py", "import_schemas.py", "settings.py", "auth.py", "deps.py", "routes", "versions",
}  # fmt: skip
DESCRIBED = [path for path in sorted(SOURCE.rglob("*.py")) if not ELSEWHERE & {path.name, path.parent.name}]
PROTOCOLS = (base.Engine, base.Field, Basis, Method)


def parts(tree, methods):
    """Classes and public functions of a module, and the public methods of its classes if they are wanted."""
    for node in tree.body:
        if any(getattr(decorator, "id", None) == "overload" for decorator in getattr(node, "decorator_list", ())):
            continue
        if isinstance(node, ast.ClassDef):
            yield node
        if isinstance(node, ast.ClassDef) and methods:
            yield from (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("path", DESCRIBED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_classes_and_public_functions_say_what_they_are(path):
    """In inference methods do, too, unless they implement one that a protocol describes."""
    described = {name for protocol in PROTOCOLS for name, found in vars(protocol).items() if found.__doc__}
    found = parts(ast.parse(path.read_text()), methods=path in INFERENCE)
    assert not [n.name for n in found if ast.get_docstring(n) is None and n.name not in described]


def test_modules_that_the_design_names_exist():
    text = (ROOT / "docs" / "design.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", text))
    there = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")} | {
        str(path.relative_to(ROOT)) for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    }
    missing = {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)}
    assert named and not missing


FOLDERS = (
    "data",
    "geography",
    "inference",
    "inference/fields",
    "inference/instrument",
    "inference/kernels",
    "models",
    "pipeline",
    "plot",
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_design_names_every_module(folder):
    text = (ROOT / "docs" / "design.md").read_text()
    modules = {path.stem for path in (SOURCE / folder).glob("*.py") if path.stem != "__init__"}
    assert not sorted(name for name in modules if not re.search(rf"`(?:\w+/)*{name}(?:\.py)?`", text))


def test_the_layers_of_the_design_are_those_that_the_linter_checks():
    """Line by line, but for __main__, which only starts the command line."""
    page = (ROOT / "docs" / "design.md").read_text().split("## Layers")[1].split("\n\n|")[0]
    shown = [re.split(r" {2,}", line.strip())[0].split(" · ") for line in page.splitlines() if line.startswith("    ")]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    checked = [layer.split(" : ") for layer in settings["contracts"][0]["layers"]]
    assert list(map(set, shown)) == list(map(set, checked))[1:]


def test_methods_honour_the_protocol():
    """Whatever `iterate` drives has every function that its protocol lists."""
    wanted = importlib.import_module("crowdfield.inference.iterate").Method
    names = [name for name in vars(wanted) if not name.startswith("_")]
    method = importlib.import_module("crowdfield.inference.joint.method").Method
    assert names and not [name for name in names if not callable(getattr(method, name, None))]


@pytest.mark.parametrize("name", ["exact", "inducing", "spectral", "iterative"])
def test_engines_and_fields_honour_their_protocols(name):
    X = np.random.default_rng(0).uniform(0, 10, (30, 2))
    kernel = kernels.kernel("matern32", 3.0)
    engine: base.Engine
    if name == "iterative":
        engine = IterativeEngine(SpectralBasis(kernel, X), X, np.random.default_rng(0))
    else:
        engine = choose(name, kernel, X, rng=np.random.default_rng(0))
    statistics = engine.summarise(slice(0, 30), np.ones(30), np.ones(30))
    for thing, protocol in ((engine, base.Engine), (engine.posterior(statistics, 1.0), base.Field)):
        names = {name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")}
        assert not {name for name in names if not hasattr(thing, name)}
