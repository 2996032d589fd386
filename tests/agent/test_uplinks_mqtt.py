"""The uplink over MQTT against a real mosquitto: the cases, and what is known of paho-mqtt 2.

| pitfall of paho, or of a broker | test |
|---|---|
| an exception in a callback ends the network thread, ``is_connected()`` stays true | ``test_a_callback_that_fails_is_logged_and_ends_nothing``, ``test_noise_on_the_ack_topic_is_passed_over``; whatever ends it all the same: MQT-06 |
| ``on_disconnect`` has five arguments in version 2 (paho#570, #659) | ``test_a_broker_that_restarts_is_connected_to_again`` |
| ``publish`` while offline is kept, and sent by the next connection | ``test_what_is_published_on_a_lost_connection_is_not_kept`` |
| ``max_inflight_messages`` is fixed once connected; a broker's Receive Maximum is not read | ``test_mqt_06_no_more_is_unacknowledged_than_the_broker_takes`` |
| its own reconnects hammer, or wait for 120 s; resends beyond the window (paho#492, PR#698) | each connection has a client of its own, ``reconnect_on_failure=False``: MQT-03, MQT-06 |
| ``wait_for_publish`` hangs (paho#875, #613, #549); ``is_published`` knows no reason code | not used: ``test_a_refused_publish_is_no_delivery`` |
| a lock of ours in ``on_publish`` and around ``publish`` is a deadlock (paho#354, #346) | callbacks only put on the loop: ``test_a_callback_does_no_more_than_tell_the_loop`` |
| message ids mean another message on the next connection | ``test_a_puback_of_another_message_is_passed_over`` |
| SUBACK and CONNACK can be a no | ``test_what_the_broker_refuses``, ``test_mqt_04_...`` |
| ``loop_stop`` waits for a dead line's keepalive | ``test_a_dead_line_is_left_in_a_second`` |
| a queue without bound in memory (paho#225, #601) | window, Receive Maximum and a client a connection: MQT-06 |
| PUBACK 0x10: nobody has got it; 0x87 is told to MQTT 5 alone | ``test_nobody_subscribes``, ``test_a_refused_publish_is_no_delivery`` |
| sessions that a restart forgets (clean_start) | none is kept: MQT-01 in ``tests/e2e`` |
| ``connect()`` raises if the broker is down, and blocks | ``test_nobody_there_is_down_with_a_reason``; in a thread |
"""  # noqa: E501

from __future__ import annotations

import json
import logging
import random
import subprocess
import threading
import time
from pathlib import Path

import anyio
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgesweep import topics
from edgesweep.delivery import Delivery, Parcel, Policy
from edgesweep.envelope import decode
from edgesweep.records import Event, Kind, SensorValue, Telemetry
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.spool.outbox import Outbox
from edgesweep_agent.uplink import mqtt_link, reasons
from edgesweep_agent.uplink.base import Passed, Trouble, UplinkDown
from edgesweep_agent.uplink.drain import Drain
from edgesweep_agent.uplink.publish import HEARTBEAT_EXPIRES_S
from lines import line_to
from mosquitto import needs_mosquitto
from spooling import sealing
from uplinks import (
    DEVICE,
    EPOCH,
    Announcer,
    MqttPeer,
    acked,
    draining,
    eventually,
    free_port,
    mqtt,
    parcel,
    running,
    sealed,
    seqs,
    spool_of,
)

pytestmark = [pytest.mark.anyio, needs_mosquitto]
CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "fixtures/cases/mqtt.json").read_text(encoding="utf-8")
    )
}
QUICK = Policy(backoff_s=0.05, backoff_max_s=0.2)


def drain_of(spool, uplink, policy=QUICK) -> Drain:
    delivery = Delivery(random.random, policy)
    return Drain(Outbox(spool), uplink, delivery, time.monotonic, watch_s=0.1)


def peer_of(tmp_path, extra="allow_anonymous true") -> MqttPeer:
    return MqttPeer(tmp_path, free_port(), extra)


def published(peer) -> int:
    """Envelopes that the broker got of the device; its own log does not forget."""
    lines = peer.broker.log.read_text().splitlines()
    return sum(f"Received PUBLISH from {DEVICE}" in one and "/up/" in one for one in lines)


# -- cases -----------------------------------------------------------------------------


