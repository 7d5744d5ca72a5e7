"""Labels of typical crowds, in alphabetical order, and the one that people look for."""

LABELS_AND_POSITIVE = [
    (("damaged", "undamaged"), "damaged"),
    (("flooded", "safe"), "flooded"),
    (("flooded", "not flooded"), "flooded"),
    (("collapsed", "intact"), "collapsed"),
    (("inondé", "sec"), "inondé"),
    (("dañado", "sin daño"), "dañado"),
    (("high", "low", "medium"), "high"),
    (("no", "yes"), "yes"),
]
