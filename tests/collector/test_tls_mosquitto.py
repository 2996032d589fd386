"""The broker that ``edgesweep-collector mosquitto`` configures, tried from both sides."""

from __future__ import annotations

import contextlib
import getpass
import queue
import signal
import socket
import ssl
import threading
import time

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgesweep.topics import ack, state
from edgesweep_collector.cli.commands import PROGRAM
from edgesweep_collector.core import mosquitto
from edgesweep_collector.core.mosquitto import MAX_PACKET_BYTES
from mosquitto import Mosquitto, needs_mosquitto
from pki import SERVER, Authority
from programs import invoke

NOT_AUTHORISED = 0x87
NO_SUBSCRIBERS = 0x10
HERE = "127.0.0.1"


def up(device, kind="level"):
    return f"edgesweep/v1/{device}/up/{kind}"


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


class Site:
    """A broker as the command configures it, for two collectors."""

    def __init__(self, ca, tmp_path_factory):
        self.folder, server = tmp_path_factory.mktemp("broker"), ca.server()
        self.broker = Mosquitto(tmp_path_factory.mktemp("log"))
        files = ["--ca", ca.file, "--cert", server.cert, "--key", server.key]
        names = ["--collector", "collector.1", "--collector", "collector.2"]
        where = ["--out", self.folder, "--port", self.broker.port, "--address", HERE]
        self._words = ["mosquitto", *files, *names, *where]
        self.configure()

    def configure(self, *more):
        words = [*map(str, [*self._words, *more])]
        done = invoke(PROGRAM.run, words)
        assert done.exit_code == 0, done.output
        config = self.folder / "mosquitto.conf"
        assert done.output.split() == [str(config), str(self.folder / "acl")]
        # Started by root, it would drop to a user that may not read the test's files.
        config.write_text(f"{config.read_text()}\nuser {getpass.getuser()}\nlog_type all\n")
        self.broker._config = config

    def reload(self):
        reloads = self.broker.log.read_text().count("Reloading")
        self.broker._process.send_signal(signal.SIGHUP)
        wait(lambda: self.broker.log.read_text().count("Reloading") > reloads)


@pytest.fixture(scope="module")
def site(ca, tmp_path_factory):
    made = Site(ca, tmp_path_factory)
    made.broker.start()
    yield made
    made.broker.kill()


@pytest.fixture
def port(site):
    return site.broker.port


class Client:
    """A client with a certificate, which notes what it is told."""

    def __init__(self, port, ca, pair, client_id="", will=None):
        self.codes, self.messages, self.ended = {}, [], []
        self._granted = threading.Event()
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5
        )
        context = ssl.create_default_context(cafile=ca.file)
        context.load_cert_chain(pair.cert, pair.key)
        self.paho.tls_set_context(context)
        self.paho.reconnect_delay_set(60)
        if will is not None:
            self.paho.will_set(will, b"dead", qos=1)
        answer = queue.SimpleQueue()
        self.paho.on_connect = lambda _c, _u, _f, reason, _p: answer.put(reason)
        self.paho.on_publish = lambda _c, _u, mid, code, _p: self.codes.update({mid: code.value})
        self.paho.on_subscribe = lambda *_: self._granted.set()
        self.paho.on_message = lambda _c, _u, one: self.messages.append((one.topic, one.payload))
        self.paho.on_disconnect = lambda _c, _u, _f, reason, _p: self.ended.append(str(reason))
        self.paho.connect(HERE, port)
        self.paho.loop_start()
        self.let_in = not answer.get(timeout=5).is_failure

    def publish(self, topic, payload=b"x", **options):
        """The reason code of the broker's PUBACK."""
        mid = self.paho.publish(topic, payload, qos=1, **options).mid
        wait(lambda: mid in self.codes)
        return self.codes[mid]

    def subscribe(self, *topics):
        for topic in topics:
            self._granted.clear()
            self.paho.subscribe(topic, qos=1)
            assert self._granted.wait(5)

    def vanish(self):
        """Lose power: no DISCONNECT, so that the will is published."""
        self.paho.socket().unwrap = None
        socket.socket.shutdown(self.paho.socket(), socket.SHUT_RDWR)