async def test_mqt_03_two_devices_with_one_client_id(tmp_path, caplog):
    """At a twentieth of the times: 3 s of what would be a minute."""
    caplog.set_level(logging.INFO)
    expected = CASES["MQT-03"]["expected"]
    policy = Policy(backoff_s=0.05, backoff_max_s=3.0, stable_s=3.0, spread_s=0.5, resend_s=1.0)
    counts, troubles = [Announcer(), Announcer()], [set(), set()]
    (tmp_path / "b").mkdir()
    with spool_of(tmp_path, 5) as one, spool_of(tmp_path / "b", 5) as other:
        async with running(peer_of(tmp_path)) as peer:
            drains = [
                drain_of(spool, mqtt(peer.port, announce=count), policy)
                for spool, count in zip((one, other), counts, strict=True)
            ]
            async with draining(drains[0]), draining(drains[1]):
                for _ in range(60):
                    await anyio.sleep(0.05)
                    for drain, seen in zip(drains, troubles, strict=True):
                        seen.add(drain.trouble)
                connects = [count.given for count in counts]
            async with draining(drain_of(one, mqtt(peer.port))):
                await eventually(lambda: one.status().rows == 0)
            async with draining(drain_of(other, mqtt(peer.port))):
                await eventually(lambda: other.status().rows == 0)
    assert expected["connects_per_agent_in_60s"].startswith("<=7 ")
    assert max(connects) <= 7
    assert any(expected["health_flag"] in seen for seen in troubles)
    told = [one.detail for one in caplog.records if hasattr(one, "detail") and one.detail]
    assert any(f"client id {DEVICE} is in use elsewhere: was this image cloned?" in t for t in told)
    # The other device's records had the same numbers here; each of the two delivered all of its.
    assert set(seqs(peer.received)) == {1, 2, 3, 4, 5}


@pytest.fixture
def login(tmp_path):
    """A broker with a password, and an agent's files with another."""
    passwords = tmp_path / "passwords"
    passwords.touch(0o600)
    subprocess.run(["mosquitto_passwd", "-b", passwords, DEVICE, "right"], check=True)
    (tmp_path / "name").write_text(DEVICE)
    (tmp_path / "password").write_text("wrong\n")
    peer = peer_of(tmp_path, f"allow_anonymous true\npassword_file {passwords}")
    files = {"username_file": tmp_path / "name", "password_file": tmp_path / "password"}
    return peer, files


async def test_mqt_04_a_refused_login_is_told_and_recovers_without_a_restart(
    login, tmp_path, caplog
):
    """The rates at full length: ``tests/contract/test_delivery.py``, ``test_uplinks_drain.py``."""
    caplog.set_level(logging.INFO)
    expected = CASES["MQT-04"]["expected"]
    peer, files = login
    with spool_of(tmp_path, 10) as spool:
        async with running(peer):
            drain = drain_of(spool, mqtt(peer.port, settings=files))
            async with draining(drain):
                await eventually(
                    lambda: drain.trouble == CASES["MQT-04"]["expected"]["health_state_during"]
                )
                await anyio.sleep(1.0)
                assert drain.detail == "the broker refuses the connection: Not authorized"
                files["password_file"].write_text("right\n")
                await eventually(lambda: spool.status().rows == 0)
                assert drain.told == ""
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith("uplink")]
    assert said == ["uplink auth_failed", "uplink connected"]
    assert "wrong" not in caplog.text
    assert len(peer.received) == expected["records_delivered"]


