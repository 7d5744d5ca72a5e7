"""A workspace in a temporary folder, clients of every role, and a PostgreSQL of our own."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.service.postgres import initdb, running
from tests.service.workspace import FLOOD, Workspace

from crowdfield.service.database import open_database
from crowdfield.service.settings import Settings


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables and nothing in them. To copy it is six times as fast as to migrate a new one."""
    path = tmp_path_factory.mktemp("empty") / "workspace.db"
    open_database(str(path)).dispose()
    return path


@pytest.fixture
def make_workspace(tmp_path: Path, empty_database: Path) -> Iterator[Callable[..., Workspace]]:
    made: list[Workspace] = []

    def make(database: str | None = None, **options: object) -> Workspace:
        path = database or shutil.copy(empty_database, tmp_path / f"workspace{len(made)}.db")
        settings = Settings(database=str(path), worker=False, coalesce_seconds=0, **options)  # type: ignore[arg-type]
        made.append(Workspace(settings))
        return made[-1]

    yield make
    for workspace in made:
        workspace.close()


@pytest.fixture
def workspace(make_workspace: Callable[..., Workspace]) -> Workspace:
    space = make_workspace()
    assert space.client("admin").post("/situations", json=FLOOD).status_code == 201
    return space


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Addresses of empty databases on a PostgreSQL that only these tests use."""
    if initdb() is None:
        pytest.skip("PostgreSQL is not installed; `make test` as root installs it")
    with running() as fresh:
        yield fresh


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "workspace.db")
    return request.getfixturevalue("postgres")()  # type: ignore[no-any-return]
