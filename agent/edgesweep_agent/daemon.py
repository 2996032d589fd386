"""The composition root: builds the parts from the settings and keeps them running.

The daemon owns the spool. A sweep is a process of its own that hands its results over the
control socket like any other caller, so that measuring and delivering never share a loop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from edgesweep import codec
from edgesweep.delivery import Delivery, Policy
from edgesweep.records import Birth, Event, Heartbeat, SensorValue, Telemetry

from . import control, device
from .core.room import Limits
from .desk import Desk
from .errors import SettingsError, SpoolError
from .sealing import Sealer
from .sensors.base import State
from .sensors.registry import PROGRAMS, all_sensors
from .sensors.sampler import Pace, Sampler
from .spool import Spool
from .spool.outbox import Outbox
from .turn import PARENT
from .uplink.drain import Drain
from .uplink.presence import Presence
from .uplink.registry import UPLINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import SocketListener

    from edgesweep.delivery import Key
    from edgesweep.records import Kind, Record

    from .sensors.base import Reading, Sensor
    from .settings import PlanSettings, Settings
    from .spool import SpoolStatus
    from .spool.store import Seal

_log = logging.getLogger(__name__)

VERSION = version("edgesweep")
SENSE_S = 5.0
"""How old the daemon's readings get; a sweep reads its own, more often."""
CLOCK_S = 5.0
"""How often the wall clock is looked at: so long at most, it has been right and nobody knew."""
STOP_CHILD_S = 15.0
"""How long a sweep may take to stop its engine and hand over what it has."""


class Daemon:
    """One device's agent: answers on the control socket, delivers, runs the plans it is given.

    Args:
        settings: What the configuration says.
        config: The file that says it.
        outbox: The spool.
        find_sensors: Gives what this box has; called in a thread, since drivers take their time.
    """

    def __init__(
        self,
        settings: Settings,
        config: Path,
        outbox: Outbox,
        *,
        find_sensors: Callable[[], Sequence[Sensor]],
    ) -> None:
        self._find_sensors = find_sensors
        self._sampler = Sampler(())
        self._settings = settings
        self._config = config
        self._outbox = outbox
        self._sealer = Sealer(settings.device.id, VERSION, boot_id=device.boot_id())
        self._started_s = time.monotonic()
        self._connection = 0
        make = UPLINKS[settings.uplink.kind]
        uplink = make(settings.uplink, settings.device.id, self._presence)
        policy = Policy(**msgspec.to_builtins(settings.delivery))
        delivery = Delivery(random.random, policy)
        self._drain = Drain(outbox, uplink, delivery, time.monotonic, self._record)

    async def listen(self) -> SocketListener:
        """Make the control socket.

        Raises:
            SettingsError: it cannot be made where the settings say.
        """
        return await control.listen(self._settings.control.socket)

    async def run(self, listener: SocketListener) -> None:
        """Run until cancelled."""
        await self._announce()
        async with anyio.create_task_group() as tasks:
            desk = Desk(self._outbox, self._take, self._report)
            tasks.start_soon(control.serve, listener, self._settings.control.socket, desk)
            tasks.start_soon(self._outbox.keep, self._sealed)
            tasks.start_soon(self._drain.run)
            tasks.start_soon(self._watch_clock)
            tasks.start_soon(self._heartbeats)
            tasks.start_soon(self._sense)
            tasks.start_soon(self._plans)

    async def _record(self, record: Record) -> None:
        """Spool a record of our own; a full disk must not end the daemon, which may empty it."""
        try:
            await self._take(*codec.encode(record))
        except SpoolError as error:
            _log.error("not spooled: %s", error, extra={"record": type(record).__name__})

    async def _take(self, kind: Kind, payload: bytes) -> Key:
        key = await self._outbox.put(kind, self._sealer.seal(kind, payload))
        self._drain.wake()
        return key

    async def _take_soon(self, record: Record) -> None:
        """Spool what is only of use with others like it: it shares a commit with them."""
        kind, payload = codec.encode(record)
        await self._outbox.later(kind, self._sealer.seal(kind, payload))

    def _sealed(self, event: Event) -> Seal:
        return self._sealer.seal(*codec.encode(event))

    async def _announce(self) -> None:
        about = device.describe(self._settings.device.id, self._settings.device.labels)
        try:
            connection = await self._outbox.run(self._outbox.spool.next_connection)
        except SpoolError as error:
            _log.error("the spool does not take anything: %s", error)
            return
        self._connection = connection
        await self._record(Birth(about, time.time_ns(), connection))

    async def _presence(self) -> Presence:
        """Who connects next."""
        spool = self._outbox.spool
        try:
            self._connection = await self._outbox.run(spool.next_connection)
        except SpoolError:
            self._connection += 1
        return Presence(self._connection, f"{spool.epoch:016x}", self._sealer.boot_id, VERSION)

    async def _watch_clock(self) -> None:
        while True:
            if (event := self._sealer.watch_clock()) is not None:
                _log.info(event.message)
                await self._record(event)
            if (wall_ns := self._sealer.trusted_wall_ns()) is not None:
                await self._outbox.run(self._outbox.spool.note_wall_ns, wall_ns)
            await anyio.sleep(CLOCK_S)

    async def _heartbeats(self) -> None:
        while True:
            await anyio.sleep(self._settings.heartbeat_s)
            status = await self._outbox.run(self._outbox.spool.status)
            await self._take_soon(
                Heartbeat(
                    uptime_s=time.monotonic() - self._started_s,
                    spool_rows=status.rows,
                    spool_bytes=status.bytes,
                    dropped=status.dropped,
                    sensor_up=self._sampler.up(),
                    troubles=self._troubles(status),
                )
            )

    def _troubles(self, status: SpoolStatus) -> dict[str, str]:
        """By part, what is wrong with it now."""
        found = {
            "uplink": self._drain.told,
            "spool": status.trouble,
            "clock": self._sealer.trouble(),
        }
        return {part: text for part, text in found.items() if text}

    async def _sense(self) -> None:
        # A driver that hangs at its start keeps neither heartbeats nor a stop waiting.
        sensors = await anyio.to_thread.run_sync(self._found, abandon_on_cancel=True)
        with Sampler(sensors, pace=Pace(all_s=SENSE_S, keep_s=0)) as self._sampler:
            while self._settings.telemetry_s:
                await anyio.sleep(self._settings.telemetry_s)
                telemetry = told(self._sampler.latest(), self._sampler.up())
                if telemetry.readings:
                    await self._take_soon(telemetry)
            await anyio.sleep_forever()

    def _found(self) -> Sequence[Sensor]:
        try:
            return self._find_sensors()
        except Exception:  # noqa: BLE001 - results are delivered whatever a driver does
            _log.exception("no sensors: looking for them failed")
            return ()

    async def _report(self) -> control.Report:
        status = await self._outbox.run(self._outbox.spool.status)
        return control.Report(
            device_id=self._settings.device.id,
            agent_version=VERSION,
            epoch=f"{status.epoch:016x}",
            made=status.next_seq - 1,
            rows=status.rows,
            bytes=status.bytes,
            rejected=status.rejected,
            rows_by_kind=status.rows_by_kind,
            delivered_bytes=status.delivered_bytes,
            dropped=dict(status.dropped),
            refused=status.refused,
            uplink=self._drain.uplink.name,
            uplink_state=self._drain.state,
            uplink_detail=self._drain.detail,
            troubles=self._troubles(status),
        )

    async def _plans(self) -> None:
        for name, plan in self._settings.plans.items():
            if plan.run == "once":
                await self._run_once(name, plan)

    async def _run_once(self, name: str, plan: PlanSettings) -> None:
        spool = self._outbox.spool
        if await self._outbox.run(spool.is_finished, name):
            return
        text = f"plan {name} starts"
        await self._record(Event("plan_started", text, {"plan": name, "file": plan.file.name}))
        code = await _sweep(plan.file, self._config)
        _log.log(
            logging.ERROR if code else logging.INFO, "plan %s ended with exit code %d", name, code
        )
        text = f"plan {name} ended with exit code {code}"
        await self._record(Event("plan_ended", text, {"plan": name, "exit_code": str(code)}))
        # An interrupted plan runs again at the next start; one that failed would fail again.
        if code not in {130, 143}:
            with contextlib.suppress(SpoolError):
                await self._outbox.run(spool.finish, name)


