"""Previews of imports: what a file contains and which map it would become, before anything is stored."""

import re
from collections import Counter
from collections.abc import Sequence

from crowdfield.data import Region
from crowdfield.data.positive import decide
from crowdfield.io.boxed import MOST_REJECTS
from crowdfield.pipeline.quiet import opposite
from crowdfield.service import uploads
from crowdfield.service.import_schemas import (
    ImportPlan,
    ImportPreview,
    LabelFound,
    Reason,
    SilenceOffer,
    UnreadableFile,
)
from crowdfield.service.layouts import build, checked
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation
from crowdfield.service.schemas import GRADES_WITHOUT_ORDER, NO_SILENCE_IN_TIME, NewSituation, Rejected

# What differs between rows that are rejected for the same reason: values in quotes, and numbers.
DIFFERS = re.compile(r"""'[^']*'|"[^"]*"|-?\d+(\.\d+)?""")
# How many reasons are listed.
REASONS = 5
WORLD = Region(-180.0, -90.0, 180.0, 90.0)
# The most characters of a file name that are repeated in a message.
LONGEST_NAME = 100
# Reports drawn on the map of a preview, spread evenly over the file.
POINTS = 2_000
# The default number of reports to expect from a cell in the reported state. With 0.7 there would be a report from such
# a cell with probability one half; see docs/silence.md.
SUGGESTED_SILENCE = 1.0


def situation_of(slug: str, title: str, layout: uploads.Layout, plan: ImportPlan) -> Situation:
    """The new map that a file starts."""
    model = {"places": plan.places, "silence": plan.silence, "grades": layout.grades, "moving": plan.moving}
    if plan.moving and plan.silence is not None:
        raise Problem(422, NO_SILENCE_IN_TIME)
    if plan.positive is not None and plan.positive not in layout.states:
        raise Problem(422, f"positive must be one of the states: {', '.join(layout.states)}")
    positive = plan.positive or str(decide(layout.states, layout.counts).state)
    new = NewSituation(
        id=slug, title=title, states=layout.states, labels=layout.labels, region=layout.region, model=model,
        positive=positive, access=plan.access,
    )  # fmt: skip
    return build(new, checked(layout.grid))


def of_new_map(read: uploads.Read, title: str, plan: ImportPlan) -> ImportPreview:
    """The preview of a new map; if the reports are spread over the whole world, its region is left undecided."""
    degrees = uploads.worldwide(read) if plan.region is None else None
    if degrees is not None:
        plan = plan.model_copy(update={"region": WORLD})
    layout = uploads.layout_of(read, plan)
    made = _preview(read, situation_of("preview", title, layout, plan), plan, offer_silence=True)
    return made if degrees is None else made.model_copy(update={"undecided": ["region"]})


def unreadable(problem: Problem, name: str | None) -> UnreadableFile:
    """The answer for a file that cannot be read: what is wrong, with the name of the uploaded file."""
    shown = re.split(r"[/\\]", name or "")[-1][:LONGEST_NAME] or "the file"
    detail = re.sub(r"^the file\b", lambda _: shown, str(problem.detail))
    return UnreadableFile(problem=detail, choices=problem.more.get("choices", {}))


def of_map(read: uploads.Read, situation: Situation, plan: ImportPlan) -> ImportPreview:
    """The preview of an import into an existing map, with its region and its labels."""
    return _preview(read, situation, plan, offer_silence=False)


