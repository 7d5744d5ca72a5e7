"""The algorithms of crowdfield in the toolbox."""

from qgis.core import QgsProcessingProvider

from .algorithms import CompareRuns, FuseReports, NextLooks, WriteReport


class CrowdfieldProvider(QgsProcessingProvider):
    def id(self):
        return "crowdfield"

    def name(self):
        return "crowdfield"

    def longName(self):
        return "crowdfield: maps from unreliable reports"

    def loadAlgorithms(self):
        for algorithm in (FuseReports, NextLooks, CompareRuns, WriteReport):
            self.addAlgorithm(algorithm())
