"""The tables of the database. ``entry`` is the append-only log; other tables are derived from it, or hold settings."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

# SQLite numbers rows automatically only in a column of exactly this type.
Sequence = BigInteger().with_variant(Integer, "sqlite")

situation = Table(
    "situation",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("title", Text, nullable=False),
    Column("states", JSON, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("region", JSON, nullable=False),  # west, south, east, north in degrees
    Column("crs", Text, nullable=False),
    Column("extent", JSON, nullable=False),  # west, east, south, north in metres, as Grid.extent
    Column("columns", Integer, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("model", JSON, nullable=False),
    Column("created", Float(53), nullable=False),
    # The highest number of a version that was removed with a change of the region: numbers are never used twice.
    Column("numbered", Integer, nullable=False, default=0),
    # The log position of the last entry of this situation, which a worker compares with that of the last version.
    Column("head", BigInteger, nullable=False, default=0),
    Column("failure", Text),
    Column("failed", Float(53)),
    Column("failures", Integer, nullable=False, default=0),  # how many fits of this map have failed, ever
)

entry = Table(
    "entry",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(8), nullable=False),  # report, retract, accept, trust, region, states, private, moving, purge
    Column("id", String(200), nullable=False),
    Column("longitude", Float(53)),
    Column("latitude", Float(53)),
    Column("label", String(200)),
    Column("source", String(200)),
    Column("time", Float(53)),
    Column("text", Text),
    Column("value", JSON),  # the level or matrix of a trust entry, the scores of a report, the layout of a region, …
    Column("received", Float(53), nullable=False),
    Column("author", String(32)),  # the id of the key that sent it
    Column("looks", Integer, key="observations"),  # how many observations a report stands for; null means one
    Column("accuracy", Float(53)),  # metres: the radius that contains the true place with a probability of 68 %
    UniqueConstraint("situation", "kind", "id", name="entry_once"),
    Index("entry_by_situation", "situation", "seq"),
    Index("entry_by_place", "situation", "longitude", "latitude"),
    sqlite_autoincrement=True,  # a number is never used twice, even after a purge
)

version = Table(
    "version",
    metadata,
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("head", BigInteger, nullable=False),
    Column("reports", Integer, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("seconds", Float, nullable=False),
    Column("arrays", LargeBinary, nullable=False),
    Column("sources", JSON, nullable=False),
    Column("suggestions", JSON, nullable=False),
    Column("info", JSON, nullable=False),
)

# The saved model from which the next fit starts; only that of the newest version is kept.
state = Table(
    "state",
    metadata,
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("model", LargeBinary, nullable=False),
)

event = Table(
    "event",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(16), nullable=False),  # version, failure
    Column("data", JSON, nullable=False),
    Column("at", Float(53), nullable=False),
    sqlite_autoincrement=True,
)

# Which worker fits which map; a lease is valid as long as the worker's heartbeat moves.
lease = Table(
    "lease",
    metadata,
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
    Column("holder", String(64), nullable=False),
)

# The heartbeats of workers and servers: `beat` is the counter that others watch, `at` is for people.
pulse = Table(
    "pulse",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("kind", String(8), nullable=False),  # worker, server
    Column("beat", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("data", JSON, nullable=False),
)

# Tables about running processes, which are not part of a backup.
TRANSIENT = frozenset({"lease", "pulse"})

api_key = Table(
    "api_key",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("name", String(100), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("revoked", Boolean, nullable=False, default=False),
    Column("expires", Float(53)),
    Column("maps", JSON(none_as_null=True)),  # the situations that it is for; null means all
    Column("any_source", Boolean, nullable=False, default=False),  # whether its reports may name any source
    Column("origin", String(32), nullable=False, default=""),  # the prefix of its report ids
)

secret = Table(
    "secret",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", String(128), nullable=False),
)

# The districts of a map, for figures and alerts.
district_set = Table(
    "district_set",
    metadata,
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("created", Float(53), nullable=False),
    Column("areas", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),  # gzipped JSON: names, shapes in well-known binary, notes
)

# The weight of each cell of a map in figures of its districts, such as people or households.
weights = Table(
    "weights",
    metadata,
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("layout", String(16), nullable=False),  # `Situation.layout_tag` when the weights were stored
    Column("total", Float(53), nullable=False),
    Column("content", LargeBinary, nullable=False),  # gzipped numbers, one per cell
)

# Alerts: messages when `state` is more probable than `probability` in more than `share` of a district.
alert = Table(
    "alert",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("situation", String(64), ForeignKey("situation.id", ondelete="CASCADE"), nullable=False),
    Column("districts", String(64), nullable=False),
    Column("area", String(200)),  # one of the districts; null means each of them
    Column("state", String(200), nullable=False),
    Column("probability", Float(53), nullable=False),
    Column("share", Float(53), nullable=False),
    Column("clear", Float(53), nullable=False),  # below this share the alert is over
    Column("webhook", Text),
    Column("email", Text),
    Column("secret", String(128), nullable=False),  # signs the messages to a webhook
    Column("created", Float(53), nullable=False),
    Column("seen", Integer, nullable=False, default=0),  # the last version that the alert was compared with
)

# Whether each district is over the limit of an alert, according to the last message.
alert_area = Table(
    "alert_area",
    metadata,
    Column("alert", String(32), ForeignKey("alert.id", ondelete="CASCADE"), primary_key=True),
    Column("area", String(200), primary_key=True),
    Column("raised", Boolean, nullable=False),
    Column("share", Float(53), nullable=False),
    Column("since", Float(53), nullable=False),
)

# The messages of alerts: waiting to be sent, sent, or given up.
delivery = Table(
    "delivery",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("alert", String(32), ForeignKey("alert.id", ondelete="CASCADE"), nullable=False),
    Column("body", JSON, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("due", Float(53), nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("state", String(8), nullable=False),  # waiting, sent, given up
    Column("error", Text),
    Index("delivery_due", "state", "due"),
)
