"""Structured logs: one JSON object per line, without secrets, bodies or query strings."""

import json
import logging
import re
import sys
import time

# Keys and passwords are removed from every log line, wherever a caller put them.
_SECRET = re.compile(r"cf_[0-9a-f]{6,}_[A-Za-z0-9_-]{8,}|://[^/\s@]+:[^/\s@]+@")
_OURS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def redact(text: str) -> str:
    """The text without keys, and without passwords in URLs."""
    return _SECRET.sub(lambda match: "://…@" if match.group().startswith("://") else "cf_…", text)


class Lines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"at": at, "level": record.levelname.lower(), "from": record.name, "message": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in _OURS}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return redact(json.dumps(line, default=str, ensure_ascii=False))


def configure(level: str = "INFO") -> None:
    """Log to stderr as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Uvicorn's access log prints URLs with their queries; ours has the route instead.
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logging.getLogger("alembic").setLevel("WARNING")
