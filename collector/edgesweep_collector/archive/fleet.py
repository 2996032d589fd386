"""The devices and boots that a group of envelopes is about: read once, written once.

What is in between is kept here, so that a group costs the same few statements however many
envelopes it has. A record that was archived late never replaces one that was made later.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgesweep_collector.core.clock import BootClock, is_set
from edgesweep_collector.core.machines import Life, are_two

from .statements import many

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from edgesweep.envelope import Envelope

    from .rows import Received

# Two machines that were seen to share an id are told of again after a day.
_TELL_AGAIN_NS = 24 * 3600 * 10**9
_BOOT_ID_CHARS = 64
_MOST_CONNECTIONS = 2**63 - 1

_DEVICES = """SELECT d.device_id, d.first_seen_ns, d.last_seen_ns, d.boot_id, d.conflict_ns,
        d.device_row_id, a.epoch, a.seq, d.heartbeat_row_id, b.epoch, b.seq,
        d.telemetry_row_id, c.epoch, c.seq
    FROM devices d
    LEFT JOIN envelopes a ON a.row_id = d.device_row_id
    LEFT JOIN envelopes b ON b.row_id = d.heartbeat_row_id
    LEFT JOIN envelopes c ON c.row_id = d.telemetry_row_id
    WHERE d.device_id IN ({rows})"""
_KEEP_DEVICES = """INSERT INTO devices (device_id, first_seen_ns, last_seen_ns, boot_id,
        conflict_ns, device_row_id, heartbeat_row_id, telemetry_row_id)
    {rows}
    ON CONFLICT (device_id) DO UPDATE SET first_seen_ns = excluded.first_seen_ns,
        last_seen_ns = excluded.last_seen_ns, boot_id = excluded.boot_id,
        conflict_ns = excluded.conflict_ns, device_row_id = excluded.device_row_id,
        heartbeat_row_id = excluded.heartbeat_row_id,
        telemetry_row_id = excluded.telemetry_row_id"""
_BOOTS = """SELECT device_id, boot_id, epoch, top_seq, heard_ns, bound_ns, offset_ns, synced,
        began_ns, ended_ns, connection, came_back
    FROM boots WHERE (device_id, boot_id) IN ({rows})"""
_KEEP_BOOTS = """INSERT INTO boots (device_id, boot_id, epoch, top_seq, heard_ns, bound_ns,
        offset_ns, synced, began_ns, ended_ns, connection, came_back)
    {rows}
    ON CONFLICT (device_id, boot_id) DO UPDATE SET epoch = excluded.epoch,
        top_seq = excluded.top_seq, bound_ns = excluded.bound_ns,
        offset_ns = excluded.offset_ns, synced = excluded.synced, began_ns = excluded.began_ns,
        ended_ns = excluded.ended_ns, connection = excluded.connection,
        came_back = excluded.came_back"""

BootKey = tuple[str, str]
"""(device id, boot id)."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """An envelope that a device's row points at, and its place among the device's own."""

    row_id: int
    epoch: int
    seq: int


@dataclass(slots=True)
class DeviceState:
    """One device: a row of ``devices``."""

    device_id: str
    first_seen_ns: int
    last_seen_ns: int
    boot_id: str | None = None
    conflict_ns: int | None = None
    described: Pointer | None = None
    heartbeat: Pointer | None = None
    telemetry: Pointer | None = None


@dataclass(slots=True)
class BootState:
    """One boot of a device: a row of ``boots``."""

    epoch: int
    top_seq: int
    heard_ns: int
    clock: BootClock = field(default_factory=BootClock)
    life: Life = field(default_factory=Life)


class Fleet:
    """What is known of the devices and boots of a group of envelopes."""

    def __init__(self, devices: Iterable[DeviceState], boots: dict[BootKey, BootState]) -> None:
        self._devices = {state.device_id: state for state in devices}
        self._boots = boots
        self.shared: list[str] = []

    @classmethod
    def load(cls, connection: Connection, group: Iterable[Received]) -> Fleet:
        """Read what the archive knows of all that a group is about."""
        keys = {boot_key(one.envelope) for one in group}
        asked = [(device_id,) for device_id in {key[0] for key in keys}]
        devices = [_device_of(*row) for row in many(connection, _DEVICES, "t", asked)]
        keys |= {(one.device_id, one.boot_id) for one in devices if one.boot_id is not None}
        boots = dict(_boot_of(*row) for row in many(connection, _BOOTS, "tt", sorted(keys)))
        return cls(devices, boots)

    def clock(self, envelope: Envelope) -> BootClock:
        """What is known of the clocks of an envelope's boot."""
        boot = self._boots.get(boot_key(envelope))
        return boot.clock if boot is not None else BootClock()

    def device(self, received: Received) -> DeviceState:
        """The state of the device of an envelope, which was heard by it."""
        device_id, now_ns = received.envelope.device_id, received.received_ns
        state = self._devices.get(device_id)
        if state is None:
            state = self._devices[device_id] = DeviceState(device_id, now_ns, now_ns)
        state.first_seen_ns = min(state.first_seen_ns, now_ns)
        state.last_seen_ns = max(state.last_seen_ns, now_ns)
        return state

    def heard(self, received: Received) -> None:
        """Take note of an envelope by its times and its place alone."""
        boot = self._boot(received)
        envelope = received.envelope
        if envelope.epoch == boot.epoch:
            boot.top_seq = max(boot.top_seq, envelope.seq)
        else:
            boot.epoch, boot.top_seq = envelope.epoch, envelope.seq
        boot.clock = boot.clock.heard(envelope, received.received_ns)

    def clock_set(self, received: Received, offset_ns: int) -> None:
        """Take note of what a boot's wall clock was set to."""
        boot = self._boot(received)
        synced = is_set(received.envelope, received.received_ns)
        boot.clock = boot.clock.set_to(offset_ns, synced=synced)

    def lived(self, received: Received, connection: int | None = None) -> None:
        """Take note of a sign of life, of a birth with its connection counter.

        Two machines under one id are told by it.
        """
        envelope, boot, device = received.envelope, self._boot(received), self.device(received)
        key = boot_key(envelope)
        if is_set(envelope, received.received_ns):
            boot.life = boot.life.seen(envelope.wall_ns, envelope.mono_ns)
        before = device.boot_id
        if connection is not None and received.is_live:
            after_another = before is not None and before != key[1]
            counter = min(connection, _MOST_CONNECTIONS)
            boot.life = boot.life.born(counter, after_another=after_another)
            device.boot_id = key[1]
        other = self._boots.get((device.device_id, before or ""))
        if before not in {None, key[1]} and other is not None and are_two(boot.life, other.life):
            self._conflict(device, received.received_ns)

    def keep(self, connection: Connection) -> None:
        """Write it all."""
        many(
            connection,
            _KEEP_DEVICES,
            "tiitiiii",
            [_device_row(one) for one in self._devices.values()],
        )
        many(
            connection,
            _KEEP_BOOTS,
            "ttiiiiibiiib",
            [_boot_row(*item) for item in self._boots.items()],
        )

    def _boot(self, received: Received) -> BootState:
        key, envelope = boot_key(received.envelope), received.envelope
        boot = self._boots.get(key)
        if boot is None:
            boot = BootState(envelope.epoch, envelope.seq, received.received_ns)
            self._boots[key] = boot
        return boot

    def _conflict(self, device: DeviceState, now_ns: int) -> None:
        if device.conflict_ns is None or device.conflict_ns < now_ns - _TELL_AGAIN_NS:
            self.shared.append(device.device_id)
        device.conflict_ns = max(now_ns, device.conflict_ns or 0)