async def test_mqt_05_a_record_above_the_packet_limit_blocks_nothing(tmp_path, caplog):
    case = CASES["MQT-05"]["input"]
    limit = case["broker"]["maximum_packet_size"]
    readings = tuple(SensorValue(f"sensor_{n:04}" + "x" * 60, "degC", n / 8) for n in range(778))
    records = [Telemetry(readings), Event("note", "x" * 90_000)]
    records += [Event("note", "x" * 130)] * 10
    peer = peer_of(tmp_path, f"allow_anonymous true\nmax_packet_size {limit}")
    with spool_of(tmp_path, 0) as spool:
        spool.append([sealing(record, device_id=DEVICE) for record in records])
        sizes = [len(one.data) for one in spool.head(99)]
        assert sorted(sizes)[-2:] == [pytest.approx(70_000, rel=0.05), pytest.approx(90_000, 0.05)]
        async with running(peer):
            async with draining(drain_of(spool, peer.uplink)) as drain:
                await eventually(lambda: spool.status().rows == 0)
                assert drain.trouble == "too_large"
            (aside,) = spool.rejected()
    taken = [decode(data) for data in peer.received]
    assert [one.kind for one in taken].count(Kind.EVENT) == 10
    parts = [one for one in taken if one.kind is Kind.TELEMETRY]
    assert len(parts) == 2
    assert (aside.kind, "and the transport takes 65" in aside.reason) == ("event", True)
    log = peer.broker.log.read_text()
    assert "oversize" not in log
    assert max(len(data) for data in peer.received) < limit
    assert peer.streams == 1


@pytest.mark.parametrize("by", ["the broker", "the settings"])
async def test_mqt_05_the_whole_packet_counts(by, tmp_path):
    told = by == "the broker"
    limit = "\nmax_packet_size 2000" if told else ""
    async with running(peer_of(tmp_path, f"allow_anonymous true{limit}")) as peer:
        settings = {} if told else {"max_packet_size": 2000}
        async with mqtt(peer.port, settings=settings).connect() as link:
            most = link.limit_bytes(parcel(1))
            assert 1850 < most < 2000
            await link.send(sized(1, most))
            await eventually(lambda: published(peer) == 1)
            if told:
                with pytest.raises(UplinkDown) as caught:
                    await send_and_listen(link, sized(2, most + 5))
                # What it says of that arrives, unless its reset of the line is faster.
                assert caught.value.told.trouble in {Trouble.TOO_LARGE, Trouble.UNREACHABLE}
                assert "oversize" in peer.broker.log.read_text()


def sized(seq: int, size: int) -> Parcel:
    """An envelope of exactly so many bytes."""
    found = (parcel(seq, n) for n in range(size - 100, size))
    return next(one for one in found if len(one.data) == size)


async def send_and_listen(link, one) -> None:
    await link.send(one)
    with anyio.fail_after(5):
        async for _ in link.words():
            pass


async def test_mqt_06_a_cable_that_was_pulled(tmp_path):
    """A fortieth of the times: cut for 3 s, 25 records behind a window of 20."""
    expected = CASES["MQT-06"]["expected"]
    policy = Policy(window_count=20, backoff_s=0.1, backoff_max_s=0.5, stalled_s=1.5)
    with spool_of(tmp_path, 0) as spool:
        async with (
            running(peer_of(tmp_path)) as peer,
            line_to(peer.port) as line,
            draining(drain_of(spool, mqtt(line.port, accept_s=1.0), policy)) as drain,
        ):
            await eventually(lambda: drain.state == "connected")
            line.cut()
            spool.append([(Kind.LEVEL, sealed)] * 25)
            drain.wake()
            await eventually(lambda: drain.trouble == "stalled")
            assert len(drain.delivery.in_flight) == 20
            await anyio.sleep(1.0)
            line.mend()
            await eventually(lambda: spool.status().rows == 0, within_s=5)
            await eventually(lambda: drain.told == "")
    order = list(dict.fromkeys(seqs(peer.received)))
    assert order == list(range(1, 26))
    assert len(order) == expected["delivered"]


async def test_mqt_06_no_more_is_unacknowledged_than_the_broker_takes(tmp_path):
    """mosquitto says a Receive Maximum of 20; one that is exceeded may end the connection."""
    with spool_of(tmp_path, 100) as spool:
        async with (
            running(peer_of(tmp_path)) as peer,
            line_to(peer.port) as line,
            draining(drain_of(spool, mqtt(line.port))) as drain,
        ):
            await eventually(lambda: spool.status().rows == 0)
            line.down.clear()
            spool.append([(Kind.LEVEL, sealed)] * 50)
            drain.wake()
            await eventually(lambda: len(set(seqs(peer.received))) == 120)
            await anyio.sleep(0.3)
            assert len(set(seqs(peer.received))) == 120
            line.down.set()
            await eventually(lambda: spool.status().rows == 0)
    assert "Receive maximum" not in peer.broker.log.read_text()


# -- state -----------------------------------------------------------------------------


