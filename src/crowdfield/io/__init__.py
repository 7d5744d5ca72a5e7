"""Files in and out: one module per family of formats.

result = crowdfield.io.read("reports.csv")        # result.reports, and how they were read
crowdfield.io.write(heatmap, "flood.tif")

Each name is imported when it is first used, so a file that is refused by its first bytes loads no library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdfield.io.atomic import replacing
    from crowdfield.io.covariates import Rasters, read_covariates
    from crowdfield.io.frames import from_frame
    from crowdfield.io.qgis_style import write_style
    from crowdfield.io.reading import inspect, read
    from crowdfield.io.rejects import Reject, Rejects
    from crowdfield.io.report_files import check_report_format, write_reports
    from crowdfield.io.result import ReadResult
    from crowdfield.io.vector import write_looks
    from crowdfield.io.writing import FORMATS, check_format, check_output, read_map, write

_WHERE = {
    "FORMATS": "writing",
    "Rasters": "covariates",
    "ReadResult": "result",
    "Reject": "rejects",
    "Rejects": "rejects",
    "check_format": "writing",
    "check_output": "writing",
    "check_report_format": "report_files",
    "from_frame": "frames",
    "inspect": "reading",
    "read": "reading",
    "read_covariates": "covariates",
    "read_map": "writing",
    "replacing": "atomic",
    "write": "writing",
    "write_looks": "vector",
    "write_reports": "report_files",
    "write_style": "qgis_style",
}

__all__ = [
    "FORMATS",
    "Rasters",
    "ReadResult",
    "Reject",
    "Rejects",
    "check_format",
    "check_output",
    "check_report_format",
    "from_frame",
    "inspect",
    "read",
    "read_covariates",
    "read_map",
    "replacing",
    "write",
    "write_looks",
    "write_reports",
    "write_style",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"crowdfield.io.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'crowdfield.io' has no attribute {name!r}")
