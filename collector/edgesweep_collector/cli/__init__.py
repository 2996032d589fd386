"""The command line, ``edgesweep-collector``: one module per command.

Nothing heavy is imported here: Ctrl-C ends a command in one line from its first moment on.
"""

from __future__ import annotations

import sys

from edgesweep_common.start import interrupts_in_one_line

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
_GOES_ON = ": what the archive has taken it keeps; the same command goes on with the rest"
_SAID = {
    "archive": _GOES_ON,
    "ingest": _GOES_ON,
    "simulate": ": what was acknowledged is in the archive; the same command begins anew",
}


def main() -> None:
    """Run a command; what the caller can mend is one line on stderr, never a traceback."""
    interrupts_in_one_line("edgesweep-collector", _SAID)
    from .commands import PROGRAM  # noqa: PLC0415 - slow to import

    PROGRAM.run(sys.argv[1:])