async def test_birth_and_will_carry_the_number_of_their_connection(tmp_path):
    async with running(peer_of(tmp_path)) as peer, line_to(peer.port) as line:
        uplink = mqtt(line.port)
        async with uplink.connect():
            await eventually(lambda: len(peer.states) == 1)
        await eventually(lambda: len(peer.states) == 2)
        async with uplink.connect():
            await eventually(lambda: len(peer.states) == 3)
            # Not our goodbye but the broker's word, as after a power cut.
            await line.stop()
            await eventually(lambda: len(peer.states) == 4)
    online, offline = peer.states[0], peer.states[1]
    assert set(online) == {"online", "connection", "epoch", "boot_id", "agent_version", "ts_ns"}
    assert abs(online["ts_ns"] - time.time_ns()) < 60 * 10**9
    assert offline == {**online, "online": False}
    assert [(one["connection"], one["online"]) for one in peer.states] == [
        (1, True),
        (1, False),
        (2, True),
        (2, False),
    ]
    assert peer.retained == [topics.state(DEVICE)] * 4


async def test_a_number_is_used_up_by_connections_and_not_by_tries(tmp_path):
    announce, peer = Announcer(), peer_of(tmp_path)
    uplink = mqtt(peer.port, announce=announce)
    for _ in range(3):
        with pytest.raises(UplinkDown):
            async with uplink.connect():
                pass
    async with running(peer):
        for _ in range(2):
            async with uplink.connect():
                pass
        await eventually(lambda: len(peer.states) == 4)
    assert announce.given == 2
    assert {one["connection"] for one in peer.states} == {1, 2}


async def test_mqt_02_what_is_published_and_how(tmp_path):
    """Nothing but the state is retained; a heartbeat may expire, a result never."""
    kinds = [Kind.LEVEL, Kind.HEARTBEAT, Kind.TELEMETRY]
    async with running(peer_of(tmp_path)) as peer, peer.uplink.connect() as link:
        for seq, kind in enumerate(kinds, 1):
            data = sealed(EPOCH, seq, kind=kind)
            await link.send(Parcel((EPOCH, seq), kind.value, data))
        await eventually(lambda: len(peer.received) == 3)
    expected = CASES["MQT-02"]["expected"]["agent_result_retain_flag"]
    assert [topic for topic in peer.retained if "/up/" in topic] == [] * expected
    assert peer.expiries == {"level": None, "heartbeat": HEARTBEAT_EXPIRES_S, "telemetry": None}


async def test_a_kind_of_a_newer_version_leaves_as_well(tmp_path):
    peer = peer_of(tmp_path)
    async with running(peer), peer.uplink.connect() as link:
        await link.send(Parcel((EPOCH, 1), "verdict", sealed(EPOCH, 1)))
        await eventually(lambda: f"/{DEVICE}/up/verdict" in peer.broker.log.read_text())


# -- nobody, and no --------------------------------------------------------------------


async def test_nobody_subscribes(tmp_path):
    policy = Policy(backoff_s=0.2, resend_s=0.4, stalled_s=1.0)
    with spool_of(tmp_path, 300) as spool:
        async with running(peer_of(tmp_path)) as peer:
            peer.leave()
            async with draining(drain_of(spool, peer.uplink, policy)) as drain:
                await eventually(lambda: drain.trouble == "no_subscribers")
                await anyio.sleep(0.3)
                sent = published(peer)
                assert sent < 150
                await anyio.sleep(2.0)
                # Not stalled, and one asks for all, every now and then.
                assert (drain.state, peer.streams) == ("connected", 1)
                assert 3 <= published(peer) - sent <= 12
                peer.join()
                await eventually(lambda: spool.status().rows == 0)
                assert drain.told == ""


