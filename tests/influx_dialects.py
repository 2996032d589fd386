"""What each InfluxDB says to a write that it does not take, in its own words and codes.

Behind every dialect is a real 1.x server, which says what is wrong with a line; how much of the
request is stored, and how that is told, is the dialect's: by InfluxData's documentation of
2.x, 3 Core and Cloud Serverless, and by what people saw of them (tkurki/signalk-to-influxdb2#84,
influxdata/docs-v2#6071, influxdata/influxdb#27497).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Post = Callable[[bytes], "Answer"]
    """Writes lines to the real server."""

_MOST_TOLD = 100
_UNPARSED = re.compile(r"unable to parse .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to a write."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Speaks(Enum):
    """Whose words the rewrite answers with."""

    V1 = "1.x"
    V2 = "2.x"
    V3 = "3 Core"
    CLOUD = "Cloud Serverless"


def problem(status: int, **words: object) -> Answer:
    """An answer in JSON."""
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(words).encode())


def unauthorized(speaks: Speaks) -> Answer:
    if speaks is Speaks.V1:
        return problem(401, error="authorization failed")
    if speaks is Speaks.V3:
        return problem(401, error="the request was not authenticated")
    return problem(401, code="unauthorized", message="unauthorized access")


def forbidden(speaks: Speaks) -> Answer:
    if speaks is Speaks.V1:
        return problem(403, error='"agent" user is not authorized to write to database "fleet"')
    if speaks is Speaks.V3:
        return problem(403, error="the request was not authorized")
    return problem(403, code="forbidden", message="insufficient permissions for write")


def no_bucket(speaks: Speaks, bucket: str) -> Answer:
    if speaks is Speaks.V1:
        return problem(404, error=f'database not found: "{bucket}"')
    if speaks is Speaks.V3:  # it creates a database; this is what it says to a wrong address
        return problem(404, error="not found")
    return problem(404, code="not found", message=f'bucket "{bucket}" not found')


def too_large(speaks: Speaks) -> Answer:
    if speaks is Speaks.V1:
        return problem(413, error="Request Entity Too Large")
    if speaks is Speaks.V3:
        return problem(413, error="maximum request size 10485760 exceeded")
    words = "unable to read data: points batch is too large"
    return problem(413, code="request too large", message=words)


def proxy_too_large() -> Answer:
    """A proxy in between, in a page of its own, and not in UTF-8."""
    page = "<html><h1>413 Anfrage zu groß</h1></html>".encode("latin-1")
    return Answer(413, {"Content-Type": "text/html; charset=iso-8859-1"}, page)


def written(speaks: Speaks, body: bytes, parse: Post, write: Post) -> Answer:
    """What becomes of a request.

    Args:
        speaks: The dialect.
        body: Its lines.
        parse: Writes to where nothing is looked for: tells whether lines can be read.
        write: Writes for good.
    """
    if speaks is Speaks.V1:
        return write(body)
    if speaks is Speaks.V2 and (malformed := _UNPARSED.search(_words(parse(body)))):
        first = malformed[0].split("\n")[0].split(" dropped=")[0]
        return problem(400, code="invalid", message=first)
    answer = write(body)
    if answer.status != 400:
        return answer
    if speaks is Speaks.V2:
        message = f"failure writing points to database: {_words(answer)}"
        return problem(422, code="unprocessable entity", message=message)
    return _line_by_line(speaks, body, write)


def _line_by_line(speaks: Speaks, body: bytes, write: Post) -> Answer:
    answers = [(n, line, write(line)) for n, line in enumerate(body.splitlines(), 1)]
    bad = [(n, line, _words(one)) for n, line, one in answers if one.status == 400][:_MOST_TOLD]
    if speaks is Speaks.CLOUD:
        return problem(400, code="invalid", line=bad[0][0], message="\n".join(x[2] for x in bad))
    data = [
        {"original_line": line.decode()[:32], "line_number": n, "error_message": words}
        for n, line, words in bad
    ]
    return problem(400, error="partial write of line protocol occurred", data=data)


def _words(answer: Answer) -> str:
    return str(json.loads(answer.body or b"{}").get("error", ""))
