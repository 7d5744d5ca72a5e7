"""Every file of the table of hostile files is a clear error of ours, and nothing outside is asked for anything."""

import re
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from tests.io.hostile import EVERY, MAPS, TRAPS

from crowdfield import io
from crowdfield.cli import main
from crowdfield.errors import CrowdfieldError

LIBRARIES = re.compile(r"gdal|\bogr|vsi|pyogrio|rasterio|sqlite3\.|shapely|GEOS|Traceback|expat|thrift", re.IGNORECASE)


@pytest.fixture(scope="session")
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address on this machine, and whatever was sent to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return  # closed
                with connection:
                    heard.append(connection.recv(1000))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def only_ours(text: str) -> bool:
    """Whether a message is in our own words: what it quotes from the file, and paths, aside."""
    return not LIBRARIES.search(re.sub(r"\S*/\S*|'[^']*'", "", text))


@pytest.mark.parametrize("case", EVERY)
def test_a_hostile_file_is_a_clear_error(tmp_path, listener, capsys, case):
    address, heard = listener
    path = EVERY[case](tmp_path, address)
    before = len(heard), sorted(p.name for p in tmp_path.iterdir())
    began = time.monotonic()
    with pytest.raises(CrowdfieldError) as caught:
        io.read(path)
    assert path.name in str(caught.value) and len(str(caught.value)) < 1000 and only_ours(str(caught.value))
    for command in (["inspect", str(path)], ["fuse", str(path), "-o", str(tmp_path / "map.csv")]):
        with pytest.raises(SystemExit) as stopped:
            main(command)
        said = capsys.readouterr()
        assert stopped.value.code == 1
        assert said.err.startswith("crowdfield: ") and only_ours(said.err) and not said.out
    assert time.monotonic() - began < 60
    assert (len(heard), sorted(p.name for p in tmp_path.iterdir())) == before


def fails(capsys, *command: object) -> None:
    """A command ends with status 1 and a message of ours."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in command])
    said = capsys.readouterr()
    assert stopped.value.code == 1
    assert "crowdfield: " in said.err and only_ours(said.err) and not said.out


@pytest.mark.parametrize("case", MAPS)
def test_a_hostile_map_is_a_clear_error(tmp_path, listener, capsys, case):
    address, heard = listener
    path = MAPS[case](tmp_path, address)
    before = len(heard)
    began = time.monotonic()
    fails(capsys, "inspect", path)
    assert time.monotonic() - began < 30 and len(heard) == before


@pytest.mark.parametrize("case", TRAPS)
def test_a_hostile_mask_is_a_clear_error(tmp_path, listener, capsys, case):
    address, heard = listener
    path = TRAPS[case](tmp_path, address)
    table = tmp_path / "reports.csv"
    table.write_text("source,lat,lon,label\n" + "".join(f"s,18.{i},-72.3,{i % 2}\n" for i in range(10)))
    before = len(heard)
    fails(capsys, "fuse", table, "-o", tmp_path / "map.csv", "--mask", path, "--quiet")
    assert len(heard) == before and not (tmp_path / "map.csv").exists()


def test_addresses_are_not_opened_as_files(capsys, listener):
    address, heard = listener
    for name in (address, f"WFS:{address}", f"/vsicurl/{address}", f"GeoJSON:{address}/x", "PG:host=127.0.0.1"):
        fails(capsys, "inspect", name)
    assert not heard
