"""Processing algorithms: each asks for files, calls the command, and gives QGIS what it wrote."""

from qgis.core import (
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingParameterFile,
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterString,
)

from . import command


class _Algorithm(QgsProcessingAlgorithm):
    NAME = TITLE = HELP = ""

    def name(self):
        return self.NAME

    def displayName(self):
        return self.TITLE

    def shortHelpString(self):
        return self.HELP

    def createInstance(self):
        return type(self)()

    def call(self, arguments, feedback):
        feedback.pushCommandInfo(" ".join(["crowdfield", *map(str, arguments)]))
        try:
            return command.call(arguments, feedback.pushInfo, feedback.isCanceled)
        except command.CommandError as problem:
            raise QgsProcessingException(str(problem)) from problem


class FuseReports(_Algorithm):
    NAME, TITLE = "fuse", "Map from reports"
    HELP = (
        "Makes a map of probabilities from a file of reports (CSV, GeoJSON, GeoPackage, KML, Ushahidi, Zooniverse, …). "
        "Band 1 is the probability of the state in question; its style comes along."
    )

    def initAlgorithm(self, configuration=None):
        self.addParameter(QgsProcessingParameterFile("REPORTS", "File of reports"))
        self.addParameter(QgsProcessingParameterString("CELL", "Side of a cell, like 250m", optional=True))
        self.addParameter(QgsProcessingParameterString("SHOW", "State to show first", optional=True))
        self.addParameter(QgsProcessingParameterString("LENGTHSCALE", "Length-scale, like 2km", optional=True))
        self.addParameter(QgsProcessingParameterFile("MASK", "Polygons to map within", optional=True))
        self.addParameter(QgsProcessingParameterRasterDestination("OUTPUT", "Map"))
        self.addParameter(
            QgsProcessingParameterFileDestination("RUN", "Run, to go on from", "Runs (*.cf)", optional=True)
        )

    def processAlgorithm(self, parameters, context, feedback):
        output = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        run = self.parameterAsFileOutput(parameters, "RUN", context)
        arguments = command.fuse(
            self.parameterAsFile(parameters, "REPORTS", context),
            output,
            cell=self.parameterAsString(parameters, "CELL", context),
            show=self.parameterAsString(parameters, "SHOW", context),
            lengthscale=self.parameterAsString(parameters, "LENGTHSCALE", context),
            mask=self.parameterAsFile(parameters, "MASK", context),
            run=run,
        )
        self.call(arguments, feedback)
        return {"OUTPUT": output, "RUN": run}


class NextLooks(_Algorithm):
    NAME, TITLE = "next", "Where to look next"
    HELP = "Areas where one more report would teach the map most, as polygons for a tasking tool."

    def initAlgorithm(self, configuration=None):
        self.addParameter(QgsProcessingParameterFile("RUN", "Run (.cf), or a file of reports"))
        self.addParameter(QgsProcessingParameterNumber("COUNT", "How many", defaultValue=10, minValue=1))
        self.addParameter(QgsProcessingParameterFileDestination("OUTPUT", "Areas", "GeoJSON (*.geojson)"))

    def processAlgorithm(self, parameters, context, feedback):
        output = self.parameterAsFileOutput(parameters, "OUTPUT", context)
        count = self.parameterAsInt(parameters, "COUNT", context)
        self.call(command.looks(self.parameterAsFile(parameters, "RUN", context), output, count), feedback)
        return {"OUTPUT": output}


class CompareRuns(_Algorithm):
    NAME, TITLE = "compare", "What changed between two runs"
    HELP = (
        "The change of the probability from one run or map to another, and how probable it is that it really changed."
    )

    def initAlgorithm(self, configuration=None):
        self.addParameter(QgsProcessingParameterFile("BEFORE", "Earlier run (.cf) or map (.tif)"))
        self.addParameter(QgsProcessingParameterFile("AFTER", "Later run (.cf) or map (.tif)"))
        self.addParameter(QgsProcessingParameterRasterDestination("OUTPUT", "Change"))

    def processAlgorithm(self, parameters, context, feedback):
        output = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        before, after = (self.parameterAsFile(parameters, name, context) for name in ("BEFORE", "AFTER"))
        self.call(command.compare(before, after, output), feedback)
        return {"OUTPUT": output}


class WriteReport(_Algorithm):
    NAME, TITLE = "report", "Report to hand in"
    HELP = (
        "One page with map, sources, where to look next and what is not known; .html, or .pdf where Chromium is "
        "installed."
    )

    def initAlgorithm(self, configuration=None):
        self.addParameter(QgsProcessingParameterFile("RUN", "Run (.cf), or a file of reports"))
        self.addParameter(QgsProcessingParameterString("TITLE", "Title", optional=True))
        self.addParameter(QgsProcessingParameterFile("SINCE", "Run of the last report", optional=True))
        self.addParameter(QgsProcessingParameterFileDestination("OUTPUT", "Report", "HTML (*.html);;PDF (*.pdf)"))

    def processAlgorithm(self, parameters, context, feedback):
        output = self.parameterAsFileOutput(parameters, "OUTPUT", context)
        arguments = command.report(
            self.parameterAsFile(parameters, "RUN", context),
            output,
            title=self.parameterAsString(parameters, "TITLE", context),
            since=self.parameterAsFile(parameters, "SINCE", context),
        )
        self.call(arguments, feedback)
        return {"OUTPUT": output}
