"""Adds the provider to Processing, and takes it away again."""

from qgis.core import QgsApplication

from .provider import CrowdfieldProvider


class CrowdfieldPlugin:
    def __init__(self):
        self.provider = None

    def initProcessing(self):
        self.provider = CrowdfieldProvider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self):
        self.initProcessing()

    def unload(self):
        QgsApplication.processingRegistry().removeProvider(self.provider)
