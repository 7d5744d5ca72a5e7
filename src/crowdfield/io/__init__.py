"""Files in and out: one module a format family.

result = crowdfield.io.read("reports.csv")        # result.reports, and how they were read
crowdfield.io.write(heatmap, "flood.tif")
"""

from crowdfield.io.atomic import replacing
from crowdfield.io.reading import ReadResult, inspect, read
from crowdfield.io.rejects import Reject, Rejects
from crowdfield.io.report_files import check_report_format, write_reports
from crowdfield.io.vector import write_looks
from crowdfield.io.write import FORMATS, check_format, read_map, write

__all__ = [
    "FORMATS",
    "ReadResult",
    "Reject",
    "Rejects",
    "check_format",
    "check_report_format",
    "inspect",
    "read",
    "read_map",
    "replacing",
    "write",
    "write_looks",
    "write_reports",
]
