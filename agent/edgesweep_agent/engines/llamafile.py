"""llamafile's own server (mozilla-ai/llamafile up to 0.9).

Newer ones serve llama.cpp's API under llama.cpp's name, and are reported as that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import models_of, version_of

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers


class Llamafile(Adapter):
    """Recognised by the ``Server`` header, its only sign.

    It says neither its slots nor its context, and knows few fields: no ``ignore_eos``.
    """

    name = "llamafile"
    emulates = ("llama.cpp",)

    def claim(self, answers: Answers) -> Claim:
        """``Server: llamafile/VERSION`` on each answer."""
        version = _version(answers)
        return Claim((f"header Server: llamafile/{version}",) if version else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:  # noqa: ARG002 - nothing told
        """Its version and its models."""
        return Facts(engine=self.name, version=_version(answers), models=models_of(answers))


def _version(answers: Answers) -> str:
    for reply in answers.values():
        name, _, version = reply.headers.get("server", "").partition("/")
        if name.lower() == "llamafile":
            return version_of(version)
    return ""
