"""The composition root: the one place that names the collector's concrete parts.

Parts start from the inside out (archive, acceptor, transports, projections, HTTP) and stop from
the outside in, so that nothing that was taken is left without its answer.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio

from edgesweep.durations import seconds

from .archive.archive import Archive
from .counters import Counters
from .errors import ArchiveUnavailable, SettingsError
from .ingest.accept import Acceptor
from .projection.batch import levels, telemetry
from .settings import ArchiveSettings, Settings, listen
from .upkeep import Keep, Upkeep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from .archive.rows import Backlog
    from .ingest.transport import Transport
    from .projection.base import Source
    from .projection.batch import Batch
    from .projection.follow import Follower, Status
    from .projection.influx import InfluxWriter
    from .projection.lease import Lease
    from .web.server import HttpServer

_log = logging.getLogger(__name__)

# A stop never waits longer for the archive; what is not answered by then is sent again.
_DRAIN_WITHIN_S = 10.0


class Projection(Protocol):
    """Follows the archive; ingest never waits for it."""

    @property
    def status(self) -> Status:
        """Where it stands."""

    async def run(self) -> None:
        """Follow until cancelled."""

    def health(self) -> str | None:
        """What is wrong, in a few words; ``None`` if nothing is."""

    def close(self) -> None:
        """Close its connections, after :meth:`run` has ended."""


def _grpc(settings: Settings, acceptor: Acceptor, counters: Counters) -> Transport | None:
    if settings.grpc is None:
        return None
    from .ingest.grpc import GrpcIngest  # noqa: PLC0415 -- 30 MiB that MQTT alone does not need

    address = listen(settings.grpc.listen, "grpc.listen")
    return GrpcIngest(acceptor, counters, address, settings.grpc.tls)


def _mqtt(settings: Settings, acceptor: Acceptor, counters: Counters) -> Transport | None:
    if settings.mqtt is None:
        return None
    from .ingest.broker import broker  # noqa: PLC0415 -- as for grpc
    from .ingest.mqtt import MqttIngest  # noqa: PLC0415

    return MqttIngest(acceptor, counters, broker(settings.mqtt))


TRANSPORTS: dict[str, Callable[[Settings, Acceptor, Counters], Transport | None]] = {
    "grpc": _grpc,
    "mqtt": _mqtt,
}
"""Each makes its transport, or ``None`` if the settings do not ask for it."""


def _influx(
    settings: Settings,
    archive: Archive,
    holder: str,
    name: str,
    read: Callable[[Source, int, int], Batch | None],
) -> Projection | None:
    if settings.influx is None:
        return None
    from .projection.follow import Follower  # noqa: PLC0415 -- a library that few need
    from .projection.influx import InfluxWriter, Target  # noqa: PLC0415
    from .projection.lease import Lease  # noqa: PLC0415

    influx = settings.influx
    token_file = None if influx.token_file is None else Path(influx.token_file)
    writer = InfluxWriter(Target(influx.url, influx.org, influx.bucket, token_file))
    lease = Lease(archive, name, holder)
    return _Followed(Follower(archive, writer, name=name, read=read, lease=lease), writer, lease)


PROJECTIONS: dict[str, Callable[[Settings, Archive, str], Projection | None]] = {
    "influx": partial(_influx, name="influx", read=levels),
    # A cursor of its own: what a retention policy refuses of old telemetry never delays a level.
    "influx_telemetry": partial(_influx, name="influx_telemetry", read=telemetry),
}
"""Each makes its projection, or ``None`` if the settings do not ask for it.

