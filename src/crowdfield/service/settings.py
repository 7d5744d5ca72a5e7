"""The settings of the service. `configuration.py` says where their values come from."""

import json
import os
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from crowdfield.service.publishing import Minimum
from crowdfield.service.webhooks import parse

PREFIX = "CROWDFIELD_"
# Host names of this machine for itself. They are always allowed: no other site can make a browser send them.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EVERY_HOST = "*"
ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
# By default a fit may use this fraction (1/4) of the machine's memory, and at least this many bytes.
FITS_IN_MEMORY, LEAST_FIT_MEMORY = 4, 2**30


def _items(value: Any) -> Any:
    """A list, from a JSON list or from words separated by commas: both are common in environment files."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [item.strip() for item in value.split(",") if item.strip()]


Items = Annotated[list[str], NoDecode, BeforeValidator(_items)]


def physical_memory() -> int:
    """Bytes of memory of this machine, or of this container; 8 GiB where the system does not say."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        machine = 8 * 2**30
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return machine


class Settings(BaseSettings):
    # An empty variable counts as not set: in a compose file, `${NAME:-}` becomes an empty variable.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", env_ignore_empty=True, use_attribute_docstrings=True
    )

    database: str = "crowdfield.db"
    """A file (SQLite) or a `postgresql://` address."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(8000, ge=0, le=65535)
    """The port to listen on; 0 takes any free port."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""

    anonymous_reading: bool = True
    """Whether somebody without a key may read maps (never exact points, names or text)."""
    allowed_hosts: Items = []
    """Host names under which the service is reached, besides localhost (Host headers, against DNS rebinding). `*`
    allows all. Without any, a service that listens on another address than the loopback allows all."""
    trusted_proxies: Items = []
    """Addresses and networks of your own proxies; only their X-Forwarded-For and X-Forwarded-Proto are believed."""
    cors_origins: Items = []
    """Other sites whose pages may call the API, such as `https://example.org`; never a wildcard."""
    embed_origins: Items = []
    """Other sites whose pages may show a map inside them (`/?embed=1`, without a key), such as `https://example.org`;
    never a wildcard."""
    basemap: Path | None = None
    """A PMTiles file of vector tiles (streets, water, names), or a GeoJSON file (roads, districts, rivers), drawn under
    the map; by default outlines of countries, rivers and places."""
    minimum_count: int = Field(3, ge=1)
    """Readers see only cells with at least this many reports; counts are rounded down to multiples of it."""
    minimum_sources: int = Field(3, ge=1)
    """Readers see a cell, a label in it or a reason only if it has reports from at least this many sources. Set it to 1
    if your sources are channels (SMS, web) and not people."""
    period_hours: int = Field(24, ge=1, le=24 * 366)
    """Readers see the times of reports as whole periods of this length, counted from 1970 in UTC, and filter by
    them."""

    body_limit: int = Field(8 * 2**20, gt=0)
    """The most bytes in the body of a request."""
    import_limit: int = Field(256 * 2**20, gt=0)
    """The most bytes of an imported file, both compressed and uncompressed."""
    expansion_limit: int = Field(100, gt=0)
    """A compressed body may expand by at most this factor, and never beyond the limit on bodies."""
    row_limit: int = Field(100_000, gt=0)
    """The most reports in one request or file."""
    import_seconds: float = Field(15.0, ge=2)
    """The most seconds to read a file; files that take longer are refused."""
    import_memory: int = Field(768 * 2**20, ge=256 * 2**20)
    """The most bytes of memory to read a file; files that need more are refused."""

    reads_per_second: float = Field(200.0, gt=0)
    """The most reading requests per second with one key."""
    writes_per_second: float = Field(2000.0, gt=0)
    """The most writing requests per second with one key."""
    anonymous_per_second: float = Field(60.0, gt=0)
    """The most requests per second without a key from one address."""
    failures_per_minute: float = Field(20.0, gt=0)
    """How many wrong keys per minute one address may send before it has to wait."""
    stream_limit: int = Field(1000, gt=0)
    """The most event streams at once, of all clients together."""
    streams_per_client: int = Field(50, gt=0)
    """The most event streams of one key, or of one address without a key."""

    worker: bool = True
    """Whether this server starts an inference worker."""
    coalesce_seconds: float = Field(0.1, ge=0)
    """How long a worker waits after a report, so that a burst of reports is fitted once."""
    poll_seconds: float = Field(0.1, gt=0)
    """The pause between two queries of workers and event streams for new entries and events."""
    rest_seconds: float = Field(5.0, ge=0)
    """After this long without new reports, a map that was updated from earlier versions is fitted again from the log
    alone."""
    lease_seconds: float = Field(10.0, gt=0)
    """After this long without a heartbeat of a worker, another worker takes over its maps."""
    fit_processes: int = Field(2, ge=2, le=64)
    """How many maps are fitted at once; one of the processes is reserved for quick fits."""
    fit_seconds: float = Field(120.0, ge=1)
    """The deadline of one fit; a map that takes longer is fitted to fewer of its reports, and says so."""
    fit_memory: int | None = Field(None, ge=2**28)
    """The most bytes of memory that one fit may use; by default a quarter of the machine's memory, at least 1 GiB."""
    health_seconds: float = Field(5.0, gt=0)
    """The pause between two checks of the server's health; `/health` and `/ready` answer with the last result."""
    late_seconds: float = Field(300.0, gt=0)
    """A report that has waited longer than this for its map makes the service degraded."""
    disk_reserve: int = Field(512 * 2**20, ge=0)
    """With less free space (in bytes) for the database or for imported files, the service is degraded."""
    keep_versions: int = Field(200, ge=2)
    """How many versions of each map are kept."""
    distribute_above: int = Field(2_000_000, gt=0)
    """Maps with at least this many reports are fitted with Dask, if `dask_scheduler` is set."""
    dask_scheduler: str | None = None
    """The address of a Dask scheduler, such as `tcp://cluster:8786`."""

    alert_hosts: Items = []
    """Origins that alerts may be sent to by webhook, such as `https://hooks.example.org`; none by default."""
    alert_networks: Items = []
    """Private networks that those hosts may be in, such as `10.0.0.0/8`; all other addresses must be public."""
    alert_retry_seconds: float = Field(10.0, gt=0)
    """The pause before an alert that did not arrive is sent again; each further pause is three times as long."""
    smtp_host: str | None = None
    """The mail server that sends alerts by e-mail; none by default."""
    smtp_port: int = Field(587, ge=1, le=65535)
    """The port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """The encryption of the connection to the mail server; `none` is for a server on this machine."""
    smtp_user: str | None = None
    """The user name for the mail server."""
    smtp_password: str | None = None
    """The password for the mail server."""
    smtp_sender: str | None = None
    """The sender's address of e-mails; `crowdfield@` and the name of the mail server by default."""

    @property
    def sender(self) -> str:
        return self.smtp_sender or f"crowdfield@{self.smtp_host}"

    @field_validator("alert_hosts")
    @classmethod
    def _origins(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            target = parse(host)
            if target.path != "/":
                raise ValueError(f"must be an origin such as {target.scheme}://{target.host}, without a path")
        return hosts

    @property
    def memory_of_a_fit(self) -> int:
        return self.fit_memory or max(LEAST_FIT_MEMORY, physical_memory() // FITS_IN_MEMORY)

    @property
    def minimum(self) -> Minimum:
        return Minimum(self.minimum_count, self.minimum_sources)

    @field_validator("trusted_proxies", "alert_networks")
    @classmethod
    def _networks(cls, proxies: list[str]) -> list[str]:
        for name in proxies:
            ip_network(name, strict=False)
        return proxies

    @field_validator("cors_origins")
    @classmethod
    def _no_wildcard(cls, origins: list[str]) -> list[str]:
        if EVERY_HOST in origins:
            raise ValueError("list each site; a wildcard would let every page on the web use the keys of its visitors")
        return origins

    @field_validator("embed_origins")
    @classmethod
    def _plain_origins(cls, origins: list[str]) -> list[str]:
        # They become part of a header, in which a semicolon would end the directive.
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"give each site as scheme and host, such as https://example.org, not {origin!r}")
        return origins

    @field_validator("basemap")
    @classmethod
    def _there(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError("there is no such file")
        return path

    @property
    def hosts(self) -> frozenset[str]:
        """The Host headers that are allowed; all of them if `*` is among them."""
        if not self.allowed_hosts and self.host not in (*LOOPBACK, "::1"):
            return frozenset({EVERY_HOST})
        return frozenset({*self.allowed_hosts, *LOOPBACK})

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for another process with the same settings."""
        values = self.model_dump(mode="json", exclude_none=True)
        return {
            variable(name): value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
        }


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"
