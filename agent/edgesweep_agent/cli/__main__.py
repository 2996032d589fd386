"""``python -m edgesweep_agent.cli``: how the daemon starts a sweep, whatever the PATH is."""

from . import main

main()
