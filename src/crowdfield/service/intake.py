"""From request bodies to entries of the log: bodies are parsed into reports, and each is checked for its situation."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from crowdfield.data import Grid, Region
from crowdfield.service.auth import TRUSTED, Principal, Role
from crowdfield.service.journal import SCORES, Entry
from crowdfield.service.problems import Problem, faults
from crowdfield.service.records import Situation
from crowdfield.service.schemas import Rejected, ReportIn

# Ids of this form are reserved for the service: generated ids, ids of the webhook, and ids with the prefix of a key.
RESERVED = re.compile(r"[ckrh][0-9a-f]{32}|ushahidi-.*|[0-9a-f]{12}:.*", re.DOTALL)
# The longest id: together with the prefix of its key it must fit into the column of the database.
LONGEST_ID = 180
TRUSTED_LEVELS = frozenset({"certain", "high"})
_REPORT: TypeAdapter[ReportIn] = TypeAdapter(ReportIn)


@dataclass
class Intake:
    """The reports of one request: entries to store, and the reasons why others were rejected."""

    entries: list[Entry] = field(default_factory=list)
    rejects: list[Rejected] = field(default_factory=list)
    outside: int = 0
    """How many of the rejected reports lie outside the region; another region would include them."""
    single: bool = False
    note: str | None = None
    unlisted: int = 0
    """How many rejected rows of a file are not listed in `rejects`."""
    only_labels: int = 0
    """How many rows of a file have probabilities of states that the map does not have: only their labels are used."""

    @property
    def rejected(self) -> int:
        return len(self.rejects) + self.unlisted

    def with_file_rejects(self, rejects: list[Rejected], rejected: int, note: str) -> "Intake":
        """Add the rows that the reader of the file rejected, in the order of the file."""
        self.rejects = sorted([*rejects, *self.rejects], key=lambda reject: reject.row)
        self.unlisted = rejected - len(rejects)
        if self.only_labels:
            note += (
                f"; {self.only_labels:,} have probabilities of other states than those of this map, and only their "
                "labels are used"
            )
        self.note = note
        return self


def parse_json(body: bytes, row_limit: int) -> tuple[list[Any], bool]:
    """The unchecked reports of a JSON or GeoJSON body, and whether the body was a single report."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "the body is not JSON") from error
    if isinstance(document, dict) and document.get("type") == "FeatureCollection":
        features = document.get("features")
        rows, single = [flatten(f) for f in features] if isinstance(features, list) else [], False
    elif isinstance(document, dict) and document.get("type") == "Feature":
        rows, single = [flatten(document)], True
    elif isinstance(document, dict):
        rows, single = [document], True
    elif isinstance(document, list):
        rows, single = document, False
    else:
        raise Problem(422, "the body must be a report, a list of reports or a GeoJSON feature collection")
    if len(rows) > row_limit:
        raise Problem(413, f"{len(rows):,} reports are more than one request may have ({row_limit:,}); send several")
    return rows, single


def flatten(feature: Any) -> Any:
    """A GeoJSON feature as a flat report: coordinates and properties in one object."""
    if not isinstance(feature, dict):
        return feature
    geometry, properties = feature.get("geometry"), feature.get("properties")
    row = dict(properties) if isinstance(properties, dict) else {}
    if isinstance(feature.get("id"), str | int):
        row.setdefault("id", str(feature["id"]))
    if isinstance(geometry, dict) and geometry.get("type") == "Point" and isinstance(geometry.get("coordinates"), list):
        row |= dict(zip(("longitude", "latitude"), geometry["coordinates"], strict=False))
    return row


def ushahidi(body: bytes, label: str, principal: Principal) -> list[Any]:
    """The report in a post as Ushahidi's webhooks send it. Contact, author and all other fields are dropped."""
    rows, _ = parse_json(body, 1)
    post = rows[0] if rows else None
    if not isinstance(post, dict):
        raise Problem(422, "an Ushahidi post is a JSON object")
    inner = post.get("post")
    post = inner if isinstance(inner, dict) else post
    place = _place(post.get("values", post))
    if place is None:
        raise Problem(422, "the post has no location: no value with lat and lon was found in it")
    row: dict[str, Any] = {"longitude": place[0], "latitude": place[1], "label": label}
    identity = post.get("id")
    if isinstance(identity, str | int):
        row["id"] = f"ushahidi-{identity}"
    if principal.any_source:
        form = post.get("source") or post.get("type")
        # The author is personal data; the channel (SMS, web, e-mail) is what reliability depends on.
        row["source"] = f"ushahidi {form}" if isinstance(form, str) and form else "ushahidi"
    for name in ("post_date", "created"):
        if isinstance(post.get(name), str) and post[name]:
            row["time"] = post[name]
            break
    words = [post[name] for name in ("title", "content") if isinstance(post.get(name), str)]
    if words:
        row["text"] = ": ".join(words)[:5000]
    return [row]


