"""The command line, ``edgesweep-collector``: one module per command.

Nothing heavy is imported here: Ctrl-C ends a command in one line from its first moment on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

COMMANDS = (
    "serve",
    "devices",
    "runs",
    "compare",
    "report",
    "crossover",
    "replay",
    "ingest",
    "archive",
    "mosquitto",
    "simulate",
)
"""Each one is a module of that name with a function, or a group of commands, of that name."""
_AGAIN = ": the same command can be given again"
_GOES_ON = ": what the archive has taken it keeps; the same command goes on with the rest"
_SAID = {
    "archive": _GOES_ON,
    "ingest": _GOES_ON,
    "simulate": ": what was acknowledged is in the archive; the same command begins anew",
}


def main() -> None:
    """Run a command; what the caller can mend is one line on stderr, never a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from .commands import run  # noqa: PLC0415 - slow to import

    run(sys.argv[1:])


def _interrupted(_sign: int, _frame: FrameType | None) -> NoReturn:
    """One that measures or serves listens for itself, once it has begun."""
    said = _SAID.get(sys.argv[1] if len(sys.argv) > 1 else "", _AGAIN)
    # Not by way of a buffer, in the middle of whose use this may be.
    os.write(sys.stderr.fileno(), f"edgesweep-collector: interrupted{said}\n".encode())
    sys.exit(130)
