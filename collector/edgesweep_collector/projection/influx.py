"""Lines into InfluxDB over ``/api/v2/write``, one synchronous request at a time.

influxdb-client is used in its ``SYNCHRONOUS`` mode only: its batching mode keeps points in memory
without bound, logs its errors and loses what is left at exit (influxdata/influxdb-client-python
#326, #332, #394). Its retries stay off, since :mod:`.settle` decides on those.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import urllib3
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.domain.write_precision import WritePrecision
from influxdb_client.rest import ApiException

from edgesweep_collector.projection.base import (
    Refused,
    Rejected,
    TooLarge,
    Unavailable,
    WriteError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_STORED = 204
# InfluxDB Cloud Dedicated and Serverless: stored in part, the rest listed in the body.
_STORED_IN_PART = 201
_ALARMS = {401: "influx_auth", 403: "influx_auth", 404: "influx_bucket", 0: "influx_tls"}
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class Target:
    """Where to write.

    Attributes:
        url: Root of the server, such as ``http://127.0.0.1:8086``.
        org: Organisation; 1.x and 3 Core ignore it.
        bucket: Bucket (2.x), database (3) or ``database/policy`` (1.x).
        token_file: File that holds the token and nothing else; ``None`` to send none.
        timeout_s: Longest time one request may take.
    """

    url: str
    org: str
    bucket: str
    token_file: Path | None = None
    timeout_s: float = 10.0


class InfluxWriter:
    """A :class:`~.base.Writer` for one bucket; used by one thread at a time.

    The token file is read again after a refusal, so a corrected token needs no restart.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: InfluxDBClient | None = None

    def write(self, lines: Sequence[str]) -> None:
        """Store ``lines`` (not empty) with nanosecond times.

        Raises:
            WriteError: as :meth:`.base.Writer.write` says.
        """
        try:
            status = self._post("\n".join(lines).encode())
        except ApiException as error:
            if error.status in _ALARMS:
                self.close()
            raise _error_of(error.status, _words(error), error.headers or {}) from error
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        except UnicodeDecodeError as error:
            # The client decodes an error page before it looks at the status.
            raise Unavailable("the answer is not UTF-8: a proxy's error page?") from error
        if status != _STORED:
            raise _error_of(status, f"answered {status} instead of {_STORED}", {})

    def close(self) -> None:
        """Close the connection; a later write opens one again."""
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call]
            self._client = None

    def _post(self, body: bytes) -> int:
        client = self._client = self._client or self._open()
        client.write_api(write_options=SYNCHRONOUS).write(
            bucket=self._target.bucket,
            org=self._target.org,
            record=body,
            # Explicit: 1.x takes an unknown precision for ns, 3 guesses when there is none.
            write_precision=WritePrecision.NS,  # type: ignore[arg-type]
        )
        return int(client.api_client.last_response.status)

    def _open(self) -> InfluxDBClient:
        return InfluxDBClient(
            url=self._target.url,
            org=self._target.org,
            token=_token(self._target.token_file),
            timeout=round(self._target.timeout_s * 1000),
            retries=False,
        )


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read the token file: {error}", "influx_auth") from error
    if not token.isprintable() or not token:
        raise Refused("the token file does not hold one line of text", "influx_auth")
    return token


def _error_of(status: int, words: str, headers: Mapping[str, str]) -> WriteError:
    """What a status means; every one that blames no line keeps the lines."""
    message = f"{status}: {words}"
    if status == 413:
        return TooLarge(message)
    if status in {400, 422, _STORED_IN_PART}:
        return Rejected(message)
    if status in {408, 425, 429} or status >= 500:
        return Unavailable(message, _retry_after_s(headers))
    return Refused(message, _ALARMS.get(status, "influx_answer"))


def _words(error: ApiException) -> str:
    text = str(error.body or error.reason or "no answer")
    return " ".join(text.split())[:_LONGEST_MESSAGE]


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds; a date (RFC 9110 10.2.3) counts from the server's own clock."""
    found = {key.lower(): value.strip() for key, value in headers.items()}
    asked = found.get("retry-after", "")
    if asked.isdecimal():
        return float(asked)
    try:
        then, now = (parsedate_to_datetime(text) for text in (asked, found.get("date", "")))
    except (TypeError, ValueError):
        return None
    return (then - now).total_seconds()
