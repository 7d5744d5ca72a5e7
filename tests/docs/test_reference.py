"""The API reference is complete, and what it shows is true: every public name has a page, every example runs."""

import copy
import doctest
import inspect
import re
import tomllib
import types
import warnings
from pathlib import Path

import pytest
from tests.docs.public import described, public_names

import crowdfield as cf

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "api.rst"
LISTED = re.findall(r"^   ([A-Za-z][\w.]*)$", PAGE.read_text(), re.MULTILINE)

# Containers, errors and results that are made by a function whose page has the example.
WITHOUT_EXAMPLE = {
    "datasets.Haiti", "datasets.Tacloban", "datasets.Unosat", "distributed.DistributedHeatmapBCC", "io.Rasters",
    "inference.kernels.Kernel", "inference.kernels.Matern", "inference.kernels.Radial", "io.ReadResult", "io.Reject",
    "io.Rejects", "pipeline.Assessment", "pipeline.Look", "pipeline.ModelCheck", "testing.Crowd", "geography.Region",
}  # fmt: skip


def test_every_public_name_has_a_page():
    public = {name for name, _ in public_names()}
    assert not public - set(LISTED), f"not in {PAGE.relative_to(ROOT)}: {sorted(public - set(LISTED))}"
    assert not set(LISTED) - public, f"in {PAGE.relative_to(ROOT)}, but not public: {sorted(set(LISTED) - public)}"
    assert len(LISTED) == len(set(LISTED))


EVERY = dict(described())


def test_docstrings_of_all_public_modules_are_linted():
    """The list in pyproject.toml names every module that defines something public, and no module that is not there."""
    ignored = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]["per-file-ignores"]
    (linted,) = (pattern for pattern in ignored if pattern.startswith("!"))
    listed = [f"{name}.py" for name in re.search(r"\{(.*)\}", linted)[1].split(",")]
    package = ROOT / "src" / "crowdfield"
    assert not [pattern for pattern in listed if not list(package.glob(pattern))]
    files = {Path(inspect.getfile(inspect.unwrap(found))).relative_to(package) for found in EVERY.values()}
    assert not [str(file) for file in files if not any(file.match(pattern) for pattern in listed)]


RETURNED = re.compile(r"\b[A-Z]\w+")


def test_every_type_that_a_public_function_returns_has_a_page():
    """A user who calls a function can look up what it gives back."""
    classes = {found.__name__ for found in EVERY.values() if inspect.isclass(found)}
    own = {
        word: name
        for name, found in EVERY.items()
        if inspect.isfunction(found)
        for word in RETURNED.findall(str(inspect.signature(found).return_annotation))
        if inspect.isclass(there := getattr(inspect.getmodule(found), word, None))
        and there.__module__.startswith("crowdfield")
    }
    assert own and not {word: name for word, name in own.items() if word not in classes}


@pytest.mark.parametrize("name", EVERY)
def test_every_docstring_describes_its_parameters_and_has_an_example(name):
    found = EVERY[name]
    text = inspect.getdoc(found) or ""
    assert text, f"{name} has no docstring"
    is_error = inspect.isclass(found) and issubclass(found, Exception | Warning)
    if name not in WITHOUT_EXAMPLE and not is_error:
        assert ">>> " in text, f"{name} has no example"
    if inspect.isroutine(found) or ("__init__" in vars(found) and not is_error and name not in WITHOUT_EXAMPLE):
        missing = [word for word in inspect.signature(found).parameters if not re.search(rf"\b{word}\b", text)]
        assert not missing, f"{name} does not describe {missing}"


@pytest.fixture(scope="module")
def example_run():
    """What the example of `pipeline.fuse` leaves; other examples say that they go on from it."""
    names: dict[str, object] = {}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(cf.pipeline.fuse) or "", names, "fuse", None, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doctest.DocTestRunner().run(test, clear_globs=False)
    return test.globs


@pytest.mark.parametrize("name", [name for name, found in EVERY.items() if ">>> " in (found.__doc__ or "")])
def test_every_example_runs_and_gives_what_it_says(name, example_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(EVERY[name]) or ""
    shared = dict(example_run) if "of the example of" in text else {}
    test = doctest.DocTestParser().get_doctest(text, shared, name, None, 0)
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


# Every method of the central classes has an example, which may go on from the example of its class.
CENTRAL = ("HeatmapBCC", "Reports", "Grid", "Heatmap")
METHODS = {
    f"{name}.{method}": (name, found)
    for name in CENTRAL
    for method, found in inspect.getmembers(getattr(cf, name), lambda m: inspect.isfunction(m) or inspect.ismethod(m))
    if not method.startswith("_") and found.__module__.startswith("crowdfield") and method != "predict"
}


@pytest.fixture(scope="module")
def class_examples():
    """What the examples of the central classes leave, by class."""
    left = {}
    for name in CENTRAL:
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(cf, name)) or "", {}, name, None, 0)
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, clear_globs=False)
        left[name] = test.globs
    return left


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_a_central_class_has_an_example_that_runs(name, class_examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of_class, found = METHODS[name]
    assert ">>> " in (found.__doc__ or ""), f"{name} has no example"
    # Copies, so that a method that changes its model does not change it for the others; modules cannot be copied.
    names = {
        key: value if isinstance(value, types.ModuleType) else copy.deepcopy(value)
        for key, value in class_examples[of_class].items()
        if not key.startswith("__")
    }
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(found) or "", names, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)
