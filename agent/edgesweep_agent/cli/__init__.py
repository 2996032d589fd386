"""The command line of the agent: one file a command, no logic in them.

Nothing heavy is imported here: Ctrl-C ends a command in one line from its first moment on.
"""

from __future__ import annotations

import sys

from edgesweep_common.start import interrupts_in_one_line

COMMANDS = ("sweep", "probe", "inspect", "fit", "meter", "serve", "spool", "csr")
"""Each one is a module of that name, with a function, or a group of commands, of that name."""
_SAID = {"sweep": " before anything was measured: the same command begins anew"}


def main() -> None:
    """Run a command; what the operator can mend is one line on stderr, never a traceback."""
    interrupts_in_one_line("edgesweep-agent", _SAID)
    from .commands import PROGRAM  # noqa: PLC0415 - slow to import

    PROGRAM.run(sys.argv[1:])
