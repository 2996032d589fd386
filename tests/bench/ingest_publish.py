"""A site's devices as one MQTT client: telemetry envelopes of our own, made before the clock runs.

PORT FIRST ENVELOPES READINGS WINDOW RATE [--unacked]. Numbers them from FIRST, keeps WINDOW of them
on their way, at most RATE a second (0: as fast as the window lets it), and prints as JSON when it
began and ended (monotonic seconds) and how long each waited for the collector's ack. ``--unacked``:
for a subscriber that sends no acks, the broker's PUBACK has to do.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

sys.path.insert(0, str(Path(__file__).parents[1]))

from ratios import quantile

import wire
from edgesweep import topics
from edgesweep.envelope import AckStatus, decode_ack
from edgesweep.records import Kind, SensorValue, Telemetry

DEVICES = 8
UNITS = ("W", "C", "percent", "MHz", "B")
WITHIN_S = 300.0
# Each has a millisecond of its own, in the past.
BEGUN_NS = time.time_ns() - 3600 * 10**9
STEP_NS = 1_000_000


def envelopes(first: int, count: int, readings: int) -> list[tuple[str, tuple[str, int], bytes]]:
    """(topic, (device, seq), bytes) of each, spread over the devices."""
    rng = random.Random(first)
    made = []
    for n in range(first, first + count):
        device = f"bench-{n % DEVICES}"
        values = tuple(
            SensorValue(f"sensor_{i:03d}", UNITS[i % len(UNITS)], round(rng.uniform(0, 100), 3))
            for i in range(readings)
        )
        seq = n // DEVICES + 1
        raw = wire.raw(Telemetry(values), seq, device_id=device, wall_ns=BEGUN_NS + n * STEP_NS)
        made.append((topics.up(device, Kind.TELEMETRY), (device, seq), raw))
    return made


class Publisher:
    """Publishes what was made, and times what is acknowledged."""

    def __init__(self, port: int, window: int, *, acked: bool) -> None:
        self._acked = acked
        self._room = threading.Semaphore(window)
        self._sent: dict[object, float] = {}
        self._up = threading.Event()
        self._done = threading.Event()
        self._left = 0
        self._refused = ""
        self.waits_s: list[float] = []
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id="bench", protocol=paho.MQTTv5
        )
        self._client.max_inflight_messages_set(max(20, window))
        self._client.on_connect = self._connected
        self._client.on_message = self._message
        self._client.on_publish = self._published
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        if not self._up.wait(10):
            raise SystemExit("the broker does not answer")

    def run(self, made: list[tuple[str, tuple[str, int], bytes]], rate: float) -> tuple[float, ...]:
        """Publish all; when the first left, and when the last was acknowledged."""
        self._left = len(made)
        begun_s = time.monotonic()
        for n, (topic, key, raw) in enumerate(made):
            self._room.acquire()
            if rate and (early := begun_s + n / rate - time.monotonic()) > 0:
                time.sleep(early)
            if self._acked:
                self._sent[key] = time.monotonic()
                self._client.publish(topic, raw, qos=1)
            else:
                self._sent[self._client.publish(topic, raw, qos=1).mid] = time.monotonic()
        if not self._done.wait(WITHIN_S):
            raise SystemExit(f"{self._left} of {len(made)} were not acknowledged in {WITHIN_S} s")
        if self._refused:
            raise SystemExit(f"not stored: {self._refused}")
        return begun_s, time.monotonic()

    def _connected(self, client, _data, _flags, _reason, _properties) -> None:
        if self._acked:
            client.subscribe("edgesweep/v1/+/down/ack")
        self._up.set()

    def _message(self, _client, _data, message: paho.MQTTMessage) -> None:
        now_s, ack = time.monotonic(), decode_ack(message.payload)
        if ack.status not in {AckStatus.STORED, AckStatus.DUPLICATE}:
            self._refused = str(ack)
            self._done.set()
        for first, last in ack.ranges:
            for seq in range(first, last + 1):
                self._settle((ack.device_id, seq), now_s)

    def _published(self, _client, _data, mid: int, _reason, _properties) -> None:
        if not self._acked:
            self._settle(mid, time.monotonic())

    def _settle(self, key: object, now_s: float) -> None:
        sent_s = self._sent.pop(key, now_s)
        self.waits_s.append(now_s - sent_s)
        self._left -= 1
        self._room.release()
        if self._left == 0:
            self._done.set()


def main() -> None:
    port, first, count, readings, window, rate = (float(one) for one in sys.argv[1:7])
    made = envelopes(int(first), int(count), int(readings))
    publisher = Publisher(int(port), int(window), acked="--unacked" not in sys.argv)
    begun_s, ended_s = publisher.run(made, rate)
    facts = {"begun_s": begun_s, "ended_s": ended_s}
    facts |= {f"p{p}_s": quantile(publisher.waits_s, p / 100) for p in (50, 99)}
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
