"""A situation report from a run: one page for the screen and for A4, and as PDF if a browser is installed.

    pipeline.write_report(fused, "report.html", title="Beira, 6 o'clock", since=yesterday.heatmap)

`content` gathers what is known, `sections` turns it into HTML, `text.en.toml` holds all words, `pdf` prints.
"""

from crowdfield.pipeline.report.content import Content, gather
from crowdfield.pipeline.report.page import page, read_texts, write_report
from crowdfield.pipeline.report.pdf import browser

__all__ = ["Content", "browser", "gather", "page", "read_texts", "write_report"]
