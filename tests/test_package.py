"""What a user installs is what we tested: the wheel, in an environment of its own."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH would put the checkout before the installed wheel.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, **options)
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("crowdfield-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment that holds the wheel, and sees the dependencies already on this machine."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    # A path in a .pth file is searched, but .pth files found there are not followed: an editable crowdfield among
    # the dependencies stays out of sight.
    (Path(packages) / "dependencies.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    )
    return home / "bin"


def test_the_wheel_carries_types_licence_and_every_module(wheel: Path) -> None:
    from zipfile import ZipFile

    inside = set(ZipFile(wheel).namelist())
    assert "crowdfield/py.typed" in inside
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    source = ROOT / "src"
    ours = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert ours <= inside


def test_the_installed_wheel_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import crowdfield; print(crowdfield.__file__)", cwd=tmp_path).stdout
    assert where.startswith(str(installed.parent))
    done = run(installed / "crowdfield", "demo", cwd=tmp_path)
    for name in ("flood.png", "flood.csv", "flood.geojson"):
        assert (tmp_path / "demo" / name).stat().st_size > 1000
        assert name in done.stdout
