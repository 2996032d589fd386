"""Who may read over HTTP, asked of a server that really listens."""

from __future__ import annotations

import contextlib
import ssl

import anyio
import httpx
import pytest
from prometheus_client import CollectorRegistry

from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import HttpSettings, TlsSettings
from edgesweep_collector.web.app import application
from edgesweep_collector.web.server import HttpServer
from mosquitto import free_port
from pki import SERVER, Authority

pytestmark = pytest.mark.anyio

TOKEN = "CANARY-0123456789abcdef"
CLOSED = ("/metrics", "/v1/runs", "/v1/runs/x", "/absent", "/healthz/", "//healthz", "/")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Web:
    """A server in the background, and its files."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.ca = Authority(folder / "ca")
        self.pair = self.ca.server()
        self.token, self.denied = folder / "token", folder / "denied"
        self.token.write_text(f"{TOKEN}\n")
        self.denied.touch()
        self.tls = TlsSettings(
            ca_file=str(self.ca.file),
            cert_file=str(self.pair.cert),
            key_file=str(self.pair.key),
            denylist_file=str(self.denied),
        )

    def settings(self, listen="127.0.0.1", *, token=False, tls=False):
        return HttpSettings(
            listen=f"{listen}:{self.port}",
            token_file=str(self.token) if token else None,
            tls=self.tls if tls else None,
        )

    @contextlib.asynccontextmanager
    async def serving(self, settings, *, pair=None, authority=None, host="127.0.0.1"):
        """A client of the served pages, with a certificate if it is given one."""
        archive = Archive.open(f"sqlite:///{self.folder / 'archive.db'}")
        health = {"archive": None, "mqtt": "broker.plant-4 does not answer"}
        server = HttpServer(application(archive, lambda: health, CollectorRegistry()), settings)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.run)
                scheme = "http" if settings.tls is None else "https"
                url = f"{scheme}://{host}:{self.port}"
                context = None if settings.tls is None else self.context(pair, authority)
                async with httpx.AsyncClient(base_url=url, verify=context or True) as client:
                    await self._up()
                    yield client
                server.stop()
        finally:
            server.close()
            archive.close()

    def context(self, pair=None, authority=None):
        context = ssl.create_default_context(cafile=(authority or self.ca).file)
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    async def _up(self):
        with anyio.fail_after(5):
            while True:
                try:
                    async with await anyio.connect_tcp("127.0.0.1", self.port):
                        return
                except OSError:
                    await anyio.sleep(0.01)


@pytest.fixture
def web(tmp_path):
    return Web(tmp_path)


async def codes(client, paths=CLOSED, **options):
    return {(await client.get(path, **options)).status_code for path in paths}


async def test_on_the_loopback_nobody_is_asked(web):
    async with web.serving(web.settings()) as client:
        assert (await client.get("/v1/runs")).json() == {"runs": []}
        assert (await client.get("/healthz")).json()["parts"]["mqtt"].startswith("broker.plant-4")


@pytest.mark.parametrize("listen", ["0.0.0.0", "[::]", "192.0.2.1", "collector.example"])
def test_another_address_needs_a_way_to_keep_others_out(web, listen):
    with pytest.raises(SettingsError) as caught:
        HttpServer(None, web.settings(listen))
    said = str(caught.value)
    assert said.startswith(f"http.listen: {listen}:{web.port} is not a loopback address")
    assert "set http.token_file or [http.tls]" in said


async def test_with_the_token_one_reads_and_without_one_does_not(web, caplog):
    async with web.serving(web.settings("0.0.0.0", token=True)) as client:
        assert await codes(client) == {401}
        assert (await client.get("/v1/runs", headers=BEARER)).status_code == 200
        lower = {"Authorization": f"bearer {TOKEN}"}
        assert (await client.get("/metrics", headers=lower)).status_code == 200
    assert "the token travels unencrypted to 0.0.0.0" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong-0123456789abcdef"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN.lower()}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer"},
        {"Authorization": ""},
        {"Authorization": b"Bearer \xff\xfe"},
        {"X-Authorization": f"Bearer {TOKEN}"},
        [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")],
    ],
)
async def test_what_is_not_the_token_is_told_what_to_send_and_not_what_was_sent(web, headers):
    async with web.serving(web.settings(token=True)) as client:
        answer = await client.get("/v1/runs", headers=headers)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.json() == {
        "error": "send Authorization: Bearer with the token of http.token_file"
    }
    assert "CANARY" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_it_is_read_only_also_for_those_let_in(web, method):
    async with web.serving(web.settings(token=True)) as client:
        for path in ("/v1/runs", "/v1/runs/x", "/metrics", "/healthz"):
            answer = await client.request(method, path, headers=BEARER)
            assert answer.status_code == 405
        assert (await client.request(method, "/v1/runs")).status_code == 401


async def test_health_is_for_everyone_and_its_reasons_are_not(web):
    async with web.serving(web.settings(token=True)) as client:
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()) == (503, {"status": "unwell"})
        answer = await client.get("/healthz", headers=BEARER)
        assert "broker.plant-4" in answer.json()["parts"]["mqtt"]


async def test_a_new_token_needs_no_restart(web, caplog):
    async with web.serving(web.settings(token=True)) as client:
        web.token.write_text("a-token-of-the-new-year\n")
        assert (await client.get("/v1/runs", headers=BEARER)).status_code == 401
        new = {"Authorization": "Bearer a-token-of-the-new-year"}
        assert (await client.get("/v1/runs", headers=new)).status_code == 200
        web.token.write_text("")
        assert (await client.get("/v1/runs", headers=new)).status_code == 200
        assert "the old token stays" in caplog.text
        assert (await client.get("/v1/runs", headers=BEARER)).status_code == 401


@pytest.mark.parametrize("content", ["", "\n", "short", "a" * 15, "ä" * 20, "a" * 16 + "\x00"])
def test_what_is_no_token_is_refused_at_the_start(web, content):
    web.token.write_text(content)
    with pytest.raises(
        SettingsError, match=r"^http\.token_file: .*token is to hold one line"
    ) as caught:
        HttpServer(None, web.settings(token=True))
    if content.strip():
        assert content.strip() not in str(caught.value)


def test_a_token_s_file_that_is_not_there_is_named(web):
    web.token.unlink()
    with pytest.raises(SettingsError, match=r"^http\.token_file: cannot read .*token: No such"):
        HttpServer(None, web.settings(token=True))


async def test_a_certificate_lets_in(web):
    settings = web.settings("0.0.0.0", tls=True)
    async with web.serving(settings, pair=web.ca.client("grafana.plant-4")) as client:
        assert (await client.get("/v1/runs")).status_code == 200
        assert "parts" in (await client.get("/healthz")).json()


async def test_without_one_there_is_health_alone(web):
    async with web.serving(web.settings(tls=True)) as client:
        assert await codes(client) == {401}
        answer = await client.get("/v1/runs", headers=BEARER)
        assert answer.json() == {
            "error": "send a client certificate of the authority in http.tls.ca_file"
        }
        assert "WWW-Authenticate" not in answer.headers
        assert (await client.get("/healthz")).json() == {"status": "unwell"}


async def test_with_both_either_will_do(web):
    settings = web.settings(tls=True, token=True)
    async with web.serving(settings) as client:
        assert (await client.get("/v1/runs", headers=BEARER)).status_code == 200
        answer = await client.get("/v1/runs")
        assert answer.status_code == 401
        assert ", or a client certificate" in answer.json()["error"]
    async with web.serving(settings, pair=web.ca.client("grafana.plant-4")) as client:
        assert (await client.get("/v1/runs")).status_code == 200


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda _, foreign: foreign.client("grafana.plant-4"), None),
        (lambda ca, _: ca.client("grafana.plant-4", days=(-9, -1)), None),
        (lambda ca, _: ca.issue("grafana.plant-4", SERVER), None),
        (lambda ca, _: ca.client("grafana.plant-4"), ssl.TLSVersion.TLSv1_1),
    ],
    ids=["foreign", "expired", "wrong purpose", "TLS 1.1"],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_a_certificate_that_is_not_good_is_refused_by_the_handshake(
    web, tmp_path, make, version
):
    pair = make(web.ca, Authority(tmp_path / "foreign", "Another CA"))
    async with web.serving(web.settings(tls=True)):
        context = web.context(pair)
        if version is not None:
            context.minimum_version = context.maximum_version = version
            context.set_ciphers("DEFAULT@SECLEVEL=0")
        async with httpx.AsyncClient(verify=context) as client:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await client.get(f"https://127.0.0.1:{web.port}/healthz")


@pytest.mark.parametrize(
    ("name", "entry", "words"),
    [
        ("press-07", "", "it names a device, and devices do not read"),
        ("", "", "it names nobody"),
        ("grafana.plant-4", "grafana.plant-4", "it is on the denylist"),
        ("grafana.plant-4", "{serial}", "it is on the denylist"),
    ],
)
async def test_a_good_certificate_that_lets_nobody_in_is_told_why(web, caplog, name, entry, words):
    pair = web.ca.client(name, file="reader")
    web.denied.write_text(entry.format(serial=pair.serial))
    async with web.serving(web.settings(tls=True), pair=pair) as client:
        answer = await client.get("/v1/runs")
    assert answer.status_code == 403
    assert answer.json()["error"].startswith(f"your certificate does not let you in: {words}")
    assert "refused a reader" in caplog.text


async def test_a_denial_counts_on_a_connection_that_is_open(web):
    pair = web.ca.client("grafana.plant-4")
    async with web.serving(web.settings(tls=True), pair=pair) as client:
        assert (await client.get("/v1/runs")).status_code == 200
        web.denied.write_text(pair.serial)
        assert (await client.get("/v1/runs")).status_code == 403


async def test_a_renewed_certificate_is_shown_without_a_restart(web):
    async with web.serving(web.settings(tls=True, token=True)) as client:
        assert (await client.get("/v1/runs", headers=BEARER)).status_code == 200
        new = Authority(web.folder / "next", "Next year's CA").server()
        for old, renewed in ((web.pair.cert, new.cert), (web.pair.key, new.key)):
            old.write_bytes(renewed.read_bytes())
        context = ssl.create_default_context(cafile=new.cert.parent / "ca.crt")
        async with httpx.AsyncClient(verify=context) as other:
            url = f"https://127.0.0.1:{web.port}/v1/runs"
            assert (await other.get(url, headers=BEARER)).status_code == 200
