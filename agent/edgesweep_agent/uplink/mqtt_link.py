"""One connection to a broker, as the event loop sees it, and paho's callbacks on the other side.

The callbacks run in paho's thread, some of them under its locks (eclipse-paho/paho.mqtt.python#354,
#613), and an exception in one of them kills that thread while ``is_connected()`` stays true. So
they put what they hear on the loop, and do nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import anyio
import paho.mqtt.client as paho

from edgesweep import topics
from edgesweep.envelope import Ack, WireError, decode_ack
from edgesweep_agent.core import alerts

from . import reasons
from .base import Passed, Trouble, UplinkDown
from .publish import described, form

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from edgesweep.delivery import Key, Parcel

    from .base import Told

_log = logging.getLogger(__name__)

IN_FLIGHT = 64
"""Publishes that wait for their PUBACK, at most; a broker may say less."""
_ACKS = 4096
"""Acks that wait to be read; what is over comes again, for an envelope that is sent again."""

_WORD_S = 1.0


class MqttLink:
    """A connection of ``client``, which was not used before.

    Args:
        client: paho's.
        device_id: Whose topics.
        max_packet_bytes: What the settings say of a broker that does not say it itself.

    Attributes:
        opened: Set once it is of use, or lost.
        gone: Set once it is lost.
    """

    lasts_s = None

    def __init__(
        self, client: paho.Client, device_id: str, max_packet_bytes: int | None = None
    ) -> None:
        self.trouble: Told | None = None
        self.opened = anyio.Event()
        self.gone = anyio.Event()
        self._client = client
        self._device_id = device_id
        self._max_packet_bytes = max_packet_bytes
        self._most = IN_FLIGHT
        self._sent: dict[int, Key | None] = {}
        self._room = anyio.Event()
        self._words: asyncio.Queue[Ack | Passed | UplinkDown | None] = asyncio.Queue()
        self._down: UplinkDown | None = None
        self._odd = False

    def limit_bytes(self, parcel: Parcel) -> int | None:
        """How large such an envelope may be, so that the whole packet is within the limit."""
        if self._max_packet_bytes is None:
            return None
        return self._max_packet_bytes - form(self._device_id, parcel.topic_kind).overhead_bytes

    async def send(self, parcel: Parcel) -> None:
        """Give one envelope to paho, which never holds more than the broker takes at once."""
        while self._down is None and len(self._sent) >= self._most:
            self._room = anyio.Event()
            await self._room.wait()
        self.check()
        how = form(self._device_id, parcel.topic_kind)
        if not self._publish(how.topic, parcel.data, parcel.key, properties=how.properties):
            # Why it is gone is on its way here from paho's thread.
            with anyio.move_on_after(_WORD_S):
                await self.gone.wait()
            self.check()
            raise UplinkDown("the connection to the broker was lost")

    def announce(self, state: bytes) -> None:
        """Publish our state, retained. Nothing else ever is."""
        how = described("application/json")
        self._publish(topics.state(self._device_id), state, None, properties=how, retain=True)

    async def words(self) -> AsyncIterator[Ack | Passed]:
        """Acks, and PUBACKs, until the connection is lost or finished."""
        while (word := await self._words.get()) is not None:
            if isinstance(word, UplinkDown):
                raise word
            yield word

    async def finish(self) -> None:
        """End :meth:`words`."""
        self._words.put_nowait(None)

    def check(self) -> None:
        """Raise what ended the connection, if something did."""
        if self._down is not None:
            raise self._down

    # -- what the broker said, told on the loop ------------------------------------------

    def accepted(self, properties: Any) -> None:
        """The CONNACK, which says anew at each connection how much the broker takes."""
        told = getattr(properties, "MaximumPacketSize", None)
        self._max_packet_bytes = told or self._max_packet_bytes
        self._most = min(IN_FLIGHT, getattr(properties, "ReceiveMaximum", IN_FLIGHT))

    def heard(self, payload: bytes) -> None:
        """A message came on the ack topic."""
        try:
            ack = decode_ack(payload)
        except WireError as error:
            if not self._odd:
                _log.warning("no ack on the ack topic", extra={"error": str(error)})
            self._odd = True
            return
        if self._words.qsize() < _ACKS:
            self._words.put_nowait(ack)

    def answered(self, mid: int, code: int, name: str) -> None:
        """A PUBACK. What it says of an envelope is no receipt, but may be a no."""
        if mid not in self._sent:
            return
        key = self._sent.pop(mid)
        self._room.set()
        if key is not None:
            self.trouble = reasons.not_handed_on(code, name)
            self._words.put_nowait(Passed(key, handed_on=self.trouble is None))

    def lost(self, down: UplinkDown) -> None:
        """The connection is gone; the first reason is the one that counts."""
        if self._down is None:
            self._down = down
            self._words.put_nowait(down)
            self._room.set()
            self.opened.set()
            self.gone.set()

    def _publish(self, topic: str, data: bytes, key: Key | None, **options: Any) -> bool:
        info = self._client.publish(topic, data, qos=1, **options)
        # Offline, paho would keep it for the next connection of this client; there is none.
        if info.rc != paho.MQTT_ERR_SUCCESS:
            return False
        self._sent[info.mid] = key
        return True


class Ears:
    """paho's callbacks for a link.

    Args:
        link: Who is told, on ``loop``.
        loop: The event loop.
        client_id: Ours, which is the device's.
        secure: Whether there is TLS.
    """

    def __init__(
        self, link: MqttLink, loop: asyncio.AbstractEventLoop, client_id: str, *, secure: bool
    ) -> None:
        self._link = link
        self._loop = loop
        self._client_id = client_id
        self._secure = secure
        self._accepted = False
        self._said = _Said()

    def listen_to(self, client: paho.Client) -> None:
        """Set the callbacks of a client that is not connected yet."""
        # Its own on_log is handed a text of every packet, ready made.
        client.enable_logger(self._said.logger)
        client.on_connect = _guarded(self._on_connect)
        client.on_subscribe = _guarded(self._on_subscribe)
        client.on_message = _guarded(self._on_message)
        client.on_publish = _guarded(self._on_publish)
        client.on_disconnect = _guarded(self._on_disconnect)

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)

    def _on_connect(self, client: paho.Client, _u: Any, _f: Any, reason: Any, more: Any) -> None:
        self._accepted = True
        if reason.is_failure:
            self._tell(self._link.lost, reasons.connect_refused(reason.value, str(reason)))
            return
        self._tell(self._link.accepted, more)
        client.subscribe(topics.ack(self._client_id), qos=0)

    def _on_subscribe(self, _c: Any, _u: Any, _m: Any, answers: Any, _p: Any) -> None:
        refused = next((str(answer) for answer in answers if answer.is_failure), None)
        if refused is None:
            self._tell(self._link.opened.set)
            return
        text = f"the broker refuses the subscription to {topics.ack(self._client_id)}: {refused}"
        self._tell(self._link.lost, UplinkDown(text, Trouble.REFUSED))

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        self._tell(self._link.heard, bytes(message.payload))

    def _on_publish(self, _c: Any, _u: Any, mid: int, reason: Any, _p: Any) -> None:
        self._tell(self._link.answered, mid, reason.value, str(reason))

    def _on_disconnect(self, _c: Any, _u: Any, flags: Any, reason: Any, _p: Any) -> None:
        by_broker = flags.is_disconnect_packet_from_server
        if self._accepted:
            code, name = reason.value, str(reason)
            down = reasons.ended(code, name, self._client_id, by_broker=by_broker)
        else:
            down = self._turned_away()
        self._tell(self._link.lost, down)

    def _turned_away(self) -> UplinkDown:
        """Closed before any answer: under TLS 1.3 that is how a certificate is refused."""
        if self._secure:
            return UplinkDown(f"the broker: {alerts.refusal(self._said.text)}", Trouble.CERTIFICATE)
        text = "the broker closes the connection without an answer: does it want TLS?"
        return UplinkDown(text)


class _Said(logging.Handler):
    """What paho logs as an error: the only place where it says what TLS said after a handshake."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self.logger = logging.Logger("paho", logging.ERROR)  # noqa: LOG001 - nobody else's
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        text = record.getMessage()
        self.text = text if "SSL" in text else self.text


def _guarded(callback: Callable[..., None]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception:  # noqa: BLE001 - it would end paho's thread, and nobody would know
            _log.exception("a callback of the MQTT client failed")

    return call
