"""What the daemon tells of its sensors: in heartbeats, and in telemetry of its own."""

from __future__ import annotations

import random
import threading
from contextlib import asynccontextmanager

import anyio
import pytest

from edgesweep import codec, envelope
from edgesweep.records import Birth, Heartbeat, Kind, SensorValue, Telemetry
from edgesweep_agent import settings
from edgesweep_agent.daemon import Daemon, Outbox, told
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.sensors.base import Reading, State
from edgesweep_agent.spool import Spool

pytestmark = pytest.mark.anyio
CONFIG = """
telemetry_s = {telemetry_s}
heartbeat_s = 0.1
[device]
id = "sensing-1"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
kind = "grpc"
address = "127.0.0.1:9"
"""


class Rails:
    name = "power_rails"
    fast = True

    def read(self):
        return [Reading("power_vdd_in", "W", value=-0.5, boundary="input")]


class Rapl:
    name = "rapl"
    fast = True

    def read(self):
        return [Reading("energy_package_0", "J", State.FAILED, reason="only root may read it")]


class Broken:
    name = "thermal"
    fast = False

    def read(self):
        raise TypeError("can't concat NoneType to bytes")


class Missing:
    name = "amdgpu"
    fast = False

    def read(self):
        return [Reading("gpu_load", "percent", State.ABSENT, reason="no such GPU")]


@asynccontextmanager
async def daemon(tmp_path, find_sensors, *, telemetry_s=0.1):
    """A daemon in this process; gives what its spool holds by kind, newest last."""
    config = tmp_path / "agent.toml"
    config.write_text(CONFIG.format(telemetry_s=telemetry_s))
    spool = Spool.open(tmp_path / "spool.db", new_epoch=lambda: random.getrandbits(63))
    outbox = Outbox(spool)
    found = Daemon(settings.load_settings(config), config, outbox, find_sensors=find_sensors)
    listener = await found.listen()

    async def records(kind):
        parcels = await outbox.run(spool.head, 1000)
        envelopes = [envelope.decode(parcel.data) for parcel in parcels]
        return [codec.decode(one.kind, one.payload) for one in envelopes if one.kind is kind]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(found.run, listener)
        yield records
        tasks.cancel_scope.cancel()
    spool.close()


async def until(condition):
    with anyio.fail_after(10):
        while not (found := await condition()):
            await anyio.sleep(0.02)
    return found


async def test_telemetry_and_heartbeats_say_what_the_sensors_say(tmp_path):
    sensors = [Rails(), Rapl(), Broken(), Missing()]
    async with daemon(tmp_path, lambda: sensors) as records:
        first = (await until(lambda: records(Kind.TELEMETRY)))[0]

        async def heard():
            return [beat for beat in await records(Kind.HEARTBEAT) if beat.sensor_up]

        (beat,) = await until(heard)
    up = {"power_rails": True, "rapl": False, "thermal": False}
    assert isinstance(beat, Heartbeat)
    assert beat.sensor_up == up
    values = {one.name: one for one in first.readings}
    assert values["power_vdd_in"] == SensorValue("power_vdd_in", "W", -0.5)
    assert values["energy_package_0"] == SensorValue(
        "energy_package_0", "J", None, "only root may read it"
    )
    assert values["thermal"].value is None
    assert "can't concat" in values["thermal"].reason
    assert "gpu_load" not in values
    assert {name: values[f"sensor_up_{name}"].value for name in up} == {
        "power_rails": 1.0,
        "rapl": 0.0,
        "thermal": 0.0,
    }


@pytest.mark.parametrize(
    ("sensors", "telemetry_s"), [([], 0.1), ([Missing()], 0.1), ([Rails()], 0)]
)
async def test_without_sensors_or_without_telemetry_there_are_heartbeats_alone(
    tmp_path, sensors, telemetry_s
):
    async with daemon(tmp_path, lambda: sensors, telemetry_s=telemetry_s) as records:
        await anyio.sleep(0.2)
        (beat,) = await until(lambda: records(Kind.HEARTBEAT))
        assert await records(Kind.TELEMETRY) == []
    assert beat.sensor_up == ({"power_rails": True} if telemetry_s == 0 else {})


async def test_a_driver_that_hangs_at_its_start_keeps_nobody_waiting(tmp_path):
    release = threading.Event()
    with anyio.fail_after(5):
        async with daemon(tmp_path, lambda: release.wait(10) and []) as records:
            assert await until(lambda: records(Kind.HEARTBEAT))
    release.set()


async def test_a_driver_that_fails_at_its_start_does_not_end_the_daemon(tmp_path):
    def find():
        raise OSError("libnvidia-ml.so.1: file too short")

    async with daemon(tmp_path, find) as records:
        assert await until(lambda: records(Kind.HEARTBEAT))


async def test_what_is_told_leaves_out_hardware_that_is_not_there():
    assert told([Reading("x", "W", State.ABSENT, reason="none")], {}) == Telemetry(())
    assert told([Reading("x", "W", value=0.0)], {}).readings == (SensorValue("x", "W", 0.0),)


@pytest.mark.parametrize("wrong", ["-1", '"often"'])
async def test_telemetry_s_is_a_number_of_seconds(tmp_path, wrong):
    config = tmp_path / "agent.toml"
    config.write_text(CONFIG.format(telemetry_s=wrong))
    with pytest.raises(SettingsError, match="telemetry_s"):
        settings.load_settings(config)


async def test_the_birth_is_still_the_first_record(tmp_path):
    async with daemon(tmp_path, lambda: [Rails()]) as records:
        (birth,) = await until(lambda: records(Kind.BIRTH))
    assert isinstance(birth, Birth)