def wait(condition, within_s=5):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def connect(port, ca):
    """Connects somebody by common name."""
    with contextlib.ExitStack() as opened:

        def connected(name, **options):
            client = Client(port, ca, ca.client(name, file="client"), **options)
            opened.callback(client.paho.loop_stop)
            opened.callback(client.paho.disconnect)
            return client

        yield connected


pytestmark = needs_mosquitto


def test_a_device_speaks_for_itself_alone(connect):
    collector, device = connect("collector.1"), connect("n97-01")
    collector.subscribe("edgesweep/v1/+/up/+", "edgesweep/v1/+/state")
    assert device.publish(up("n97-01")) == 0
    assert device.publish(state("n97-01"), retain=False) == 0
    forged = [
        up("n97-02"),
        state("n97-02"),
        ack("n97-02"),
        ack("n97-01"),
        "edgesweep/v1/n97-01/down/command",
        "edgesweep/v1/n97-01/up/level/more",
        "edgesweep/v2/n97-01/up/level",
        "elsewhere",
        "$SYS/broker/clients/connected",
    ]
    assert {topic: device.publish(topic) for topic in forged} == dict.fromkeys(
        forged, NOT_AUTHORISED
    )
    wait(lambda: len(collector.messages) == 2)
    time.sleep(0.2)
    assert [topic for topic, _ in collector.messages] == [up("n97-01"), state("n97-01")]


def test_a_device_hears_its_own_acks_alone(connect):
    collector, device, other = connect("collector.1"), connect("n97-01"), connect("n97-02")
    # Every subscription is granted, and what may not be read does not come.
    other.subscribe("#", "edgesweep/v1/+/down/ack", ack("n97-01"), up("n97-01"), "$SYS/#")
    other.subscribe("$share/collectors/edgesweep/v1/+/up/+")
    device.subscribe(ack("n97-01"))
    assert collector.publish(ack("n97-01"), b"one") == 0
    assert collector.publish(ack("n97-02"), b"two") == 0
    device.publish(up("n97-01"))
    wait(lambda: device.messages and other.messages)
    time.sleep(0.2)
    assert device.messages == [(ack("n97-01"), b"one")]
    assert set(other.messages) == {(ack("n97-02"), b"two")}


def test_a_will_is_published_for_ones_own_state_alone(connect):
    collector = connect("collector.1")
    collector.subscribe("edgesweep/v1/+/state", "edgesweep/v1/+/up/+", "edgesweep/v1/+/down/+")
    for will in (state("n97-02"), up("n97-02"), ack("n97-02")):
        connect("n97-01", will=will).vanish()
        time.sleep(0.1)
    assert collector.messages == []
    connect("n97-01", will=state("n97-01")).vanish()
    wait(lambda: collector.messages)
    assert collector.messages == [(state("n97-01"), b"dead")]


def test_nobody_takes_over_another_s_client_id(connect):
    device, collector = connect("n97-01", client_id="n97-01"), connect("collector.1")
    thief = connect("n97-02", client_id="n97-01")
    other_thief = connect("n97-03", client_id="collector.1")
    time.sleep(0.2)
    for one in (device, collector, thief, other_thief):
        assert (one.paho.is_connected(), one.ended) == (True, [])
    assert thief.publish(up("n97-01")) == NOT_AUTHORISED
    assert device.publish(up("n97-01")) in (0, NO_SUBSCRIBERS)


def test_a_collector_hears_everyone_and_speaks_for_nobody(connect):
    collector = connect("collector.2")
    assert collector.publish(ack("n97-01")) in (0, NO_SUBSCRIBERS)
    for topic in (up("n97-01"), state("n97-01"), "elsewhere"):
        assert collector.publish(topic) == NOT_AUTHORISED


@pytest.mark.parametrize("name", ["n97-01/up", "+", "#", "n97-01/up/level", "", "n97-01 "])
def test_a_name_that_no_authority_should_sign_is_of_no_use(connect, name):
    odd = connect(name)
    assert odd.let_in is bool(name)
    for topic in (up("n97-01"), up("n97-01", "state"), state("n97-01"), up("+"), up("x")):
        # paho sends no wildcard.
        if odd.let_in and "+" not in topic:
            assert odd.publish(topic) == NOT_AUTHORISED


