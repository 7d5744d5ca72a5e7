"""What an operator may set. `configuration.py` says where values come from and which of them wins."""

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
# Names of this machine for itself. They are always answered: no site elsewhere can make a browser send them.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EVERY_HOST = "*"
ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
# Unless an operator says otherwise, so many fits would fill the memory of the machine; each may use this many bytes.
FITS_IN_MEMORY, LEAST_FIT_MEMORY = 4, 2**30


def _items(value: Any) -> Any:
    """A list, from a JSON list or from words between commas: both are common in environment files."""
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
    # An empty variable is one that was not set: that is what `${NAME:-}` gives in a compose file.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", env_ignore_empty=True, use_attribute_docstrings=True
    )

    database: str = "crowdfield.db"
    """A file (SQLite) or a `postgresql://` address."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = Field(8000, ge=0, le=65535)
    """The port to listen at; 0 takes any that is free."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""

    anonymous_reading: bool = True
    """Whether somebody without a key may read maps (never exact points, names or text)."""
    allowed_hosts: Items = []
    """Names that the service is reached by (Host headers), beside those of this machine for itself: guards against DNS
    rebinding. `*` answers all. Without any, a service that listens at another address than the loopback answers all."""
    trusted_proxies: Items = []
    """Addresses and networks of your own proxies; only their X-Forwarded-For and X-Forwarded-Proto are believed."""
    cors_origins: Items = []
    """Other sites whose pages may call the API, such as `https://example.org`; never a wildcard."""
    embed_origins: Items = []
    """Other sites whose pages may show a map inside them (`/?embed=1`, without a key), such as `https://example.org`;
    never a wildcard."""
    basemap: Path | None = None
    """A PMTiles file of vector tiles (streets, water, names), or a GeoJSON file (roads, districts, rivers), drawn under
    the map; the world's outlines otherwise."""
    minimum_count: int = Field(3, ge=1)
    """Readers see reports only as cells that hold at least this many; counts are rounded down to multiples of it."""
    minimum_sources: int = Field(3, ge=1)
    """Readers see a cell, a label in it or a reason only where so many sources say something. Set it to 1 where your
    sources are channels (SMS, web) and not people."""
    period_hours: int = Field(24, ge=1, le=24 * 366)
    """Readers see and filter the times of reports by whole periods of this length, counted from 1970 in UTC."""

    body_limit: int = Field(8 * 2**20, gt=0)
    """Bytes of a request's body at most."""
    import_limit: int = Field(256 * 2**20, gt=0)
    """Bytes of an imported file at most, packed and unpacked."""
    expansion_limit: int = Field(100, gt=0)
    """A compressed body may grow by this factor at most, and never past the limit on bodies."""
    row_limit: int = Field(100_000, gt=0)
    """Reports in one request or file at most."""
    import_seconds: float = Field(15.0, ge=2)
    """Seconds that reading a file may take; what takes longer is refused."""
    import_memory: int = Field(768 * 2**20, ge=256 * 2**20)
    """Bytes of memory that reading a file may take; what needs more is refused."""

    reads_per_second: float = Field(200.0, gt=0)
    """Requests that read, of one key."""
    writes_per_second: float = Field(2000.0, gt=0)
    """Requests that write, of one key."""
    anonymous_per_second: float = Field(60.0, gt=0)
    """Requests without a key, of one address."""
    failures_per_minute: float = Field(20.0, gt=0)
    """Wrong keys from one address before it has to wait."""
    stream_limit: int = Field(1000, gt=0)
    """Event streams at once, of all clients."""
    streams_per_client: int = Field(50, gt=0)
    """Event streams of one key, or of one address without a key."""

    worker: bool = True
    """Whether this server starts an inference worker beside it."""
    coalesce_seconds: float = Field(0.1, ge=0)
    """How long a worker waits after a report, so that a burst is fitted once."""
    poll_seconds: float = Field(0.1, gt=0)
    """How often workers and event streams look for news in the database."""
    rest_seconds: float = Field(5.0, ge=0)
    """After so long without anything new, a map that went on from earlier ones is fitted again from the log alone."""
    lease_seconds: float = Field(10.0, gt=0)
    """After so long without a heartbeat of a worker, another takes over its maps."""
    fit_processes: int = Field(2, ge=2, le=64)
    """Maps that are fitted at once; one of the processes is always left to fits that take a moment."""
    fit_seconds: float = Field(120.0, ge=1)
    """The deadline of one fit; a map that takes longer is fitted with fewer of its reports, and says so."""
    fit_memory: int | None = Field(None, ge=2**28)
    """Bytes that one fit may use; by default a quarter of the machine's memory, and no less than 1 GiB."""
    health_seconds: float = Field(5.0, gt=0)
    """How often the server looks at its own health; `/health` and `/ready` tell what the last look found."""
    late_seconds: float = Field(300.0, gt=0)
    """A report that has waited longer than this for its map makes the service degraded."""
    disk_reserve: int = Field(512 * 2**20, ge=0)
    """With fewer bytes free where the database or imported files are kept, the service is degraded."""
    keep_versions: int = Field(200, ge=2)
    """Versions of each map that are kept."""
    distribute_above: int = Field(2_000_000, gt=0)
    """Reports from which on a fit goes to Dask, when `dask_scheduler` names one."""
    dask_scheduler: str | None = None
    """The address of a Dask scheduler, such as `tcp://cluster:8786`."""

    alert_hosts: Items = []
    """Origins that alerts may be sent to by webhook, such as `https://hooks.example.org`; none by default."""
    alert_networks: Items = []
    """Networks of yours that those hosts may be in, such as `10.0.0.0/8`; all other addresses must be public."""
    alert_retry_seconds: float = Field(10.0, gt=0)
    """How long an alert that did not arrive waits before it is sent again; each time three times as long."""
    smtp_host: str | None = None
    """The mail server that alerts by e-mail go through; none by default."""
    smtp_port: int = Field(587, ge=1, le=65535)
    """The port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection to the mail server is protected; `none` is for a server on this machine."""
    smtp_user: str | None = None
    """The name by which this service logs in at the mail server."""
    smtp_password: str | None = None
    """The password of that name."""
    smtp_sender: str | None = None
    """The address that e-mails come from; `crowdfield@` and the name of the mail server by default."""

    @property
    def sender(self) -> str:
        return self.smtp_sender or f"crowdfield@{self.smtp_host}"

    @field_validator("alert_hosts")
    @classmethod
    def _origins(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            target = parse(host)
            if target.path != "/":
                raise ValueError(f"an origin such as {target.scheme}://{target.host}, without a path")
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
            raise ValueError("name each site; a wildcard would let every page on the web use the keys of its visitors")
        return origins

    @field_validator("embed_origins")
    @classmethod
    def _plain_origins(cls, origins: list[str]) -> list[str]:
        # They become part of a header, whose directives end with semicolons.
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"name each site by scheme and host, such as https://example.org; {origin!r} is not that"
                )
        return origins

    @field_validator("basemap")
    @classmethod
    def _there(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError("there is no such file")
        return path

    @property
    def hosts(self) -> frozenset[str]:
        """The Host headers that are answered; all of them if `*` is among them."""
        if not self.allowed_hosts and self.host not in (*LOOPBACK, "::1"):
            return frozenset({EVERY_HOST})
        return frozenset({*self.allowed_hosts, *LOOPBACK})

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for a process that must have the same ones."""
        values = self.model_dump(mode="json", exclude_none=True)
        return {
            variable(name): value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
        }


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"
