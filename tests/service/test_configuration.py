"""Settings come from the command line, the environment, a file and the defaults, in this order, every one of them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.service.served import COMMAND, SOURCE, serving

from crowdfield.errors import InputError
from crowdfield.service import reference
from crowdfield.service.configuration import MASK, SECRETS, load, masked
from crowdfield.service.settings import Settings, variable

ROOT = Path(__file__).resolve().parents[2]
FIELDS = Settings.model_fields
# Settings whose values cannot be made up from their type and default.
SPECIAL: dict[str, list[Any]] = {
    "database": ["one.db", "two.db", "three.db"],
    "host": ["127.0.0.2", "::1", "0.0.0.0"],
    "log_level": ["debug", "warning", "error"],
    "dask_scheduler": ["tcp://one:1", "tcp://two:2", "tcp://three:3"],
    "fit_memory": [2**28, 2**29, 2**30],
    "alert_networks": [["10.0.0.0/8"], ["192.168.1.0/24"], ["fd00::/8", "127.0.0.1"]],
    "smtp_host": ["one.example", "two.example", "three.example"],
    "smtp_security": ["tls", "none", "tls"],
    "smtp_user": ["a", "b", "c"],
    "smtp_password": ["one", "two", "three"],
    "smtp_sender": ["a@one.example", "b@two.example", "c@three.example"],
    "trusted_proxies": [["10.0.0.1"], ["10.0.0.2"], ["10.0.0.3", "192.168.0.0/16"]],
}


@pytest.fixture
def values(tmp_path):
    """Three values of every setting, none of them the default where there are more than two."""
    files = [tmp_path / name for name in ("a.geojson", "b.geojson", "c.geojson")]
    for file in files:
        file.write_text("{}")

    def made(name: str) -> list[Any]:
        default = FIELDS[name].default
        if name in SPECIAL:
            return SPECIAL[name]
        if name == "basemap":
            return [str(file) for file in files]
        if isinstance(default, bool):
            return [not default, default, not default]
        if isinstance(default, int | float):
            return [default + 1, default + 2, default + 3]
        assert isinstance(default, list), f"give SPECIAL three values for {name}"
        return [["https://a.example"], ["https://b.example", "https://c.example"], ["https://d.example"]]

    return {name: made(name) for name in FIELDS}


def in_file(folder: Path, **settings: Any) -> Path:
    """A file of settings; JSON's scalars and lists are TOML's."""
    path = folder / f"settings{len(list(folder.iterdir()))}.toml"
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    return path


def as_text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else json.dumps(value) if isinstance(value, bool) else str(value)


def plain(settings: Settings, name: str) -> Any:
    return settings.model_dump(mode="json")[name]


@pytest.mark.parametrize("name", FIELDS)
def test_of_every_setting_the_command_line_wins_then_the_environment_then_the_file(name, values, tmp_path):
    first, second, third = values[name]
    file = in_file(tmp_path, **{name: first})
    nothing = load(environment={})
    assert getattr(nothing.settings, name) == FIELDS[name].default and nothing.origins[name] == "default"
    only_file = load(environment={}, file=file)
    assert plain(only_file.settings, name) == first and only_file.origins[name] == f"file {file}"
    environment = {variable(name): as_text(second), "CROWDFIELD_CONFIG": str(file)}
    both = load(environment=environment)
    assert plain(both.settings, name) == second and both.origins[name] == f"environment {variable(name)}"
    all_three = load({name: as_text(third)}, environment=environment)
    assert plain(all_three.settings, name) == third and all_three.origins[name].startswith("command line --")
    # An empty variable is one that was not set.
    assert plain(load(environment=environment | {variable(name): ""}).settings, name) == first


def test_a_worker_gets_every_setting_of_its_server(values, tmp_path, monkeypatch):
    given = load(environment={}, file=in_file(tmp_path, **{name: three[0] for name, three in values.items()})).settings
    for name, value in given.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == given


def show(*arguments: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`crowdfield serve --show-settings` in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDFIELD_")}
    return subprocess.run(
        [*COMMAND, "serve", "--show-settings", *arguments],
        env=kept | {"PYTHONPATH": SOURCE} | environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def shown(output: str) -> dict[str, tuple[str, str]]:
    rows = [line.split(None, 1) for line in output.splitlines() if line.startswith("  ")]
    return {name: tuple(part.strip() for part in rest.rsplit("  ", 1)) for name, rest in rows}  # type: ignore[misc]


def test_a_real_process_takes_every_setting_from_each_place(values, tmp_path):
    file = in_file(tmp_path, **{name: three[0] for name, three in values.items()})
    flags = [word for name, three in values.items() for word in ("--set", f"{name}={as_text(three[2])}")]
    environment = {variable(name): as_text(three[1]) for name, three in values.items()}
    for number, told, done in (
        (0, "file", show("--config", str(file), folder=tmp_path)),
        (1, "environment", show(folder=tmp_path, CROWDFIELD_CONFIG=str(file), **environment)),
        (2, "command line", show("--config", str(file), *flags, folder=tmp_path, **environment)),
    ):
        assert done.returncode == 0, done.stderr
        found = shown(done.stdout)
        for name, three in values.items():
            value, origin = found[name]
            expected = MASK if name in SECRETS else as_text(three[number]).replace(",", ", ")
            assert value == expected and origin.startswith(told), name


def test_every_option_of_serve_wins_over_the_environment(values, tmp_path):
    environment = {variable(name): as_text(three[1]) for name, three in values.items()}
    file = values["basemap"][2]
    done = show(
        "--database", "flag.db", "--host", "127.0.0.9", "--port", "9", "--name", "flag.example", "--anonymous",
        "--basemap", file, "--origin", "https://flag.example", "--no-worker", "--log-level", "error",
        folder=tmp_path, **environment | {"CROWDFIELD_ANONYMOUS_READING": "false", "CROWDFIELD_WORKER": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = shown(done.stdout)
    assert {name: value for name, (value, origin) in found.items() if origin.startswith("command line")} == {
        "database": "flag.db", "host": "127.0.0.9", "port": "9", "allowed_hosts": "flag.example",
        "anonymous_reading": "true", "basemap": file, "cors_origins": "https://flag.example", "worker": "false",
        "log_level": "error",
    }  # fmt: skip
    assert found["allowed_hosts"][1] == "command line --name"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("anonymus_reading = false", "no setting 'anonymus_reading'; did you mean 'anonymous_reading'"),
        ("colour = 1", "no setting 'colour'"),
        ("[serve]\nport = 1", "no setting 'serve'"),
        ("port = 99999", "port (file"),
        ("minimum_count = 0", "minimum_count (file"),
        ('cors_origins = ["*"]', "each site"),
        ('basemap = "nowhere.geojson"', "no such file"),
        ('log_level = "loud"', "log_level (file"),
        ("port = ", "is not TOML"),
    ],
)
def test_what_a_file_says_wrongly_is_an_error(text, says, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load(environment={}, file=path)
    assert says in str(error.value)


def test_slips_and_strangers_in_the_environment():
    with pytest.raises(InputError, match="did you mean CROWDFIELD_ANONYMOUS_READING"):
        load(environment={"CROWDFIELD_ANONYMUS_READING": "false"})
    with pytest.raises(InputError, match=r"port \(environment CROWDFIELD_PORT"):
        load(environment={"CROWDFIELD_PORT": "tcp://10.0.0.1:8000"})
    noted = load(environment={"CROWDFIELD_DATA": "/data", "CROWDFIELD_8000_TCP_ADDR": "10.0.0.1"})
    assert noted.notes == ("CROWDFIELD_8000_TCP_ADDR is not a setting and is ignored",)
    with pytest.raises(InputError, match="no setting 'wrker'; did you mean 'worker'"):
        load({"wrker": "1"}, environment={})


PASSWORD = "hunter2secret"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{PASSWORD}@host/db",
        f"postgresql+psycopg://me:{PASSWORD}@host:5432/db?sslmode=require",
        f"postgresql://host/db?user=me&password={PASSWORD}",
        f"postgresql://host/db?sslpassword={PASSWORD}",
        f"postgresql:/{PASSWORD}:@@//db://",
    ],
)
def test_passwords_are_never_shown(address, tmp_path):
    assert PASSWORD not in masked(address)
    assert PASSWORD not in "\n".join(load({"database": address}, environment={}).lines())
    path = in_file(tmp_path, database=address, port=-1)
    with pytest.raises(InputError) as error:
        load(environment={}, file=path)
    assert PASSWORD not in str(error.value)


def test_a_file_with_a_password_that_all_can_read_is_noted(tmp_path):
    path = in_file(tmp_path, database="postgresql://me:secret@host/db")
    path.chmod(0o644)
    assert "chmod o-r" in " ".join(load(environment={}, file=path).notes)
    path.chmod(0o640)
    assert load(environment={}, file=path).notes == ()
    path.write_text('database = "workspace.db"')
    path.chmod(0o644)
    assert load(environment={}, file=path).notes == ()


def test_names_of_this_machine_are_always_answered_and_a_public_address_says_that_all_are():
    assert "localhost" in load({"allowed_hosts": ["map.example"]}, environment={}).settings.hosts
    assert load({"host": "0.0.0.0"}, environment={}).settings.hosts == {"*"}
    assert "any host name" in load({"host": "0.0.0.0"}, environment={}).notes[0]
    assert "*" not in load({"host": "0.0.0.0", "allowed_hosts": "map.example"}, environment={}).settings.hosts


def test_the_page_about_settings_is_up_to_date_and_says_something_of_each():
    assert (ROOT / "docs" / "settings.md").read_text() == reference.page()
    assert [name for name, field in FIELDS.items() if not field.description] == []


# The settings that were overridden by the defaults of the command line, against real servers.


@pytest.mark.parametrize("place", ["environment", "file"])
def test_a_server_honours_anonymous_reading_allowed_hosts_and_worker(place, tmp_path):
    given = {"anonymous_reading": False, "allowed_hosts": ["map.example"], "worker": False, "minimum_count": 7}
    environment = {variable(name): as_text(value) for name, value in given.items()}
    if place == "file":
        environment = {"CROWDFIELD_CONFIG": str(in_file(tmp_path, **given)), "CROWDFIELD_WORKER": ""}
    with serving(tmp_path, environment=environment) as served, served.client() as stranger:
        assert stranger.get("/situations").status_code == 401
        assert stranger.get("/health", headers={"Host": "evil.example"}).status_code == 421
        assert stranger.get("/health", headers={"Host": "map.example"}).status_code == 200
        with served.client("admin") as admin:
            assert admin.get("/health").json()["checks"]["worker"] == "none"
        found = shown(served.said())
        assert found["anonymous_reading"][0] == "false" and found["anonymous_reading"][1].startswith(place)
        assert found["worker"][0] == "false" and found["minimum_count"][0] == "7"


def test_options_that_are_given_win_over_the_environment_of_a_server(tmp_path):
    environment = {"CROWDFIELD_ANONYMOUS_READING": "false", "CROWDFIELD_ALLOWED_HOSTS": "map.example"}
    flags = ("--anonymous", "--name", "other.example")
    with serving(tmp_path, *flags, environment=environment) as served, served.client() as stranger:
        assert stranger.get("/situations").status_code == 200
        assert stranger.get("/health", headers={"Host": "map.example"}).status_code == 421
        assert stranger.get("/health", headers={"Host": "other.example"}).status_code == 200
