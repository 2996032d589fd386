"""``serve``: run the collector in the foreground, as its unit does."""

from __future__ import annotations

import anyio

from edgesweep_collector.errors import SettingsError
from edgesweep_collector.service import serve as serve_until_stopped
from edgesweep_collector.settings import load
from edgesweep_common import logs

from .options import Config  # noqa: TC001 - typer resolves the annotations


def serve(config: Config) -> None:
    """Take envelopes, archive and acknowledge them, until SIGTERM or SIGINT (then exit 0)."""
    settings = load(config)
    logs.to_stderr(settings.log.level)
    try:
        anyio.run(serve_until_stopped, settings)
    except SettingsError as error:
        raise SettingsError(f"{config}: {error}") from error
