"""What surrounds the code agrees with it: one version everywhere, and links that lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import crowdfield

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = yaml.safe_load((ROOT / "deploy" / "conda" / "meta.yaml").read_text())
# Other names on conda-forge.
ON_CONDA = {"finufft": "python-finufft", "matplotlib": "matplotlib-base"}


def test_the_version_is_written_once_and_its_copies_agree():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/crowdfield/__init__.py"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == crowdfield.__version__
    assert RECIPE["package"]["version"] == crowdfield.__version__


def test_the_conda_recipe_asks_for_what_the_package_needs():
    wanted = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    expected = {f"{ON_CONDA.get(need.name, need.name)} {need.specifier}".strip() for need in wanted}
    python = f"python {PROJECT['project']['requires-python']}"
    assert set(RECIPE["requirements"]["run"]) == {*expected, python}
    assert RECIPE["build"]["entry_points"] == [
        f"{name} = {where}" for name, where in PROJECT["project"]["scripts"].items()
    ]


def test_every_package_of_the_core_has_a_reason():
    page = (ROOT / "docs" / "explanation" / "dependencies.md").read_text()
    table = "\n".join(line for line in page.split("What only some need")[0].splitlines() if line.startswith("|"))
    for text in PROJECT["project"]["dependencies"]:
        name = re.escape(Requirement(text).name)
        assert re.search(rf"(?m)^\|[^|]*\b{name}\b[^|]*\|[^|]+\|[^|]{{8,}}\|", table), name


PAGES = [*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if "generated" not in p.parts)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:|#", link)]
    missing = [link for link in links if not (page.parent / link.split("#")[0]).exists()]
    assert not missing


# Words of others in capitals, and placeholders.
NOT_OURS = {"SQLITE_IOERR", "NAME", "CODE_OF_CONDUCT", "RELEASING", "CHANGELOG", "SECURITY", "CONTRIBUTING"}
TEXTS = [path.read_text() for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
CODE = "\n".join([*TEXTS, (ROOT / "Makefile").read_text()])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_constants_functions_and_files_that_a_page_names_exist(page):
    """In code within sentences; blocks of code are run by tests/docs/test_snippets.py. Not in the log of changes."""
    if page.name == "CHANGELOG.md":
        return
    named = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.S)))
    constants = {word for code in named for word in re.findall(r"\b[A-Z][A-Z_]{4,}\b", code)} - NOT_OURS
    missing = [word for word in constants if word not in CODE and word.removeprefix("CROWDFIELD_").lower() not in CODE]
    called = {found[1] for code in named if (found := re.fullmatch(r"([a-z][a-z_]+)\([^−]*\)", code))}
    missing += [word for word in called if not re.search(rf"\bdef {word}\b", CODE)]
    paths = {found[0] for code in named if (found := re.fullmatch(r"(?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml)", code))}
    bases = ("", "src/crowdfield", "src/crowdfield/inference")
    ours = {path for path in paths if any((ROOT / base / path.split("/")[0]).is_dir() for base in bases)}
    missing += [path for path in ours if not any((ROOT / base / path).exists() for base in bases)]
    assert not missing


def test_the_workflows_call_what_the_makefile_has():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        yaml.safe_load(path.read_text())
        called = set(re.findall(r"\bmake ([a-z]+)", path.read_text()))
        assert called and called <= targets, path.name
