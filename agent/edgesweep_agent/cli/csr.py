"""``edgesweep-agent csr``: the device's key, and the request for its certificate."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep_agent import tls
from edgesweep_agent.errors import SettingsError, UsageError
from edgesweep_agent.settings import load_settings
from edgesweep_common.outfile import STANDARD_OUTPUT, place, sink

from . import values

if TYPE_CHECKING:
    from edgesweep_agent.certificate import Certificate
    from edgesweep_agent.settings import TlsSettings


def csr(
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            parser=values.path,
            metavar="FILE",
            help="The daemon's TOML file, with [uplink.tls].",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=values.path,
            metavar="FILE",
            help="Write the request here, not to standard output (-).",
        ),
    ] = None,
    new_key: Annotated[
        bool,
        typer.Option("--new-key", help="For another key; the one in use stays until --install."),
    ] = False,
    install: Annotated[
        Path | None,
        typer.Option(
            "--install",
            parser=values.path,
            metavar="FILE",
            help="Check a certificate that came back, and put it in place.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what the certificate is worth that is in place.")
    ] = False,
) -> None:
    """Make this device's key if it has none, and a request for its certificate.

    The key is made here and stays here. The request goes to whoever runs your authority.
    """
    settings = load_settings(config)
    files = settings.uplink.tls
    if files is None:
        raise SettingsError(
            f"{config}: uplink.tls: missing; cert_file and key_file there say where the "
            "certificate and its key belong"
        )
    if sum((check, install is not None, out is not None or new_key)) > 1:
        raise UsageError("--check, --install and a request (--out, --new-key) exclude each other")
    device_id = settings.device.id
    if check:
        _tell(tls.check(files, device_id), files)
    elif install is not None:
        _install(install, files, device_id)
    else:
        _request(config, files, device_id, out, new_key)


def _request(
    config: Path, files: TlsSettings, device_id: str, out: Path | None, new_key: bool
) -> None:
    from edgesweep_agent.csr import request  # noqa: PLC0415 -- slow to import

    out = out or STANDARD_OUTPUT
    target = out if out == STANDARD_OUTPUT else place("--out", out)
    made = request(files, device_id, new_key=new_key)
    with sink(target) as file:
        file.write(made.pem)
    typer.echo(f"key: {made.key_file} ({'new' if made.is_new_key else 'as it was'})", err=True)
    typer.echo(
        f"next: have the request signed for {device_id} and clientAuth (docs/security.md), bring "
        f"the certificate here, and: edgesweep-agent csr --config {config} --install CERTIFICATE",
        err=True,
    )


def _install(new: Path, files: TlsSettings, device_id: str) -> None:
    from edgesweep_agent.csr import install  # noqa: PLC0415 -- slow to import

    found = install(new, files, device_id)
    typer.echo(f"installed: {files.cert_file}")
    _tell(found, files)


def _tell(found: Certificate | None, files: TlsSettings) -> None:
    if found is None:
        typer.echo("the key belongs to the certificate; the rest could not be read")
        return
    until = datetime.fromtimestamp(found.not_after_s, timezone.utc)
    days = (found.not_after_s - time.time()) / 86_400
    typer.echo(f"device       {found.common_name}")
    typer.echo(f"serial       {found.serial}")
    typer.echo(f"good until   {until:%Y-%m-%d %H:%M}Z, {days:.0f} days")
    soon = tls.warning(found, files.cert_file)
    if soon is not None:
        typer.echo(f"warning: {soon}", err=True)
