"""crowdfield in the Processing toolbox of QGIS."""


def classFactory(iface):
    from .plugin import CrowdfieldPlugin

    return CrowdfieldPlugin()
