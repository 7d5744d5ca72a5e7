"""Imported by the process that fits are forked from: the outlines of countries are read once, and not by every fit."""

from crowdfield.outlines import countries

countries()
