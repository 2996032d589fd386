"""The servers that can be started, by the name a plan calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .llama_server import LlamaServer
from .vllm import Vllm
from .xllamacpp import XLlamaCpp

if TYPE_CHECKING:
    from .base import ServerKind

SERVERS: dict[str, ServerKind] = {kind.name: kind for kind in (XLlamaCpp(), LlamaServer(), Vllm())}
"""Each kind of server, by its name in a plan."""
