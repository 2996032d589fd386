"""Mutual TLS over gRPC: a device is who its certificate says, for as long as that is good."""

from __future__ import annotations

import contextlib
import socket
import ssl

import anyio
import anyio.to_thread
import grpc
import grpc.aio
import pytest

import wire
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.ingest.accept import Acceptor
from edgesweep_collector.ingest.grpc import GrpcIngest
from edgesweep_collector.settings import Listen, TlsSettings
from mosquitto import free_port
from pki import SERVER, Authority

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]

DENIED = grpc.StatusCode.PERMISSION_DENIED
SECOND = 1 / 86_400


class Collector:
    """A collector with TLS, and its files."""

    def __init__(self, folder):
        self.ca = Authority(folder / "ca")
        self.server = self.ca.server()
        self.denied = folder / "denied"
        self.denied.touch()
        self.tls = TlsSettings(
            ca_file=str(self.ca.file),
            cert_file=str(self.server.cert),
            key_file=str(self.server.key),
            denylist_file=str(self.denied),
        )
        self.archive = Archive.open(f"sqlite:///{folder / 'archive.db'}")
        self.acceptor = Acceptor(self.archive, Counters())
        self.port = free_port()
        # Reachable from everywhere, as TLS allows.
        listen = Listen("0.0.0.0", self.port)
        self.ingest = GrpcIngest(self.acceptor, Counters(), listen, self.tls)

    @contextlib.asynccontextmanager
    async def stream(self, pair, authority=None):
        credentials = grpc.ssl_channel_credentials(
            (authority or self.ca).file.read_bytes(),
            pair and pair.key.read_bytes(),
            pair and pair.cert.read_bytes(),
        )
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials) as channel:
            deliver = channel.stream_stream(
                "/edgesweep.v1.Ingest/Deliver",
                request_serializer=None,
                response_deserializer=pb.Ack.FromString,
            )
            call = deliver()
            try:
                yield call
            finally:
                call.cancel()


@pytest.fixture
async def collector(tmp_path):
    made = Collector(tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.acceptor.run)
        await made.ingest.start()
        yield made
        await made.ingest.stop()
        await made.acceptor.drain()
    made.archive.close()


async def answer(call, raw):
    await call.write(raw)
    with anyio.fail_after(5):
        return await call.read()


async def refusal(call, within_s=10):
    """How a stream ends to which nothing is answered."""
    with anyio.fail_after(within_s):
        with contextlib.suppress(grpc.aio.AioRpcError):
            assert await call.read() is grpc.aio.EOF
        return await call.code(), await call.details()


async def test_a_device_delivers_with_its_certificate(collector):
    async with collector.stream(collector.ca.client("n97-01")) as call:
        assert (await answer(call, wire.raw(wire.level(1), 1))).status == pb.Ack.STORED
    assert collector.ingest.health() is None


async def test_a_device_speaks_for_itself_alone(collector):
    async with collector.stream(collector.ca.client("n97-02")) as call:
        ack = await answer(call, wire.raw(wire.level(1), 1, device_id="n97-01"))
        assert ack.status == pb.Ack.REJECTED
        assert ack.reason == "identity: n97-02 sent an envelope of n97-01"
        ack = await answer(call, wire.raw(wire.level(1), 1, device_id="n97-02"))
        assert ack.status == pb.Ack.STORED


@pytest.mark.parametrize(
    "make",
    [
        lambda _, __: None,
        lambda _, foreign: foreign.client("n97-01"),
        lambda ca, _: ca.client("n97-01", days=(-9, -1)),
        lambda ca, _: ca.client("n97-01", days=(1, 9)),
        lambda ca, _: ca.issue("n97-01", SERVER),
    ],
    ids=["none", "foreign", "expired", "not yet valid", "wrong purpose"],
)
async def test_who_has_no_good_certificate_is_refused_by_the_handshake(collector, tmp_path, make):
    pair = make(collector.ca, Authority(tmp_path / "foreign", "Another CA"))
    async with collector.stream(pair) as call:
        code, _ = await refusal(call)
    assert code == grpc.StatusCode.UNAVAILABLE
    async with collector.stream(collector.ca.client("n97-01", file="good")) as call:
        assert (await answer(call, wire.raw(wire.level(1), 1))).status == pb.Ack.STORED


@pytest.mark.parametrize("name", ["Collector.1", "n97/01", "", "n97-01\n", "N97-01", "+"])
async def test_a_certificate_that_names_no_device_is_refused(collector, name):
    async with collector.stream(collector.ca.client(name, file="odd")) as call:
        code, details = await refusal(call)
    assert code == DENIED
    assert "names no device: 1 to 63 of a-z, 0-9 and -" in details