def refused(port, authority, pair, version=None):
    """What TLS says to somebody who shows a certificate, or none."""
    context = ssl.create_default_context(cafile=authority.file)
    if version is not None:
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("DEFAULT@SECLEVEL=0")
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    try:
        with (
            socket.create_connection((HERE, port), 5) as plain,
            context.wrap_socket(plain, server_hostname=HERE) as line,
        ):
            line.settimeout(5)
            return "closed" if line.recv(1) == b"" else "let in"
    except OSError as error:
        return str(error).lower()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_without_a_good_certificate_there_is_no_connection(port, ca, tmp_path, version):
    foreign = Authority(tmp_path, "Another CA").client("n97-01")
    assert "unknown ca" in refused(port, ca, foreign, version)
    assert "expired" in refused(port, ca, ca.client("n97-01", days=(-9, -1), file="old"), version)
    assert "certificate" in refused(port, ca, ca.issue("n97-01", SERVER, file="wrong"), version)
    none = refused(port, ca, None, version)
    assert "certificate required" in none or "handshake failure" in none


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_tls_and_no_tls_are_refused(port, ca):
    said = refused(port, ca, ca.client("n97-01", file="good"), ssl.TLSVersion.TLSv1_1)
    assert "protocol version" in said
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect(HERE, port)
    deadline = time.monotonic() + 5
    while client.loop(0.1) == paho.MQTT_ERR_SUCCESS:
        assert time.monotonic() < deadline
    assert not client.is_connected()


def test_the_largest_envelope_passes_and_a_larger_packet_does_not(connect):
    collector, device = connect("collector.1"), connect("n97-01")
    collector.subscribe("edgesweep/v1/+/up/+")
    assert device.publish(up("n97-01"), bytes(256 * 1024 + 16 * 1024)) == 0
    wait(lambda: collector.messages)
    properties = Properties(PacketTypes.PUBLISH)
    device.paho.publish(up("n97-01"), bytes(MAX_PACKET_BYTES), qos=1, properties=properties)
    wait(lambda: device.ended)


def test_a_device_on_the_denylist_is_cut_off_while_it_is_connected(connect, site, tmp_path):
    collector, device = connect("collector.1"), connect("n97-01")
    other, topic = connect("n97-02"), up("n97-01")
    device.subscribe(ack("n97-01"))
    assert device.publish(topic) in (0, NO_SUBSCRIBERS)
    denylist = tmp_path / "denied"
    denylist.write_text("n97-01  # stolen\n1A:2B\ncollector.1\n")
    try:
        site.configure("--denylist", denylist)
        site.reload()
        assert device.publish(topic) == NOT_AUTHORISED
        collector.publish(ack("n97-01"))
        assert other.publish(up("n97-02")) in (0, NO_SUBSCRIBERS)
        time.sleep(0.2)
        assert device.messages == []
    finally:
        site.configure()
        site.reload()
    assert device.publish(topic) in (0, NO_SUBSCRIBERS)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("collector",), "could be the id of a device"),
        (("collector-2",), "could be the id of a device"),
        (("collector.1", "a b"), "is no name of a collector"),
        (("collector.#",), "is no name of a collector"),
        (("",), "is no name of a collector"),
        ((), "no collector is named"),
    ],
)
def test_names_that_would_open_the_door_are_refused(names, words):
    site = mosquitto.Site("ca", "cert", "key", "acl", 8883, names)
    assert words in mosquitto.objection(site)


def test_what_mosquitto_would_misread_is_refused(tmp_path):
    words = ["mosquitto", "--ca", "/a b", "--cert", "/c", "--key", "/k", "--out"]
    words.append(str(tmp_path / "x"))
    done = invoke(PROGRAM.run, words)
    assert done.exit_code == 2
    assert "with a space in it" in done.output
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").touch()
    words[2], words[-1] = "/a", str(tmp_path / "file" / "x")
    done = invoke(PROGRAM.run, words)
    assert done.exit_code == 2
    assert "Not a directory" in done.output
