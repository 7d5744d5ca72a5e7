"""The live map: it takes reports, publishes numbered map versions, and shows what is known and how well on a page.

``app`` connects the parts; ``store`` and ``journal`` keep the data; ``worker`` fits maps in processes of its own;
``routes`` answer HTTP requests.
"""
