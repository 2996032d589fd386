"""The first moment of a program. Nothing heavy is imported here, for Ctrl-C may come at once."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

AGAIN = ": the same command can be given again"


def interrupts_in_one_line(program: str, said: Mapping[str, str]) -> None:
    """Let Ctrl-C end the process with one line and exit code 130, unless it is ignored.

    What measures or serves listens for itself, once it has begun.

    Args:
        program: Its name, before the line.
        said: By command, the end of the line; else it is that the command can be given again.
    """

    def interrupted(_sign: int, _frame: FrameType | None) -> NoReturn:
        command = sys.argv[1] if len(sys.argv) > 1 else ""
        line = f"{program}: interrupted{said.get(command, AGAIN)}\n"
        # Not by way of a buffer, in the middle of whose use this may be.
        os.write(sys.stderr.fileno(), line.encode())
        sys.exit(130)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
