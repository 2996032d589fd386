"""Collectors that share the work at one broker: each message once between them, none lost."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import httpx
import paho.mqtt.client as paho
import pytest

import wire
from edgesweep import topics
from edgesweep.envelope import decode_ack
from edgesweep.records import Kind
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.ingest.broker import broker
from edgesweep_collector.settings import MqttSettings
from mosquitto import free_port, needs_mosquitto, running_mosquitto

_MAIN = "from edgesweep_collector.cli import main; main()"
_ENV = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
N_DEVICES, N_LEVELS = 3, 200


def settings(**changes):
    return MqttSettings(host="broker", **changes)


def test_a_share_is_subscribed_to_under_an_id_of_ones_own():
    alone, shared = broker(settings()), broker(settings(share="collectors"))
    assert (alone.client_id, alone.subscription) == ("edgesweep-collector", "edgesweep/v1/+/up/+")
    assert shared.subscription == "$share/collectors/edgesweep/v1/+/up/+"
    own = f"edgesweep-collector-{socket.gethostname()}-{os.getpid()}"
    assert shared.client_id == own
    assert broker(settings(share="collectors", client_id="two")).client_id == "two"


@pytest.mark.parametrize("share", ["", "a/b", "+", "a#"])
def test_a_share_that_is_no_level_of_a_topic_is_refused(share):
    with pytest.raises(SettingsError, match=r"^mqtt\.share: "):
        broker(settings(share=share))


class Collector:
    """A collector as a process, with an archive of its own."""

    def __init__(self, folder, name, port):
        self.path, self.http = folder / f"{name}.db", free_port()
        self.config, self.log = folder / f"{name}.toml", folder / f"{name}.log"
        self.config.write_text(
            f'[archive]\nurl = "sqlite:///{self.path}"\n[http]\nlisten = "127.0.0.1:{self.http}"\n'
            f'[mqtt]\nhost = "127.0.0.1"\nport = {port}\nshare = "collectors"\n'
        )
        with self.log.open("ab") as log:
            arguments = ["serve", "--config", str(self.config)]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, *arguments], env=_ENV, stderr=log, stdout=log
            )

    def is_well(self):
        try:
            return httpx.get(f"http://127.0.0.1:{self.http}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def keys(self):
        db = sqlite3.connect(self.path)
        try:
            return set(db.execute("SELECT device_id, seq FROM envelopes"))
        finally:
            db.close()

    def end(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(10)


class Device:
    """A device that keeps what is not acked, and sends it again."""

    def __init__(self, name, port):
        self.name = name
        self.waiting = {
            seq: wire.raw(wire.level(seq), seq, device_id=name) for seq in range(1, N_LEVELS + 1)
        }
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.on_message = lambda _c, _u, message: self.hear(decode_ack(message.payload))
        self.client.on_connect = lambda *_: self.client.subscribe(topics.ack(name), qos=1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def hear(self, ack):
        for first, last in ack.ranges:
            for seq in range(first, last + 1):
                self.waiting.pop(seq, None)

    def send(self):
        for raw in list(self.waiting.values()):
            self.client.publish(topics.up(self.name, Kind.LEVEL), raw, qos=1)


def wait(condition, within_s=20):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_mosquitto
def test_one_of_two_is_killed_and_nothing_is_lost(tmp_path):
    with running_mosquitto(tmp_path) as mosquitto:
        two = [Collector(tmp_path, name, mosquitto.port) for name in ("one", "two")]
        try:
            for collector in two:
                wait(collector.is_well)
            devices = [Device(f"n97-{n}", mosquitto.port) for n in range(N_DEVICES)]
            for device in devices:
                device.send()
            wait(lambda: all(len(collector.keys()) > 20 for collector in two))
            two[0].end(signal.SIGKILL)
            # What was on its way to the one that died went with it: the device alone has it.
            deadline = time.monotonic() + 20
            while any(device.waiting for device in devices):
                assert time.monotonic() < deadline, [len(device.waiting) for device in devices]
                time.sleep(0.5)
                for device in devices:
                    device.send()
            for device in devices:
                device.client.disconnect()
                device.client.loop_stop()
        finally:
            for collector in two:
                collector.end(signal.SIGTERM)
    one, other = (collector.keys() for collector in two)
    everything = {(f"n97-{n}", seq) for n in range(N_DEVICES) for seq in range(1, N_LEVELS + 1)}
    assert one | other == everything
    assert min(len(one), len(other)) > 20
