"""Which processes of this device are behind an address: found by the port they listen on."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from edgesweep_agent.sensors.files import Files

    EnginePids = Callable[[], "frozenset[int] | None"]
    """An engine's first processes; none if it is on another device, ``None`` if not known."""

_LISTENS = "0A"
"""TCP_LISTEN in ``/proc/net/tcp``."""
_TABLE_BYTES = 4 << 20
_INIT = 1
"""With socket activation it holds the socket beside the service."""
_FORWARDERS = frozenset(
    {
        *("docker-proxy", "kube-proxy", "conmon", "rootlessport", "rootlesskit"),
        *("passt", "pasta", "slirp4netns", "socat", "ssh", "sshd"),
        *("caddy", "envoy", "haproxy", "nginx", "traefik"),
    }
)
"""They listen for an engine that is somewhere else."""


def attached(url: str, files: Files) -> EnginePids:
    """The engine behind an address; looks its host's name up, which may block."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = _local_addresses(parts.hostname or "")
    if not addresses:
        return frozenset
    return lambda: listeners(files, addresses, port)


def together(parts: Sequence[EnginePids]) -> EnginePids:
    """Several servers as one engine; not known if one of them is not."""

    def pids() -> frozenset[int] | None:
        found = [part() for part in parts]
        known = [some for some in found if some is not None]
        return frozenset().union(*known) if len(known) == len(found) else None

    return pids


def listeners(files: Files, addresses: frozenset[str], port: int) -> frozenset[int] | None:
    """Processes that listen on ``port`` at one of ``addresses``, or at all of the device's.

    ``None`` where they cannot be told: another user's (only root sees whose socket it is), in a
    network of their own, or behind something that only passes requests on.
    """
    sockets = frozenset(_sockets(files, addresses, port))
    found = {
        int(path.rpartition("/")[2])
        for path in files.names("proc", r"\d+")
        if sockets and _holds(files, path, sockets)
    } - {_INIT}
    names = {files.text(f"proc/{pid}/comm") for pid in found}
    return frozenset(found) if found and not names & _FORWARDERS else None


def _sockets(files: Files, addresses: frozenset[str], port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        text = files.read(f"proc/net/{table}", limit=_TABLE_BYTES)
        for line in text.splitlines()[1:] if isinstance(text, str) else ():
            fields = line.split()
            if len(fields) < 10 or fields[3] != _LISTENS:
                continue
            address, _, at = fields[1].partition(":")
            host = _address(address)
            if int(at, 16) == port and (host.is_unspecified or str(host) in addresses):
                yield f"socket:[{fields[9]}]"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Words of four bytes, each in the machine's order: little-endian wherever we run."""
    words = re.findall("." * 8, text)
    packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _holds(files: Files, process: str, sockets: frozenset[str]) -> bool:
    with suppress(OSError), os.scandir(files.root / process / "fd") as entries:
        for entry in entries:
            # It may be closed meanwhile.
            with suppress(OSError):
                if os.readlink(entry.path) in sockets:  # noqa: PTH115 - a link to no path
                    return True
    return False


def _local_addresses(host: str) -> frozenset[str]:
    """Those of a host's addresses that are this device's."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(place[0]) for family, *_, place in found if _is_local(family, place))


def _is_local(family: int, place: tuple[object, ...]) -> bool:
    """Only a device's own addresses can be bound."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((place[0], 0, *place[2:]))
        return True
    return False
