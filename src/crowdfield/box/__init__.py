"""A short-lived process in which hostile files can be read: no network, little memory, little time, nothing to write.

    answer = box.ask("crowdfield.io.boxed:reports", path, shown=path.name, positive="flooded")

The process (`python -m crowdfield.box`) shuts itself in before it imports anything that could be fooled, reads the one
file it was given, and writes its answer to a pipe: a JSON header and plain arrays, never a pickle. Whatever becomes of
it, the caller gets that answer or one of our own errors.
"""

from crowdfield.box.asking import Answer, ask, believing, is_inside
from crowdfield.box.limits import Limits

__all__ = ["Answer", "Limits", "ask", "believing", "is_inside"]
