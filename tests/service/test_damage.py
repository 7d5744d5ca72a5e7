"""Databases that are damaged, strange or too new: a sentence that says what to do, never a traceback."""

import os
import shutil
import sqlite3
import subprocess

import pytest
from tests.service.served import COMMAND
from tests.service.workspace import FLOOD, HERE, Workspace

from crowdfield.cli import main
from crowdfield.service.database import open_database
from crowdfield.service.settings import Settings


@pytest.fixture
def run(capfd):
    """A command of ours: in this process, or (`serve`) in one of its own; its exit code and all it wrote."""

    def command(*arguments):
        if arguments[0] == "serve":
            done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)
            code: object = done.returncode
            said = done.stdout + done.stderr
        else:
            with pytest.raises(SystemExit) as ended:
                main(list(arguments))
            code, said = ended.value.code, "".join(capfd.readouterr())
        assert "Traceback" not in said
        return code, said

    return command


@pytest.fixture
def junk(tmp_path):
    path = tmp_path / "junk.db"
    path.write_bytes(b"this was never a database " * 400)
    return str(path)


@pytest.fixture
def newer(tmp_path):
    path = str(tmp_path / "newer.db")
    open_database(path).dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A workspace with a map in it."""
    folder = tmp_path_factory.mktemp("whole")
    workspace = Workspace(Settings(database=str(folder / "w.db"), worker=False))
    assert workspace.client("admin").post("/situations", json=FLOOD).status_code == 201
    rows = [HERE | {"label": "flooded", "id": f"r{i}", "text": "x" * 1000} for i in range(300)]
    assert workspace.client("admin").post("/situations/flood/reports", json=rows).json()["stored"] == 300
    workspace.close()
    return folder / "w.db"


@pytest.mark.parametrize("command", ["check", "backup", "keys", "retention", "serve"])
def test_the_error_names_a_file_that_is_not_a_database(run, junk, command, tmp_path):
    more = {"backup": [str(tmp_path / "b.zip")], "retention": ["--source", "x"], "serve": ["--port", "0"]}
    code, said = run(command, *more.get(command, []), "--database", junk)
    assert code == 1 and "is not a crowdfield database" in said


@pytest.mark.parametrize("command", ["check", "keys", "serve"])
def test_a_workspace_of_a_newer_version_is_left_alone(run, newer, command):
    code, said = run(command, *(["--port", "0"] if command == "serve" else []), "--database", newer)
    assert code == 1 and "upgrade crowdfield" in said


def test_check_of_a_file_that_is_not_there_makes_none(run, tmp_path):
    code, said = run("check", "--database", str(tmp_path / "none.db"))
    assert code == 1 and "there is no file" in said
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("start", [0.1, 0.5, 0.9])
def test_check_of_a_damaged_database_says_that_it_is_damaged(run, whole, tmp_path, start):
    path = tmp_path / "damaged.db"
    shutil.copy(whole, path)
    content = bytearray(path.read_bytes())
    first = int(len(content) * start)
    content[first : first + 20_000] = os.urandom(20_000)
    path.write_bytes(content)
    code, said = run("check", "--database", str(path))
    assert code == 1 and "PROBLEM" in said


def test_rows_that_make_no_sense_are_a_problem_of_their_map(run, whole, tmp_path):
    path = tmp_path / "strange.db"
    shutil.copy(whole, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE situation SET states = '[\"dry\"'")
    connection.close()
    code, said = run("check", "--database", str(path))
    assert code == 1 and "PROBLEM" in said
