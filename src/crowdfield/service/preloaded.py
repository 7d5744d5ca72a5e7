"""Imported by the fork server of the fitting processes, so that the outlines of countries are read only once."""

from crowdfield.outlines import countries

countries()
