"""Lines into InfluxDB over ``/api/v2/write``, one synchronous request at a time.

influxdb-client is used for its synchronous service alone: its batching mode keeps points in
memory without bound, logs its errors and loses what is left at exit
(influxdata/influxdb-client-python#326, #332, #394). Its retries stay off, since :mod:`.settle`
decides on those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import urllib3
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.domain.write_precision import WritePrecision
from influxdb_client.rest import ApiException
from influxdb_client.service.write_service import WriteService

from edgesweep_collector.projection.base import (
    Expiring,
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
# 1.x and 2.x up to 2.7.10, and later ones. What 1.12 says of a type conflict names the retention
# policy as well: unpoller/unpoller#944.
_EXPIRED = re.compile(r"points (?:beyond|outside) (?:the )?retention policy")
_DROPPED = re.compile(r"dropped[= ](\d+)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where to write.

    Attributes:
        url: Root of the server, such as ``http://127.0.0.1:8086``.
        org: Organisation; 1.x and 3 Core ignore it.
        bucket: Bucket (2.x), database (3) or ``database/policy`` (1.x).
        token_file: File that holds the token and nothing else; ``None`` to send none.
        ca_file: Authorities to trust for https; ``None`` for those of certifi.
        timeout_s: Longest time one request may take.
    """

    url: str
    org: str
    bucket: str
    token_file: Path | None = None
    ca_file: Path | None = None
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
            status, words = self._post("\n".join(lines).encode())
        except ApiException as error:
            # A server, or a proxy before it, may answer with what it was sent (SEC-01).
            words = _words(error, self._secret())
            if error.status in _ALARMS:
                self.close()
            raise _error_of(error.status, words, error.headers or {}) from error
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        if status != _STORED:
            raise _error_of(status, words or f"instead of {_STORED}", {})

    def close(self) -> None:
        """Close the connection; a later write opens one again."""
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call]
            self._client = None

    def _post(self, body: bytes) -> tuple[int, str]:
        client = self._client = self._client or self._open()
        answer = WriteService(client.api_client).post_write(  # type: ignore[no-untyped-call]
            org=self._target.org,
            bucket=self._target.bucket,
            body=body,
            # Explicit: 1.x takes an unknown precision for ns, 3 guesses when there is none.
            precision=WritePrecision.NS,
            # Else the client decodes as UTF-8 before it looks at the status, and an error page
            # of a proxy in another encoding would hide that status.
            _preload_content=False,
        )
        return answer.status, _text(answer.data, self._secret())

    def _secret(self) -> str:
        return "" if self._client is None else str(self._client.token)

    def _open(self) -> InfluxDBClient:
        ca_file = self._target.ca_file
        return InfluxDBClient(
            url=self._target.url,
            org=self._target.org,
            token=_token(self._target.token_file),
            timeout=round(self._target.timeout_s * 1000),
            retries=False,
            ssl_ca_cert=None if ca_file is None else str(ca_file),
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
    # 2.0 called a partial write an internal error (influxdata/influxdb#19779): asking again
    # would never help.
    if status in {400, 422, _STORED_IN_PART} or (status == 500 and "partial write" in words):
        return _rejected(message)
    if status in {408, 425, 429} or status >= 500:
        return Unavailable(message, _retry_after_s(headers))
    return Refused(message, _ALARMS.get(status, "influx_answer"))


def _rejected(message: str) -> Rejected:
    if not _EXPIRED.search(message):
        return Rejected(message)
    dropped = _DROPPED.search(message)
    return Expiring(message, int(dropped[1]) if dropped else 1)


def _words(error: ApiException, secret: str) -> str:
    reason = str(error.reason or "no answer").encode()
    return _text(error.body, secret) or _text(reason, secret)


def _text(body: bytes | None, secret: str) -> str:
    text = (body or b"").decode("utf-8", errors="replace")
    # Before it is cut, or the first half of the secret might be left.
    hushed = text.replace(secret, "(the token)") if secret else text
    return " ".join(hushed.split())[:_LONGEST_MESSAGE]


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
