"""The daemon as a process with its uplink: what it says of itself, and of what is wrong."""

from __future__ import annotations

import signal

import anyio
import pytest

from agent_daemon import CONFIG, daemon, until
from edgesweep import codec, envelope
from edgesweep.records import Kind
from edgesweep_agent import control
from mosquitto import needs_mosquitto
from uplinks import DEVICE, MqttPeer, free_port

pytestmark = needs_mosquitto
GRPC = 'kind = "grpc"\naddress = "127.0.0.1:9"'


def config(port: int, **delivery: float) -> str:
    lines = "\n".join(f"{name} = {value}" for name, value in delivery.items())
    text = CONFIG.replace(GRPC, f'kind = "mqtt"\nhost = "127.0.0.1"\nport = {port}')
    text = text.replace('id = "daemon-1"', f'id = "{DEVICE}"')
    return f"heartbeat_s = 0.3\ntelemetry_s = 0\n{text}[delivery]\n{lines}\n"


@pytest.fixture
def peer(tmp_path):
    (tmp_path / "broker").mkdir()
    peer = MqttPeer(tmp_path / "broker", free_port())
    peer._start()
    yield peer
    peer.leave()
    peer.broker.kill()


def report(tmp_path):
    return anyio.run(control.status, tmp_path / "agent.sock")


def heartbeats(peer):
    found = [envelope.decode(data) for data in peer.received]
    return [codec.decode(one.kind, one.payload) for one in found if one.kind is Kind.HEARTBEAT]


def test_state_troubles_and_heartbeats(tmp_path, peer):
    with daemon(tmp_path, config(peer.port, backoff_s=0.1, resend_s=0.5)) as process:
        until(lambda: peer.states and heartbeats(peer))
        birth = next(
            codec.decode(one.kind, one.payload)
            for one in map(envelope.decode, peer.received)
            if one.kind is Kind.BIRTH
        )
        assert (peer.states[0]["online"], peer.states[0]["epoch"]) == (True, report(tmp_path).epoch)
        assert peer.states[0]["connection"] > birth.connection
        # The collector goes: the operator sees it on the box.
        peer.leave()
        until(lambda: "uplink" in report(tmp_path).troubles)
        assert report(tmp_path).troubles["uplink"] == (
            "no_subscribers: no collector is subscribed at the broker"
        )
        before = len(peer.received)
        peer.join()
        until(lambda: "uplink" not in report(tmp_path).troubles)
        until(lambda: len(peer.received) > before and report(tmp_path).rows <= 1)
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    until(lambda: not peer.states[-1]["online"])
    assert peer.states[-1]["connection"] == peer.states[0]["connection"]


def test_settings_of_delivery_are_those_of_the_drain(tmp_path):
    """A back-off of an hour is waited for."""
    port = free_port()
    with daemon(tmp_path, config(port, backoff_s=3600, backoff_max_s=3600)):
        until(lambda: report(tmp_path).uplink_state == "down")
        (tmp_path / "broker").mkdir()
        peer = MqttPeer(tmp_path / "broker", port)
        peer._start()
        try:
            until(lambda: report(tmp_path).rows > 0)
            assert report(tmp_path).uplink_state == "down"
            assert report(tmp_path).troubles["uplink"].startswith("unreachable: broker 127.0.0.1")
            assert peer.streams == 0
        finally:
            peer.leave()
            peer.broker.kill()
