"""Whole jobs: from reports to a map, onwards with more reports, and what to ask of the result.

fused = pipeline.fuse(reports, pipeline.Settings(cell="250m", sources={"fire-brigade": "high"}))
fused.heatmap, fused.model, fused.table(), pipeline.next_looks(fused, 10)
"""

from crowdfield.pipeline.checking import ModelCheck, check_model
from crowdfield.pipeline.comparing import Change, compare, write_change
from crowdfield.pipeline.fusing import AtTime, Fused, build_model, extend, fuse, fuse_on, joined, make_map, on_cluster
from crowdfield.pipeline.learning import hold, learn, settle, update
from crowdfield.pipeline.looks import Look, looks_of, next_looks, write_looks
from crowdfield.pipeline.report import write_report
from crowdfield.pipeline.scoring import score
from crowdfield.pipeline.settings import TRUST, Settings, read_settings
from crowdfield.pipeline.state import load_run, save_run

__all__ = [
    "TRUST",
    "AtTime",
    "Change",
    "Fused",
    "Look",
    "ModelCheck",
    "Settings",
    "build_model",
    "check_model",
    "compare",
    "extend",
    "fuse",
    "fuse_on",
    "hold",
    "joined",
    "learn",
    "load_run",
    "looks_of",
    "make_map",
    "next_looks",
    "on_cluster",
    "read_settings",
    "save_run",
    "score",
    "settle",
    "update",
    "write_change",
    "write_looks",
    "write_report",
]
