"""What the status of a gRPC call means for us (grpc.io, "Status codes and their use"). Pure."""

from __future__ import annotations

import re

from .base import TooLarge, Trouble, UplinkDown

_TROUBLES = {
    "UNAUTHENTICATED": Trouble.AUTH_FAILED,
    "PERMISSION_DENIED": Trouble.AUTH_FAILED,
    "UNIMPLEMENTED": Trouble.REFUSED,
    "INVALID_ARGUMENT": Trouble.REFUSED,
    "FAILED_PRECONDITION": Trouble.REFUSED,
}
# The words of grpc-core and grpc-go, of grpc-java, and of grpc-dotnet, which tells no figures.
_SIZES = (
    re.compile(r"message larger than max \((?P<size>\d+) vs\. (?P<limit>\d+)\)"),
    re.compile(r"message exceeds maximum size (?P<limit>\d+): (?P<size>\d+)"),
    re.compile(r"message exceeds the maximum configured message size"),
)


def ended(code: str, details: str, pushback_ms: str | None = None) -> UplinkDown:
    """The end of a call.

    Args:
        code: The status by its name.
        details: Its text.
        pushback_ms: ``grpc-retry-pushback-ms`` of its trailing metadata: how long to wait.
    """
    text = f"{code.lower()}: {details}"
    too_large = _too_large(details) if code == "RESOURCE_EXHAUSTED" else None
    if too_large is not None:
        return UplinkDown(text, Trouble.TOO_LARGE, too_large=too_large)
    trouble = _TROUBLES.get(code, Trouble.UNREACHABLE)
    if code == "UNIMPLEMENTED":
        text = f"{text}; is there another service at this address?"
    wait_s = int(pushback_ms) / 1000 if pushback_ms and pushback_ms.isdecimal() else 0.0
    return UplinkDown(text, trouble, wait_s=wait_s)


def _too_large(details: str) -> TooLarge | None:
    for pattern in _SIZES:
        if (found := pattern.search(details)) is not None:
            figures = {name: int(value) for name, value in found.groupdict().items()}
            return TooLarge(figures.get("size"), figures.get("limit"))
    return None