async def test_a_refused_publish_is_no_delivery(tmp_path, caplog):
    acl = tmp_path / "acl"
    acl.write_text("topic read #\ntopic write edgesweep/v1/+/state\n")
    acl.chmod(0o700)
    peer = peer_of(tmp_path, f"allow_anonymous true\nacl_file {acl}")
    with spool_of(tmp_path, 5) as spool:
        async with running(peer), draining(drain_of(spool, peer.uplink)) as drain:
            await eventually(lambda: drain.trouble == "refused")
            assert drain.detail == "the broker refuses records: Not authorized"
            assert spool.status().rows == 5
            assert peer.received == []


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (0x86, Trouble.AUTH_FAILED),
        (0x87, Trouble.AUTH_FAILED),
        (0x8A, Trouble.AUTH_FAILED),
        (0x88, Trouble.UNREACHABLE),
        (0x89, Trouble.UNREACHABLE),
        (0x84, Trouble.REFUSED),
        (0x85, Trouble.REFUSED),
        (0x9A, Trouble.REFUSED),
    ],
)
def test_what_the_broker_refuses(code, trouble):
    name = str(ReasonCode(PacketTypes.CONNACK, identifier=code))
    down = reasons.connect_refused(code, name)
    assert down.told == (trouble, f"the broker refuses the connection: {name}")


@pytest.mark.parametrize(
    ("code", "by_broker", "trouble", "text"),
    [
        (0x8E, True, Trouble.CLIENT_ID_CONFLICT, f"client id {DEVICE} is in use elsewhere"),
        (0x95, True, Trouble.TOO_LARGE, "larger than it takes"),
        (0x87, True, Trouble.AUTH_FAILED, "ended the connection: Not authorized"),
        (0x8B, True, Trouble.UNREACHABLE, "Server shutting down"),
        (0x93, True, Trouble.REFUSED, "Receive maximum exceeded"),
        (0x80, False, Trouble.UNREACHABLE, "was lost: Unspecified error"),
    ],
)
def test_how_a_connection_ends(code, by_broker, trouble, text):
    name = str(ReasonCode(PacketTypes.DISCONNECT, identifier=code))
    down = reasons.ended(code, name, DEVICE, by_broker=by_broker)
    assert down.told.trouble is trouble
    assert text in down.told.text
    assert (down.too_large is not None) == (code == 0x95)


# -- paho ------------------------------------------------------------------------------


async def test_a_broker_that_restarts_is_connected_to_again(tmp_path, caplog):
    with spool_of(tmp_path, 5) as spool:
        async with running(peer_of(tmp_path)) as peer, draining(drain_of(spool, peer.uplink)):
            await eventually(lambda: spool.status().rows == 0)
            for _ in range(3):
                await peer.stop()
                spool.append([(Kind.LEVEL, sealed)] * 5)
                await peer.start()
                await eventually(lambda: spool.status().rows == 0)
    assert set(seqs(peer.received)) == set(range(1, 21))
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_noise_on_the_ack_topic_is_passed_over(tmp_path, caplog):
    async with running(peer_of(tmp_path)) as peer, peer.uplink.connect() as link:
        for noise in (b"\xff\xff", b"", b"x" * 10_000):
            await peer.say(noise)
        await link.send(parcel(1))
        with anyio.fail_after(5):
            heard = [await anext_of(link), await anext_of(link)]
    assert {type(word).__name__ for word in heard} == {"Ack", "Passed"}
    assert sum("no ack on the ack topic" in one.getMessage() for one in caplog.records) == 1


async def anext_of(link):
    async for word in link.words():
        return word
    return None


async def test_what_is_published_on_a_lost_connection_is_not_kept(tmp_path):
    async with running(peer_of(tmp_path)) as peer:
        with pytest.raises(UplinkDown):
            await send_beyond_the_end(peer)
        await peer.start()
        peer.received.clear()
        async with peer.uplink.connect() as link:
            await link.send(parcel(2))
            await eventually(lambda: peer.received)
            await anyio.sleep(0.2)
    assert seqs(peer.received) == [2]


async def send_beyond_the_end(peer) -> None:
    async with peer.uplink.connect() as link:
        await peer.stop()
        while True:
            await link.send(parcel(1))
            await anyio.sleep(0.02)


async def test_a_dead_line_is_left_in_a_second(tmp_path):
    async with (
        running(peer_of(tmp_path)) as peer,
        line_to(peer.port) as line,
        mqtt(line.port).connect() as link,
    ):
        line.cut()
        # More than any buffer on the way: not even a goodbye gets out.
        for seq in range(1, 20):
            await link.send(parcel(seq, 250_000))
        began = time.monotonic()
    assert time.monotonic() - began < 4
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("paho-mqtt-client")]


class Loop:
    """Keeps what it is told."""

    def __init__(self, error=None):
        self.told, self.error = [], error

    def call_soon_threadsafe(self, what, *arguments):
        if self.error:
            raise self.error
        self.told.append((what.__name__, *arguments))