def _place(value: Any, depth: int = 0) -> tuple[Any, Any] | None:
    if depth > 6:
        return None
    if isinstance(value, dict):
        if "lat" in value and ("lon" in value or "lng" in value):
            return value.get("lon", value.get("lng")), value["lat"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value[:200]:
            found = _place(inner, depth + 1)
            if found is not None:
                return found
    return None


class Forbidden(Problem):
    """A report that its key may not send."""

    def __init__(self, detail: str):
        super().__init__(403, detail)


def admit(
    rows: Iterable[Any],
    situation: Situation,
    principal: Principal,
    trust: dict[str, Any],
    *,
    key: str | None = None,
    single: bool = False,
    by_content: bool = False,
    from_webhook: bool = False,
    lines: Sequence[int] | None = None,
) -> Intake:
    """Check every row against the schema, the situation and the sender's role.

    If a single report was sent and it is bad, that is an error; among many, a bad one is rejected with its reason and
    its number, or its line in the file (`lines`). key: the Idempotency-Key; by_content: identify reports without an id
    by their content, even without a time.
    """
    intake = Intake(single=single)
    contents: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        where = number if lines is None else lines[number - 1]
        try:
            report = _REPORT.validate_python(row)
        except ValidationError as error:
            problems = faults(error)
            if single:
                raise Problem(422, "the report cannot be used as it is", faults=problems) from error
            broken = "; ".join(f"{p['where']}: {p['what']}" for p in problems[:3])
            intake.rejects.append(Rejected(row=where, reason=broken))
            continue
        reason = why_unusable(report, situation) or (None if from_webhook else why_reserved(report, principal))
        if reason is None and not by_content:
            reason = why_wrong_scores(report, situation)
        if reason is not None:
            if single:
                raise Problem(422, reason)
            intake.outside += not in_region(report, situation)
            intake.rejects.append(Rejected(row=where, reason=reason))
            continue
        if report.scores is not None and not covers_all_states(report.scores, situation):
            report.scores = None
            intake.only_labels += 1
        source = name_source(report, principal, trust)
        identity = identify(report, source, principal, key, number, by_content)
        if by_content and report.id is None and key is None:
            # The reader of the file has removed what is there twice, so equal rows are different reports.
            contents[identity] += 1
            identity = identity if contents[identity] == 1 else "c" + _short_hash(identity, contents[identity])
        intake.entries.append(
            Entry(
                "report",
                identity,
                report.longitude,
                report.latitude,
                report.label,
                source,
                report.time,
                report.text,
                None if report.scores is None else {SCORES: report.scores},
                principal.id,
                report.accuracy,
                observations_of(report, principal),
            )
        )
    return intake


def in_region(report: ReportIn, situation: Situation) -> bool:
    """Whether a report lies in the region of its map."""
    return situation.region.holds(report.longitude, report.latitude)


def why_unusable(report: ReportIn, situation: Situation) -> str | None:
    """Why a report cannot be used on its map; None if it can."""
    if report.label not in situation.labels:
        return f"the label is not one of this situation's labels: {', '.join(situation.labels)}"
    if not in_region(report, situation):
        west, south, east, north = situation.region
        swapped = situation.region.holds(report.latitude, report.longitude)
        hint = ". Are longitude and latitude swapped?" if swapped else ""
        return f"the place is outside the region ({west:g} to {east:g} east, {south:g} to {north:g} north){hint}"
    return None


def covers_all_states(scores: dict[str, float], situation: Situation) -> bool:
    """Whether scores are the probabilities of all states of a map."""
    return scores.keys() == set(situation.states)


def why_wrong_scores(report: ReportIn, situation: Situation) -> str | None:
    """Why the scores of a report cannot be used; None if they can, or if there are none."""
    if report.scores is None or covers_all_states(report.scores, situation):
        return None
    return f"scores must contain exactly one probability for each state: {', '.join(situation.states)}"


def why_reserved(report: ReportIn, principal: Principal) -> str | None:
    """Why a key without an id prefix of its own may not use this id (it could block the id for its owner); None if it
    may."""
    if principal.origin or report.id is None or not RESERVED.fullmatch(report.id):
        return None
    return "ids of this form are reserved for the service; choose another id, or use a key that has its own ids"


def name_source(report: ReportIn, principal: Principal, trust: dict[str, Any]) -> str:
    """The source of a report: the name of the key, or another name if the key may report as others. Only trusted keys
    may use the names of trusted sources."""
    if report.trusted:
        if principal.role < Role.trusted:
            raise Forbidden("only keys of the roles trusted and admin may send trusted reports")
        return f"{TRUSTED}{principal.name}"
    source = report.source or principal.name
    if not principal.any_source:
        if source != principal.name:
            raise Forbidden(
                f"this key reports as '{principal.name}' only; leave the source out, or ask an admin for a key that "
                "may report as others"
            )
        return source
    if principal.role < Role.trusted and (source.startswith(TRUSTED.strip()) or is_trusted_level(trust.get(source))):
        raise Forbidden("this source is trusted; a key of the role reporter may not report in its name")
    return source


def observations_of(report: ReportIn, principal: Principal) -> int | None:
    """How many observations a report stands for; None means one. More than one speaks for other people, which only keys
    that may report as others can do."""
    if report.count is None or report.count == 1:
        return None
    if not principal.any_source:
        raise Forbidden(
            f"this key reports as '{principal.name}' only, so each report counts once; leave the count out, or ask an "
            "admin for a key that may report as others"
        )
    return report.count


def is_trusted_level(value: Any) -> bool:
    """Whether this trust (a level, or a confusion matrix as a list) makes its source a trusted one."""
    return isinstance(value, list) or value in TRUSTED_LEVELS


def identify(
    report: ReportIn, source: str, principal: Principal, key: str | None, number: int, by_content: bool
) -> str:
    """The id that identifies a report that is sent twice: its own id, one from the request, or a hash of its content.

    Rows of files are identified by their content even without a time: a file may be imported again. `admit` tells equal
    rows of one file apart.
    """
    if report.id is not None:
        return own_id(report.id, principal)
    if key is not None:
        return "k" + _short_hash(principal.origin or principal.id, key, number)
    if report.time is not None or by_content:
        scores = [] if report.scores is None else [report.scores]
        return "c" + _short_hash(
            source, report.longitude, report.latitude, report.time, report.label, report.text, *scores
        )
    return "r" + uuid4().hex


def own_id(identity: str, principal: Principal) -> str:
    """The id under which a report of this key is stored."""
    if not principal.origin:
        return identity
    return f"{principal.origin}:{identity if len(identity) <= LONGEST_ID else 'h' + _short_hash(identity)}"


def _short_hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()[:32]


def retraction(report: str, principal: Principal) -> Entry:
    """An entry that retracts a report."""
    return Entry("retract", report, value=report, author=principal.id)


def acceptance(report: str, principal: Principal) -> Entry:
    """An entry which records that somebody has checked and accepted a report; the map does not change."""
    return Entry("accept", report, value=report, author=principal.id)


def trust_entry(source: str, value: Any, principal: Principal) -> Entry:
    """An entry that sets the trust in a source."""
    return Entry("trust", uuid4().hex, source=source, value=value, author=principal.id)


def region_entry(region: Region, grid: Grid, principal: Principal) -> Entry:
    """An entry that changes the region of a map."""
    value = {"region": region._asdict(), "columns": grid.columns, "rows": grid.rows}
    return Entry("region", uuid4().hex, value=value, author=principal.id)


def states_entry(states: Sequence[str], labels: Sequence[str], principal: Principal) -> Entry:
    """An entry that changes the states of a map."""
    return Entry("states", uuid4().hex, value={"states": [*states], "labels": [*labels]}, author=principal.id)


def private_entry(situation: Situation, principal: Principal) -> Entry:
    """An entry that makes a map private, or no longer private."""
    return Entry("private", uuid4().hex, value={"private": situation.private}, author=principal.id)


def moving_entry(moving: bool, principal: Principal) -> Entry:
    """An entry that makes a map one whose state changes over time, or no longer one."""
    return Entry("moving", uuid4().hex, value={"moving": moving}, author=principal.id)


def chunks(entries: Sequence[Entry], size: int = 5_000) -> Iterable[Sequence[Entry]]:
    """Entries in groups of at most `size`."""
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
