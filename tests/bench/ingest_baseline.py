"""A bridge from MQTT to InfluxDB as people write it: paho, influxdb-client, a callback that writes.

PORT URL BUCKET STYLE. The callback takes a message apart, makes points of it and writes them
synchronously. STYLE is ``each``: a point and a write for each reading, as where a message has one
(vwout/mqtt-to-influxdb-forwarder); ``points``: a point for each, one write for a message
(mzakharo/featherCO2); ``wide``: one point with a field for each, the least that can be done.
"""

from __future__ import annotations

import sys

import paho.mqtt.client as paho
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from paho.mqtt.enums import CallbackAPIVersion

from edgesweep.v1 import records_pb2
from edgesweep.v1 import transport_pb2 as pb

PORT, URL, BUCKET, STYLE = sys.argv[1:]
writer = InfluxDBClient(url=URL, token="", org="o").write_api(write_options=SYNCHRONOUS)


def on_connect(client, userdata, flags, reason_code, properties):
    client.subscribe("edgesweep/v1/+/up/telemetry", qos=1)


def on_message(client, userdata, message):
    envelope = pb.Envelope.FromString(message.payload)
    telemetry = records_pb2.Telemetry.FromString(envelope.payload)
    if STYLE == "wide":
        point = Point("bridged").tag("device", envelope.device_id)
        for reading in telemetry.readings:
            point = point.field(f"{reading.name}_{reading.unit}", reading.value)
        points = point.time(envelope.wall_ns, WritePrecision.NS)
    else:
        points = [
            Point("bridged")
            .tag("device", envelope.device_id)
            .tag("sensor", reading.name)
            .tag("unit", reading.unit)
            .field("value", reading.value)
            .time(envelope.wall_ns, WritePrecision.NS)
            for reading in telemetry.readings
        ]
    for record in points if STYLE == "each" else [points]:
        writer.write(bucket=BUCKET, record=record)


client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bridge", protocol=paho.MQTTv5)
client.on_connect = on_connect
client.on_message = on_message
client.connect("127.0.0.1", int(PORT))
client.loop_forever()