@pytest.mark.parametrize("entry", ["{name}", "{serial}", "0x{colons}  # stolen"])
async def test_whoever_is_on_the_denylist_is_refused_and_told(collector, entry):
    pair = collector.ca.client("n97-01")
    serial = f"{pair.x509.serial_number:040x}"
    colons = ":".join(serial[at : at + 2] for at in range(0, 40, 2))
    collector.denied.write_text(entry.format(name="n97-01", serial=pair.serial, colons=colons))
    async with collector.stream(pair) as call:
        code, details = await refusal(call)
    assert code == DENIED
    assert details == f"the certificate of 'n97-01' (serial {pair.serial}) is on the denylist"
    # Another certificate for the same device is another serial, but the same name.
    async with collector.stream(collector.ca.client("n97-01", file="new")) as call:
        if entry == "{name}":
            assert (await refusal(call))[0] == DENIED
        else:
            assert (await answer(call, wire.raw(wire.level(1), 1))).status == pb.Ack.STORED


async def test_a_denial_ends_the_stream_that_is_open_and_no_other(collector):
    one, two = collector.ca.client("n97-01"), collector.ca.client("n97-02")
    async with collector.stream(one) as first, collector.stream(two) as second:
        assert (await answer(first, wire.raw(wire.level(1), 1))).status == pb.Ack.STORED
        collector.denied.write_text(f"{one.serial}\n")
        code, details = await refusal(first)
        assert (code, "is on the denylist" in details) == (DENIED, True)
        other = wire.raw(wire.level(1), 1, device_id="n97-02")
        assert (await answer(second, other)).status == pb.Ack.STORED


async def test_a_certificate_that_runs_out_ends_its_stream(collector):
    pair = collector.ca.client("n97-01", days=(-1, 3 * SECOND))
    async with collector.stream(pair) as call:
        assert (await answer(call, wire.raw(wire.level(1), 1))).status == pb.Ack.STORED
        code, details = await refusal(call)
    assert code == DENIED
    assert f"the certificate of 'n97-01' (serial {pair.serial}) expired on 20" in details


def serial_shown(port, pair, authority):
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(pair.cert, pair.key)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as line,
    ):
        return int(line.getpeercert()["serialNumber"], 16)


async def test_a_renewed_certificate_is_shown_without_a_restart(collector):
    pair = collector.ca.client("n97-01")
    async with collector.stream(pair) as call:
        assert (await answer(call, wire.raw(wire.level(1), 1))).status == pb.Ack.STORED
        arguments = (collector.port, pair, collector.ca)
        before = await anyio.to_thread.run_sync(serial_shown, *arguments)
        assert before == collector.server.x509.serial_number
        new = collector.ca.server(file="new")
        # One by one, as files are renewed: half of it changes nothing.
        new.cert.replace(collector.server.cert)
        assert await anyio.to_thread.run_sync(serial_shown, *arguments) == before
        new.key.replace(collector.server.key)
        assert await anyio.to_thread.run_sync(serial_shown, *arguments) != before
        assert (await answer(call, wire.raw(wire.level(2), 2))).status == pb.Ack.STORED
    async with collector.stream(pair) as call:
        assert (await answer(call, wire.raw(wire.level(3), 3))).status == pb.Ack.STORED


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_tls_is_1_2_or_newer(collector, version):
    pair = collector.ca.client("n97-01")

    def shake():
        context = ssl.create_default_context(cafile=collector.ca.file)
        context.load_cert_chain(pair.cert, pair.key)
        context.set_alpn_protocols(["h2"])
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        with (
            socket.create_connection(("127.0.0.1", collector.port), 5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as line,
        ):
            return line.version()

    if version == ssl.TLSVersion.TLSv1_2:
        assert await anyio.to_thread.run_sync(shake) == "TLSv1.2"
    else:
        with pytest.raises(OSError, match=r"alert|EOF|reset"):
            await anyio.to_thread.run_sync(shake)


async def test_without_tls_nobody_is_let_in_at_this_port(collector):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{collector.port}") as channel:
        deliver = channel.stream_stream("/edgesweep.v1.Ingest/Deliver")
        code, _ = await refusal(deliver())
    assert code == grpc.StatusCode.UNAVAILABLE


async def test_files_of_no_use_are_said_before_anything_listens(tmp_path):
    made = Collector(tmp_path)
    tls = TlsSettings(ca_file=made.tls.ca_file, cert_file="/absent", key_file=made.tls.key_file)
    with pytest.raises(SettingsError, match=r"grpc\.tls\.cert_file: cannot read /absent"):
        GrpcIngest(made.acceptor, Counters(), Listen("0.0.0.0", made.port), tls)
    made.acceptor.close()
    made.archive.close()