It gets a name for this process, by which of several collectors on one archive one projects.
"""


@dataclass
class _Parts:
    """What runs, by name."""

    archive: Archive
    acceptor: Acceptor
    upkeep: Upkeep
    transports: dict[str, Transport]
    projections: dict[str, Projection]
    http: HttpServer | None = None

    def health(self) -> dict[str, str | None]:
        return {
            "archive": self.acceptor.health(),
            **{name: transport.health() for name, transport in self.transports.items()},
            **{name: projection.health() for name, projection in self.projections.items()},
        }


async def serve(settings: Settings) -> None:
    """Run the collector until SIGTERM or SIGINT.

    Raises:
        SettingsError: the settings ask for what cannot be.
        ArchiveUnusable: the archive cannot be opened.
        ListenError: an address cannot be bound.
    """
    async with AsyncExitStack() as opened:
        parts = _composed(settings, opened)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            for transport in parts.transports.values():
                opened.push_async_callback(transport.stop)
                await transport.start()
            async with anyio.create_task_group() as following:
                following.start_soon(parts.upkeep.run)
                for projection in parts.projections.values():
                    following.start_soon(projection.run)
                await _serve_until(signals, parts)
                following.cancel_scope.cancel()
    _log.info("stopped")


async def _serve_until(signals: AsyncIterator[signal.Signals], parts: _Parts) -> None:
    async with anyio.create_task_group() as serving:
        serving.start_soon(parts.acceptor.run)
        if parts.http is not None:
            serving.start_soon(parts.http.run)
        _log.info("serving", extra={"parts": sorted(parts.health())})
        number = await signals.__anext__()
        _log.info("stopping", extra={"signal": number.name})
        if not await _stopped(parts):
            serving.cancel_scope.cancel()


def _composed(settings: Settings, opened: AsyncExitStack) -> _Parts:
    """Every part that the settings ask for; what has to be closed is left to ``opened``."""
    counters = Counters()
    holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    keep = _keep(settings.archive)
    archive = Archive.of(settings.archive)
    opened.callback(archive.close)
    counters.archive_rows.set(sum(archive.counts_by_kind().values()))
    acceptor = Acceptor(archive, counters)
    opened.callback(acceptor.close)
    transports: dict[str, Transport] = {}
    for name, make_transport in TRANSPORTS.items():
        if (transport := make_transport(settings, acceptor, counters)) is not None:
            transports[name] = transport
    projections: dict[str, Projection] = {}
    for name, make_projection in PROJECTIONS.items():
        if (projection := make_projection(settings, archive, holder)) is not None:
            opened.callback(projection.close)
            projections[name] = projection
    upkeep = Upkeep(archive, acceptor, holder, keep)
    parts = _Parts(archive, acceptor, upkeep, transports, projections)
    parts.http = _http(settings, parts, counters)
    if parts.http is not None:
        opened.callback(parts.http.close)
    return parts


def _keep(settings: ArchiveSettings) -> Keep:
    """How long what stays.

    Raises:
        SettingsError: one of them is no duration.
    """

    def ns(key: str) -> int:
        try:
            return round(seconds(getattr(settings, key)) * 1e9)
        except ValueError as error:
            raise SettingsError(f"archive.{key}: {error}") from error

    return Keep(ns("keep_telemetry"), ns("keep_heartbeats"), ns("wait_for_clock"))


def _http(settings: Settings, parts: _Parts, counters: Counters) -> HttpServer | None:
    if settings.http is None:
        return None
    from .gauges import DeviceGauges, ProjectionGauges  # noqa: PLC0415 -- as what follows
    from .projection.replay import FOLLOWED  # noqa: PLC0415
    from .web.app import application  # noqa: PLC0415 -- not needed where nobody listens
    from .web.sensors import SensorStates  # noqa: PLC0415
    from .web.server import HttpServer  # noqa: PLC0415

    archive = parts.archive
    counters.registry.register(SensorStates(archive))
    counters.registry.register(DeviceGauges(archive.heartbeats, archive.missing))
    statuses = {name: partial(_status, one) for name, one in parts.projections.items()}

    def backlog(name: str, row_id: int) -> Backlog:
        return archive.backlog(FOLLOWED[name], row_id)

    counters.registry.register(ProjectionGauges(statuses, backlog))
    app = application(parts.archive, parts.health, counters.registry)
    return HttpServer(app, settings.http)


async def _stopped(parts: _Parts) -> bool:
    """Stop transports, so that nothing new comes; answer what came; then stop HTTP.

    Returns:
        Whether everything that came was answered in time.
    """
    async with anyio.create_task_group() as tasks:
        for transport in parts.transports.values():
            tasks.start_soon(transport.stop)
    with anyio.move_on_after(_DRAIN_WITHIN_S) as drain:
        await parts.acceptor.drain()
    if drain.cancelled_caught:
        _log.warning("stopped before the archive had taken everything; it will be sent again")
    if parts.http is not None:
        parts.http.stop()
    return not drain.cancelled_caught


def _status(projection: Projection) -> Status:
    return projection.status


class _Followed:
    """A follower with its writer, as a projection."""

    def __init__(self, follower: Follower, writer: InfluxWriter, lease: Lease) -> None:
        self._follower = follower
        self._writer = writer
        self._lease = lease
        self.run = follower.run

    @property
    def status(self) -> Status:
        """Where it stands."""
        return self._follower.status

    def close(self) -> None:
        """Let another collector go on at once."""
        with suppress(ArchiveUnavailable):
            self._lease.release()
        self._writer.close()

    def health(self) -> str | None:
        """The alarm that a person has to act on, or the state of a server that does not answer."""
        status = self._follower.status
        if status.alarm or status.state.value != "ok":
            return f"{status.alarm or status.state.value}: {status.last_error}"
        return None
