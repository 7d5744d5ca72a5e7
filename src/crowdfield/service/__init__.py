"""The live map: reports in, numbered map versions out, and a page that shows what is known and how well.

``app`` joins the parts; ``store`` and ``journal`` remember; ``worker`` fits in a process of its own; ``routes`` speak
HTTP.
"""
