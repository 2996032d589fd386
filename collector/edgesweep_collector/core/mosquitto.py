"""The configuration of a mosquitto that knows devices and collectors by their certificates.

For mosquitto 2.0 (Debian 12 has 2.0.11). What each line is for stands beside it, since a plant
will want to change some of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgesweep.envelope import MAX_PAYLOAD_BYTES
from edgesweep.topics import is_device_id

IN_FLIGHT = 64
"""Messages on their way to one collector; no more than its own receive maximum are ever used."""
MAX_PACKET_BYTES = MAX_PAYLOAD_BYTES + 64 * 1024
"""A whole packet: the largest payload, its envelope, its topic and properties."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WORD = re.compile(r"[^\s\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class Site:
    """What differs from plant to plant.

    Attributes:
        ca_file: The authority of devices and collectors, as mosquitto will find it.
        cert_file: The broker's certificate.
        key_file: Its key.
        acl_file: Where the access list will be.
        port: The port to listen on.
        address: The address to listen on; all of them if empty.
        collectors: The common names of the collectors' certificates.
        crl_file: The authority's list of revoked certificates, if it keeps one.
        denied: Devices that may neither publish nor hear, although their certificates are good.
    """

    ca_file: str
    cert_file: str
    key_file: str
    acl_file: str
    port: int
    collectors: tuple[str, ...]
    address: str = ""
    crl_file: str | None = None
    denied: tuple[str, ...] = ()


def objection(site: Site) -> str | None:
    """Why no configuration can be made for a site; ``None`` if one can."""
    if not site.collectors:
        return "no collector is named, and nobody could read what devices send"
    for name in site.collectors:
        if not _NAME.fullmatch(name):
            return f"{name!r} is no name of a collector: letters, digits, . _ -"
        if is_device_id(name):
            return (
                f"{name!r} could be the id of a device, and a device with that certificate would "
                f"be taken for a collector: put a dot into it, such as collector.{name}"
            )
    files = (site.ca_file, site.cert_file, site.key_file, site.acl_file, site.crl_file or "-")
    for text in (*files, site.address or "-"):
        if not _WORD.fullmatch(text):
            return f"{text!r}: mosquitto takes no name with a space in it"
    return None


def configuration(site: Site) -> str:
    """``mosquitto.conf``, whole: also good as a file of ``conf.d``."""
    crl = (
        f"crlfile {site.crl_file}"
        if site.crl_file
        else "# crlfile /etc/mosquitto/ca.crl    (once the authority keeps a list; SIGHUP reads it)"
    )
    return f"""\
# The broker between edgesweep's devices and collectors. Made by `edgesweep-collector mosquitto`.
# For mosquitto 2.0. Start: mosquitto -c FILE, or put it into /etc/mosquitto/conf.d.

# One access list for all listeners. With `true`, an acl_file that stands above its listener
# is ignored without a word, and everyone may publish everything.
per_listener_settings false
allow_anonymous false
acl_file {site.acl_file}

# Nothing that a device or a collector relies on is kept here: a device keeps a record until the
# collector's archive has it, and sends it again.
persistence false

listener {site.port}{f" {site.address}" if site.address else ""}
cafile {site.ca_file}
certfile {site.cert_file}
# Readable by the broker's user, who is not root when it is read: mode 0640, group mosquitto.
keyfile {site.key_file}
{crl}
# The oldest version of TLS that is spoken.
tls_version tlsv1.2
# Nobody without a certificate of the authority; its common name is the user of the access list,
require_certificate true
use_identity_as_username true
# and the client id, whatever a client says: nobody can throw another out by taking its id.
use_username_as_clientid true

# The largest packet there is, and a bound for whoever sends larger ones.
max_packet_size {MAX_PACKET_BYTES}
# On their way to one collector, and waiting for it. What finds no room is sent again.
max_inflight_messages {IN_FLIGHT}
max_queued_messages 1000
max_queued_bytes 67108864
# A device that lost power is told to be offline within one and a half times this, in seconds.
max_keepalive 120
set_tcp_nodelay true
"""


def access_list(site: Site) -> str:
    """The access list: devices speak for themselves, collectors hear all of them."""
    collectors = "".join(
        f"""
user {name}
topic read edgesweep/v1/+/up/+
topic read edgesweep/v1/+/state
topic write edgesweep/v1/+/down/+
"""
        for name in site.collectors
    )
    denied = "".join(f"\nuser {name}\ntopic deny #\n" for name in site.denied)
    return f"""\
# Who may publish and read what. Made by `edgesweep-collector mosquitto`.
# mosquitto reads it again on SIGHUP. It grants every subscription, and then passes on only
# what may be read. What may not be published it refuses: with 0x87 under MQTT 5 and QoS 1,
# without a word otherwise.

# Every certificate, %u being its common name. A device sends what it measured and says whether
# it is online (its last will is checked in the same way), and hears what is meant for it.
pattern write edgesweep/v1/%u/up/+
pattern write edgesweep/v1/%u/state
pattern read edgesweep/v1/%u/down/+
# A common name with a slash in it ("press-07/up") would make the state of one the data of
# another. The authority should sign no such name; if it did, it is of no use.
pattern deny edgesweep/v1/+/up/state

# Collectors. Their names have a dot, which no device's id has.{collectors}
# Devices that are denied everything, from the next SIGHUP on, whether connected or not.{denied}"""
