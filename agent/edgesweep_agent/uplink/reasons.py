"""What a broker's reason codes mean for us (MQTT 5, 2.4). Pure."""

from __future__ import annotations

from .base import Told, TooLarge, Trouble, UplinkDown

NO_SUBSCRIBERS = 0x10
_FAILURES = 0x80
_NOT_LET_IN = frozenset({0x86, 0x87, 0x8A, 0x8C})
"""Bad user name or password, not authorized, banned, bad authentication method."""
_NOT_NOW = frozenset({0x80, 0x88, 0x89, 0x8B, 0x8D})
"""Unspecified, server unavailable, busy, shutting down, keep alive timeout."""
_TAKEN_OVER = 0x8E
_TOO_LARGE = 0x95


def connect_refused(code: int, name: str) -> UplinkDown:
    """A CONNACK that is a no."""
    text = f"the broker refuses the connection: {name}"
    if code in _NOT_LET_IN:
        return UplinkDown(text, Trouble.AUTH_FAILED)
    return UplinkDown(text, Trouble.UNREACHABLE if code in _NOT_NOW else Trouble.REFUSED)


def ended(code: int, name: str, client_id: str, *, by_broker: bool) -> UplinkDown:
    """The end of a connection that was up.

    Args:
        code: The reason, paho's own if the broker gave none.
        name: Its name.
        client_id: Ours.
        by_broker: Whether the broker sent the reason.
    """
    if code == _TAKEN_OVER:
        return UplinkDown(*taken_over(client_id))
    if code == _TOO_LARGE:
        text = "the broker ended the connection: a record was larger than it takes"
        return UplinkDown(text, Trouble.TOO_LARGE, too_large=TooLarge())
    if not by_broker:
        return UplinkDown(f"the connection to the broker was lost: {name}")
    text = f"the broker ended the connection: {name}"
    if code in _NOT_LET_IN:
        return UplinkDown(text, Trouble.AUTH_FAILED)
    return UplinkDown(text, Trouble.UNREACHABLE if code in _NOT_NOW else Trouble.REFUSED)


def taken_over(client_id: str) -> tuple[str, Trouble]:
    """Somebody else connects with our client id."""
    text = (
        f"client id {client_id} is in use elsewhere: was this image cloned? "
        "give the device an id of its own"
    )
    return text, Trouble.CLIENT_ID_CONFLICT


def ends_early(client_id: str) -> Told:
    """What it means that connections keep ending early.

    mosquitto 2.0.11 closes the older of two connections with one client id without a word.
    """
    text, trouble = taken_over(client_id)
    return Told(
        trouble,
        f"connections keep ending early, as if {text}; if it has one, does the broker cut packets "
        "of a size that it does not tell (uplink.max_packet_size)?",
    )


def not_handed_on(code: int, name: str) -> Told | None:
    """What keeps a record from anybody, by its PUBACK; ``None`` if it was handed on."""
    if code == NO_SUBSCRIBERS:
        return Told(Trouble.NO_SUBSCRIBERS, "no collector is subscribed at the broker")
    if code >= _FAILURES:
        return Told(Trouble.REFUSED, f"the broker refuses records: {name}")
    return None
