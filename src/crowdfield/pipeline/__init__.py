"""Whole jobs: from reports to a map, onwards with more reports, and what to ask of the result.

fused = pipeline.fuse(reports, pipeline.Settings(cell="250m", sources={"fire-brigade": "high"}))
fused.heatmap, fused.model, fused.table(), pipeline.next_looks(fused, 10)

The names in `__all__` are the public ones. The others are the steps that the live map takes one by one.
"""

from crowdfield.pipeline.checking import ModelCheck, check_model
from crowdfield.pipeline.comparing import Change, compare, write_change
from crowdfield.pipeline.fusing import Fused, extend, fuse, fuse_on, on_cluster
from crowdfield.pipeline.fusing import build_model as build_model
from crowdfield.pipeline.learning import hold as hold
from crowdfield.pipeline.learning import learn as learn
from crowdfield.pipeline.learning import settle as settle
from crowdfield.pipeline.learning import update as update
from crowdfield.pipeline.looks import Look, next_looks, write_looks
from crowdfield.pipeline.looks import looks_of as looks_of
from crowdfield.pipeline.mapping import AtTime, make_map
from crowdfield.pipeline.report import write_report
from crowdfield.pipeline.scoring import score
from crowdfield.pipeline.settings import TRUST, Settings, read_settings
from crowdfield.pipeline.state import load_run, save_run
from crowdfield.pipeline.tables import joined

__all__ = [
    "TRUST",
    "AtTime",
    "Change",
    "Fused",
    "Look",
    "ModelCheck",
    "Settings",
    "check_model",
    "compare",
    "extend",
    "fuse",
    "fuse_on",
    "joined",
    "load_run",
    "make_map",
    "next_looks",
    "on_cluster",
    "read_settings",
    "save_run",
    "score",
    "write_change",
    "write_looks",
    "write_report",
]