def told(latest: Sequence[Reading], up: Mapping[str, bool]) -> Telemetry:
    """What goes into a telemetry record: values, failures with their reason, who is up.

    Hardware that is not there is left out. ``sensor_up_<name>`` is 1 or 0, so that a database
    has it beside the readings.
    """
    readings = (
        SensorValue(one.name, one.unit, one.value, one.reason)
        for one in latest
        if one.state is not State.ABSENT
    )
    states = (SensorValue(f"sensor_up_{name}", "1", float(on)) for name, on in up.items())
    return Telemetry((*readings, *states))


async def _sweep(plan: Path, config: Path) -> int:
    """Run a plan as a process of its own; on cancellation it is told to stop, and waited for."""
    command = [sys.executable, "-m", "edgesweep_agent.cli", "sweep"]
    options = ["--plan", str(plan), "--resume", "--submit", "--config", str(config)]
    # Its table is for terminals; what it has to say comes by standard error.
    process = await anyio.open_process(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None,
        env=os.environ | {PARENT: str(os.getpid())},
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(STOP_CHILD_S, shield=True):
                await process.wait()
            if process.returncode is None:
                process.kill()


def serve(settings: Settings, config: Path) -> int:
    """Run the daemon until a signal; returns the exit code.

    Raises:
        SpoolError: another agent has the spool open.
        SettingsError: the spool or the socket cannot be where the settings say, or a size is none.
    """
    spool = Spool.open(
        settings.spool.path,
        new_epoch=lambda: random.getrandbits(63),
        limits=_limits(settings, config),
    )
    find = partial(_sensors, settings.spool.path.parent)
    try:
        return anyio.run(_until_signal, Daemon(settings, config, Outbox(spool), find_sensors=find))
    finally:
        spool.close()


def _limits(settings: Settings, config: Path) -> Limits:
    wanted = settings.spool
    try:
        return Limits.parsed(
            max_size=wanted.max_size,
            min_free=wanted.min_free,
            keep_delivered=wanted.keep_delivered,
        )
    except ValueError as error:
        raise SettingsError(f"{config}: {error}") from error


def _sensors(folder: Path) -> list[Sensor]:
    # A daemon that is idle starts no program for each reading: jtop's service runs several
    # (rbonghi/jetson_stats#721), and the files say nearly all that it does.
    return all_sensors(folder=folder, without=PROGRAMS)


async def _until_signal(daemon: Daemon) -> int:
    listener = await daemon.listen()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.run, listener)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                break
        tasks.cancel_scope.cancel()
    return 0
