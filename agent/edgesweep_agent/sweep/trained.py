"""Whether a contender asks for more context than its model was trained for."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from edgesweep_agent import memory
from edgesweep_agent.core import rope
from edgesweep_agent.errors import UsageError

from .contender import label

if TYPE_CHECKING:
    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.plan import ManagedSpec

_log = logging.getLogger(__name__)


def check_context(spec: ManagedSpec, shape: ModelShape) -> str:
    """Refuse what the engine would refuse once it is loaded, with both numbers.

    Where positions are scaled it is for the engine to say how far: that is told, and logged.

    Returns:
        The warning; "" if there is none.

    Raises:
        UsageError: more than the model was trained for, and nothing stretches it.
    """
    asked, trained = spec.context_per_request or 0, shape.context_length
    if not trained or asked <= trained:
        return ""
    text = (
        f"context_per_request {asked} is more than the {trained} tokens that {spec.model.name} "
        "was trained for"
    )
    scaling = rope.asked_for((*spec.flags, *spec.environment)) or _of_model(spec)
    if not scaling:
        raise UsageError(f"{text}: lower it, or have the engine scale its positions (flags)")
    warning = f"{text}: the engine decides whether its scaling ({scaling}) reaches as far"
    _log.warning("contender %s: %s", label(spec), warning)
    return warning


def _of_model(spec: ManagedSpec) -> str:
    if spec.model.is_dir():
        config = json.loads((spec.model / "config.json").read_text(encoding="utf-8"))
        return rope.of_config(config)
    return rope.of_gguf(memory.read_gguf(spec.model)[0].metadata)
