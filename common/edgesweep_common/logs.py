"""The one shape of a log line: a JSON object on stderr, which journald and people can read."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one JSON line; whatever was passed as ``extra`` becomes a key."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback as one string if there is one."""
        line: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line.update((k, v) for k, v in record.__dict__.items() if k not in _STANDARD)
        if record.exc_info:
            line["exc"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def to_stderr(level: str) -> None:
    """Send every logger's lines of at least ``level`` to stderr in this shape."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
