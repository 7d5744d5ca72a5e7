"""What an operator may set: by ``CROWDFIELD_…`` environment variables or the options of ``crowdfield serve``."""

from ipaddress import ip_network
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="CROWDFIELD_", extra="ignore")

    database: str = "crowdfield.db"
    """A file (SQLite) or a ``postgresql://`` address."""

    anonymous_reading: bool = True
    """Whether somebody without a key may read maps (never exact points, names or text)."""

    allowed_hosts: list[str] = ["localhost", "127.0.0.1", "[::1]", "testserver"]
    """Host headers answered; guards a service on a laptop against DNS rebinding. ``["*"]`` answers all."""

    cors_origins: list[str] = []
    """Other sites whose pages may call the API; none by default, and never a wildcard."""

    basemap: Path | None = None
    """A GeoJSON file (roads, districts, rivers) drawn under the map; the world's outlines otherwise."""

    minimum_count: int = Field(3, ge=1)
    """Readers see reports only as cells that hold at least this many."""

    body_limit: int = Field(8 * 2**20, gt=0)
    import_limit: int = Field(256 * 2**20, gt=0)
    expansion_limit: int = Field(100, gt=0)
    """A compressed body may grow by this factor at most, and never past the limit on bodies."""
    row_limit: int = Field(100_000, gt=0)

    reads_per_second: float = Field(200.0, gt=0)
    writes_per_second: float = Field(2000.0, gt=0)
    anonymous_per_second: float = Field(60.0, gt=0)
    failures_per_minute: float = Field(20.0, gt=0)
    """Wrong keys from one address before it has to wait."""

    stream_limit: int = Field(1000, gt=0)

    worker: bool = True
    """Whether this server starts an inference worker beside it."""
    coalesce_seconds: float = Field(0.1, ge=0)
    poll_seconds: float = Field(0.1, gt=0)
    rest_seconds: float = Field(5.0, ge=0)
    """After so long without anything new, a map that went on from earlier ones is fitted again from the log alone."""
    lease_seconds: float = Field(10.0, gt=0)
    keep_versions: int = Field(200, ge=2)
    distribute_above: int = Field(2_000_000, gt=0)
    """Reports from which on a fit goes to Dask, when ``dask_scheduler`` names one."""
    dask_scheduler: str | None = None

    trusted_proxies: list[str] = []
    """Addresses and networks of your own proxies; only their X-Forwarded-For and X-Forwarded-Proto are believed."""
    streams_per_client: int = Field(50, gt=0)
    """Event streams of one key, or of one address without a key."""

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, given: list[str]) -> list[str]:
        for name in given:
            ip_network(name, strict=False)
        return given
