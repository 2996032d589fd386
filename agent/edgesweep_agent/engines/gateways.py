"""Signs of something between us and the engine: no engine label is published then.

A gateway rewrites ``Server`` and ``owned_by``, may buffer, and may spread requests over several
engines; what answers the questions need not be what answers the requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import NO_REPLY, object_at, objects_in, owners_of

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers

_NOT_THERE = "/.well-known/edgesweep-not-there"
"""No engine has it: who answers it with an object answers anything."""

PATHS = ("/v1/models", "/running", _NOT_THERE)

_OWNERS = ("llama-swap", "litellm", "lemonade")
_HEADERS = ("x-litellm-", "x-envoy-", "x-kong-")
_PROXIES = (
    "nginx",
    "openresty",
    "caddy",
    "envoy",
    "istio-envoy",
    "apache",
    "traefik",
    "cloudflare",
    "kong",
    "litespeed",
    "lighttpd",
    "microsoft-iis",
)


def signs(answers: Answers) -> tuple[str, ...]:
    """What only a gateway or a reverse proxy answers."""
    found = [f"/v1/models owned_by {owner}" for owner in _OWNERS if owner in owners_of(answers)]
    running = object_at(answers, "/running").get("running")
    # llama-swap's own listing of what it has started.
    if any("proxy" in entry or "cmd" in entry for entry in objects_in(running)):
        found.append("/running lists upstreams")
    nonsense = answers.get(_NOT_THERE, NO_REPLY)
    # LM Studio answers 200, too, but with an error.
    if nonsense.status == 200 and "error" not in nonsense.json_object() and not nonsense.is_html:
        found.append(f"{_NOT_THERE} is answered")
    for reply in answers.values():
        for name, value in reply.headers.items():
            if name.startswith(_HEADERS):
                found.append(f"header {name}")
            elif name == "via" or (name == "server" and value.lower().startswith(_PROXIES)):
                found.append(f"header {name.title()}: {value}")
    return tuple(dict.fromkeys(found))
