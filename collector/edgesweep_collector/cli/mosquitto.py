"""``mosquitto``: write the configuration of a broker that lets each device speak for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgesweep.topics import is_device_id
from edgesweep_collector.core.mosquitto import Site, access_list, configuration, objection
from edgesweep_collector.peers import Denylist
from edgesweep_common.outfile import STANDARD_OUTPUT, place, replacing

from . import values

Folder = Annotated[
    Path,
    typer.Option("--out", parser=values.path, metavar="DIR", help="Write the two files here."),
]
Authority = Annotated[
    Path,
    typer.Option(
        "--ca",
        parser=values.path,
        metavar="FILE",
        help="The authority of devices and collectors.",
    ),
]
Certificate = Annotated[
    Path,
    typer.Option("--cert", parser=values.path, metavar="FILE", help="The broker's certificate."),
]
Key = Annotated[Path, typer.Option("--key", parser=values.path, metavar="FILE", help="Its key.")]
Revoked = Annotated[
    Path | None,
    typer.Option(
        "--crl",
        parser=values.path,
        metavar="FILE",
        help="The authority's list of revoked ones.",
    ),
]
Denied = Annotated[
    Path | None,
    typer.Option(
        "--denylist", parser=values.path, metavar="FILE", help="The collectors' denylist_file."
    ),
]
Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
Address = Annotated[str, typer.Option(help="The address to listen on (default: all).")]
Collectors = Annotated[
    list[str] | None,
    typer.Option(
        "--collector",
        metavar="NAME",
        help="Common name of a collector's certificate; may be given again (default: collector.1).",
    ),
]


def mosquitto(  # noqa: PLR0913, PLR0917 -- the options of a command
    out: Folder,
    ca: Authority,
    cert: Certificate,
    key: Key,
    crl: Revoked = None,
    denylist: Denied = None,
    port: Port = 8883,
    address: Address = "",
    collector: Collectors = None,
) -> None:
    """Write mosquitto.conf and acl for mosquitto 2.0, with mutual TLS and a topic per device.

    Certificates and keys are only named, as the broker will see them, so that this can be run on
    another machine. After a change of the access list, send the broker SIGHUP.
    """
    denied = Denylist(None if denylist is None else str(denylist), "--denylist").names
    site = Site(
        ca_file=str(ca.absolute()),
        cert_file=str(cert.absolute()),
        key_file=str(key.absolute()),
        acl_file=str((out / "acl").absolute()),
        port=port,
        address=address,
        collectors=tuple(collector or ("collector.1",)),
        crl_file=None if crl is None else str(crl.absolute()),
        denied=tuple(sorted(filter(is_device_id, denied))),
    )
    problem = objection(site)
    if problem is not None:
        raise typer.BadParameter(problem)
    if out == STANDARD_OUTPUT:
        raise typer.BadParameter("--out names a folder: two files cannot go to standard output")
    for name, text in (("mosquitto.conf", configuration(site)), ("acl", access_list(site))):
        with replacing(place("--out", out / name, make_folder=True)) as file:
            file.write(text.encode())
    typer.echo(f"{out / 'mosquitto.conf'}\n{out / 'acl'}")
