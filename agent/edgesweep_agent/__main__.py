"""``python -m edgesweep_agent FILE``: the daemon, in a process without a command line in it.

``edgesweep-agent serve`` checks its file and becomes this. typer and pydantic, which it brings,
would take a quarter of the daemon's memory for as long as the device is up.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the daemon until it is told to end; the process ends with its exit code."""
    # Until it listens for itself, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from edgesweep_agent import daemon  # noqa: PLC0415
    from edgesweep_agent.settings import load_settings  # noqa: PLC0415
    from edgesweep_common import logs  # noqa: PLC0415 - slow to import
    from edgesweep_common.oneline import one_line_errors  # noqa: PLC0415

    config = Path(sys.argv[1])
    with one_line_errors("edgesweep-agent"):
        settings = load_settings(config)
        logs.to_stderr(settings.log.level)
        sys.exit(daemon.serve(settings, config))


if __name__ == "__main__":
    main()
