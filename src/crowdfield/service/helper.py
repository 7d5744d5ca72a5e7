"""A helper process for slow work: exports, reasons, lists of cells, outlines.

It runs next to the server with a lower priority and its own database connections, so that it does not delay the intake
of reports. It reads one JSON question per line from its standard input, and writes one answer per line; large answers
go to the files that the question names. It ends when the server does, or after a while without questions.
"""

import contextlib
import json
import logging
import os
import resource
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from crowdfield.errors import CrowdfieldError
from crowdfield.service import logs
from crowdfield.service.problems import Problem, status_of

log = logging.getLogger("crowdfield.helper")
# A process that has had no question for this long ends, unless it is permanent; the next question starts another one.
IDLE_SECONDS = 600.0
MEMORY_BYTES = 6 * 2**30

Question = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Lines:
    """Reads questions and writes answers; whatever libraries print goes to the log instead."""

    incoming: int
    outgoing: int

    def questions(self) -> "Any":
        rest = b""
        timeout: float | None = IDLE_SECONDS
        while True:
            ready, _, _ = select.select([self.incoming], [], [], timeout)
            if not ready:
                return
            block = os.read(self.incoming, 65536)
            if not block:
                return
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                question = json.loads(line)
                timeout = None if question.get("permanent") else timeout
                yield question

    def answer(self, answer: Answer) -> None:
        line = json.dumps(answer).encode() + b"\n"
        while line:
            line = line[os.write(self.outgoing, line) :]


def main() -> None:
    """Answer questions until the server ends."""
    outgoing = os.dup(1)
    os.dup2(2, 1)
    logs.configure("WARNING")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    lines = Lines(0, outgoing)
    questions = lines.questions()
    try:
        hello = next(questions)
    except StopIteration:
        return
    with contextlib.suppress(OSError):
        os.nice(hello["niceness"])
    # Imported here: the models and writers take seconds to load.
    from crowdfield.service.making import Maker

    maker = Maker(hello)
    for question in questions:
        try:
            lines.answer(attempt(maker.make, question))
        except BrokenPipeError:
            return  # the server has ended meanwhile


def attempt(make: Callable[[Question], Answer], question: Question) -> Answer:
    """The answer, or an error in words that a client may read."""
    began = time.process_time()
    try:
        answer = make(question)
    except Problem as problem:
        answer = {"status": problem.status_code, "detail": str(problem.detail)}
    except CrowdfieldError as error:
        answer = {"status": status_of(error), "detail": str(error)}
    except SQLAlchemyError as error:
        log.error("database error", extra={"error": type(error).__name__})
        answer = {"status": 503, "detail": "the database did not answer; send the request again"}
    except MemoryError:
        log.exception("out of memory")
        answer = {"status": 503, "detail": "this needs more memory than is available; ask for less"}
    except Exception:
        log.exception("unexpected error")
        answer = {"status": 500, "detail": "something went wrong in the service; its log has the details"}
    return answer | {"seconds": time.process_time() - began}


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)  # not waiting for the threads of libraries, which take a while to end