def ears(loop, *, secure=False):
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    link = mqtt_link.MqttLink(client, DEVICE)
    mqtt_link.Ears(link, loop, DEVICE, secure=secure).listen_to(client)
    return client, link


def reason(packet, code):
    return ReasonCode(packet, identifier=code)


async def test_a_callback_does_no_more_than_tell_the_loop():
    loop = Loop()
    client, link = ears(loop)
    message = paho.MQTTMessage(1, b"t")
    message.payload = b"ack"
    client.on_message(client, None, message)
    client.on_publish(client, None, 7, reason(PacketTypes.PUBACK, 0x10), None)
    client.on_subscribe(client, None, 1, [reason(PacketTypes.SUBACK, 0)], None)
    client.on_subscribe(client, None, 1, [reason(PacketTypes.SUBACK, 0x87)], None)
    assert loop.told[:3] == [
        ("heard", b"ack"),
        ("answered", 7, 0x10, "No matching subscribers"),
        ("set",),
    ]
    name, down = loop.told[3]
    assert (name, down.told.trouble) == ("lost", Trouble.REFUSED)
    assert "edgesweep/v1/test-1/down/ack: Not authorized" in down.told.text
    assert link.trouble is None


async def test_a_callback_that_fails_is_logged_and_ends_nothing(caplog):
    client, _ = ears(Loop(RuntimeError("Event loop is closed")))
    client.on_publish(client, None, 7, reason(PacketTypes.PUBACK, 0), None)
    assert "a callback of the MQTT client failed" in caplog.text


@pytest.mark.parametrize(
    ("secure", "trouble", "text"),
    [
        (False, Trouble.UNREACHABLE, "does it want TLS?"),
        (True, Trouble.CERTIFICATE, "it refuses our certificate"),
    ],
)
async def test_closed_before_any_answer(secure, trouble, text):
    loop = Loop()
    client, _ = ears(loop, secure=secure)
    flags = paho.DisconnectFlags(is_disconnect_packet_from_server=False)
    client.on_disconnect(client, None, flags, reason(PacketTypes.DISCONNECT, 0x80), None)
    ((_, down),) = loop.told
    assert down.told.trouble is trouble
    assert text in down.told.text


async def test_a_puback_of_another_message_is_passed_over():
    _, link = ears(Loop())
    link.answered(99, 0x87, "Not authorized")
    assert link.trouble is None
    link._sent[5] = (EPOCH, 1)
    link.answered(5, 0, "Success")
    assert await anext_of(link) == Passed((EPOCH, 1), handed_on=True)


async def test_what_a_broker_takes_is_read_anew_at_each_connection():
    _, link = ears(Loop())
    properties = Properties(PacketTypes.CONNACK)
    properties.MaximumPacketSize, properties.ReceiveMaximum = 5000, 3
    link.accepted(properties)
    assert (link._max_packet_bytes, link._most) == (5000, 3)
    _, another = ears(Loop())
    another.accepted(Properties(PacketTypes.CONNACK))
    assert (another.limit_bytes(parcel(1)), another._most) == (None, mqtt_link.IN_FLIGHT)


async def test_more_acks_than_anybody_reads_are_dropped_and_nothing_else():
    _, link = ears(Loop())
    for _ in range(mqtt_link._ACKS + 10):
        link.heard(acked(parcel(1).data))
    link.lost(UplinkDown("first"))
    link.lost(UplinkDown("second"))
    assert link._words.qsize() == mqtt_link._ACKS + 1
    with pytest.raises(UplinkDown, match="first"):
        link.check()


def test_a_password_that_cannot_be_read_is_known_at_the_start(tmp_path):
    with pytest.raises(SettingsError, match="none: No such file"):
        mqtt(1, settings={"password_file": tmp_path / "none"})


async def test_and_one_that_goes_away_later_is_a_trouble(tmp_path):
    file = tmp_path / "password"
    file.write_text("secret")
    uplink = mqtt(free_port(), settings={"password_file": file})
    file.unlink()
    with pytest.raises(UplinkDown) as caught:
        async with uplink.connect():
            pass
    assert caught.value.told.trouble is Trouble.AUTH_FAILED
