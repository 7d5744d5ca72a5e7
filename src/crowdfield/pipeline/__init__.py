"""Whole jobs: make a map from reports, continue it with more reports, and query the result.

fused = pipeline.fuse(reports, pipeline.Settings(cell="250m", sources={"fire-brigade": "high"}))
fused.heatmap, fused.model, fused.table(), pipeline.next_looks(fused, 10)

The names in `__all__` are public. The others are the single steps, which the live map calls. As in
`crowdfield` itself, each is imported when it is first used: a server that only answers requests loads no model.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdfield.pipeline.assessing import Assessment as Assessment
    from crowdfield.pipeline.checking import ModelCheck as ModelCheck
    from crowdfield.pipeline.checking import check_model as check_model
    from crowdfield.pipeline.comparing import Change as Change
    from crowdfield.pipeline.comparing import compare as compare
    from crowdfield.pipeline.comparing import write_change as write_change
    from crowdfield.pipeline.fusing import Fused as Fused
    from crowdfield.pipeline.fusing import build_model as build_model
    from crowdfield.pipeline.fusing import extend as extend
    from crowdfield.pipeline.fusing import fuse as fuse
    from crowdfield.pipeline.fusing import fuse_on as fuse_on
    from crowdfield.pipeline.fusing import on_cluster as on_cluster
    from crowdfield.pipeline.learning import hold as hold
    from crowdfield.pipeline.learning import learn as learn
    from crowdfield.pipeline.learning import settle as settle
    from crowdfield.pipeline.learning import update as update
    from crowdfield.pipeline.looks import Look as Look
    from crowdfield.pipeline.looks import looks_of as looks_of
    from crowdfield.pipeline.looks import next_looks as next_looks
    from crowdfield.pipeline.looks import write_looks as write_looks
    from crowdfield.pipeline.mapping import AtTime as AtTime
    from crowdfield.pipeline.mapping import make_map as make_map
    from crowdfield.pipeline.report import write_report as write_report
    from crowdfield.pipeline.scoring import score as score
    from crowdfield.pipeline.settings import TRUST as TRUST
    from crowdfield.pipeline.settings import Settings as Settings
    from crowdfield.pipeline.settings import read_settings as read_settings
    from crowdfield.pipeline.state import load_run as load_run
    from crowdfield.pipeline.state import save_run as save_run
    from crowdfield.pipeline.tables import joined as joined

# The module of every public name, and of the steps (tests/test_typing.py compares this with the imports above).
_WHERE = {
    "TRUST": "settings",
    "Assessment": "assessing",
    "AtTime": "mapping",
    "Change": "comparing",
    "Fused": "fusing",
    "Look": "looks",
    "ModelCheck": "checking",
    "Settings": "settings",
    "check_model": "checking",
    "compare": "comparing",
    "extend": "fusing",
    "fuse": "fusing",
    "fuse_on": "fusing",
    "joined": "tables",
    "load_run": "state",
    "make_map": "mapping",
    "next_looks": "looks",
    "on_cluster": "fusing",
    "read_settings": "settings",
    "save_run": "state",
    "score": "scoring",
    "write_change": "comparing",
    "write_looks": "looks",
    "write_report": "report",
}
_STEPS = {
    "build_model": "fusing",
    "hold": "learning",
    "learn": "learning",
    "looks_of": "looks",
    "settle": "learning",
    "update": "learning",
}

__all__ = list(_WHERE)


if not TYPE_CHECKING:  # hidden from type checkers, which would take any name for a public one

    def __getattr__(name: str) -> object:
        where = _WHERE.get(name) or _STEPS.get(name)
        if where is None:
            raise AttributeError(f"module 'crowdfield.pipeline' has no attribute {name!r}")
        return getattr(import_module(f"crowdfield.pipeline.{where}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