def boot_key(envelope: Envelope) -> BootKey:
    """The key of an envelope's boot; a boot id that is none of Linux's is a key of its own."""
    boot_id = envelope.boot_id
    if len(boot_id) > _BOOT_ID_CHARS or not boot_id.isprintable():
        boot_id = hashlib.sha256(boot_id.encode()).hexdigest()
    return envelope.device_id, boot_id


def point(held: Pointer | None, row_id: int, envelope: Envelope) -> Pointer:
    """A pointer at an envelope, unless the one that is held is at a later one of its spool."""
    if held is not None and held.epoch == envelope.epoch and held.seq > envelope.seq:
        return held
    return Pointer(row_id, envelope.epoch, envelope.seq)


def _pointer(row_id: int | None, epoch: int | None, seq: int | None) -> Pointer | None:
    if row_id is None or epoch is None or seq is None:
        return None
    return Pointer(row_id, epoch, seq)


def _device_of(
    device_id: str,
    first_ns: int,
    last_ns: int,
    boot_id: str | None,
    conflict_ns: int | None,
    *pointers: Any,
) -> DeviceState:
    described, heartbeat, telemetry = (_pointer(*pointers[n : n + 3]) for n in (0, 3, 6))
    return DeviceState(
        device_id, first_ns, last_ns, boot_id, conflict_ns, described, heartbeat, telemetry
    )


def _boot_of(
    device_id: str, boot_id: str, epoch: int, top_seq: int, heard_ns: int, *known: Any
) -> tuple[BootKey, BootState]:
    bound_ns, offset_ns, synced, began_ns, ended_ns, connection, came_back = known
    clock = BootClock(bound_ns, offset_ns, bool(synced))
    life = Life(began_ns, ended_ns, connection, bool(came_back))
    return (device_id, boot_id), BootState(epoch, top_seq, heard_ns, clock, life)


def _device_row(state: DeviceState) -> tuple[object, ...]:
    return (
        state.device_id,
        state.first_seen_ns,
        state.last_seen_ns,
        state.boot_id,
        state.conflict_ns,
        *(one and one.row_id for one in (state.described, state.heartbeat, state.telemetry)),
    )


def _boot_row(key: BootKey, boot: BootState) -> tuple[object, ...]:
    clock, life = boot.clock, boot.life
    return (
        *key,
        boot.epoch,
        boot.top_seq,
        boot.heard_ns,
        clock.bound_ns,
        clock.offset_ns,
        clock.synced,
        life.began_ns,
        life.ended_ns,
        life.connection,
        life.came_back,
    )
