"""What TLS says when one side refuses the other, in words of which one can do something.

The names are those of RFC 8446 6.2, which OpenSSL has in its messages in one spelling or another.
"""

from __future__ import annotations

_REFUSALS = {
    "CERTIFICATE_EXPIRED": "it says that our certificate has expired",
    "CERTIFICATE_REVOKED": "it says that our certificate was revoked",
    "UNKNOWN_CA": "it does not know the authority that signed our certificate",
    "CERTIFICATE_REQUIRED": "it wants a certificate of us",
    "UNSUPPORTED_CERTIFICATE": "our certificate is not for clients",
    "BAD_CERTIFICATE": "it refuses our certificate",
    "CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "ACCESS_DENIED": "it refuses our certificate",
    "DECRYPT_ERROR": "it finds our signature wrong",
    "PROTOCOL_VERSION": "it speaks no version of TLS that we do (1.2 or newer)",
    "HANDSHAKE_FAILURE": "it has no cipher in common with us, or wants another kind of key",
    "WRONG_VERSION_NUMBER": "it speaks no TLS at this port",
}
_SILENT = (
    "it closed the connection without a word: it refuses our certificate (another authority, "
    "expired, revoked?), or speaks no TLS at this port; its log says which"
)


def refusal(message: str) -> str:
    """Why the other side refuses us, from the message of an ``ssl.SSLError`` or of none."""
    said = message.upper().replace(" ", "_")
    found = (words for name, words in _REFUSALS.items() if name in said)
    return next(found, _SILENT if "SSL" not in said or "EOF" in said else f"TLS: {message}")


def unsatisfied(message: str) -> str:
    """Why we refuse the other side, from what OpenSSL's verification said."""
    said = message.lower()
    why = f"we refuse its certificate: {message}"
    if "hostname mismatch" in said or "ip address mismatch" in said:
        return f"{why}; dial a name that is in it, or set server_name"
    if "issuer" in said or "self-signed" in said or "self signed" in said:
        return f"{why}; is ca_file the authority that signed it?"
    if "purpose" in said:
        return f"{why}; it lacks the extended key usage serverAuth"
    if "not yet valid" in said or "expired" in said:
        return f"{why}; is this device's clock set?"
    return why