def _preview(read: uploads.Read, situation: Situation, plan: ImportPlan, *, offer_silence: bool) -> ImportPreview:
    """What importing the file into this map would do: rows used, labels, rejected rows, points to draw."""
    inside = [situation.region.holds(row["longitude"], row["latitude"]) for row in read.rows]
    known = [row["label"] in situation.labels for row in read.rows]
    used = [here and named for here, named in zip(inside, known, strict=True)]
    labels = _labels(read, situation, plan)
    rejects = list(read.rejects)
    for row, line, here, named in zip(read.rows, read.lines, inside, known, strict=True):
        if not (here and named) and len(rejects) < MOST_REJECTS:
            reason = "the place is outside the region" if named else f"the map has no label {row['label']!r}"
            rejects.append(Rejected(row=line, reason=reason))
    about = read.about
    return ImportPreview(
        title=situation.title,
        layout=about["layout"],
        statement=read.note,
        columns=about["columns"],
        header=about["header"],
        read=about["read"],
        usable=sum(used),
        people=sum(row["count"] or 1 for row, taken in zip(read.rows, used, strict=True) if taken),
        duplicate=about["duplicate"],
        rejected=read.rejected + len(used) - sum(used),
        outside=len(inside) - sum(inside),
        rejects=sorted(rejects, key=lambda reject: reject.row),
        reasons=_reasons(rejects),
        labels=labels,
        states=list(situation.states),
        positive=situation.positive,
        access=situation.access,
        moving=situation.moving,
        sources=len({row["source"] for row in read.rows}),
        time=about["time"],
        notes=[*about["notes"], *(_not_read_in_time(read, situation) if situation.moving else ())],
        region=tuple(situation.region),
        cell=max(situation.grid.cell_width, situation.grid.cell_height),
        points=_points(read, inside, [found.label for found in labels], plan),
        silence=_offer(read, situation) if offer_silence and not situation.moving else None,
    )


def _not_read_in_time(read: uploads.Read, situation: Situation) -> list[str]:
    """What of a file a map that moves does not use, or uses in another way than its reader may expect."""
    notes = []
    untimed = sum(row["time"] is None for row in read.rows)
    if untimed:
        notes.append(
            f"{untimed:,} of {len(read.rows):,} reports have no time. On a map that moves they count when they are "
            "received: now."
        )
    scored = sum("scores" in row for row in read.rows)
    if scored:
        notes.append(
            f"{scored:,} reports have probabilities. A map that moves does not use them, only the label of each report."
        )
    if situation.grades is not None:
        notes.append(GRADES_WITHOUT_ORDER)
    return notes


def _reasons(rejects: Sequence[Rejected]) -> list[Reason]:
    """The reasons, without the values and numbers in them, so that rows with the same problem are counted together."""
    found = Counter(DIFFERS.sub("…", reject.reason.rstrip(".")) for reject in rejects)
    return [Reason(reason=reason, rows=rows) for reason, rows in found.most_common(REASONS)]


def _labels(read: uploads.Read, situation: Situation, plan: ImportPlan) -> list[LabelFound]:
    """The labels of the file as written in it, and what each means on the map."""
    given = {name: count for name, count in about.items() if count} if (about := read.about["labels"]) else {}
    found = []
    for name, count in given.items():
        meaning = plan.labels.get(name, name)
        found.append(LabelFound(label=name, reports=count, state=meaning if meaning in situation.labels else None))
    return found


def _points(
    read: uploads.Read, inside: Sequence[bool], names: Sequence[str], plan: ImportPlan
) -> list[tuple[float, float, int, bool]]:
    step = max(1, -(-len(read.rows) // POINTS))
    meanings = {plan.labels.get(name, name): i for i, name in reversed(list(enumerate(names)))}
    return [
        (row["longitude"], row["latitude"], meanings.get(row["label"], 0), inside[i])
        for i, row in list(enumerate(read.rows))[::step]
    ]


def _offer(read: uploads.Read, situation: Situation) -> SilenceOffer | None:
    """The offer to use silence, if all reports say the same: only places without reports then suggest the opposite."""
    said = uploads.label_counts(read)
    if len(said) != 1 or len(read.rows) < 2 or len(situation.states) != 2:
        return None
    (label,) = said
    return SilenceOffer(label=label, opposite=opposite(label, situation.states), suggested=SUGGESTED_SILENCE)
